"""An axis of speedups: logarithmic, labelled 1x, 1.2x, 1.5x, ... where there is room."""

from __future__ import annotations

import math
from typing import Literal

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator


def ratio_ticks(low: float, high: float, most: int = 7) -> list[float]:
    """Round speedups between `low` and `high`, 1 among them when it is inside, at most about `most` of them.

    >>> ratio_ticks(0.9, 2.1)
    [1.0, 1.2, 1.4, 1.6, 1.8, 2.0]
    >>> ratio_ticks(0.97, 1.04)
    [0.98, 1.0, 1.02, 1.04]
    """
    for width in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0):
        first, last = math.ceil(low / width - 1e-9), math.floor(high / width + 1e-9)
        if last - first + 1 <= most:
            ticks = [round(i * width, 2) for i in range(max(first, 1), last + 1)]
            return ticks if ticks else [round(math.sqrt(low * high), 3)]
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [10.0**decade for decade in decades]


def log_ratio_axis(axes: Axes, axis: Literal["x", "y"] | str, low: float, high: float) -> None:
    """The axis from `low` to `high`, logarithmic, with round ticks that say `x`."""
    it = axes.xaxis if axis == "x" else axes.yaxis
    (axes.set_xscale if axis == "x" else axes.set_yscale)("log")
    (axes.set_xlim if axis == "x" else axes.set_ylim)(low, high)
    it.set_major_locator(FixedLocator(ratio_ticks(low, high)))
    it.set_major_formatter(FuncFormatter(lambda ratio, _: f"{ratio:g}x"))
    it.set_minor_locator(NullLocator())
