"""Pass costs from measured passes: affine, roofline or table, robust to outliers, with intervals.

The parametric fits minimise a Cauchy loss of log(measured / predicted) (scipy's `least_squares`), scaled by
the noise's median absolute deviation: a pass that took 30 times as long counts like a bad one, not like 900.
Intervals are percentiles over resampled passes (Efron 1979). Residuals come back for a plot.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from costmodel.passcost import Affine, PassCost, Roofline, Table
from costmodel.specs import DeviceSpec, ModelSpec

Array = NDArray[np.float64]
Cost = TypeVar("Cost", bound=PassCost)


@dataclass(frozen=True, slots=True)
class Measured:
    """Measured passes, one per place: counts as in `PassCost.seconds`, and the seconds each took.

    Raises ValueError for arrays of different lengths, no passes, or seconds that are not positive.
    """

    n_past: NDArray[np.int64]
    n_rows: NDArray[np.int64]
    n_out: NDArray[np.int64]
    seconds: Array

    @classmethod
    def of(cls, n_past: ArrayLike, n_rows: ArrayLike, n_out: ArrayLike, seconds: ArrayLike) -> Measured:
        """From anything that is a row of numbers."""
        past, rows, out = (np.asarray(values, dtype=np.int64) for values in (n_past, n_rows, n_out))
        return cls(past, rows, out, np.asarray(seconds, dtype=np.float64))

    def __post_init__(self) -> None:
        shapes = {values.shape for values in (self.n_past, self.n_rows, self.n_out, self.seconds)}
        if len(shapes) != 1 or self.seconds.ndim != 1 or not self.seconds.size:
            raise ValueError(f"measured passes need four rows of equally many numbers, not shapes {sorted(shapes)}")
        if not (np.isfinite(self.seconds).all() and (self.seconds > 0).all()):
            raise ValueError("measured seconds must be positive")

    def __len__(self) -> int:
        return len(self.seconds)

    def taken(self, places: Any) -> Measured:
        """Some of the passes."""
        return Measured(self.n_past[places], self.n_rows[places], self.n_out[places], self.seconds[places])


@dataclass(frozen=True, slots=True)
class FittedCost(Generic[Cost]):
    """A cost, its parameters with 95 % intervals, and log(measured / predicted) of every pass."""

    cost: Cost
    parameters: dict[str, float]
    intervals: dict[str, tuple[float, float]]
    residuals: Array


def fit_affine(measured: Measured, n_resamples: int = 200, seed: int = 0) -> FittedCost[Affine]:
    """Fixed seconds, and seconds per row, cached token and row of logits; what never varies stays 0.

    Raises ValueError when the passes cannot tell these apart.
    """
    names = ["fixed_seconds", "row_seconds", "past_seconds", "out_seconds"]
    columns = np.column_stack([np.ones(len(measured)), measured.n_rows, measured.n_past, measured.n_out]).astype(float)
    # n_out follows n_rows when all logits are asked for: then it has no part of its own.
    kept: list[int] = []
    for i in range(4):
        if np.linalg.matrix_rank(columns[:, [*kept, i]]) > len(kept):
            kept.append(i)
    if 1 not in kept:
        raise ValueError("an affine cost needs passes of at least two row counts")
    scale = np.median(measured.seconds) / np.maximum(columns[:, kept].max(axis=0), 1)

    def make(theta: Array) -> Affine:
        return Affine(**{"row_seconds": 0.0, **{names[i]: float(x) for i, x in zip(kept, theta * scale, strict=True)}})

    return _fitted(measured, make, np.full(len(kept), 0.5), [names[i] for i in kept], n_resamples, seed)


def fit_roofline(
    measured: Measured,
    model: ModelSpec,
    combine: Literal["max", "sum"] = "max",
    n_resamples: int = 200,
    seed: int = 0,
) -> FittedCost[Roofline]:
    """Bandwidth, operations per second and fixed seconds that this model's passes took on this device.

    A rate that no pass was bound by comes out with an interval that has no upper end worth the name.
    """
    ideal = Roofline(model, DeviceSpec("unit", 1e9, 1e9), combine)
    moving = ideal.bytes(measured.n_past, measured.n_rows, measured.n_out)
    computing = ideal.flops(measured.n_past, measured.n_rows, measured.n_out)
    scale = np.array(
        [np.max(moving / measured.seconds), np.max(computing / measured.seconds), np.min(measured.seconds)]
    )

    def make(theta: Array) -> Roofline:
        bandwidth, flops, fixed = (scale / np.array([theta[0], theta[1], 1 / max(theta[2], 1e-12)])).tolist()
        return Roofline(model, DeviceSpec("fitted", bandwidth, flops, fixed, source="fit"), combine)

    names = ["bytes_per_second", "flops_per_second", "pass_seconds"]
    fit = _fitted(measured, make, np.array([0.9, 0.9, 0.05]), names, n_resamples, seed)
    return fit


def fit_table(
    measured: Measured, padding: int | None = 256, n_resamples: int = 1000, seed: int = 0
) -> FittedCost[Table]:
    """The medians of the passes at each (cached length, rows), with percentile intervals; nothing is smoothed.

    Passes that ask for one of several rows' logits make `last_row_seconds`, if they are there for every cell.
    Raises ValueError for a hole.
    """
    generator = np.random.default_rng(seed)
    pasts, rows = (tuple(int(x) for x in np.unique(values)) for values in (measured.n_past, measured.n_rows))

    def cells(only_last: bool) -> dict[tuple[int, int], Array]:
        asked = measured.n_out == (1 if only_last else measured.n_rows)
        return {
            (past, n): measured.seconds[(measured.n_past == past) & (measured.n_rows == n) & asked]
            for past in pasts
            for n in rows
        }

    every, last = cells(False), cells(True)
    for (past, n), values in every.items():
        if not values.size:
            raise ValueError(f"no pass of {n} rows on {past} cached tokens asked for all logits: a table has no holes")
    bounds = {}
    for cell, values in every.items():
        picks = generator.integers(0, values.size, size=(n_resamples, values.size))
        bounds[cell] = np.percentile(np.median(values[picks], axis=1), (2.5, 97.5))

    def grid(value: Callable[[tuple[int, int]], Any]) -> tuple[tuple[float, ...], ...]:
        return tuple(tuple(float(value((past, n))) for n in rows) for past in pasts)

    table = Table(
        n_rows=rows,
        n_past=pasts,
        all_rows_seconds=grid(lambda cell: np.median(every[cell])),
        low=grid(lambda cell: bounds[cell][0]),
        high=grid(lambda cell: bounds[cell][1]),
        last_row_seconds=grid(lambda cell: np.median(last[cell])) if all(map(np.size, last.values())) else None,
        padding=padding,
    )
    names = {cell: f"c({cell[1]}) at {cell[0]}" for cell in every}
    return FittedCost(
        table,
        {names[cell]: float(np.median(values)) for cell, values in every.items()},
        {names[cell]: (float(low), float(high)) for cell, (low, high) in bounds.items()},
        _residuals(table, measured),
    )


def _fitted(
    measured: Measured,
    make: Callable[[Array], Cost],
    start: Array,
    names: Sequence[str],
    n_resamples: int,
    seed: int,
) -> FittedCost[Cost]:
    """A robust fit, then the same on resampled passes."""

    def solve(passes: Measured, guess: Array) -> Array:
        from scipy.optimize import least_squares

        def misses(theta: Array) -> Array:
            return _residuals(make(np.maximum(theta, 1e-9)), passes)

        noise = max(float(np.median(np.abs(misses(guess)))) * 1.4826, 1e-6)
        for _ in range(2):  # the noise is known better after a first fit
            guess = least_squares(misses, guess, bounds=(0, np.inf), loss="cauchy", f_scale=noise).x
            noise = max(float(np.median(np.abs(misses(guess)))) * 1.4826, 1e-6)
        return np.maximum(guess, 1e-9)

    def told(theta: Array) -> list[float]:
        cost = make(theta)
        source: Any = cost.device if isinstance(cost, Roofline) else cost
        return [float(getattr(source, name)) for name in names]

    theta = solve(measured, start)
    generator = np.random.default_rng(seed)
    draws = [
        told(solve(measured.taken(generator.integers(0, len(measured), len(measured))), theta))
        for _ in range(n_resamples)
    ]
    low, high = np.percentile(draws, (2.5, 97.5), axis=0) if draws else np.full((2, len(names)), np.nan)
    intervals = {name: (float(a), float(b)) for name, a, b in zip(names, low, high, strict=True)}
    cost = make(theta)
    return FittedCost(cost, dict(zip(names, told(theta), strict=True)), intervals, _residuals(cost, measured))


def _residuals(cost: PassCost, measured: Measured) -> Array:
    predicted = cost.seconds(measured.n_past, measured.n_rows, measured.n_out)
    misses: Array = np.log(measured.seconds / predicted)
    return misses
