"""Errors of all predictions, variant by variant: a dot a cell, held-out cells filled, the bounds asked for as lines."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from figures import style
from figures.text import apart, percent
from validate.accuracy_page import MEAN, WORST
from validate.effects import Judged
from validate.verdict import errors


@style.styled
def draw(cells: Sequence[Judged]) -> Figure:
    """One dot a cell at its error in percent, spread out over its variant's column; filled where held out."""
    figure = style.page(3.3)
    if not cells:
        return style.nothing(figure, "Nothing to compare yet", "No cell was measured.")
    axes = figure.add_subplot()
    style.grid(axes, "y")
    variants = list(dict.fromkeys(cell.variant for cell in cells))
    names = apart(variants, 16)
    rng = np.random.default_rng(0)
    for bound, line in ((MEAN, "dotted"), (WORST, "dashed")):
        for sign in (-1, 1):
            axes.axhline(sign * 100 * bound, color=style.LIGHT["muted"], linewidth=0.7, linestyle=line)
    for column, variant in enumerate(variants):
        for held in (False, True):
            some = [cell for cell in cells if cell.variant == variant and bool(cell.held_out) == held]
            x = column + rng.uniform(-0.32, 0.32, len(some))
            axes.plot(
                x,
                [100 * cell.error() for cell in some],
                linestyle="none",
                marker="o",
                markersize=3,
                color=style.colour("fused"),
                markerfacecolor=style.colour("fused") if held else style.LIGHT["paper"],
                markeredgewidth=0.6,
                gid=f"cells-{column}-{'held-out' if held else 'developed-on'}",
            )
    axes.set_xticks(range(len(variants)), [names[variant] for variant in variants])
    axes.set_xlim(-0.6, len(variants) - 0.4)
    axes.set_ylabel("predicted / measured - 1, %")
    out = [cell for cell in cells if cell.held_out]
    found = errors(out or cells)
    style.title(
        figure,
        f"{'Held-out predictions' if out else 'Predictions'} miss by {percent(found.mean)} on average,"
        f" {percent(found.worst)} at worst ({found.n} cells; open dots: developed on)",
    )
    return figure
