"""Caps by the rows of a pass: what deleting the correction, and what guessing, bring when every draft is right.

over gated    2R/(R+1) where rows are free, and on measured pass costs
over greedy   R c(1)/c(R), the carry loop
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from costmodel.caps import best_rows, full_acceptance_speedup, sweep_cap
from costmodel.passcost import Table
from figures import style
from figures.text import times
from validate.comparison import Cell

MOST_ROWS = 16


@style.styled
def draw(cost: Table, n_past: int, cells: Sequence[Cell] = (), prompt: str = "locked repetition") -> Figure:
    """Both caps on the pass costs at `n_past` cached tokens, and the cells measured on the most repetitive prompt."""
    figure = style.page(3.2)
    rows = [n for n in cost.n_rows if 2 <= n <= MOST_ROWS]
    if 1 not in cost.n_rows or not rows:
        return style.nothing(figure, "There is no cap to draw", "The table lacks passes of one row or of several.")
    curve = {n: cost.seconds(n_past, n, n) for n in (1, *rows)}
    upper, lower = figure.subplots(2, 1, sharex=True)
    ceiling = [float(full_acceptance_speedup("fused", "gated", n, cost, n_past=n_past)) for n in rows]
    gains = [float(full_acceptance_speedup("carry", "greedy", n, curve)) for n in rows]
    flat = [float(sweep_cap(n)) for n in rows]
    _curve(upper, rows, flat, "muted", "rows free: 2R/(R+1)", dashed=True)
    close = max(ceiling) > max(flat) - 0.2 * (max(flat) - 1)
    _curve(upper, rows, ceiling, "blue", "fused over gated, on these costs", below=close)
    _curve(lower, rows, gains, "green", "carry over greedy: R c(1)/c(R)")
    for axes, loop, baseline, line in ((upper, "fused", "gated", ceiling), (lower, "carry", "greedy", gains)):
        _points(axes, [c for c in cells if (c.prompt, c.loop, c.baseline) == (prompt, loop, baseline)])
        axes.set_ylabel(f"over {baseline}")
        low = min([1.0, *line])
        top = max([*(flat if axes is upper else []), *line, 1.0])
        axes.set_ylim(low - 0.12 * (top - low + 0.2), top + 0.3 * (top - low + 0.2))
        axes.axhline(1, color=style.LIGHT["muted"], linewidth=0.7, zorder=0)
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}x")
        style.grid(axes, "y")
    lower.set_xlabel("R, rows of a guessing pass")
    lower.set_xlim(rows[0] - 0.4, rows[-1] + 0.4)
    lower.xaxis.set_major_locator(MaxNLocator(nbins=9, integer=True, min_n_ticks=1))
    style.title(figure, _finding(rows, ceiling, curve))
    return figure


def _curve(
    axes: Axes,
    rows: list[int],
    values: list[float],
    colour: str,
    words: str,
    *,
    dashed: bool = False,
    below: bool = False,
) -> None:
    """A curve, its name above (or below) its right end."""
    line: str | tuple[int, tuple[int, int]] = (0, (4, 2)) if dashed else "-"
    axes.plot(rows, values, color=style.LIGHT[colour], linestyle=line, gid=colour)
    axes.annotate(
        words,
        (rows[-1], (min if below else max)(values[len(values) // 2 :])),
        xytext=(0, -4 if below else 4),
        textcoords="offset points",
        ha="right",
        va="top" if below else "bottom",
        color=style.LIGHT[colour],
    )


def _points(axes: Axes, cells: Sequence[Cell]) -> None:
    """Measured cells with their intervals, named by what they are."""
    for cell in cells:
        reach = np.maximum([[cell.measured - cell.low], [cell.high - cell.measured]], 0)
        bars = axes.errorbar(
            [cell.rows],
            [cell.measured],
            yerr=np.nan_to_num(reach),
            color=style.LIGHT["ink"],
            marker=style.marker(cell.loop),
            markersize=4.5,
            capsize=2,
            elinewidth=0.9,
            linestyle="none",
            zorder=3,
        )
        bars.lines[0].set_gid("measured")
    if cells:
        last = cells[-1]
        axes.annotate(
            "measured",
            (last.rows, min(last.low, last.measured)),
            xytext=(0, -4),
            textcoords="offset points",
            ha="right",
            va="top",
            color=style.LIGHT["ink"],
            bbox=style.on_paper(),
        )


def _finding(rows: list[int], ceiling: list[float], curve: dict[int, float]) -> str:
    at = rows.index(6) if 6 in rows else len(rows) - 1
    best, gain = best_rows(curve)
    words = f"At {rows[at]} rows {times(ceiling[at])} of the cap of {times(float(sweep_cap(rows[at])))} is left"
    if best == 1:
        return words + "; no row count pays, even if all drafts are right"
    return words + f"; guessing brings {times(float(gain))} at most, with {best} rows"
