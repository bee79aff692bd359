"""A cost table with one of its effects switched off: what would be lost if the model did not know of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from costmodel.rounds import nested
from costmodel.table import Table


def _with(table: Table, seconds: NDArray[np.float64], padding: int | None) -> Table:
    return replace(table, all_rows_seconds=nested(seconds), low=None, high=None, last_row_seconds=None, padding=padding)


def straight_rows(table: Table) -> Table:
    """Seconds on a straight line over rows instead of a table, fitted to relative errors.

    >>> round(straight_rows(Table((1, 2, 3), (0,), ((1.0, 1.5, 2.0),))).all_rows_seconds[0][2], 9)
    2.0
    """
    n = np.array(table.n_rows, dtype=float)
    lines = [np.polyval(np.polyfit(n, c, 1, w=1 / c), n) for c in np.array(table.all_rows_seconds)]
    return _with(table, np.maximum(lines, 1e-9), table.padding)


def flat_past(table: Table) -> Table:
    """Seconds that do not depend on the cached length: the geometric mean over the measured ones."""
    logs = np.log(table.all_rows_seconds)
    return _with(table, np.exp(np.broadcast_to(logs.mean(axis=0), logs.shape)), table.padding)


def no_jump(table: Table) -> Table:
    """Seconds on a straight line over the cached length, with no jump where the KV view grows.

    >>> no_jump(Table((1,), (0, 255, 256, 511), ((1.0,), (1.0,), (2.0,), (2.0,)))).padding is None
    True
    """
    if len(table.n_past) < 2:
        return _with(table, np.array(table.all_rows_seconds), None)
    past, seconds = np.array(table.n_past, dtype=float), np.array(table.all_rows_seconds)
    lines = np.polyfit(past, seconds, 1)
    return _with(table, np.maximum(past[:, None] * lines[0] + lines[1], 1e-9), None)


def no_change(table: Table) -> Table:
    """Seconds without the price of a change of row count."""
    return replace(table, change_seconds=0.0)


EFFECTS: Mapping[str, Callable[[Table], Table]] = {
    "rows table": straight_rows,
    "cached length": flat_past,
    "padding jump": no_jump,
    "change of rows": no_change,
}
"""What the cost table knows, and the table that does not."""
