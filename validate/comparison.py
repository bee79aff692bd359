"""`comparison.json`: predicted and measured speedups, cell by cell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from costmodel.drift import Drift
from validate.files import document

FORMAT, VERSION = "sweepcap-comparison", 1


class Parity(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a loop wrote the baseline's text: if not, where it left it and by how little; None: nobody knows.

    first_difference  index among the generated tokens; None where they are the same
    tokens            the two tokens there as text, the baseline's first
    widths            rows of the passes that produced them
    margin            logit lead of the baseline's token over the loop's there, in the baseline's own pass
    own_margin        logit lead of the loop's token over the baseline's, in a pass as wide as the loop's
    noise             the most by which the pass width changed a lead, for this model (the tie tolerance)
    verdict           "same", "tie" (margin within the noise), "bug", or "unknown"
    """

    same: bool | None
    first_difference: int | None = None
    tokens: tuple[str, str] | None = None
    widths: tuple[int, int] | None = None
    margin: float | None = None
    own_margin: float | None = None
    noise: float | None = None
    verdict: str = "same"


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One loop against one baseline on one prompt; speedups are `total_time` over the passes behind the prefill.

    predicted        from the replay of the text that was written and the pass-cost table; its interval is that of what
                     so many blocks would measure: the table's uncertainty, the noise of single passes and the tilt of
                     c(wide)/c(1) in a block's seconds; None where there was no pass-cost table
    predicted_before the same from the recorded greedy text, which is all that is known beforehand
    low, high        of the measured, 95 %, over `n_blocks` undisturbed blocks
    pass_medians     the measured speedup from per-pass medians over blocks; None where the passes differed
    odd_blocks       blocks that disagree with the others: listed and measured again, not dropped
    disturbed_blocks blocks in which the machine was busy with something else: kept, left out of the interval
    host_share       of the loop's wall time, what was spent outside llama.cpp
    text             "own" where the loop's own text was replayed because it left the greedy one at a tie;
                     "passes" where another engine's passes were priced as they stand
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
    predicted: float | None
    predicted_low: float | None
    predicted_high: float | None
    measured: float
    low: float
    high: float
    parity: Parity
    text: str = "greedy"
    predicted_before: float | None = None
    pass_medians: float | None = None
    n_blocks: int = 0
    odd_blocks: tuple[int, ...] = ()
    disturbed_blocks: tuple[int, ...] = ()
    host_share: float = 0.0

    @property
    def error(self) -> float | None:
        """predicted / measured - 1: the error of the pass cost, since the passes are those run; None: no prediction."""
        return None if self.predicted is None else self.predicted / self.measured - 1

    @property
    def text_error(self) -> float:
        """What a prediction from the recorded text misses besides, because the loop wrote another one."""
        if self.predicted is None or self.predicted_before is None:
            return 0.0
        return self.predicted_before / self.predicted - 1


class Overall(msgspec.Struct, frozen=True, kw_only=True):
    """One loop against one baseline over all prompts that both ran: the three speedups in use, each by its name.

    total_time  seconds for the same tokens      mean_rate   ratio of the mean tokens/s over prompts
    mean_ratio  mean of the prompts' ratios      _low, _high 95 % over blocks
    """

    loop: str
    rows: int
    drafter: str
    baseline: str
    n_prompts: int
    n_tokens: int
    total_time: float
    total_time_low: float
    total_time_high: float
    mean_rate: float
    mean_rate_low: float
    mean_rate_high: float
    mean_ratio: float
    mean_ratio_low: float
    mean_ratio_high: float


class Twin(msgspec.Struct, frozen=True, kw_only=True):
    """Two lanes that ran the same passes (A/A): the true ratio is 1, the rest is the noise floor.

    other   the setting of the second lane: the same, or one that happens to run the same passes on this prompt
    """

    prompt: str
    loop: str
    rows: int
    drafter: str
    other: str
    ratio: float
    low: float
    high: float

    @property
    def covers(self) -> bool:
        """Whether the 95 % interval holds the true ratio."""
        return self.low <= 1 <= self.high


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """A cell whose speedup is not stated, and why."""

    prompt: str
    loop: str
    rows: int
    drafter: str
    baseline: str
    reason: str


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """All cells of a run, what was seen of the machine, and what the reader must be told.

    source      "measured" on llama.cpp here, or "imported" from another engine's log
    command     what to type to get it again
    overall     the three speedups in use over all prompts, undisturbed blocks only
    twins       A/A comparisons: the noise floor
    refused     cells that are not stated
    drift       factors of the calibration brackets (before, between, after): all passes' speed, and c(most)/c(1)
    host_share  of all wall time, what was spent outside llama.cpp
    """

    environment: dict[str, Any]
    cells: tuple[Cell, ...]
    overall: tuple[Overall, ...] = ()
    source: str = "measured"
    command: str = ""
    twins: tuple[Twin, ...] = ()
    refused: tuple[Refused, ...] = ()
    drift: Drift | None = None
    warnings: tuple[str, ...] = ()
    complete: bool = True
    host_share: float = 0.0
    n_blocks: int = 0
    speedup: str = "total_time"
    format: str = FORMAT
    version: int = VERSION


def load(path: Path) -> Comparison:
    """The comparison in a file; ValueError naming the file when it is none."""
    return document(path, Comparison, (FORMAT, VERSION), "a comparison", "run sweepcap compare again")
