"""One loop over another for every pass cost and every acceptance at once.

A loop's passes do not depend on what they cost: for each acceptance the chain is solved once, and every c_R/c_1 prices
its shares of rows (affine between 1 and R, as in `costmodel.implied`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from costmodel.acceptance import iid
from costmodel.throughput import steady


def surface(
    loop: str, baseline: str, n_rows: int, ratios: Sequence[float], acceptances: Sequence[float]
) -> NDArray[np.float64]:
    """Speed-ups in the long run under iid acceptance; shape (len(acceptances), len(ratios)).

    >>> surface("fused", "gated", 6, [1, 6], [1.0]).round(4).tolist()
    [[1.7143, 1.0]]
    """
    return _per_token(baseline, n_rows, ratios, acceptances) / _per_token(loop, n_rows, ratios, acceptances)


def _per_token(loop: str, n_rows: int, ratios: Sequence[float], acceptances: Sequence[float]) -> NDArray[np.float64]:
    extra = np.asarray(ratios, dtype=float) - 1
    lines = []
    for acceptance in acceptances:
        run = steady(loop, iid(acceptance), n_rows)
        slope = sum(share * (n - 1) / (n_rows - 1) for n, share in run.share_of_rows.items())
        lines.append((1 + slope * extra) / run.tokens_per_pass)
    return np.array(lines)
