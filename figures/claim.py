"""One claim of the preprint in a picture: what was printed, what is possible, what is predicted and measured here."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from figures import style
from figures.ratios import log_ratio_axis
from figures.text import drawn, times
from validate.claimed import Line, Point

LOOKS = {
    "claimed": ("orange", "s", "printed"),
    "cap": ("muted", "|", "cap"),
    "predicted": ("sky", "|", "predicted"),
    "measured": ("blue", "o", "measured here"),
}
LANE_INCHES = 0.17


def draw(line: Line) -> Figure:
    """Speedups on one scale, or counts as bars; the title is the verdict."""
    return _scale(line) if line.points else _bars(line)


@style.styled
def _scale(line: Line) -> Figure:
    figure = style.page(1.25 + LANE_INCHES * len(line.points))
    axes = figure.add_subplot()
    style.grid(axes, "x")
    claimed = [point for point in line.points if point.kind == "claimed"]
    for point in claimed:
        axes.axvspan(point.low, point.high, color=style.LIGHT["orange"], alpha=0.12, linewidth=0)
    for y, point in enumerate(line.points):
        _lane(axes, y, point)
    ends = [end for point in line.points for end in (point.low, point.high)]
    log_ratio_axis(axes, "x", min([0.97, *ends]) / 1.03, max([1.03, *ends]) * 1.05)
    axes.axvline(1, color=style.LIGHT["muted"], linewidth=0.8, zorder=0)
    axes.set_yticks(range(len(line.points)), [drawn(point.label, 26) for point in line.points])
    axes.set_ylim(len(line.points) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set_xlabel(f"{line.claim.loop} over gated")
    kinds = [kind for kind in LOOKS if any(point.kind == kind for point in line.points)]
    handles = [
        Line2D([], [], linestyle="none", marker=mark, color=style.LIGHT[colour], markeredgewidth=1.4)
        for colour, mark, _ in (LOOKS[kind] for kind in kinds)
    ]
    style.keys(figure, handles, [LOOKS[kind][2] for kind in kinds])
    style.title(figure, _finding(line))
    return figure


def _lane(axes: Axes, y: int, point: Point) -> None:
    colour, mark, _ = LOOKS[point.kind]
    axes.plot([point.low, point.high], [y, y], color=style.LIGHT[colour], linewidth=1.3, solid_capstyle="butt")
    ends = [point.low, point.high] if point.kind == "claimed" else [point.value]
    axes.plot(
        ends,
        [y] * len(ends),
        linestyle="none",
        marker=mark,
        markersize=4 if mark != "|" else 7,
        markeredgewidth=1.4 if mark == "|" else 0,
        color=style.LIGHT[colour],
        gid=f"{point.kind}-{y}",
    )


@style.styled
def _bars(line: Line) -> Figure:
    figure = style.page(1.0 + LANE_INCHES * len(line.counts))
    axes = figure.add_subplot()
    names = [drawn(name, 26) for name in line.counts]
    axes.barh(range(len(names)), list(line.counts.values()), height=0.62, color=style.LIGHT["blue"])
    for y, count in enumerate(line.counts.values()):
        axes.annotate(str(count), (count, y), xytext=(3, 0), textcoords="offset points", va="center")
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.margins(x=0.12)
    axes.set_xlabel(
        "loops and prompts" if line.claim.kind == "parity" else "1-row passes behind guesses on locked text"
    )
    style.title(figure, _finding(line))
    return figure


def _finding(line: Line) -> str:
    """The verdict, and what it is about in a few numbers."""
    verdict = line.verdict[0].upper() + line.verdict[1:]
    claim = line.claim
    if not line.points:
        n, most = len(line.counts), max(line.counts.values())
        if claim.kind == "parity":
            return f"{verdict}: {next(iter(line.counts.values()))} of {sum(line.counts.values())} texts are greedy's"
        return (
            f"{verdict}: {sum(1 for count in line.counts.values() if 2 * count > most)} of {n} loops pay a correction"
        )
    measured = [point for point in line.points if point.kind == "measured"]
    stated = times(claim.low) if claim.low == claim.high else f"{claim.low:.2f} to {times(claim.high)}"
    stated = f"{verdict}: {stated} {'is the cap where rows are free' if claim.kind == 'cap' else 'printed'}"
    if not measured:
        return f"{stated}, nothing measured here yet"
    low, high = min(p.value for p in measured), max(p.value for p in measured)
    seen = times(low) if times(low) == times(high) else f"{low:.2f} to {times(high)}"
    return f"{stated}, {seen} measured here"
