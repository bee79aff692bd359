"""Maps over what a pass costs and how often a draft is right: where a loop wins over `gated`, and where it loses.

Every draft is found and right with the same probability (iid). The marks are measured prompts, at the acceptance of
their drafts, filled with the speedup that was measured in the map's own colours.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, LogNorm
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import PercentFormatter

from costmodel.surface import surface
from costmodel.throughput import acceptance_where
from figures import style
from figures.text import percent, times
from validate.evidence import Part

GATED = ("gated", 6)
LEVELS = (0.25, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0, 1.05, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.75)
COLOURS = LinearSegmentedColormap.from_list(
    "loss and gain", [(0.0, style.LIGHT["orange"]), (0.5, "#f7f7f5"), (1.0, style.LIGHT["blue"])]
)
MOST_RATIO = 8.0


@style.styled
def draw(parts: Sequence[Part], loop: str = "fused", contour: float | None = None) -> Figure:
    """`loop` over `gated` at R = 6; break-even drawn boldly, `contour` (a speedup) as a second line."""
    figure = style.page(3.0)
    axes = figure.add_subplot()
    ratios, acceptances = np.linspace(1, MOST_RATIO, 36), np.linspace(0.005, 0.995, 34)
    values = surface(loop, "gated", 6, ratios.tolist(), acceptances.tolist())
    norm = LogNorm(1 / 1.75, 1.75, clip=True)
    filled = axes.contourf(ratios, acceptances, values, LEVELS, cmap=COLOURS, norm=norm, extend="both")
    shown = [1.0] if contour is None else [contour, 1.0]
    lines = axes.contour(
        ratios, acceptances, values, shown, colors=style.LIGHT["ink"], linewidths=[0.9, 1.4][-len(shown) :]
    )
    axes.clabel(lines, fmt=lambda level: "break-even" if level == 1 else times(level), fontsize=6, inline_spacing=2)
    bar = figure.colorbar(filled, ax=axes, ticks=[0.3, 0.5, 0.7, 1.0, 1.3, 1.6], pad=0.02, fraction=0.06)
    bar.ax.set_yticklabels([f"{tick:g}x" for tick in (0.3, 0.5, 0.7, 1.0, 1.3, 1.6)])
    bar.set_label(f"{loop} over gated")
    bar.outline.set_linewidth(0.4)
    misses = _measured(axes, parts, loop, norm)
    axes.set_xlabel("cost of a pass of 6 rows, c(6)/c(1)")
    axes.set_ylabel("drafts that are right")
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.set_xlim(1, MOST_RATIO)
    axes.set_ylim(0, 1)
    if misses:
        mark = Line2D(
            [], [], linestyle="none", marker=style.marker(loop), color="none", markeredgecolor=style.LIGHT["ink"]
        )
        none = max(part.agreement[prompt][1] for part in parts for prompt in part.agreement)
        words = "prompts measured here, filled with the measured speedup"
        if none > 0.005:
            words += f"\n(up to {100 * none:.0f} % of their look-ups find nothing: not in the map)"
        style.keys(figure, [mark], [words])
    style.title(figure, _finding(loop, values, contour, misses, parts))
    return figure


def _measured(axes: Axes, parts: Sequence[Part], loop: str, norm: LogNorm) -> list[tuple[float, float]]:
    """Marks of the measured prompts; (measured, of the map) of each."""
    seen: list[tuple[float, float]] = []
    for part in parts:
        for prompt, (acceptance, _) in part.agreement.items():
            ratio = part.find(prompt, (loop, 6), GATED)
            if ratio is None or not acceptance > 0:
                continue
            axes.scatter(
                [part.ratio6],
                [acceptance],
                s=26,
                marker=style.marker(loop),
                c=[COLOURS(norm(ratio.measured))],
                edgecolors=style.LIGHT["ink"],
                linewidths=0.7,
                zorder=3,
                clip_on=False,
                gid=f"measured-{len(seen)}",
            )
            there = surface(loop, "gated", 6, [part.ratio6], [min(acceptance, 1 - 1e-6)])[0, 0]
            seen.append((ratio.measured, float(there)))
    return seen


def _finding(
    loop: str, values: np.ndarray, contour: float | None, misses: list[tuple[float, float]], parts: Sequence[Part]
) -> str:
    share = float(np.mean(values >= 1))
    if contour is not None:
        here = parts[0].ratio6 if parts else 2.0
        needed = acceptance_where(loop, "gated", 6, here, contour)
        told = (
            f"at c(6)/c(1) = {here:.1f} with drafts right {percent(needed[0])} of the time"
            if needed
            else "nowhere here"
        )
        return f"Chaining after partly wrong guesses falls to {times(contour)} {told}"
    words = f"{loop} beats gated on {percent(share)} of the map"
    if misses:
        wins = sum(measured > 1 for measured, _ in misses)
        words += f", and on {wins} of {len(misses)} prompts here"
    return words
