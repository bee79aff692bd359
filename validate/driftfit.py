"""The drift of the machine on which runs were timed, from the seconds of their passes.

Each pass is divided by the median of its cell (same rows, rows before and cached length, near enough). What is left is
put on a clock of equal steps, in the order in which the passes really went, and its autocovariance is read as

    sd1^2 exp(-t / seconds1) + sd2^2 exp(-t / seconds2)        t > 0; what is more at t = 0 is each pass's own jitter

a fast and a slow Ornstein-Uhlenbeck drift. Passes that take twice as long as their cell belong to slow windows, which
are counted apart. The clock knows only the passes that were kept: what went on between them is missing from it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from math import log

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from sim.drift import Constant, Drift, OrnsteinUhlenbeck, Product, Windows
from sim.run import Record
from validate.design import lots, next_turn
from validate.runs import Run

Array = NDArray[np.float64]

SLOW = 2.0
"""How much longer than its cell a pass in a slow window takes."""
NEAR_TOKENS = 32
FEWEST_PASSES = 500
SMALLEST_SD = 0.005
GAP_STEPS = 5
"""Slow passes with so few others between them are one window."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """A fitted drift, in words too, and what it was fitted to.

    jitter    standard deviation of the logarithm of each pass on its own
    seconds   length of the record; `n_passes` in it
    """

    drift: Drift
    words: str
    jitter: float
    n_passes: int
    seconds: float
    lags_seconds: tuple[float, ...]
    autocovariance: tuple[float, ...]


def in_order(runs: Sequence[Run]) -> list[Record]:
    """The passes of runs that went side by side, in the order in which they went (`validate.design.next_turn`)."""
    done: list[Record] = []
    for _, group in groupby(runs, key=lambda run: (run.block, run.prompt)):
        side_by_side = sorted(group, key=lambda run: run.place)
        rng = lots(side_by_side[0].block, side_by_side[0].passes[0].n_rows)
        lanes = [list(run.decode) for run in side_by_side]
        at, tokens = [0] * len(lanes), [0] * len(lanes)
        going = list(range(len(lanes)))
        while going:
            lane = going[next_turn([tokens[i] for i in going], rng)]
            if at[lane] == len(lanes[lane]):
                going.remove(lane)
                continue
            record = lanes[lane][at[lane]]
            at[lane], tokens[lane] = at[lane] + 1, tokens[lane] + record.n_tokens
            done.append(record)
    return done


def residuals(records: Sequence[Record]) -> Array:
    """Logs of the passes' seconds over the median of their cell; cells of fewer than three passes say nothing (nan)."""
    cells: dict[tuple[int, int], list[int]] = defaultdict(list)
    for i, record in enumerate(records):
        cells[record.n_rows, record.n_past // NEAR_TOKENS].append(i)
    logs = np.log([record.seconds for record in records])
    left = np.full(len(records), np.nan)
    for places in cells.values():
        if len(places) > 2:
            # A median of n wanders with the n: what is left is too small by about 1 / n.
            left[places] = (logs[places] - np.median(logs[places])) * np.sqrt(len(places) / (len(places) - 1))
    return left


def usual_run(runs: Sequence[Run]) -> tuple[float, int]:
    """Median seconds and passes of a run of the baseline `gated`, or of all where it was not timed."""
    chosen = [run for run in runs if run.loop == "gated" and run.decode] or [run for run in runs if run.decode]
    return float(np.median([run.seconds for run in chosen])), int(np.median([len(run.decode) for run in chosen]))


def fit_drift(runs: Sequence[Run]) -> Fitted:
    """The drift under timed runs. Raises ValueError when they are too few to tell."""
    records = in_order(runs)
    left = residuals(records)
    known = np.isfinite(left)
    if known.sum() < FEWEST_PASSES:
        raise ValueError(
            f"the runs hold {int(known.sum())} passes that can be compared, at least {FEWEST_PASSES} are needed to fit"
            " a drift: measure more blocks"
        )
    seconds = np.array([record.seconds for record in records])
    return fit_series(np.cumsum(seconds) - seconds, left, float(seconds.sum()))


def fit_series(at: Array, logs: Array, seconds: float) -> Fitted:
    """The drift under logs of a speed (nan where unknown) at times, over so many seconds in all."""
    known = np.isfinite(logs)
    slow = known & (logs > log(SLOW))
    windows = _windows(at, logs, slow, seconds)
    known &= ~slow
    step = float(np.median(np.asarray(np.diff(at))))
    lags, covariance = _autocovariance(at[known], logs[known] - logs[known].mean(), step)
    parts: list[OrnsteinUhlenbeck] = _two_scales(lags, covariance, step, seconds)
    jitter = float(np.sqrt(max(float(np.var(logs[known])) - sum(part.sd**2 for part in parts), 0.0)))
    drifts: list[Drift] = [*parts, *([windows] if windows else [])]
    words = [f"ou sd={part.sd:.4g} seconds={part.seconds:.4g}" for part in parts]
    if windows:
        lengths = f"seconds={windows.seconds:.4g} quiet_seconds={windows.quiet_seconds:.4g}"
        words.append(f"windows factor={windows.factor:.4g} {lengths}")
    return Fitted(
        drift=Product(tuple(drifts)) if len(drifts) > 1 else drifts[0] if drifts else Constant(1.0),
        words=" + ".join(words) or "constant factor=1",
        jitter=jitter,
        n_passes=int(known.sum() + slow.sum()),
        seconds=seconds,
        lags_seconds=tuple(lags.tolist()),
        autocovariance=tuple(covariance.tolist()),
    )


def _windows(at: Array, logs: Array, slow: NDArray[np.bool_], seconds: float) -> Windows | None:
    """Slow windows: their mean factor and length, and the quiet between them; None where there are fewer than three."""
    places = np.flatnonzero(slow)
    if not len(places):
        return None
    starts = np.concatenate(([0], np.flatnonzero(np.diff(places) > GAP_STEPS) + 1))
    ends = np.append(starts[1:], len(places)) - 1
    if len(starts) < 3:
        return None
    after = np.append(at[1:], seconds)
    length = float(np.mean(after[places[ends]] - at[places[starts]]))
    return Windows(
        factor=float(np.exp(logs[places].mean())),
        seconds=length,
        quiet_seconds=max(seconds / len(starts) - length, length),
    )


def _autocovariance(at: Array, logs: Array, step: float) -> tuple[Array, Array]:
    """Autocovariance at about ten lags in every decade, from one step to a fifth of the record.

    Passes in one step of the clock are averaged; steps without any are left out (a product of two known steps only).
    """
    place = (at / step).astype(int)
    n = int(place[-1]) + 1
    count = np.bincount(place, minlength=n)
    sums = np.bincount(place, weights=logs, minlength=n)
    value = np.divide(sums, count, out=np.zeros(n), where=count > 0)
    size = 2 ** int(np.ceil(np.log2(2 * n)))

    def correlated(series: Array) -> Array:
        return np.asarray(np.fft.irfft(np.abs(np.fft.rfft(series, size)) ** 2, size))[:n]

    products, pairs = correlated(value), np.maximum(correlated((count > 0).astype(float)), 1e-9)
    edges = np.unique(np.geomspace(1, max(n // 5, 4), 10 * max(1, round(np.log10(n)))).astype(int))
    lags, covariance = [], []
    for first, last in pairwise(edges):
        if pairs[first:last].sum() >= 30:
            lags.append(step * (first + last - 1) / 2)
            covariance.append(products[first:last].sum() / pairs[first:last].sum())
    return np.array(lags), np.array(covariance)


def _two_scales(lags: Array, covariance: Array, step: float, seconds: float) -> list[OrnsteinUhlenbeck]:
    """A fast and a slow part, those that are there; least squares over lags spaced by ratios."""
    longest = max(seconds, 10 * step)

    def model(p: Array) -> Array:
        fast, slow = np.exp(p[1]), np.exp(p[1]) + np.exp(p[3])
        return np.asarray(p[0] ** 2 * np.exp(-lags / fast) + p[2] ** 2 * np.exp(-lags / slow))

    spread = np.sqrt(max(covariance[0], SMALLEST_SD**2))
    begin = (0.8 * spread, log(min(20 * step, longest / 4)), 0.5 * spread, log(longest / 10))
    bounds = ((0, log(step), 0, log(step)), (3 * spread, log(longest), 3 * spread, log(longest)))

    def misses(p: Array) -> Array:
        return model(p) - covariance

    p = least_squares(misses, begin, bounds=bounds, x_scale=(spread, 1, spread, 1)).x
    parts = ((p[0], np.exp(p[1])), (p[2], np.exp(p[1]) + np.exp(p[3])))
    return [OrnsteinUhlenbeck(float(sd), float(length)) for sd, length in parts if sd > SMALLEST_SD]
