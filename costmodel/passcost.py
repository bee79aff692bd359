"""What a forward pass costs: seconds(n_past, n_rows, n_out), as a description that is never told about a loop.

    flat       s
    affine     s0 + a n_rows + b n_past + o n_out
    roofline   overhead + max(bytes / bandwidth, operations / peak)      Williams, Waterman, Patterson 2009
    table      what was measured, at the row counts that were measured

`n_past` is the cached length before the pass, `n_rows` the rows fed, `n_out` the rows whose logits are asked
for, `n_rows_before` the rows of the pass before: a change of row count rebuilds the compute graph in
llama.cpp, which a table that measured it prices, or `WithChange`. Every cost takes scalars (and gives a float) or
arrays (and gives an array).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from costmodel.roofline import Roofline
from costmodel.table import Table

__all__ = ["Affine", "Flat", "PassCost", "Roofline", "Table", "WithChange"]

Counts: TypeAlias = int | NDArray[Any]
"""Whole numbers, one or many; what is given together is broadcast together."""


class PassCost(Protocol):
    """What can price a pass."""

    @overload
    def seconds(  # type: ignore[overload-overlap]
        self, n_past: int, n_rows: int, n_out: int, n_rows_before: int | None = None
    ) -> float: ...
    @overload
    def seconds(
        self, n_past: Counts, n_rows: Counts, n_out: Counts, n_rows_before: Counts | None = None
    ) -> NDArray[np.float64]: ...
    def seconds(self, n_past: Counts, n_rows: Counts, n_out: Counts, n_rows_before: Counts | None = None) -> Any:
        """Seconds of a pass of `n_rows` rows on `n_past` cached ones, logits wanted after `n_out` of them."""
        ...


@dataclass(frozen=True, slots=True)
class Flat:
    """Every pass costs one sweep over the weights, whatever its rows: the assumption behind 2k/(k+1).

    Raises ValueError unless the seconds are positive.

    >>> Flat(0.02).seconds(512, 6, 6)
    0.02
    """

    sweep_seconds: float

    def __post_init__(self) -> None:
        if not 0 < self.sweep_seconds < math.inf:
            raise ValueError(f"sweep_seconds must be positive and finite, not {self.sweep_seconds}")

    def seconds(self, n_past: Counts, n_rows: Counts, n_out: Counts, n_rows_before: Counts | None = None) -> Any:
        """The same seconds for every pass; the shape follows the arguments."""
        if isinstance(n_past, int) and isinstance(n_rows, int) and isinstance(n_out, int):
            return self.sweep_seconds
        shape = np.broadcast_shapes(np.shape(n_past), np.shape(n_rows), np.shape(n_out))
        return np.full(shape, self.sweep_seconds) if shape else self.sweep_seconds


@dataclass(frozen=True, slots=True)
class Affine:
    """A fixed part and a price per row, per cached token and per row of logits, in seconds.

    Raises ValueError for a negative or infinite part, or when a pass of one row would cost nothing.

    >>> Affine(0.008, 0.001, past_seconds=1e-6).seconds(1000, 6, 6)
    0.015
    """

    fixed_seconds: float
    row_seconds: float
    past_seconds: float = 0.0
    out_seconds: float = 0.0

    def __post_init__(self) -> None:
        for name in ("fixed_seconds", "row_seconds", "past_seconds", "out_seconds"):
            value = getattr(self, name)
            if not 0 <= value < math.inf:
                raise ValueError(f"{name} must be zero or positive and finite, not {value}")
        if self.fixed_seconds + self.row_seconds <= 0:
            raise ValueError("fixed_seconds and row_seconds are both 0: a pass would cost nothing")

    def seconds(self, n_past: Counts, n_rows: Counts, n_out: Counts, n_rows_before: Counts | None = None) -> Any:
        """The sum of the parts, in seconds."""
        return self.fixed_seconds + self.row_seconds * n_rows + self.past_seconds * n_past + self.out_seconds * n_out


@dataclass(frozen=True, slots=True)
class WithChange:
    """Any cost, and seconds more for a pass whose row count differs from the pass before; a table has its own.

    >>> WithChange(Flat(0.02), 0.0005).seconds(0, 6, 6, 1), WithChange(Flat(0.02), 0.0005).seconds(0, 6, 6, 6)
    (0.0205, 0.02)
    """

    cost: PassCost
    change_seconds: float

    def __post_init__(self) -> None:
        if not 0 <= self.change_seconds < math.inf:
            raise ValueError(f"change_seconds must be zero or positive and finite, not {self.change_seconds}")

    def seconds(self, n_past: Counts, n_rows: Counts, n_out: Counts, n_rows_before: Counts | None = None) -> Any:
        """The cost's own seconds, and the change's where there was one."""
        seconds = self.cost.seconds(n_past, n_rows, n_out, n_rows_before)
        return seconds if n_rows_before is None else seconds + self.change_seconds * (n_rows_before != n_rows)
