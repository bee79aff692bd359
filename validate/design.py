"""The order of timed passes, and what a block of them says: pure.

A machine's speed wanders by ten percent and more within a second, which no order of whole runs can cancel. In a block
all settings therefore decode the same prompt side by side, each on a context of its own, and take turns pass by pass:
the one that has the fewest tokens goes next, so that all stand at the same place of the text, see the same machine, and
end together. Ties are taken in an order that is mirrored from turn to turn and from block to block (A B C, C B A: ABBA
counterbalancing), and rotated over blocks, so that no setting always follows the same other. A block yields one
log-ratio; blocks are what is resampled.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.stats import bootstrap, trim_mean

T = TypeVar("T")


def block_order(items: Sequence[T], block: int, seed: int = 0) -> list[T]:
    """The order of the settings in block number `block`: odd blocks mirror the even ones before them.

    >>> block_order("ABC", 0), block_order("ABC", 1), block_order("ABC", 2)
    (['C', 'A', 'B'], ['B', 'A', 'C'], ['B', 'C', 'A'])
    """
    base = np.random.default_rng(seed).permutation(len(items))
    order = [items[i] for i in np.roll(base, block // 2)]
    return order[::-1] if block % 2 else order


def next_turn(n_tokens: Sequence[int], turn: int) -> int:
    """Whose pass is next: the first with the fewest tokens, counted from the other end every other turn.

    >>> next_turn([7, 5, 5], 0), next_turn([7, 5, 5], 1)
    (1, 2)
    """
    fewest = min(n_tokens)
    places = [i for i, n in enumerate(n_tokens) if n == fewest]
    return places[-1] if turn % 2 else places[0]


def middle(values: Sequence[float]) -> float:
    """The mean of the middle half: a block in which something else woke up must not decide.

    >>> round(middle([0.1, 0.11, 0.12, 5.0]), 6)
    0.115
    """
    return float(_middle(np.asarray(values)))


def _middle(values: NDArray[np.float64], axis: int = -1) -> NDArray[np.float64]:
    return np.asarray(trim_mean(values, 0.25, axis=axis))


def interval(log_ratios: Sequence[float], confidence: float = 0.95) -> tuple[float, float, float]:
    """Ratio and its interval from one log-ratio a block: `middle`, and BCa bootstrap over blocks (Efron 1987).

    A single block has no interval: low and high are the ratio itself.
    """
    values = [float(value) for value in log_ratios]
    estimate = exp(middle(values))
    if len(set(values)) < 2:
        return estimate, estimate, estimate
    # BCa needs a jackknife that varies; with a few blocks only the percentile interval exists.
    method: Literal["BCa", "percentile"] = "BCa" if len(values) > 4 else "percentile"
    rng = np.random.default_rng(0)
    result = bootstrap((values,), _middle, confidence_level=confidence, method=method, n_resamples=2000, rng=rng)
    low, high = (exp(bound) for bound in result.confidence_interval)
    return estimate, min(low, estimate), max(high, estimate)
