"""Rounds of measured passes, and the table they make.

A calibration is a number of short rounds over the same grid of cached lengths and row counts. A machine's speed wanders
by ten percent and more within a second, so a round is read as

    log seconds[round, cell] = speed[round] + cost[cell] + noise

and the table holds exp(cost + mean speed), means trimmed by a tenth at either end. The price of a change of row count,
building the compute graph anew, is processor time that does not depend on the rows: one number. Resampling whole rounds
keeps what passes of one moment have in common, and resampling runs of neighbours what rounds of the same seconds have,
so the intervals know about drift (circular block bootstrap, Politis & Romano 1992).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy.stats import trim_mean

from costmodel.table import Grid, Table

TRIM = 0.1
N_RESAMPLES = 200


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds of one round, [cached length][row count], all rows' logits wanted unless said otherwise.

    same       passes behind a pass of as many rows
    changed    passes behind a pass of another number of rows
    last_row   passes with only the last row's logits
    """

    same: Grid
    changed: Grid
    last_row: Grid | None = None


def nested(values: NDArray[np.float64]) -> Grid:
    """A two-dimensional array as tuples of floats."""
    return tuple(tuple(float(x) for x in row) for row in values)


def resampled(n: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """The places of n resampled rounds: runs of about the cube root of n neighbours, the last and the first among them.

    The length is the rate of Hall, Horowitz & Jing 1995, "On blocking rules for the bootstrap with dependent data".

    >>> len(resampled(10, np.random.default_rng(0)))
    10
    """
    length = int(n ** (1 / 3) + 1e-9)
    starts = rng.integers(0, n, -(-n // length))
    return ((starts[:, None] + np.arange(length)) % n).ravel()[:n]


def _cells(logs: NDArray[np.float64], speed: NDArray[np.float64]) -> NDArray[np.float64]:
    """Seconds of each cell at the rounds' mean speed; `logs` is [round][cached length][row count]."""
    cells: NDArray[np.float64] = np.exp(trim_mean(logs - speed[:, None, None], TRIM, axis=0) + trim_mean(speed, TRIM))
    return cells


def _change(same: NDArray[np.float64], changed: NDArray[np.float64]) -> float:
    """Seconds that a change of row count adds; cheap passes tell it best, so they weigh more."""
    extra = trim_mean(changed - same, TRIM, axis=0)
    weights = 1 / np.mean(same, axis=0) ** 2
    return max(0.0, float((weights * extra).sum() / weights.sum()))


def table(
    n_past: tuple[int, ...],
    n_rows: tuple[int, ...],
    rounds: Sequence[Round],
    *,
    padding: int | None = 256,
    rng: np.random.Generator | None = None,
) -> Table:
    """The table of some rounds, with 95 % intervals by resampling rounds.

    With `rng` the rounds are resampled first: one draw of the table under its own uncertainty, without intervals.
    """
    same = np.array([r.same for r in rounds])
    changed = np.array([r.changed for r in rounds])
    last = np.array([r.last_row for r in rounds if r.last_row is not None])
    if rng is not None:
        pick = resampled(len(rounds), rng)
        same, changed = same[pick], changed[pick]
    logs = np.log(same)
    speed = logs.mean(axis=(1, 2))
    middle = _cells(logs, speed)
    low = high = middle
    if rng is None and len(rounds) > 1:
        chance = np.random.default_rng(0)
        draws = [resampled(len(rounds), chance) for _ in range(N_RESAMPLES)]
        low, high = np.quantile([_cells(logs[draw], speed[draw]) for draw in draws], (0.025, 0.975), axis=0)
    last_row = None
    if len(last):
        told = speed[[r.last_row is not None for r in rounds]] if rng is None else np.log(last).mean(axis=(1, 2))
        last_row = nested(_cells(np.log(last), told) * np.exp(trim_mean(speed, TRIM) - trim_mean(told, TRIM)))
    return Table(
        n_rows=n_rows,
        n_past=n_past,
        all_rows_seconds=nested(middle),
        low=nested(np.minimum(low, middle)),
        high=nested(np.maximum(high, middle)),
        last_row_seconds=last_row,
        change_seconds=_change(same, changed),
        padding=padding,
    )
