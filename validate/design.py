"""The order of timed passes, and what a block of them says: pure.

A machine's speed wanders by ten percent and more within a second, which no order of whole runs can cancel. In a block
all settings therefore decode the same prompt side by side, each on a context of its own, and take turns pass by pass:
the one that has the fewest tokens goes next, so that all stand at the same place of the text, see the same machine, and
end together. Ties are drawn by lot: in a fixed order the same one would always follow a calibration pass, or a wide
pass, and be slower for it (1 to 2 % were seen). A block yields one log-ratio; blocks are what is resampled.
"""

from __future__ import annotations

import warnings
from bisect import bisect_left
from collections.abc import Sequence
from math import exp, sqrt
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.stats import DegenerateDataWarning, bootstrap, kendalltau, norm, t, trim_mean

T = TypeVar("T")

FEW = 5
"""Blocks from which on a bootstrap is worth having: of n values it cannot reach beyond the smallest and the largest."""
MOST = 1_000_000
"""Blocks that nobody measures: where a search ends."""
ODD = 4.0
"""Robust standard deviations from the median at which a block is called odd."""


def block_order(items: Sequence[T], block: int, seed: int = 0) -> list[T]:
    """The order of the settings in block number `block`: odd blocks mirror the even ones before them.

    >>> block_order("ABC", 0), block_order("ABC", 1), block_order("ABC", 2)
    (['C', 'A', 'B'], ['B', 'A', 'C'], ['B', 'C', 'A'])
    """
    base = np.random.default_rng(seed).permutation(len(items))
    order = [items[i] for i in np.roll(base, block // 2)]
    return order[::-1] if block % 2 else order


def next_turn(n_tokens: Sequence[int], rng: np.random.Generator) -> int:
    """Whose pass is next: one of those with the fewest tokens, by lot.

    >>> next_turn([7, 5, 6], np.random.default_rng(0))
    1
    """
    fewest = min(n_tokens)
    places = [i for i, n in enumerate(n_tokens) if n == fewest]
    return places[rng.integers(len(places))] if len(places) > 1 else places[0]


def lots(block: int, n_prompt: int) -> np.random.Generator:
    """The lots of a prompt's turns in a block, always the same: who went when can be told from the runs."""
    return np.random.default_rng((block, n_prompt))


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

    Resampling n values is too narrow by sqrt((n - 1) / n) and knows nothing of Student's t, so the confidence asked of
    the bootstrap is expanded by both (Hesterberg 2015, "What Teachers Should Know About the Bootstrap", 3.3). Fewer
    than five blocks get Student's interval. A single block has none: low and high are the ratio itself.
    """
    values = [float(value) for value in log_ratios]
    n, centre = len(values), middle(values)
    if len(set(values)) < 2:
        return exp(centre), exp(centre), exp(centre)
    reach = float(t.ppf((1 + confidence) / 2, n - 1))
    if n < FEW:
        half = reach * float(np.std(values, ddof=1)) / sqrt(n)
        return exp(centre), exp(centre - half), exp(centre + half)
    expanded = 1 - 2 * float(norm.sf(reach * sqrt(n / (n - 1))))
    rng = np.random.default_rng(0)
    with np.errstate(invalid="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", DegenerateDataWarning)
        result = bootstrap((values,), _middle, confidence_level=expanded, method="BCa", n_resamples=4000, rng=rng)
    low, high = (float(bound) for bound in result.confidence_interval)
    # Blocks with ties may leave BCa without a jackknife that varies: the whole range is what is known then.
    low, high = (low, high) if np.isfinite([low, high]).all() else (min(values), max(values))
    return exp(centre), exp(min(low, centre)), exp(max(high, centre))


def half_width(low: float, high: float) -> float:
    """How far an interval of a ratio reaches to either side, as a share of the ratio.

    >>> round(half_width(0.99, 1.01), 4)
    0.0101
    """
    return sqrt(high / low) - 1


def blocks_for(wanted: float, half: float, n_blocks: int) -> int:
    """How many blocks a 95 % interval of half-width `half` over `n_blocks` would need to come to `wanted`.

    The blocks scatter as they do: the interval falls with their root, and with Student's t. `MOST` is more than enough.

    >>> blocks_for(0.01, 0.02, 4), blocks_for(0.01, 0.005, 4)
    (9, 4)
    """
    enough = wanted * _reach(n_blocks)
    return n_blocks + bisect_left(range(n_blocks, MOST), True, key=lambda n: half * _reach(n) <= enough)


def _reach(n: int) -> float:
    """Half of Student's 95 % interval over n blocks, in standard deviations of a block."""
    return float(t.ppf(0.975, n - 1)) / sqrt(n)


def odd(values: Sequence[float], floor: float = 0.02) -> list[int]:
    """The places of values that lie `ODD` robust standard deviations, and more than `floor`, from the median.

    >>> odd([0.10, 0.11, 0.12, 0.11, 0.35]), odd([0.1, 0.5])
    ([4], [])
    """
    if len(values) < 4:
        return []
    away = np.abs(np.asarray(values) - np.median(values))
    bound = max(floor, ODD * 1.4826 * float(np.median(away)))
    return [int(i) for i in np.flatnonzero(away > bound)]


def trend(values: Sequence[float]) -> float:
    """The p-value of values that rise or fall with their place (Kendall's tau, exact for few): a test for drift.

    >>> trend([1, 2, 3, 4, 5, 6, 7, 8]) < 0.001, trend([1.0, 1.0])
    (True, 1.0)
    """
    if len(set(values)) < 2 or len(values) < 4:
        return 1.0
    return float(kendalltau(range(len(values)), values).pvalue)
