"""Loops against the number of slots: throughput, TTFT and TPOT, as pictures, a table and a sentence."""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullFormatter, NullLocator

from figures import style
from figures.terminal import emit, emit_table
from sim.replications import Interval
from sim.slots import Limit, Line

PANELS = (
    ("tokens_per_second", 1.0, "tokens per second"),
    ("ttft", 1.0, "TTFT, seconds"),
    ("tpot", 1e3, "TPOT, ms"),
)


@style.styled
def draw(lines: Sequence[Line], criterion: str = "throughput") -> Figure:
    """One panel each for throughput, TTFT and TPOT against the slots; a line a setting, with 95 % intervals.

    `criterion` is what the gain over greedy is of.
    """
    figure = style.page(4.6)
    if not lines:
        return style.nothing(figure, "Nothing was simulated", "There is no line to draw.")
    slots = sorted({line.slots for line in lines})
    settings = list(dict.fromkeys((line.loop, line.rows) for line in lines))
    panels = figure.subplots(len(PANELS), 1, sharex=True)
    for axes, (name, scale, label) in zip(panels, PANELS, strict=True):
        style.grid(axes, "y")
        for number, setting in enumerate(settings):
            mine = sorted((x for x in lines if (x.loop, x.rows) == setting), key=lambda x: x.slots)
            _curve(axes, mine, name, scale, 2 ** (0.02 * (number - (len(settings) - 1) / 2)), number)
        axes.set_ylabel(label)
        axes.set_ylim(bottom=0)
        axes.set_xscale("log", base=2)
        axes.set_xticks(slots, [str(n) for n in slots])
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_minor_formatter(NullFormatter())
    panels[-1].set_xlabel("slots")
    several = len({rows for loop, rows in settings if loop != "greedy"}) > 1
    handles = [
        Line2D([], [], color=style.colour(loop), marker=style.marker(loop), markersize=3.5) for loop, _ in settings
    ]
    style.keys(figure, handles, [f"{loop} R={rows}" if several and rows > 1 else loop for loop, rows in settings])
    style.title(figure, finding(lines, criterion))
    return figure


def _curve(axes: Axes, mine: Sequence[Line], name: str, scale: float, aside: float, number: int) -> None:
    """One setting's means with what is known of their intervals; a little aside, so that intervals do not hide."""
    values: list[Interval] = [getattr(line, name) for line in mine]
    reach = [
        [scale * (end if math.isfinite(end) else 0.0) for end in ends]
        for ends in ([v.mean - v.low for v in values], [v.high - v.mean for v in values])
    ]
    axes.errorbar(
        [line.slots * aside for line in mine],
        [scale * value.mean for value in values],
        yerr=reach,
        color=style.colour(mine[0].loop),
        marker=style.marker(mine[0].loop),
        markersize=3.5,
        linewidth=1.0,
        elinewidth=0.8,
        capsize=1.5,
        gid=f"{name}-{number}",
    )


def finding(lines: Sequence[Line], criterion: str) -> str:
    """Which loop is best with the fewest and with the most slots."""
    slots = sorted({line.slots for line in lines})

    def best(n: int) -> tuple[str, float]:
        gains = [(line.loop, line.gain.mean) for line in lines if line.slots == n and line.gain is not None]
        loop, gain = max(gains, key=lambda item: item[1], default=("greedy", 1.0))
        return (loop, gain) if gain > 1 else ("greedy", 1.0)

    (first, gain), (last, other) = best(slots[0]), best(slots[-1])
    if slots[0] == slots[-1]:
        return f"With {_slots(slots[0])} {first} is best: {gain:.2f} times the {criterion} of greedy"
    return (
        f"{first} gains {gain:.2f}x in {criterion} with {_slots(slots[0])}, "
        + (f"{last} {other:.2f}x" if last != "greedy" else "no loop gains anything")
        + f" with {slots[-1]}"
    )


def show(lines: Sequence[Line], found: Sequence[Limit], title: str, criterion: str) -> None:
    """The table, and where each loop stops paying."""
    emit_table(
        title,
        ("slots", "loop", "R", "tok/s", "TTFT s", "p95", "TPOT ms", "p95", "good/s", "busy", "rows/pass", "wasted",
         "load", f"{criterion} gain", "95 %"),
        [
            (
                x.slots, x.loop, x.rows, f"{x.tokens_per_second.mean:.1f}", f"{x.ttft.mean:.3f}", f"{x.ttft_p95:.3f}",
                f"{1e3 * x.tpot.mean:.2f}", f"{1e3 * x.tpot_p95:.2f}", f"{x.goodput_per_second:.3f}", f"{x.busy:.0%}",
                f"{x.rows_per_pass:.1f}", f"{x.wasted:.0%}", "-" if x.load is None else f"{x.load:.2f}",
                "-" if x.gain is None else f"{x.gain.mean:.3f}x",
                "-" if x.gain is None or not math.isfinite(x.gain.low) else f"{x.gain.low:.3f}-{x.gain.high:.3f}",
            )
            for x in lines
        ],
    )  # fmt: skip
    emit("\n".join(sentence(limit, max(x.slots for x in lines)) for limit in found))


def sentence(limit: Limit, most: int) -> str:
    """Where a setting stops paying, in words.

    >>> sentence(Limit("carry", 6, 4), 8), sentence(Limit("fused", 6, None), 8)
    ('carry R=6 stops paying from 4 slots on', 'fused R=6 pays with up to 8 slots')
    """
    name = f"{limit.loop} R={limit.rows}"
    if limit.stops_paying is None:
        return f"{name} pays with up to {_slots(most)}"
    return f"{name} stops paying from {_slots(limit.stops_paying)} on"


def _slots(n: int) -> str:
    return "1 slot" if n == 1 else f"{n} slots"
