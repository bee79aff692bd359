"""The accuracy asked for and the accuracy found, from raw records: cells, errors by split, ablations, noise floor."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf
from pathlib import Path

import msgspec
import numpy as np

from validate.accuracy import held_out, home, load_design, sessions
from validate.budget import GIVEN
from validate.comparison import Twin
from validate.design import blocks_for, half_width
from validate.effects import HOST, NAMES, Judged, host_seconds, judged
from validate.session import Session
from validate.session import load as load_session


class Errors(msgspec.Struct, frozen=True, kw_only=True):
    """|predicted / measured - 1| over some cells."""

    n: int
    mean: float
    p95: float
    worst: float


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """All that an accuracy run says, from the records of its sessions.

    cells        every cell with its predictions; `held_out` tells the split
    twins        A/A comparisons of all variants
    refused      cells not stated, by variant
    warnings     what the sessions say of themselves, by variant
    host         seconds outside llama.cpp for each pass, from the cells developed on
    environment  of the first session
    seconds      what one block of all variants should take, as planned
    """

    cells: tuple[Judged, ...]
    twins: tuple[Twin, ...]
    refused: dict[str, int]
    blocks: dict[str, int]
    warnings: dict[str, tuple[str, ...]]
    host: float
    environment: dict[str, object]
    model: str
    seconds: float

    def split(self, held: bool) -> list[Judged]:
        """The cells held out, or those developed on."""
        return [cell for cell in self.cells if bool(cell.held_out) == held]

    @property
    def half_width(self) -> float:
        """The median half-width of the measured 95 % intervals."""
        return float(np.median([half_width(j.cell.low, j.cell.high) for j in self.cells if j.cell.n_blocks > 1] or [0]))

    def blocks_for(self, wanted: float) -> int:
        """The blocks with which half of the intervals would be as narrow as wanted, scattering as they do."""
        cells = [judged.cell for judged in self.cells if judged.cell.n_blocks > 1]
        needed = [blocks_for(wanted, half_width(c.low, c.high), c.n_blocks) for c in cells]
        return int(np.median(needed or [0]))

    @property
    def coverage(self) -> float:
        """The share of held-out cells whose measured speedup lies in the prediction's own interval."""
        cells = [judged.cell for judged in self.split(True)]
        return share((c.predicted_low or inf) <= c.measured <= (c.predicted_high or 0.0) for c in cells)

    @property
    def noise_floor(self) -> float:
        """The share of A/A comparisons whose interval holds 1."""
        return share(twin.covers for twin in self.twins)

    @property
    def host_share(self) -> float:
        """The largest share of a cell's wall time that was spent outside llama.cpp."""
        return max((j.cell.host_share for j in self.cells), default=0.0)


def share(found: Iterable[bool]) -> float:
    """The share of those that are true; 0 without any."""
    values = list(found)
    return sum(values) / len(values) if values else 0.0


def errors(cells: Sequence[Judged], without: str = "", wall: bool = False) -> Errors:
    """Errors over some cells, with all effects or without one; or by the wall clock with the host's time known."""
    if not cells:
        return Errors(n=0, mean=0.0, p95=0.0, worst=0.0)
    found = np.abs([cell.wall_error if wall else cell.error(without) for cell in cells])
    return Errors(n=len(cells), mean=float(found.mean()), p95=float(np.quantile(found, 0.95)), worst=float(found.max()))


def ablations(cells: Sequence[Judged]) -> dict[str, Errors]:
    """What the errors become with each effect switched off in turn."""
    return {name: errors(cells, name) for name in NAMES}


def analysed(folder: Path) -> Verdict:
    """The verdict on what an accuracy run left in a folder, finished or not.

    Raises ValueError when it holds no timed run yet.
    """
    loaded: dict[str, Session] = {}
    for variant, path in sessions(folder).items():
        loaded[variant] = load_session(path)
    if not loaded:
        raise ValueError(f"{folder} holds no timed run yet: call sweepcap accuracy --out {folder} first")
    first = loaded.get(GIVEN) or next(iter(loaded.values()))
    host, design = host_seconds(first.runs), load_design(folder)
    cells: list[Judged] = []
    twins: list[Twin] = []
    for variant, session in loaded.items():
        cells += judged(session, variant, held_out(variant), host)
        twins += session.comparison.twins
    return Verdict(
        cells=tuple(cells),
        twins=tuple(twins),
        refused={home(v): len(s.comparison.refused) for v, s in loaded.items()},
        blocks={home(v): s.comparison.n_blocks for v, s in loaded.items()},
        warnings={home(v): s.comparison.warnings for v, s in loaded.items()},
        host=host,
        environment=first.comparison.environment,
        model=first.header.model,
        seconds=sum(design.seconds.get(variant, 0.0) for variant in design.variants),
    )


__all__ = ["HOST", "Errors", "Verdict", "ablations", "analysed", "errors"]
