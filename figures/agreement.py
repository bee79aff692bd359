"""Predicted against measured speedup: a model that is right puts every cell on the diagonal.

Both axes are logarithmic, so that a distance from the diagonal is the same error everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from figures import style
from figures.ratios import log_ratio_axis
from figures.text import apart, percent
from validate.comparison import Cell

BAND = 0.05


@style.styled
def draw(cells: Sequence[Cell], baseline: str = "greedy") -> Figure:
    """One point a cell against `baseline`, with both 95 % intervals, the diagonal and 5 % around it."""
    figure = style.page(3.3)
    shown = [cell for cell in cells if cell.baseline == baseline and cell.predicted and cell.measured > 0]
    if not shown:
        return style.nothing(figure, "Nothing to compare yet", f"No loop was measured against {baseline}.")
    axes = figure.add_subplot(aspect="equal")
    style.grid(axes, "both")
    predicted = np.array([[cell.predicted, cell.predicted_low, cell.predicted_high] for cell in shown])
    measured = np.array([[cell.measured, cell.low, cell.high] for cell in shown])
    both = np.concatenate([predicted, measured]).ravel()
    both = both[np.isfinite(both) & (both > 0)]
    low, high = both.min() / 1.06, both.max() * 1.06
    ends = np.array([low, high])
    axes.fill_between(ends, ends * (1 - BAND), ends * (1 + BAND), color=style.LIGHT["rule"], alpha=0.5, linewidth=0)
    axes.plot(ends, ends, color=style.LIGHT["muted"], linewidth=0.8, gid="diagonal")
    names = apart((cell.loop for cell in shown), 22)
    for number, loop in enumerate(names):
        mine = [i for i, cell in enumerate(shown) if cell.loop == loop]
        x, y = measured[mine], predicted[mine]
        bars = axes.errorbar(
            x[:, 0],
            y[:, 0],
            xerr=_reach(x),
            yerr=_reach(y),
            linestyle="none",
            marker=style.marker(loop),
            color=style.colour(loop),
            markersize=4.5,
            markeredgecolor=style.LIGHT["paper"],
            markeredgewidth=0.5,
            elinewidth=0.7,
        )
        bars.lines[0].set_gid(f"loop-{number}")
    for axis in ("x", "y"):
        log_ratio_axis(axes, axis, low, high)
    axes.set_xlabel(f"measured speedup over {baseline}")
    axes.set_ylabel("predicted speedup")
    axes.annotate(
        f"band: {100 * BAND:.0f} %",
        (high, high),
        xytext=(-16, -2),
        textcoords="offset points",
        ha="right",
        va="top",
        color=style.LIGHT["muted"],
        fontsize=6.5,
    )
    handles = [Line2D([], [], linestyle="none", marker=style.marker(loop), color=style.colour(loop)) for loop in names]
    axes.legend(handles, list(names.values()), loc="lower right", handletextpad=0.2, labelspacing=0.35)
    errors = [abs(cell.error) for cell in shown if cell.error is not None]
    style.title(
        figure,
        f"Predictions over {baseline} miss by {percent(float(np.mean(errors)))} on average, "
        f"{percent(max(errors))} at worst ({len(shown)} {'cell' if len(shown) == 1 else 'cells'})",
    )
    return figure


def _reach(values: np.ndarray) -> np.ndarray:
    """How far intervals reach below and above their estimates; shape (2, n)."""
    centre, low, high = values.T
    return np.nan_to_num(np.maximum([centre - low, high - centre], 0))
