"""Speedup by loop and prompt: what there is to gain on which kind of text, and which loop gets it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from figures import style
from figures.ratios import log_ratio_axis
from figures.text import apart, drawn, ems, times, wrapped
from validate.comparison import Cell

LANE_INCHES = 0.12
GAP_LANES = 0.9
AXES_POINTS = 150
MOST_LANES = 200


@style.styled
def draw(cells: Sequence[Cell], baseline: str = "greedy") -> Figure:
    """One band a prompt, the most rewarding on top; in it one marker a loop with its 95 % interval.

    The short upright stroke beside a marker is the predicted speedup. Loops that were run at several row
    counts or with several drafters get one lane each.
    """
    shown = [cell for cell in cells if cell.baseline == baseline and cell.measured > 0][:MOST_LANES]
    if not shown:
        return style.nothing(
            style.page(2.0), "No speedup was measured yet", f"No loop was measured against {baseline}."
        )
    bands: dict[tuple[str, str], list[Cell]] = {}
    for cell in shown:
        bands.setdefault((cell.model, cell.prompt), []).append(cell)
    order = sorted(bands, key=lambda key: -max(cell.measured for cell in bands[key]))
    n_lanes = sum(len(bands[key]) + GAP_LANES for key in order)
    figure = style.page(0.95 + LANE_INCHES * n_lanes)
    axes = figure.add_subplot()
    style.grid(axes, "x")
    ends = [v for c in shown for v in (c.low, c.high, c.measured, c.predicted) if v and math.isfinite(v) and v > 0]
    low, high = min(0.97, *ends) / 1.02, max(1.03, *ends) * 1.04
    axes.axvline(1, color=style.LIGHT["muted"], linewidth=0.9)

    labels = _series(shown)
    prompts = apart((key[1] for key in order), 26)
    named = not any(labels.values()) and _room_for_names(bands[order[0]], low, high)
    places, y = [], 0.0
    for number, key in enumerate(order):
        band = bands[key]
        if number % 2 == 0:
            axes.axhspan(
                y - 0.5 - GAP_LANES / 2,
                y + len(band) - 0.5 + GAP_LANES / 2,
                color=style.LIGHT["rule"],
                alpha=0.35,
                linewidth=0,
            )
        places.append(y + (len(band) - 1) / 2)
        for cell in band:
            _lane(axes, cell, y, labels[_key(cell)], named and number == 0, f"cell-{shown.index(cell)}")
            y += 1
        y += GAP_LANES
    axes.set_ylim(y - 0.5 - GAP_LANES / 2, -0.5 - GAP_LANES / 2)
    axes.set_yticks(places, [wrapped(prompts[key[1]] or "(no name)", 14, 2) for key in order])
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    log_ratio_axis(axes, "x", low, high)
    stroke = " (stroke: predicted)" if any(cell.predicted for cell in shown) else ""
    axes.set_xlabel(f"speedup over {baseline}{stroke}")
    if not named or {cell.loop for cell in shown} - {cell.loop for cell in bands[order[0]]}:
        _keys(figure, shown)
    style.title(figure, _finding(shown, baseline))
    return figure


def _key(cell: Cell) -> tuple[str, int, str]:
    return cell.loop, cell.rows, cell.drafter


def _series(cells: Sequence[Cell]) -> dict[tuple[str, int, str], str]:
    """What is written beside a lane: whatever tells it from the other lanes of its loop, mostly nothing."""
    keys = list(dict.fromkeys(_key(cell) for cell in cells))
    names: dict[tuple[str, int, str], str] = {}
    for loop, rows, drafter in keys:
        same = [key for key in keys if key[0] == loop]
        parts = [f"R={rows}"] if len({key[1] for key in same}) > 1 else []
        parts += [apart((key[2] for key in same), 12)[drafter]] if len({key[2] for key in same}) > 1 else []
        names[loop, rows, drafter] = " ".join(parts)
    return names


def _room_for_names(band: Sequence[Cell], low: float, high: float) -> bool:
    """Whether the loops' names fit left of their markers, as they do where the first prompt gains a lot."""
    left = min(v for c in band for v in (c.low, c.measured, c.predicted) if v and v > 0)
    share = math.log(left / low) / math.log(high / low)
    return share * AXES_POINTS > 6.5 * max(ems(drawn(cell.loop, 22)) for cell in band) + 14


def _lane(axes: Axes, cell: Cell, y: float, label: str, named: bool, gid: str) -> None:
    """Interval, marker, predicted stroke; the loop's name before, what else tells lanes apart behind."""
    colour = style.colour(cell.loop)
    if cell.low > 0 and math.isfinite(cell.high):
        axes.plot([cell.low, cell.high], [y, y], color=colour, linewidth=1.1, solid_capstyle="butt")
    if cell.predicted is not None:
        axes.plot(
            [cell.predicted],
            [y],
            marker="|",
            color=style.LIGHT["ink"],
            markersize=7,
            markeredgewidth=0.8,
            zorder=1.9,
        )
    axes.plot(
        [cell.measured],
        [y],
        marker=style.marker(cell.loop),
        color=colour,
        markersize=4,
        markeredgewidth=0,
        gid=gid,
    )
    ends = [v for v in (cell.low, cell.measured, cell.high, cell.predicted) if v and math.isfinite(v) and v > 0]
    if named:
        words = drawn(cell.loop, 22)
        axes.annotate(
            words,
            (min(ends), y),
            xytext=(-5, -0.5),
            textcoords="offset points",
            ha="right",
            va="center",
            fontsize=6.5,
        )
    if label:
        end = max(ends)
        axes.annotate(label, (end, y), xytext=(4, 0), textcoords="offset points", va="center", fontsize=5.5)


def _keys(figure: Figure, cells: Sequence[Cell]) -> None:
    """One line of markers and names under the picture."""
    loops = apart((cell.loop for cell in cells), 22)
    handles = [Line2D([], [], linestyle="none", marker=style.marker(loop), color=style.colour(loop)) for loop in loops]
    style.keys(figure, handles, list(loops.values()))


def _finding(cells: Sequence[Cell], baseline: str) -> str:
    best = max(cells, key=lambda cell: cell.measured)
    prompt, loop = apart([best.prompt])[best.prompt], apart([best.loop])[best.loop]
    prompts = {(cell.model, cell.prompt) for cell in cells}
    pays = {(cell.model, cell.prompt) for cell in cells if cell.low > 1}
    if best.high <= 1 or not pays:
        return f"No loop is faster than {baseline}: {times(best.measured)} at best, {loop} on {prompt}"
    share = f"{len(pays)} of {len(prompts)} prompts" if len(prompts) > 1 else "this prompt"
    return f"Guessing pays on {share}: up to {times(best.measured)} {baseline}, {loop} on {prompt}"
