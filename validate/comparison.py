"""`comparison.json`: predicted and measured speedups, cell by cell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

FORMAT, VERSION = "sweepcap-comparison", 1


class Parity(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a loop wrote the baseline's text: if not, where it left it and by how little.

    first_difference  index among the generated tokens; None where they are the same
    margin            logit lead of the baseline's token over the loop's there, in the baseline's own pass
    noise             how far logits of equal rows differ between pass widths, for this model (the tie tolerance)
    verdict           "same", "tie" (margin within the noise) or "bug"
    """

    same: bool
    first_difference: int | None = None
    margin: float | None = None
    noise: float | None = None
    verdict: str = "same"


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One loop against one baseline on one prompt; speedups are `total_time` over the passes behind the prefill.

    predicted        from the replay of a recorded text and the pass-cost table; low/high: of the measured, 95 %
    text             "own" where the loop's own text was replayed because it left the greedy one at a tie
    """

    model: str
    prompt: str
    loop: str
    rows: int
    drafter: str
    baseline: str
    n_tokens: int
    n_passes: int
    n_rows: int
    predicted: float
    predicted_low: float
    predicted_high: float
    measured: float
    low: float
    high: float
    parity: Parity
    text: str = "greedy"

    @property
    def error(self) -> float:
        """predicted / measured - 1."""
        return self.predicted / self.measured - 1


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """All cells of a run, what was seen of the machine, and what the reader must be told."""

    environment: dict[str, Any]
    cells: tuple[Cell, ...]
    warnings: tuple[str, ...] = ()
    complete: bool = True
    host_share: float = 0.0
    n_blocks: int = 0
    speedup: str = "total_time"
    format: str = FORMAT
    version: int = VERSION


def load(path: Path) -> Comparison:
    """The comparison in a file; ValueError naming the file when it is none."""
    try:
        comparison = msgspec.json.decode(path.read_bytes(), type=Comparison)
    except (OSError, msgspec.MsgspecError) as error:
        raise ValueError(f"{path} cannot be read as a comparison: {error}; run sweepcap compare again") from error
    if (comparison.format, comparison.version) != (FORMAT, VERSION):
        raise ValueError(f"{path}: {comparison.format} {comparison.version} is not {FORMAT} {VERSION}; compare again")
    return comparison
