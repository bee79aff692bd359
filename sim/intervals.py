"""Intervals of means from a few independent units, for many repetitions at once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t


class Mean(NamedTuple):
    """Means, and the half-widths of their intervals (nan for a single unit)."""

    mean: NDArray[np.float64]
    half_width: NDArray[np.float64]


def student(units: NDArray[np.float64], confidence: float = 0.95) -> Mean:
    """Mean over the first axis, with Student's interval: exact for independent normal units.

    Raises ValueError without any unit.

    >>> mean, half_width = student(np.array([[1.0], [2.0], [3.0]]))
    >>> mean, half_width.round(3)
    (array([2.]), array([2.484]))
    """
    n = len(units)
    if not n:
        raise ValueError("an interval needs at least one unit")
    mean = units.mean(axis=0)
    if n == 1:
        return Mean(mean, np.full_like(mean, np.nan))
    return Mean(mean, t.ppf((1 + confidence) / 2, n - 1) * units.std(axis=0, ddof=1) / np.sqrt(n))
