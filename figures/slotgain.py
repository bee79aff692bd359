"""Throughput against slots, simulated and measured side by side: where each loop stops paying."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullFormatter, NullLocator

from figures import style
from figures.text import drawn, times
from validate.slotcheck import SlotCell


@style.styled
def draw(cells: Sequence[SlotCell]) -> Figure:
    """One panel a workload: simulated throughput as lines, measured as marks with 95 % intervals."""
    if not cells:
        return style.nothing(style.page(2.0), "No slots were measured yet", "sweepcap slots measures them.")
    workloads = list(dict.fromkeys(cell.workload for cell in cells))
    loops = list(dict.fromkeys(cell.loop for cell in cells))
    slots = sorted({cell.n_slots for cell in cells})
    figure = style.page(1.1 + 1.35 * len(workloads))
    panels = np.atleast_1d(figure.subplots(len(workloads), 1, sharex=True))
    for axes, workload in zip(panels, workloads, strict=True):
        style.grid(axes, "y")
        for number, loop in enumerate(loops):
            mine = sorted((c for c in cells if (c.workload, c.loop) == (workload, loop)), key=lambda c: c.n_slots)
            _line(axes, mine, 2 ** (0.03 * (number - (len(loops) - 1) / 2)), f"{workload}-{loop}")
        axes.set_ylabel("tokens per second")
        axes.set_ylim(bottom=0)
        axes.text(0, 1.0, drawn(workload, 30), transform=axes.transAxes, fontweight="bold", va="bottom")
        axes.set_xscale("log", base=2)
        axes.set_xticks(slots, [str(n) for n in slots])
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_minor_formatter(NullFormatter())
    panels[-1].set_xlabel("slots (lines: simulated, marks: measured)")
    handles = [Line2D([], [], color=style.colour(loop), marker=style.marker(loop), markersize=3.5) for loop in loops]
    style.keys(figure, handles, loops)
    style.title(figure, _finding(cells, slots))
    return figure


def _line(axes: Axes, cells: Sequence[SlotCell], aside: float, gid: str) -> None:
    """One loop, a little aside so that intervals do not hide each other."""
    if not cells:
        return
    colour, at = style.colour(cells[0].loop), [cell.n_slots * aside for cell in cells]
    axes.plot(at, [cell.simulated for cell in cells], color=colour, linewidth=0.9, gid=f"simulated-{gid}")
    measured = np.array([[cell.measured, cell.low, cell.high] for cell in cells])
    bars = axes.errorbar(
        at,
        measured[:, 0],
        yerr=np.nan_to_num(np.maximum([measured[:, 0] - measured[:, 1], measured[:, 2] - measured[:, 0]], 0)),
        color=colour,
        marker=style.marker(cells[0].loop),
        markersize=3.5,
        linestyle="none",
        elinewidth=0.8,
        capsize=1.5,
    )
    bars.lines[0].set_gid(f"measured-{gid}")


def _finding(cells: Sequence[SlotCell], slots: Sequence[int]) -> str:
    """The best measured gain with the fewest and with the most slots, over all workloads."""

    def best(n: int) -> SlotCell | None:
        gains = [cell for cell in cells if cell.n_slots == n and cell.gain is not None]
        return max(gains, key=lambda cell: cell.gain or 0.0, default=None)

    first, last = best(slots[0]), best(slots[-1])
    if first is None or last is None or first.gain is None or last.gain is None:
        return "No loop was measured beside greedy"
    words = f"Guessing brings {times(first.gain)} at best in {_slots(slots[0])} ({first.loop})"
    if slots[0] == slots[-1]:
        return words
    if last.gain <= 1:
        return f"{words}, and no loop gains anything in {_slots(slots[-1])}"
    return f"{words}, {times(last.gain)} in {_slots(slots[-1])} ({last.loop})"


def _slots(n: int) -> str:
    return "1 slot" if n == 1 else f"{n} slots"
