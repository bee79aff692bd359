"""Rounds of measured passes, and the table they make.

A calibration is a number of short rounds over the same grid. The table holds medians over rounds; resampling whole
rounds keeps what passes of one moment have in common, so the intervals know about drift (block bootstrap, Kunsch 1989).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from costmodel.table import Grid, Table


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


def table(
    n_past: tuple[int, ...],
    n_rows: tuple[int, ...],
    rounds: Sequence[Round],
    *,
    padding: int | None = 256,
    rng: np.random.Generator | None = None,
) -> Table:
    """The table of some rounds: medians, with 95 % intervals by resampling rounds.

    With `rng` the rounds are resampled first: one draw of the table under its own uncertainty, without intervals.
    """
    same = np.array([r.same for r in rounds])
    changed = np.array([r.changed for r in rounds])
    last = np.array([r.last_row for r in rounds if r.last_row is not None])
    pick = np.arange(len(rounds)) if rng is None else rng.integers(0, len(rounds), len(rounds))
    middle = np.median(same[pick], axis=0)
    change = np.maximum(np.median(changed[pick] - same[pick], axis=(0, 1)), 0.0)
    low = high = middle
    if rng is None and len(rounds) > 1:
        draws = np.random.default_rng(0).integers(0, len(rounds), (500, len(rounds)))
        low, high = np.quantile(np.median(same[draws], axis=1), (0.025, 0.975), axis=0)
    return Table(
        n_rows=n_rows,
        n_past=n_past,
        all_rows_seconds=nested(middle),
        low=nested(low),
        high=nested(high),
        last_row_seconds=nested(np.median(last, axis=0)) if len(last) else None,
        change_seconds=tuple(float(x) for x in change),
        padding=padding,
    )
