"""What a measurement design can see of a ratio on a machine whose speed wanders.

A and B are timed n times each; B is `ratio` times as fast. The order of the 2n runs is the design:

    AABB      all of A, then all of B
    ABAB      in turn                              unit: a pair
    ABBA      in turn, every other pair mirrored   unit: two pairs; a linear drift cancels in it
    random    all 2n in random order               unit: the i-th A and the i-th B
    blocked   pairs, each in random order          unit: a pair (randomised blocks, Fisher 1935)
    turns     A and B side by side, pass by pass, ABBA ABBA ...: what `sweepcap measure` does; unit: a pair

A unit yields one log-ratio of its seconds, the estimate is exp of their mean, the interval is Student's over units.
Each repetition times passes on a history of the drift of its own: seconds = price * factor(start) * jitter; of a
recorded drift, from a random moment of it on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator, SeedSequence
from numpy.typing import NDArray
from scipy.stats import binomtest, chi2
from scipy.stats import t as student_t

from sim.drift import Drift, Recorded, scaled
from sim.intervals import student

PAIRS_IN_A_UNIT = {"AABB": 1, "ABAB": 1, "ABBA": 2, "random": 1, "blocked": 1, "turns": 1}
DESIGNS = tuple(PAIRS_IN_A_UNIT)
GROWING = ("turns", "blocked", "ABBA", "ABAB")
"""Designs that can be gone on with: their first pairs are the same design with fewer."""
STRENGTHS = (0.5, 1.0, 1.5, 2.0, 3.0, 4.0)
"""How strong a drift is made to see what it does."""
COVERED = (0.93, 0.97)
"""Where the coverage of a 95 % interval must lie for a design to be recommended."""


@dataclass(frozen=True, slots=True)
class Timing:
    """What is timed: runs of A of `seconds` on the steady machine, in `n_passes` passes; B takes seconds / ratio.

    jitter   standard deviation of the logarithm of each pass on its own

    Raises ValueError for what cannot be.
    """

    ratio: float
    seconds: float = 1.0
    n_passes: int = 40
    jitter: float = 0.0

    def __post_init__(self) -> None:
        for name in ("ratio", "seconds"):
            if not 0 < (value := getattr(self, name)) < math.inf:
                raise ValueError(f"the {name} of a timed run must be positive and finite, not {value}")
        if self.n_passes < 1:
            raise ValueError(f"a timed run needs at least 1 pass, not {self.n_passes}")
        if not 0 <= self.jitter < math.inf:
            raise ValueError(f"jitter must be zero or positive and finite, not {self.jitter}")


@dataclass(frozen=True, slots=True)
class Seen:
    """What a design of n pairs made of a known ratio, over many repetitions; all but P relative, so 0.01 is 1 %.

    bias, bias_error   mean of measured / true - 1, and half the 99 % interval of that mean
    spread             standard deviation of the measured log-ratio
    half_width         median half-width of the 95 % interval; None where there is one unit only
    coverage           share of those intervals that hold the true ratio, and its own 99 % interval (low, high)
    p_above            share of repetitions that measured more than `above`, and its 95 % interval
    seconds            mean length of the whole measurement
    """

    design: str
    n_pairs: int
    bias: float
    bias_error: float
    spread: float
    half_width: float | None
    coverage: float | None
    coverage_low: float | None
    coverage_high: float | None
    above: float
    p_above: float
    p_low: float
    p_high: float
    seconds: float

    @property
    def is_sound(self) -> bool:
        """Whether its interval holds the truth as often as it says, and does not lean to one side."""
        return self.coverage is not None and COVERED[0] <= self.coverage <= COVERED[1] and self._unbiased

    @property
    def _unbiased(self) -> bool:
        return abs(self.bias) <= max(self.bias_error, 0.1 * (self.half_width or 0.0))


def check_pairs(design: str, n_pairs: int) -> None:
    """Raise ValueError for an unknown design, and for a number of pairs that it does not have."""
    if design not in DESIGNS:
        raise ValueError(f"unknown design {design!r}: the designs are {', '.join(DESIGNS)}")
    if n_pairs < 1 or n_pairs % PAIRS_IN_A_UNIT[design]:
        whole = "an even number of pairs" if PAIRS_IN_A_UNIT[design] == 2 else "at least 1 pair"
        raise ValueError(f"{design} needs {whole}, not {n_pairs}")


def order(design: str, n_pairs: int, rng: Generator, n: int = 1) -> NDArray[np.bool_]:
    """Which of the 2 n_pairs runs are of B, for n repetitions; shape (2 n_pairs, n). Not of `turns`.

    >>> "".join(np.where(order("ABBA", 4, np.random.default_rng(0))[:, 0], "B", "A"))
    'ABBAABBA'
    """
    check_pairs(design, n_pairs)
    if design == "random":
        return rng.permuted(np.repeat([[False], [True]], [n_pairs, n_pairs], axis=0).repeat(n, axis=1), axis=0)
    if design == "AABB":
        return np.repeat([[False], [True]], n_pairs, axis=0).repeat(n, axis=1)
    if design == "blocked":
        b_first = rng.random((n_pairs, n)) < 0.5
    else:
        mirrored = design == "ABBA"
        b_first = np.repeat((np.arange(n_pairs) % 2 == 1)[:, None] & mirrored, n, axis=1)
    return np.stack((b_first, ~b_first), axis=1).reshape(2 * n_pairs, n)


def log_ratios(
    design: str, n_pairs: int, timing: Timing, drift: Drift, seed: int | SeedSequence, n: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """One log-ratio a unit, shape (units, n), and the seconds of the whole measurement, for n repetitions.

    Raises ValueError as `check_pairs` and the drift's path do.
    """
    check_pairs(design, n_pairs)
    # Each chance has a stream of its own, so that designs with the same seed see the same machine.
    seeds = SeedSequence(seed) if isinstance(seed, int) else seed
    orders, speed, noise = (
        np.random.default_rng(SeedSequence(seeds.entropy, spawn_key=(*seeds.spawn_key, i))) for i in range(3)
    )
    begin = _begin(drift, n_pairs * timing.seconds * (1 + 1 / timing.ratio), speed, n)
    path, at, every = drift.path(speed, n), begin, np.arange(n)
    prices = np.array([timing.seconds, timing.seconds / timing.ratio]) / timing.n_passes
    taken = np.zeros((2, n_pairs, n))
    for side, pair in _steps(design, n_pairs, timing.n_passes, orders, n):
        seconds = prices[side] * path.factor(at)
        if timing.jitter:
            seconds = seconds * np.exp(timing.jitter * noise.standard_normal(n))
        taken[side, pair, every] += seconds
        at = at + seconds
    per_unit = taken.reshape(2, -1, PAIRS_IN_A_UNIT[design], n)
    # The mean of the pairs' logs, not the log of summed seconds: a pair in a slow window weighs as much as another.
    return np.log(per_unit[0] / per_unit[1]).mean(axis=1), at - begin


def _begin(drift: Drift, steady_seconds: float, rng: Generator, n: int) -> NDArray[np.float64]:
    """When each repetition begins: at 0, but anywhere in a recorded drift from where it can be gone through."""
    if not isinstance(drift, Recorded):
        return np.zeros(n)
    room = drift.seconds[-1] - steady_seconds * max(drift.factors)
    return rng.uniform(0.0, max(room, 0.0), n)


def _steps(
    design: str, n_pairs: int, n_passes: int, rng: Generator, n: int
) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """For every pass of the measurement: whose it is (0: A, 1: B), and to which pair it counts, by repetition."""
    if design == "turns":
        sides = [np.full(n, side) for side in (0, 1)]
        pairs = [np.full(n, pair) for pair in range(n_pairs)]
        mirror = [(i + pair) % 2 for pair in range(n_pairs) for i in range(n_passes)]
        return [(sides[first ^ second], pairs[i // n_passes]) for i, first in enumerate(mirror) for second in (0, 1)]
    is_b = order(design, n_pairs, rng, n).astype(np.intp)
    # How many runs of its own side came before a run: the number of its pair.
    count_b = is_b.cumsum(axis=0) - is_b
    count_a = (1 - is_b).cumsum(axis=0) - (1 - is_b)
    pair = np.where(is_b == 1, count_b, count_a)
    return [(is_b[run], pair[run]) for run in range(2 * n_pairs) for _ in range(n_passes)]


def see(
    design: str,
    n_pairs: int,
    timing: Timing,
    drift: Drift,
    *,
    above: float | None = None,
    seed: int | SeedSequence = 0,
    n: int = 2000,
) -> Seen:
    """A design of n pairs put on a drifting device n times; `above` is the true ratio unless it is given.

    Raises ValueError for fewer than 100 repetitions, which say nothing, and as `log_ratios` does.
    """
    if n < 100:
        raise ValueError(f"at least 100 repetitions are needed, not {n}")
    units, seconds = log_ratios(design, n_pairs, timing, drift, seed, n)
    return _seen(design, n_pairs, timing, timing.ratio if above is None else above, units, seconds)


def _seen(
    design: str, n_pairs: int, timing: Timing, above: float, units: NDArray[np.float64], seconds: NDArray[np.float64]
) -> Seen:
    if not 0 < above < math.inf:
        raise ValueError(f"the ratio to exceed must be positive and finite, not {above}")
    n = units.shape[1]
    mean, half = student(units)
    error = mean - math.log(timing.ratio)
    over = binomtest(int((mean > math.log(above)).sum()), n).proportion_ci(0.95, "wilson")
    covered = None if len(units) < 2 else int((abs(error) <= half + 1e-12).sum())
    held = None if covered is None else binomtest(covered, n).proportion_ci(0.99, "wilson")
    return Seen(
        design=design,
        n_pairs=n_pairs,
        bias=math.expm1(error.mean()),
        bias_error=2.576 * float(error.std()) / math.sqrt(n),
        spread=float(error.std(ddof=1)),
        half_width=None if covered is None else math.expm1(float(np.median(half))),
        coverage=None if covered is None else covered / n,
        coverage_low=None if held is None else float(held.low),
        coverage_high=None if held is None else float(held.high),
        above=above,
        p_above=float((mean > math.log(above)).mean()),
        p_low=float(over.low),
        p_high=float(over.high),
        seconds=float(seconds.mean()),
    )


def against_drift(
    n_pairs: int,
    timing: Timing,
    drift: Drift,
    above: float,
    strengths: Sequence[float],
    *,
    only: Sequence[str] = DESIGNS,
    seed: int | SeedSequence = 0,
    n: int = 2000,
) -> dict[str, list[Seen]]:
    """Every design that has so many pairs, under the drift at each strength (1: as it is).

    Raises ValueError for fewer than one pair, and as `see` does.
    """
    check_pairs("ABAB", n_pairs)
    return {
        design: [
            see(design, n_pairs, timing, scaled(drift, strength), above=above, seed=seed, n=n) for strength in strengths
        ]
        for design in only
        if n_pairs % PAIRS_IN_A_UNIT[design] == 0
    }


def pairs_for(seen: Seen, half_width: float) -> int:
    """The fewest pairs (even) at which a design that was seen would have this half-width; too many where it has none.

    With n units the median half-width is t(n - 1) sqrt(median of chi-squared(n - 1) / (n - 1) / n) deviations.
    """
    if seen.half_width is None:
        return MOST_PAIRS + 1
    unit = PAIRS_IN_A_UNIT[seen.design]
    sizes = np.arange(2 * unit, 100_000, 2)
    falls = np.append(sizes, seen.n_pairs) // unit
    width = student_t.ppf(0.975, falls - 1) * np.sqrt(chi2.median(falls - 1) / (falls - 1) / falls)
    enough = np.log1p(seen.half_width) * width[:-1] / width[-1] <= math.log1p(half_width)
    return int(sizes[int(enough.argmax())]) if enough.any() else MOST_PAIRS + 1


MOST_PAIRS, PILOT_PAIRS = 128, 16


def check_half_width(half_width: float) -> None:
    """Raise ValueError for a half-width that is not positive."""
    if not 0 < half_width < math.inf:
        raise ValueError(f"the half-width must be positive and finite (0.01 for 1 %), not {half_width}")


@dataclass(frozen=True, slots=True)
class Recommended:
    """The shortest sound measurement for a wanted half-width: side by side if that can be done, and of whole runs."""

    any: Seen | None
    whole_runs: Seen | None


def recommend(
    timing: Timing,
    drift: Drift,
    half_width: float,
    *,
    above: float | None = None,
    seed: int | SeedSequence = 0,
    n: int = 2000,
) -> Recommended:
    """The sound design with the fewest pairs whose 95 % interval has this (median) half-width; None if none has.

    A few pairs tell how many are needed, because the width falls as 1 / sqrt(pairs); that many are then simulated.
    Raises ValueError for a half-width that is not positive.
    """
    check_half_width(half_width)

    def enough(design: str, most: int) -> Seen | None:
        n_pairs, last = PILOT_PAIRS, 0
        for _ in range(5):
            seen = see(design, n_pairs, timing, drift, above=above, seed=seed, n=n)
            needed = pairs_for(seen, half_width)
            if seen.is_sound and (seen.half_width or math.inf) <= half_width and (last or needed >= n_pairs):
                return seen
            last, n_pairs = n_pairs, max(needed, n_pairs + 2) if last else needed
            if n_pairs > most:
                break
        return None

    found: list[Seen] = []
    for design in GROWING:
        seen = enough(design, min((s.n_pairs for s in found if s.design != "turns"), default=MOST_PAIRS))
        found += [seen] if seen else []
    found.sort(key=lambda seen: (seen.n_pairs, seen.half_width))
    return Recommended(next(iter(found), None), next((seen for seen in found if seen.design != "turns"), None))
