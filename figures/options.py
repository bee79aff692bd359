"""Options that several commands have, each with its one meaning."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from figures.shell import devices, loops, models

Model = Annotated[Path | None, typer.Option("--model", help="A GGUF file; the embedded default model without it.")]
Out = Annotated[Path, typer.Option("--out", help="Where to write.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on standard output, and nothing else there.")]
Loops = Annotated[
    list[str] | None,
    typer.Option("--loop", help="A loop; again for more. Without: those of the study.", autocompletion=loops),
]
Rows = Annotated[
    list[int] | None,
    typer.Option("--rows", help="R, the most rows a guessing pass may have; again for more."),
]
TableFile = Annotated[Path | None, typer.Option("--table", help="Also write a table: .csv, .parquet or .json.")]
Threads = Annotated[int | None, typer.Option("--threads", help="Threads of every pass; the physical cores without it.")]
Texts = Annotated[Path, typer.Option("--texts", help="Recorded texts (sweepcap record).")]
SomeTexts = Annotated[Path | None, typer.Option("--texts", help="Recorded texts (sweepcap record).")]
ProfileFile = Annotated[Path, typer.Option("--profile", help="Pass costs (sweepcap calibrate).")]
SomeProfile = Annotated[Path | None, typer.Option("--profile", help="Pass costs (sweepcap calibrate).")]
ModelSpec = Annotated[
    str | None,
    typer.Option("--model-spec", help="A listed model's name, or a GGUF's shapes.", autocompletion=models),
]
DeviceName = Annotated[
    str | None,
    typer.Option("--device", help="Instead of a profile, with --model-spec.", autocompletion=devices),
]
Prompts = Annotated[Path | None, typer.Option("--prompts", help='JSON lines {"name": ..., "prompt": ...}.')]
Context = Annotated[int | None, typer.Option("--context", min=1, help="Context length; as long as needed without it.")]
RepeatPenalty = Annotated[float, typer.Option("--repeat-penalty", help="Divides the logits of tokens seen; 1: none.")]
FrequencyPenalty = Annotated[float, typer.Option("--frequency-penalty", help="Less, for each time a token was seen.")]
PresencePenalty = Annotated[float, typer.Option("--presence-penalty", help="Less, for a token that was seen.")]
GpuLayers = Annotated[int, typer.Option("--gpu-layers", min=0, help="Layers that a GPU takes, where there is one.")]
LastN = Annotated[int, typer.Option("--repeat-last-n", help="Tokens the penalties look back on; -1: all.")]
Extrapolate = Annotated[bool, typer.Option("--extrapolate", help="Also price passes that were not measured.")]
Workers = Annotated[int | None, typer.Option("--workers", min=1, help="Processes; all cores without it.")]
Blocks = Annotated[int | None, typer.Option("--blocks", min=1, help="Blocks; each runs all settings over all prompts.")]
HalfWidth = Annotated[
    float | None,
    typer.Option("--half-width", help="More blocks until every 95 % interval reaches at most so far: 0.01 is 1 %."),
]
Minutes = Annotated[float | None, typer.Option("--minutes", help="Start no block that would end later.")]
Pin = Annotated[bool, typer.Option("--pin", help="Keep every thread on a core of its own (Linux).")]
Acceptance = Annotated[
    str | None, typer.Option("--acceptance", help='Instead of texts: "iid P" or "ge STAY_L STAY_F AGREE_L AGREE_F".')
]
Weights = Annotated[str, typer.Option("--weights", help="Quantisation of a --model-spec that is a name.")]
