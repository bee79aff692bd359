"""Did the machine stay the same? What a calibration's rounds say of drift, and of the noise of single passes.

The speed of all passes together cancels in a speedup. What does not is the tilt: c(wide)/c(1) rising or falling. Of
each round it is the slope of log(seconds / mean seconds of the cell) over log(rows), from 1 row to the most. Rounds in
time order are cut into brackets (before, between, after); brackets whose tilts differ by more than `TILT_BOUND`, and by
more than chance explains, are of two machines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.stats import trim_mean

from costmodel.rounds import TRIM, Round

TILT_BOUND = 0.04
"""The most by which c(most rows)/c(1) may differ between brackets before a run says so in its first line."""


@dataclass(frozen=True, slots=True)
class Drift:
    """Of brackets of rounds, in time order, against the mean of all rounds.

    speed   seconds of all passes, as a factor
    tilt    c(most rows)/c(1), as a factor
    error   standard error of a difference of two tilts
    """

    speed: tuple[float, ...]
    tilt: tuple[float, ...]
    error: float

    @property
    def spread(self) -> float:
        """How far apart the tilts of any two brackets are."""
        return max(self.tilt) / min(self.tilt) - 1

    @property
    def disagree(self) -> bool:
        """Whether the brackets differ by more than the bound and more than chance."""
        return self.spread > max(TILT_BOUND, 3 * self.error)

    def warnings(self) -> tuple[str, ...]:
        """What a reader must be told: nothing where the brackets agree."""
        if not self.disagree:
            return ()
        told = ", ".join(f"{tilt - 1:+.1%}" for tilt in self.tilt)
        return (
            f"the machine changed during the run: c(most rows)/c(1) differs by {self.spread:.1%} between the"
            f" calibration brackets ({told} against their mean; bound {TILT_BOUND:.0%}), so one table cannot price"
            " all of it: measure again on a quiet machine",
        )


def drift(n_rows: Sequence[int], rounds: Sequence[Round], n_brackets: int = 3) -> Drift | None:
    """The drift between brackets; None when there are too few rounds for any to hold two, or only one row count."""
    if len(rounds) < 2 * n_brackets or len(n_rows) < 2:
        return None
    logs = np.log([r.same for r in rounds])
    logs = logs - logs.mean(axis=0)
    tilts = _tilts(n_rows, logs)
    places = np.array_split(np.arange(len(rounds)), n_brackets)
    error = sqrt(2 * np.mean([tilts[at].var(ddof=1) / len(at) for at in places]))
    speeds = logs.mean(axis=(1, 2))
    return Drift(
        speed=tuple(exp(trim_mean(speeds[at], TRIM)) for at in places),
        tilt=tuple(exp(trim_mean(tilts[at], TRIM)) for at in places),
        error=float(error),
    )


def _tilts(n_rows: Sequence[int], logs: NDArray[np.float64]) -> NDArray[np.float64]:
    """log c(most rows)/c(1) of each round against the mean, from its log seconds [round][cached length][row count]."""
    over = np.log(n_rows) - np.log(n_rows).mean()
    tilts: NDArray[np.float64] = np.log(max(n_rows) / min(n_rows)) * (logs @ over).mean(axis=1) / (over @ over)
    return tilts


def tilt_noise(n_rows: Sequence[int], rounds: Sequence[Round]) -> float:
    """Standard deviation of the log tilt that the passes of some seconds have in common; 0 where none is seen.

    Neighbouring rounds share it, while the noise of their single passes is their own: it is their covariance.
    """
    if len(rounds) < 3 or len(n_rows) < 2:
        return 0.0
    logs = (np.log([r.same for r in rounds]) + np.log([r.changed for r in rounds])) / 2
    tilts = _tilts(n_rows, logs - logs.mean(axis=0))
    return sqrt(max(0.0, float((tilts[1:] * tilts[:-1]).mean())))


def pass_noise(rounds: Sequence[Round]) -> float:
    """Standard deviation of the log seconds of one pass about its own moment's cost; 0 without rounds.

    From the two passes of a cell in a round, which lie a moment apart: a width's mean difference is the price of the
    change of rows, the rest is noise of both. The outermost hundredths are drawn in.
    """
    if not rounds:
        return 0.0
    apart = np.log([r.same for r in rounds]) - np.log([r.changed for r in rounds])
    apart = apart - np.median(apart, axis=(0, 1))
    low, high = np.quantile(apart, (0.01, 0.99))
    return float(np.clip(apart, low, high).std() / sqrt(2))
