"""What `sweepcap claims` measures: a few models and texts, each in a folder of its own as `sweepcap run` leaves it.

    text, penalty      the default model and the text it really writes, without and with a repeat penalty
    Qwen2.5-0.5B, ...  the shapes that the preprint names, with random weights. What these would write is noise, so the
                       loops follow the texts of the first part (`validate.fed`): the passes are those of a real text,
                       the seconds those of these shapes. Whether the text of a trained model of these shapes repeats as
                       much is not measured.

A part that was stopped goes on where it was. Nothing is judged here: see `validate.evidence` and `validate.claims`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import monotonic

import msgspec

from costmodel.specs import ModelSpec
from sim.penalties import Penalties
from sim.setting import Setting
from sim.trace import Header, Text, dumps
from sim.trace import load as load_texts
from validate.agenda import Plan
from validate.claimed import SHAPE_WEIGHTS
from validate.evidence import About
from validate.files import check_writable, write
from validate.measure import measure
from validate.models import model_hash
from validate.progress import Advance, Say, quiet
from validate.record import Prompt, recorded_or_loaded
from validate.shapes import shape_only

SETTINGS = tuple(Setting(loop, 6) for loop in ("greedy", "gated", "fused", "fused-partial", "gated-held", "carry"))
SETTINGS += (Setting("carry", 7),)
"""The loops of the study at R = 6, and `carry` with as many tokens a pass as `gated` has in two: R = 7."""


@dataclass(frozen=True, slots=True)
class Task:
    """What a part measures, and for how long.

    prompts    names among those of the suite
    seconds    no block is begun that would end later
    n_blocks   blocks at most, n_rounds calibration rounds along each prompt
    shapes     a listed model whose shapes are measured, with random weights; empty: the model that was given
    full       only measured on demand
    """

    prompts: tuple[str, ...]
    n_tokens: int
    n_blocks: int
    seconds: float
    n_rounds: int = 1
    penalty: float = 1.0
    shapes: str = ""
    full: bool = False


PARTS: dict[str, Task] = {
    "text": Task(("locked repetition", "code edit", "question", "summary", "story"), 56, 6, 115),
    "penalty": Task(("locked repetition", "code edit", "story"), 56, 4, 62, penalty=1.1),
    "Qwen2.5-0.5B": Task(("locked repetition", "code edit"), 48, 4, 100, shapes="Qwen2.5-0.5B"),
    "Llama-3.2-3B": Task(("locked repetition", "code edit"), 48, 3, 420, shapes="Llama-3.2-3B", full=True),
}


def measure_parts(
    model: Path,
    folder: Path,
    prompts: Sequence[Prompt],
    n_threads: int,
    *,
    full: bool = False,
    parts: dict[str, Task] | None = None,
    advance: Advance = quiet,
    say: Say = quiet,
) -> None:
    """Measure every part, going on from what the folder holds; raises ValueError as `validate.measure.measure` does."""
    check_writable(folder / "evidence.json")
    for name, task in (PARTS if parts is None else parts).items():
        if task.full and not full:
            continue
        begin = monotonic()
        chosen = [_named_prompt(prompts, wanted) for wanted in task.prompts]
        where = folder / name
        if task.shapes:
            path = shape_only(task.shapes, SHAPE_WEIGHTS)
            header, texts = _borrowed(folder / "text" / "texts.jsonl", where / "texts.jsonl", path, task)
        else:
            path, penalties = model, Penalties(repeat=task.penalty)
            header, texts = recorded_or_loaded(
                where / "texts.jsonl", path, chosen, task.n_tokens, n_threads, advance, penalties
            )
        shapes = replace(ModelSpec.from_gguf(path), source=path.name)  # a record is read elsewhere: no folders in it
        about = About(fed=bool(task.shapes), shapes=shapes)
        write(where / "about.json", msgspec.json.encode(about))
        measure(
            path,
            where / "runs.jsonl",
            header,
            texts,
            Plan(SETTINGS, task.n_tokens, task.n_blocks, task.n_rounds),
            n_threads,
            rounds_file=where / "calibration.jsonl",
            limit_seconds=max(task.seconds - (monotonic() - begin), 0.0),
            fed=bool(task.shapes),
            advance=advance,
            say=partial(_named, say, name),
        )


def _named_prompt(prompts: Sequence[Prompt], name: str) -> Prompt:
    for prompt in prompts:
        if prompt.name == name:
            return prompt
    raise ValueError(f"there is no prompt {name!r}: the claims are about prompts named like those of the suite")


def _named(say: Say, name: str, sentence: str) -> None:
    say(f"{name}: {sentence}")


def _borrowed(source: Path, file: Path, path: Path, task: Task) -> tuple[Header, list[Text]]:
    """The texts of the first part that a task follows, cut to its length, under the name of its own model."""
    theirs, texts = load_texts(source)
    header = msgspec.structs.replace(
        theirs, model=path.name, model_hash=model_hash(path), n_vocab=0, source=theirs.model
    )
    cut = [_cut(text, task.n_tokens) for text in texts if text.name in task.prompts]
    data = dumps(header, cut)
    if not file.exists():
        write(file, data)
    elif file.read_bytes() != data:
        raise ValueError(f"{file} holds other texts than {source}: choose another --out, or remove {file.parent}")
    return header, cut


def _cut(text: Text, n_tokens: int) -> Text:
    return msgspec.structs.replace(text, tokens=text.tokens[: text.n_prompt + n_tokens])


def shortened(parts: dict[str, Task], n_tokens: int, n_blocks: int) -> dict[str, Task]:
    """The same parts over fewer tokens and blocks: a look, and what tests can wait for."""
    return {name: replace(task, n_tokens=n_tokens, n_blocks=n_blocks) for name, task in parts.items()}
