"""The order of timed runs, and what a block of them says: pure.

A block is an order of the settings followed by its mirror image (A B C C B A), so that a speed that drifts in a
straight line through the block weighs equally on all of them (ABBA counterbalancing). The orders rotate and alternate
from block to block, so that no setting keeps a place. A block yields one log-ratio; blocks are what is resampled.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeVar

import numpy as np
from scipy.stats import bootstrap

T = TypeVar("T")


def block_order(items: Sequence[T], block: int, seed: int = 0) -> list[T]:
    """The runs of block number `block`: each item twice, the second half mirroring the first.

    >>> block_order("ABC", 0), len(block_order("ABC", 1))
    (['C', 'A', 'B', 'B', 'A', 'C'], 6)
    """
    n = len(items)
    base = np.random.default_rng(seed).permutation(n)
    order = [items[i] for i in np.roll(base, block // 2)]
    if block % 2:
        order.reverse()
    return order + order[::-1]


def interval(log_ratios: Sequence[float], confidence: float = 0.95) -> tuple[float, float, float]:
    """Ratio and its interval from one log-ratio a block: mean, and BCa bootstrap over blocks (Efron 1987).

    A single block has no interval: low and high are the ratio itself.
    """
    values = np.asarray(log_ratios, dtype=float)
    estimate = float(np.exp(values.mean()))
    if len(values) < 2 or np.ptp(values) == 0:
        return estimate, estimate, estimate
    # BCa needs a jackknife that varies; with two blocks only the percentile interval exists.
    method: Literal["BCa", "percentile"] = "BCa" if len(values) > 2 else "percentile"
    result = bootstrap(
        ([float(value) for value in values],),
        np.mean,
        confidence_level=confidence,
        method=method,
        n_resamples=2000,
        rng=np.random.default_rng(0),
    )
    low, high = np.exp(result.confidence_interval)
    return estimate, float(low), float(high)
