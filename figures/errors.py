"""Where the predictions err: what each kind of pass adds to the error of a loop's speedup over greedy."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from figures import style
from figures.text import apart, listed, percent
from validate.split import Share


@style.styled
def draw(shares: Sequence[Share]) -> Figure:
    """One bar a loop, its parts coloured by kind of pass, over and under stacked apart; the diamond is their sum."""
    if not shares:
        return style.nothing(style.page(2.0), "No error to split yet", "No loop was measured beside greedy.")
    loops = list(dict.fromkeys((share.loop, share.rows) for share in shares))
    several = len({rows for _, rows in loops}) > 1
    names = apart((f"{loop} R={rows}" if several else loop for loop, rows in loops), 22)
    figure = style.page(1.25 + 0.19 * len(loops))
    axes = figure.add_subplot()
    style.grid(axes, "x")
    kinds = [kind for kind in style.KINDS if any(share.kind == kind for share in shares)]
    totals = []
    for y, loop in enumerate(loops):
        ends = {True: 0.0, False: 0.0}
        mine = {share.kind: 100 * share.error for share in shares if (share.loop, share.rows) == loop}
        for kind in kinds:
            error = mine.get(kind, 0.0)
            axes.barh(
                y,
                error,
                left=ends[error > 0],
                height=0.62,
                color=style.LIGHT[style.KINDS[kind]],
                edgecolor=style.LIGHT["paper"],
                linewidth=0.35,
                gid=f"{kind}-{y}",
            )
            ends[error > 0] += error
        totals.append(sum(mine.values()))
    axes.plot(
        totals, range(len(loops)), linestyle="none", marker="D", markersize=3.5, color=style.LIGHT["ink"], gid="sum"
    )
    axes.axvline(0, color=style.LIGHT["muted"], linewidth=0.8)
    axes.set_yticks(range(len(loops)), list(names.values()))
    axes.invert_yaxis()
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.margins(x=0.08)
    axes.set_xlabel("error of the predicted speedup over greedy, %")
    handles = [Patch(color=style.LIGHT[style.KINDS[kind]]) for kind in kinds]
    total = Line2D([], [], linestyle="none", marker="D", markersize=3.5, color=style.LIGHT["ink"])
    style.keys(figure, [*handles, total], [*kinds, "sum"])
    style.title(figure, _finding(shares, totals))
    return figure


def _finding(shares: Sequence[Share], totals: Sequence[float]) -> str:
    weights: dict[str, float] = defaultdict(float)
    for share in shares:
        weights[share.kind] += abs(share.error)
    most = max(weights.values())
    kinds = [kind for kind, weight in weights.items() if weight == most]
    worst = max(map(abs, totals)) / 100
    return (
        f"Over all prompts no loop is mispriced by more than {percent(worst)}; most comes from {listed(kinds)} passes"
    )
