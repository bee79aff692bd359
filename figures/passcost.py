"""What a pass costs by its rows, c(n), between the two worlds that papers assume.

    flat     c(n) = c(1)      every pass is one sweep over the weights: guessing is free
    linear   c(n) = n c(1)    every row is paid for: guessing gains nothing

A verify pass pays off where the tokens it yields per pass exceed c(n)/c(1).
"""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from costmodel.passcost import Table
from figures import style

MOST_ROWS = 16


@style.styled
def draw(table: Table, n_rows: int = 6, n_past: int | None = None, most_rows: int = MOST_ROWS) -> Figure:
    """c(rows) in milliseconds with 95 % intervals, beside flat and linear cost.

    The measured cached length nearest to `n_past` (default: the middle one) is drawn boldly, the others
    faintly. The title names the cost of `n_rows` rows, or of the nearest row count that was measured.
    """
    figure = style.page(2.5)
    lengths = list(table.n_past)
    chosen = lengths[len(lengths) // 2] if n_past is None else min(lengths, key=lambda p: abs(p - n_past))
    columns = [j for j, n in enumerate(table.n_rows) if n <= most_rows] or [0]
    rows = np.array([table.n_rows[j] for j in columns])
    if rows[0] != 1:
        return style.nothing(figure, "The cost of one row is unknown", "The table has no passes of one row.")
    axes = figure.add_subplot()
    style.grid(axes, "y")

    curves = {p: 1e3 * np.array([table.seconds(p, int(n), int(n)) for n in rows]) for p in lengths}
    cost, i = curves[chosen], lengths.index(chosen)
    low, high = (
        cost if bound is None else 1e3 * np.array([bound[i][j] for j in columns]) for bound in (table.low, table.high)
    )
    if len(lengths) > 1:
        everything = np.stack(list(curves.values()))
        axes.fill_between(
            rows, everything.min(0), everything.max(0), color=style.LIGHT["blue"], alpha=0.13, linewidth=0
        )
    _between_two_worlds(axes, rows, cost[0], top=1.4 * max(high.max(), cost.max()))
    axes.errorbar(
        rows,
        cost,
        yerr=np.maximum([cost - low, high - cost], 0),
        color=style.LIGHT["blue"],
        marker="o",
        markersize=3.5,
        capsize=2,
        elinewidth=0.9,
    )
    axes.set_xlabel("rows in the pass")
    axes.set_ylabel("milliseconds per pass")
    axes.set_xlim(0.6, rows[-1] + 0.4)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=9, integer=True, min_n_ticks=1))
    _say(axes, rows, cost, len(lengths) > 1, chosen, lengths)

    there = int(np.argmin(abs(rows - n_rows)))
    ratio = cost[there] / cost[0]
    style.title(
        figure,
        "Only passes of one row were measured"
        if there == 0
        else f"A pass of {rows[there]} rows costs {ratio:.2f} times one of 1 row"
        + (": free rows, near enough" if ratio < 1.15 else ""),
    )
    return figure


def _between_two_worlds(axes: Axes, rows: np.ndarray, one_row: float, top: float) -> None:
    """The flat and the linear cost, labelled where they leave the picture."""
    muted = style.LIGHT["muted"]
    axes.set_ylim(0, top)
    last = rows[-1] + 0.4
    axes.plot([1, last], [one_row, one_row], color=muted, linestyle=(0, (4, 2)), linewidth=0.9, gid="flat")
    axes.plot(
        [1, last],
        [one_row, last * one_row],
        color=muted,
        linestyle=(0, (1, 1.5)),
        linewidth=1.1,
        gid="linear",
    )
    axes.annotate(
        "flat: rows are free",
        (last, one_row),
        xytext=(-2, -3),
        textcoords="offset points",
        ha="right",
        va="top",
        color=muted,
    )
    leaves = min(top / one_row, last)
    left = leaves < (1 + last) / 2
    leaves *= 1 if left else 0.7
    axes.annotate(
        "linear: no gain",
        (leaves, leaves * one_row),
        xytext=(5, -1) if left else (-6, 8),
        textcoords="offset points",
        ha="left" if left else "right",
        va="top",
        color=muted,
    )


def _say(axes: Axes, rows: np.ndarray, cost: np.ndarray, several: bool, chosen: int, lengths: list[int]) -> None:
    """What the curve and the band are: above the curve, or below it where it is nearly linear."""
    words = f"measured, {chosen} tokens cached"
    if several:
        words += f"\n(band: {lengths[0]} to {lengths[-1]})"
    below = cost[-1] > 0.6 * rows[-1] * cost[0]
    axes.annotate(
        words,
        (rows[-1], 0.4 * cost[-1] if below else cost.max()),
        xytext=(0, 0 if below else 9),
        textcoords="offset points",
        ha="right",
        va="top" if below else "bottom",
        color=style.LIGHT["blue"],
        linespacing=1.25,
        bbox=style.on_paper(),
    )
