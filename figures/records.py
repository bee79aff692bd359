"""The small records that all figures can be drawn again from, and how they are taken from a run's folder.

python -m figures.records RUN_FOLDER                                            figures/records/run.json
python -m figures.records RUN_FOLDER --claims CLAIMS_FOLDER --slots SLOTS_FOLDER   and claims.json, slots.json
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from costmodel.caps import sweep_cap
from costmodel.claims import ROWS, claims
from costmodel.fitlaw import Seen
from costmodel.passcost import Table
from figures.pictures import telling_pair, typical_past
from sim.designs import Seen as Design
from sim.designs import Timing, against_drift
from sim.predict import drafts_of
from sim.run import Record
from sim.setting import Setting
from sim.trace import load as load_texts
from validate.comparison import Cell
from validate.driftfit import fit_drift
from validate.evidence import Part, gather, part_of
from validate.files import document, write
from validate.parts import PARTS
from validate.runs import Run
from validate.session import load as load_session
from validate.slotcheck import SlotCell, check
from validate.slotruns import load as load_slot_blocks
from validate.split import Share, split

FOLDER = Path(__file__).parent / "records"
FORMAT, VERSION = "sweepcap-figures", 1
STRENGTHS = (0.5, 1.0, 2.0, 3.0)
MOST_DRAFTS = 11  # how far the survival of drafts is followed


class UnderDrift(msgspec.Struct, frozen=True, kw_only=True):
    """One pair, and designs of several, at strengths of a drift: P(measured > above) when the truth is `ratio`."""

    words: str
    ratio: float
    strengths: tuple[float, ...]
    one_pair: tuple[Design, ...]
    designs: dict[str, tuple[Design, ...]]


class Records(msgspec.Struct, frozen=True, kw_only=True):
    """What the figures of a run need, without its raw passes.

    part      pass costs, ratios of settings, passes and acceptance by prompt
    cells     predicted and measured speedups
    pair      passes of `gated` and `fused` over the text on which they differ most
    drafts    (right, looked at, how often) of all drafts, up to MOST_DRAFTS long
    errors    the prediction error by kind of pass
    drift     what designs make of a ratio at the cap under the drift of these runs, where one could be fitted
    """

    environment: dict[str, Any]
    model: str
    cost: Table
    n_past: int
    part: Part
    cells: tuple[Cell, ...]
    pair: tuple[tuple[Record, ...], tuple[Record, ...]]
    drafts: tuple[tuple[int, int, float], ...]
    errors: tuple[Share, ...]
    drift: UnderDrift | None = None
    format: str = FORMAT
    version: int = VERSION


def take(folder: Path) -> Records:
    """The records of a run's folder; ValueError when it holds nothing to draw."""
    session = load_session(folder)
    if session.profile is None:
        raise ValueError(f"{folder} holds no pass costs, which the figures rest on: calibrate with sweepcap run")
    pair = telling_pair(session.runs)
    seen, _ = drafts_of(session.texts, Setting("carry", MOST_DRAFTS + 1))
    return Records(
        environment=session.comparison.environment,
        model=session.header.model,
        cost=session.profile.cost,
        n_past=typical_past(session.profile.cost, session.runs),
        part=part_of(folder),
        cells=session.comparison.cells,
        pair=(pair[0].passes, pair[1].passes) if pair else ((), ()),
        drafts=_counted(seen),
        errors=tuple(split(session.texts, session.runs, session.profile.cost)),
        drift=_under_drift(session.runs),
    )


def _under_drift(runs: Sequence[Run]) -> UnderDrift | None:
    """The preprint's largest paired figure, 2.03x, on this machine, when the truth is the cap."""
    gated = [run for run in runs if run.loop == "gated" and run.decode]
    try:
        fitted = fit_drift(runs)
    except ValueError:  # too few passes to tell
        return None
    if not gated:
        return None
    timing = Timing(
        float(sweep_cap(ROWS)),
        median(run.seconds for run in gated),
        round(median(len(run.decode) for run in gated)),
        fitted.jitter,
    )
    above = claims()["repeat-penalty"].high

    def under(n_pairs: int, *designs: str) -> dict[str, list[Design]]:
        return against_drift(n_pairs, timing, fitted.drift, above, STRENGTHS, only=designs)

    return UnderDrift(
        words=fitted.words,
        ratio=timing.ratio,
        strengths=STRENGTHS,
        one_pair=tuple(under(1, "ABAB")["ABAB"]),
        designs={name: tuple(seen) for name, seen in under(4, "AABB", "ABBA", "turns").items()},
    )


def _counted(seen: Sequence[Seen]) -> tuple[tuple[int, int, float], ...]:
    counts: Counter[tuple[int, int]] = Counter()
    for item in seen:
        counts[sum(item.agreements), len(item.agreements)] += round(item.times)
    return tuple((right, looked, float(times)) for (right, looked), times in sorted(counts.items()))


def load(path: Path = FOLDER / "run.json") -> Records:
    """The records in a file; ValueError naming the file when it is none."""
    return document(path, Records, (FORMAT, VERSION), "records of figures", "take them again")


class Slots(msgspec.Struct, frozen=True):
    """What many sequences at once came to."""

    cells: tuple[SlotCell, ...]


def load_slots(path: Path = FOLDER / "slots.json") -> tuple[SlotCell, ...]:
    """The committed cells of slots; none when there are none yet."""
    return msgspec.json.decode(path.read_bytes(), type=Slots).cells if path.exists() else ()


def main(words: Sequence[str] | None = None) -> None:
    """Refresh the committed records from folders of `sweepcap run`, `claims` and `slots`."""
    parser = argparse.ArgumentParser(prog="python -m figures.records", description=__doc__)
    parser.add_argument("run", type=Path, help="A folder of sweepcap run.")
    parser.add_argument("--claims", type=Path, help="A folder of sweepcap claims.")
    parser.add_argument("--slots", type=Path, help="A folder of sweepcap slots.")
    given = parser.parse_args(words)
    made: dict[str, Any] = {"run": take(given.run)}
    if given.claims:
        made["claims"] = gather(given.claims, list(PARTS))
    if given.slots:
        blocks = load_slot_blocks(given.slots / "slots.jsonl")[1]
        made["slots"] = Slots(tuple(check(blocks, load_texts(given.slots / "texts.jsonl")[1])))
    for name, value in made.items():
        write(FOLDER / f"{name}.json", msgspec.json.encode(rounded(value)) + b"\n")


def rounded(value: Any) -> Any:
    """Plain values with floats to six significant digits: no clock here knows more, and the file is half as long.

    >>> rounded((1, 0.123456789))
    [1, 0.123457]
    """
    plain = msgspec.to_builtins(value)
    if isinstance(plain, dict):
        return {key: rounded(item) for key, item in plain.items()}
    if isinstance(plain, list | tuple):
        return [rounded(item) for item in plain]
    return float(f"{plain:.6g}") if isinstance(plain, float) else plain


if __name__ == "__main__":
    main()
