"""What was measured for the preprint's claims, put together from the raw records: small, and all that is judged.

A folder of `sweepcap claims` holds one folder a part, each as `sweepcap run` leaves it. Ratios are between any two
settings of a part, block by block; predicted ratios are from the replayed texts and the part's own pass costs.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
import numpy as np

from costmodel.fit import Measured as Passes
from costmodel.fit import fit_roofline
from costmodel.fitlaw import fit_iid
from costmodel.passcost import PassCost, Table
from costmodel.roofline import Roofline
from costmodel.specs import DeviceSpec, ModelSpec
from sim.predict import drafts_of, predict
from sim.run import Record
from sim.setting import Setting
from sim.trace import Text
from sim.trace import load as load_texts
from validate.blocks import block_log_ratios, clean
from validate.calibrate import load_rounds
from validate.compare import own_text
from validate.design import interval
from validate.driftfit import fit_drift
from validate.files import cut_half_line, document
from validate.runs import Run
from validate.runs import load as load_runs
from validate.session import profile_of

FORMAT, VERSION = "sweepcap-claims", 1

Key = tuple[str, int]
"""A loop and its R."""

PAIRS: tuple[tuple[Key, Key], ...] = (
    (("fused", 6), ("gated", 6)),
    (("fused-partial", 6), ("gated", 6)),
    (("gated-held", 6), ("gated", 6)),
    (("carry", 6), ("gated", 6)),
    (("fused", 6), ("carry", 6)),
    (("fused", 6), ("carry", 7)),
    (("fused", 6), ("gated-held", 6)),
    (("fused-partial", 6), ("fused", 6)),
    (("gated", 6), ("greedy", 6)),
    (("fused", 6), ("greedy", 6)),
    (("carry", 6), ("greedy", 6)),
    (("carry", 7), ("greedy", 6)),
)
"""The ratios that are looked at: those of the preprint, and those that it leaves out."""


class Ratio(msgspec.Struct, frozen=True, kw_only=True):
    """One setting over another on a prompt: `total_time` speedup, measured with its 95 % interval, and predicted."""

    prompt: str
    loop: str
    rows: int
    baseline: str
    baseline_rows: int
    predicted: float
    measured: float
    low: float
    high: float

    @property
    def error(self) -> float:
        """predicted / measured - 1."""
        return self.predicted / self.measured - 1


class Walk(msgspec.Struct, frozen=True, kw_only=True):
    """What a loop fed over a prompt's text: passes by rows, chained and correction passes, guessing passes in a row."""

    prompt: str
    loop: str
    rows: int
    passes: dict[int, int]
    n_chained: int
    n_corrections: int
    longest_chain: int
    parity: str = "same"


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One model on one machine.

    fed         whether the texts are another model's, and only the seconds are this one's
    n_past      the cached length at which the cost is quoted
    agreement   by prompt: share of right drafts, one at a time, and share of look-ups that find nothing
    shapes      what a roofline must know of the model, when it is known
    """

    model: str
    n_threads: int
    n_tokens: int
    n_blocks: int
    n_past: int
    cost: Table
    ratios: tuple[Ratio, ...]
    walks: tuple[Walk, ...]
    agreement: dict[str, tuple[float, float]]
    penalty: float = 1.0
    fed: bool = False
    shapes: ModelSpec | None = None

    def seconds(self, n_rows: int) -> float:
        """Seconds of a pass of so many rows at `n_past`."""
        return float(self.cost.seconds(self.n_past, n_rows, n_rows))

    @property
    def ratio6(self) -> float:
        """c(6)/c(1)."""
        return self.seconds(6) / self.seconds(1)

    def find(self, prompt: str, loop: Key, baseline: Key) -> Ratio | None:
        """The ratio of two settings on a prompt, where it was measured."""
        wanted = (prompt, *loop, *baseline)
        return next((r for r in self.ratios if (r.prompt, r.loop, r.rows, r.baseline, r.baseline_rows) == wanted), None)

    def walk(self, prompt: str, loop: Key) -> Walk | None:
        """What a setting fed on a prompt, where it ran."""
        return next((w for w in self.walks if (w.prompt, w.loop, w.rows) == (prompt, *loop)), None)


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """All parts that were measured, the machine, and how its speed wandered meanwhile.

    device   the rates that the default model's passes came to, for shapes that were not measured
    drift    a drift in words (`sim.drift.parse`), fitted to the timed passes of the first part; empty where none was
    jitter   standard deviation of the logarithm of each pass on its own
    """

    environment: dict[str, Any]
    parts: dict[str, Part]
    device: DeviceSpec | None = None
    drift: str = ""
    jitter: float = 0.0
    format: str = FORMAT
    version: int = VERSION


def load(path: Path) -> Evidence:
    """The evidence in a file; ValueError naming the file when it is none."""
    return document(path, Evidence, (FORMAT, VERSION), "evidence", "run sweepcap claims again")


def gather(folder: Path, names: Sequence[str]) -> Evidence:
    """The evidence of the parts that are there; ValueError when there is none."""
    there = [name for name in names if _begun(folder / name)]
    if not there:
        raise ValueError(
            f"{folder} holds nothing measured yet: call sweepcap claims --out {folder} without --no-measure"
        )
    parts = {name: part_of(folder / name) for name in there}
    environment = load_runs(folder / there[0] / "runs.jsonl")[0].environment
    first = parts[there[0]]
    drift, jitter = _drift(folder / there[0])
    return Evidence(environment=environment, parts=parts, device=_device(first), drift=drift, jitter=jitter)


def _begun(folder: Path) -> bool:
    if not all((folder / name).exists() for name in ("texts.jsonl", "runs.jsonl", "calibration.jsonl")):
        return False
    for name in ("runs.jsonl", "calibration.jsonl"):
        cut_half_line(folder / name)
    return any(run.decode for run in load_runs(folder / "runs.jsonl")[1])


def part_of(folder: Path) -> Part:
    """One part, from its raw records."""
    _, texts = load_texts(folder / "texts.jsonl")
    header, there = load_runs(folder / "runs.jsonl")
    single = [run for run in there if not run.twin]
    runs = clean(single) or single
    profile = profile_of(header, texts, load_rounds(folder / "calibration.jsonl"))
    groups: dict[tuple[str, Key], list[Run]] = defaultdict(list)
    for run in runs:
        groups[run.prompt, (run.loop, run.rows)].append(run)
    about = _about(folder)
    carried = Setting("carry", 6)
    return Part(
        model=header.model,
        n_threads=header.n_threads,
        n_tokens=header.n_tokens,
        n_blocks=len({run.block for run in runs}),
        n_past=_typical(profile.cost, runs),
        cost=profile.cost,
        ratios=tuple(_ratios(groups, {text.name: text for text in texts}, profile.cost)),
        walks=tuple(_walk(key, group) for (_, key), group in groups.items()),
        agreement={text.name: _agreement(text, carried) for text in texts},
        penalty=header.penalties.repeat,
        fed=about.fed,
        shapes=about.shapes,
    )


class About(msgspec.Struct, frozen=True, kw_only=True):
    """`about.json` of a part: what its runs do not say themselves."""

    fed: bool = False
    shapes: ModelSpec | None = None


def _about(folder: Path) -> About:
    path = folder / "about.json"
    return msgspec.json.decode(path.read_bytes(), type=About) if path.exists() else About()


def _typical(cost: Table, runs: Sequence[Run]) -> int:
    """The measured cached length nearest to the median one of the runs."""
    seen = median(record.n_past for run in runs for record in run.decode)
    return min(cost.n_past, key=lambda n_past: abs(n_past - seen))


def _ratios(groups: Mapping[tuple[str, Key], list[Run]], texts: Mapping[str, Text], cost: PassCost) -> list[Ratio]:
    def per_token(prompt: str, key: Key) -> float:
        run = groups[prompt, key][0]
        return predict(own_text(run, texts[prompt]), Setting(run.loop, run.rows, run.drafter), cost).seconds_per_token

    made = []
    for prompt in texts:
        for ours, theirs in PAIRS:
            if (prompt, ours) not in groups or (prompt, theirs) not in groups:
                continue
            logs = block_log_ratios(groups[prompt, theirs], groups[prompt, ours])
            if not logs or not groups[prompt, ours][0].n_tokens:
                continue
            measured, low, high = interval(logs)
            predicted = per_token(prompt, theirs) / per_token(prompt, ours)
            made.append(
                Ratio(
                    prompt=prompt,
                    loop=ours[0],
                    rows=ours[1],
                    baseline=theirs[0],
                    baseline_rows=theirs[1],
                    predicted=predicted,
                    measured=measured,
                    low=low,
                    high=high,
                )
            )
    return made


def _walk(key: Key, runs: Sequence[Run]) -> Walk:
    decode: Sequence[Record] = runs[0].decode
    verdicts = {run.parity.verdict for run in runs if run.parity}
    chains = [len(list(group)) for guesses, group in groupby(decode, lambda record: record.guessed > 0) if guesses]
    return Walk(
        prompt=runs[0].prompt,
        loop=key[0],
        rows=key[1],
        passes=dict(sorted(Counter(record.n_rows for record in decode).items())),
        n_chained=sum(record.kind == "chained" for record in decode),
        n_corrections=sum(record.kind == "correction" for record in decode),
        longest_chain=max(chains, default=0),
        parity="bug" if "bug" in verdicts else "tie" if "tie" in verdicts else "same",
    )


def _agreement(text: Text, setting: Setting) -> tuple[float, float]:
    try:
        seen, none = drafts_of([text], setting)
    except ValueError:  # nothing was ever drafted
        return 0.0, 1.0
    return float(fit_iid(seen).law.agrees(0, 0)), none


def _device(part: Part) -> DeviceSpec | None:
    """The rates of this machine that a part's pass costs come to, by a roofline fit."""
    if part.shapes is None or part.fed:
        return None
    cost = part.cost
    cells = [(p, n, cost.all_rows_seconds[i][j]) for i, p in enumerate(cost.n_past) for j, n in enumerate(cost.n_rows)]
    past, rows, seconds = (np.array(values) for values in zip(*cells, strict=True))
    fitted = fit_roofline(Passes.of(past, rows, rows, seconds), part.shapes, n_resamples=0).cost
    assert isinstance(fitted, Roofline)
    return fitted.device


def _drift(folder: Path) -> tuple[str, float]:
    """How the machine's speed wandered during a part's runs, and by how much each pass scattered."""
    try:
        fitted = fit_drift(load_runs(folder / "runs.jsonl")[1])
    except ValueError:  # too few passes to tell
        return "", 0.0
    return fitted.words, fitted.jitter
