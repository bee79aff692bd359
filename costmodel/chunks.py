"""Array arithmetic in pieces that stay in the processor's cache: several times faster on a million passes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]

CHUNK = 1 << 15  # passes at a time: a few arrays of them fit in 1 MB


def in_chunks(price: Callable[..., Any], *counts: Any) -> Any:
    """`price` of arrays that are broadcast together, piece by piece; a float when nothing is an array.

    >>> in_chunks(lambda a, b: a + 10.0 * b, np.arange(3), 2)
    array([20., 21., 22.])
    """
    arrays = np.broadcast_arrays(*counts)
    shape = arrays[0].shape
    flat = [array.ravel() for array in arrays]
    prices: Array = np.empty(flat[0].size)
    for at in range(0, prices.size, CHUNK):
        some = slice(at, at + CHUNK)
        prices[some] = price(*(array[some] for array in flat))
    return prices.reshape(shape) if shape else float(prices[0])
