"""A measured cost table: exact where it was measured, never smoothed over rows, honest about everything else.

c(n_rows) has steps and even falls, so no curve is drawn through it: a row count that was not measured is
refused. Over the cached length the cost is one piece per block of the padded KV view: llama.cpp rounds the
view up to a multiple of `padding` cells, so a pass on `n_past` cached tokens sees block (n_past + n_rows - 1)
// padding, and the seconds jump where the block changes. Inside a block the cost is linear through its
measured lengths (knots).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np

from costmodel.chunks import Array, in_chunks
from costmodel.pieces import corners

Grid: TypeAlias = tuple[tuple[float, ...], ...]

REACH = 256  # without padding: cached tokens past the measured ones that are still priced


class Column(NamedTuple):
    """Seconds of one row count at every cached length from `start` on; NaN below."""

    start: int
    all_rows: Array
    last_row: Array | None
    change: float


class _Cache:
    """A slot beside the fields: columns are made when they are first asked for, and never stored or compared."""

    __slots__ = ("_columns",)
    _columns: dict[int, Column]


@dataclass(frozen=True, slots=True)
class Table(_Cache):
    """Seconds of a pass by cached length and row count.

    n_rows, n_past     measured row counts and cached lengths, ascending
    all_rows_seconds   [len(n_past)][len(n_rows)], the logits of all rows asked for
    low, high          95 % interval of it, the same shape
    last_row_seconds   the same with only the last row's logits; between the two the price is linear in `n_out`
    change_seconds     added when the pass before had another row count; one number, or one per row count
    padding            cells by which the KV view grows (None: it does not jump)
    extrapolate        also price what was not measured: linear in rows, the overall trend in cached length

    Raises ValueError for a hole, for seconds that are not positive, for shapes that do not fit.

    >>> table = Table((1, 6), (0, 512), ((0.010, 0.021), (0.011, 0.0224)))
    >>> table.seconds(0, 6, 6), table.seconds(512, 1, 1), round(table.seconds(256, 1, 1), 5)
    (0.021, 0.011, 0.0105)
    >>> table.seconds(0, 4, 4)
    Traceback (most recent call last):
    ValueError: the cost table has no passes of 4 rows, only of 1, 6: measure them, or ask for extrapolation
    """

    n_rows: tuple[int, ...]
    n_past: tuple[int, ...]
    all_rows_seconds: Grid
    low: Grid | None = None
    high: Grid | None = None
    last_row_seconds: Grid | None = None
    change_seconds: float | tuple[float, ...] = 0.0
    padding: int | None = 256
    extrapolate: bool = False

    def __post_init__(self) -> None:
        for name, least in (("n_rows", 1), ("n_past", 0)):
            values = tuple(int(value) for value in getattr(self, name))
            if not values or values[0] < least or any(a >= b for a, b in pairwise(values)):
                raise ValueError(f"{name} must be ascending whole numbers from {least} on, not {list(values)}")
            object.__setattr__(self, name, values)
        for name in ("all_rows_seconds", "low", "high", "last_row_seconds"):
            if (grid := getattr(self, name)) is not None:
                object.__setattr__(self, name, self._checked_grid(name, grid))
        if not isinstance(self.change_seconds, (int, float)):
            object.__setattr__(self, "change_seconds", tuple(float(value) for value in self.change_seconds))
        changes = self._changes
        if len(changes) != len(self.n_rows) or not all(0 <= change < math.inf for change in changes):
            raise ValueError(
                f"change_seconds must be one number >= 0, or one for each of the {len(self.n_rows)} row counts"
            )
        if self.padding is not None and self.padding < 1:
            raise ValueError(f"padding must be at least 1 cell, or None, not {self.padding}")

    def _checked_grid(self, name: str, grid: Iterable[Iterable[float]]) -> Grid:
        rows = tuple(tuple(float(value) for value in row) for row in grid)
        if len(rows) != len(self.n_past) or any(len(row) != len(self.n_rows) for row in rows):
            raise ValueError(
                f"{name} must have {len(self.n_past)} lines of {len(self.n_rows)} numbers, "
                "one for each cached length and row count: a table may not have a hole"
            )
        for past, row in zip(self.n_past, rows, strict=True):
            for n, value in zip(self.n_rows, row, strict=True):
                if not 0 < value < math.inf:
                    raise ValueError(f"{name} of {n} rows on {past} cached tokens must be positive, not {value}")
        return rows

    @property
    def _changes(self) -> tuple[float, ...]:
        change = self.change_seconds
        return change if isinstance(change, tuple) else (float(change),) * len(self.n_rows)

    def seconds(self, n_past: Any, n_rows: Any, n_out: Any, n_rows_before: Any = None) -> Any:
        """Seconds of one pass (a float), or of many (an array, the arguments broadcast together).

        Raises ValueError for a row count or a cached length outside the table, unless extrapolation was asked
        for, and for `n_out` outside 0..n_rows. No logits at all are priced as the last row's.
        """
        if not (isinstance(n_past, int) and isinstance(n_rows, int) and isinstance(n_out, int)):
            return self._many(n_past, n_rows, n_out, n_rows_before)
        column = self._column(n_rows, n_past)
        seconds = column.all_rows.item(n_past)
        if n_out != n_rows:
            if not 0 <= n_out < n_rows:
                raise ValueError(f"n_out must be between 0 and the {n_rows} rows, not {n_out}")
            if column.last_row is not None and n_rows > 1:
                saved = seconds - column.last_row.item(n_past)
                seconds -= saved * (n_rows - max(n_out, 1)) / (n_rows - 1)
        if n_rows_before is not None and n_rows_before != n_rows:
            seconds += column.change
        return seconds

    def _many(self, n_past: Any, n_rows: Any, n_out: Any, n_rows_before: Any) -> Any:
        past, rows = np.asarray(n_past), np.asarray(n_rows)
        if min(past.min(initial=0), rows.min(initial=1) - 1) < 0:
            raise ValueError("every pass needs n_rows >= 1 and n_past >= 0")
        used = np.flatnonzero(np.bincount(rows.ravel(), minlength=1))
        width = int(past.max(initial=0)) + 1
        columns = [self._column(int(n), None, width) for n in used]
        place = np.zeros(int(rows.max(initial=0)) + 1, dtype=np.intp)
        place[used] = np.arange(len(used))
        all_rows, unasked, change = _matrices(columns, used, width)

        def price(past: Any, rows: Any, out: Any, before: Any) -> Array:
            if ((out < 0) | (out > rows)).any():
                raise ValueError("every pass needs n_out between 0 and n_rows")
            which = place.take(rows)
            cell = which * width + past
            seconds: Array = all_rows.take(cell)
            if unasked is not None:
                seconds -= (rows - np.maximum(out, 1)) * unasked.take(cell)
            if n_rows_before is not None:
                seconds += change.take(which) * (before != rows)
            if np.isnan(seconds).any():  # ask for the first that the table does not reach: it says why
                first = int(np.flatnonzero(np.isnan(seconds))[0])
                self._column(int(rows[first]), int(past[first]))
            return seconds

        return in_chunks(price, n_past, n_rows, n_out, 0 if n_rows_before is None else n_rows_before)

    def notes(self, n_rows: Iterable[int], n_past: int | None = None) -> tuple[str, ...]:
        """What a price for these row counts (up to this cached length) would rest on besides measurement.

        >>> Table((1, 2), (0,), ((0.01, 0.012),), extrapolate=True).notes([1, 4])
        ('passes of 4 rows were not measured (only 1, 2): extrapolated linearly over rows',)
        """
        notes = []
        if missing := sorted(set(n_rows) - set(self.n_rows)):
            notes.append(
                f"passes of {_listed(missing)} rows were not measured (only {_listed(self.n_rows)}): "
                "extrapolated linearly over rows"
            )
        if n_past is not None and n_past > self.n_past[-1]:
            notes.append(
                f"cached lengths beyond {self.n_past[-1]} were not measured: extrapolated to {n_past} by "
                "the overall trend"
            )
        return tuple(notes)

    def _column(self, n_rows: int, n_past: int | None, width: int = 0) -> Column:
        """The column of a row count, long enough for `n_past`; ValueError where the table does not reach."""
        try:
            column = self._columns[n_rows]
        except (AttributeError, KeyError):
            column = self._new_column(n_rows, width)
        if n_past is None:
            if self.extrapolate and len(column.all_rows) < width:
                column = self._new_column(n_rows, width)
            return column
        if self.extrapolate and n_past >= len(column.all_rows):
            column = self._new_column(n_rows, 2 * n_past)
        if not column.start <= n_past < len(column.all_rows):
            raise ValueError(
                f"the cost table was measured at cached lengths {_listed(self.n_past)}, too far from "
                f"{n_past}: measure there, or ask for extrapolation"
            )
        return column

    def _new_column(self, n_rows: int, width: int) -> Column:
        weights = self._row_weights(n_rows)
        start, stop = 0, width
        if not self.extrapolate:
            reach = self.padding or REACH
            start = max(0, self.n_past[0] - reach)
            stop = self.n_past[-1] + reach + 1
            if self.padding:
                start = max(0, ((self.n_past[0] + n_rows - 1) // reach - 1) * reach - n_rows + 1)
                stop = ((self.n_past[-1] + n_rows - 1) // reach + 2) * reach - n_rows + 1
        stop = max(stop, self.n_past[-1] + 1)

        def over_past(grid: Grid) -> Array:
            knots = np.asarray(grid) @ weights
            if (knots <= 0).any():
                raise ValueError(f"extrapolated to {n_rows} rows the cost table falls to nothing: measure them")
            points = np.array(list(corners(self.n_past, knots.tolist(), n_rows, self.padding, stop)))
            column: Array = np.interp(np.arange(stop), points[:, 0], points[:, 1])
            column[:start] = np.nan
            return column

        last = self.last_row_seconds
        change = max(float(np.asarray(self._changes) @ weights), 0.0)
        column = Column(start, over_past(self.all_rows_seconds), None if last is None else over_past(last), change)
        try:
            self._columns[n_rows] = column
        except AttributeError:
            object.__setattr__(self, "_columns", {n_rows: column})
        return column

    def _row_weights(self, n_rows: int) -> Array:
        """How the measured row counts add up to this one: a 1 where it was measured."""
        measured = self.n_rows
        if n_rows in measured:
            exact: Array = np.eye(len(measured))[measured.index(n_rows)]
            return exact
        if not self.extrapolate or len(measured) < 2 or n_rows < 1:
            raise ValueError(
                f"the cost table has no passes of {n_rows} rows, only of {_listed(measured)}: "
                "measure them, or ask for extrapolation"
            )
        weights = np.zeros(len(measured))
        right = int(np.searchsorted(measured, n_rows))
        # Beyond the ends the overall slope is taken: the last step alone may be a fall, and end below zero.
        i, j = (right - 1, right) if 0 < right < len(measured) else (0, len(measured) - 1)
        share = (n_rows - measured[i]) / (measured[j] - measured[i])
        weights[i], weights[j] = 1 - share, share
        return weights


def _matrices(columns: Sequence[Column], n_rows: Any, width: int) -> tuple[Array, Array | None, Array]:
    """Of some row counts, by cached length: the seconds, what each unasked row of logits saves, and the change."""

    def stacked(lines: Sequence[Array]) -> Array:
        matrix = np.full((len(lines), width), np.nan)
        for to, line in zip(matrix, lines, strict=True):
            n = min(width, len(line))
            to[:n] = line[:n]
        return matrix

    if not columns:
        return np.empty((0, width)), None, np.empty(0)
    all_rows = stacked([column.all_rows for column in columns])
    change = np.array([column.change for column in columns])
    if columns[0].last_row is None:
        return all_rows, None, change
    last_row = stacked([cast(Array, column.last_row) for column in columns])
    return all_rows, (all_rows - last_row) / np.maximum(n_rows - 1, 1)[:, None], change


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))
