"""The passes of two loops over the same text, in time: where `fused` saves what `gated` pays.

A pass is a column as wide as its seconds and as high as its rows; the rows that turned out wrong are pale.
Both loops are shown between two places in the text where both of them stand between passes, so the widths of
the two pictures are seconds for the same tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from figures import style
from figures.text import drawn
from sim.run import Record

LEAD_TOKENS = 3
PALE = 0.3


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of text, in tokens behind the prompt, and the passes of both loops over it."""

    start: int
    end: int
    first: tuple[Record, ...]
    second: tuple[Record, ...]


def window(first: Sequence[Record], second: Sequence[Record], n_tokens: int) -> Window:
    """About `n_tokens` tokens that both loops begin and end between passes, from where their passes part.

    A text shorter than that is shown whole. Passes of the prefill come in when the text begins with them.
    """
    reached = [[0, *accumulate(record.n_tokens for record in records)] for records in (first, second)]
    end_of_text = min(reached[0][-1], reached[1][-1])
    common = sorted(set(reached[0]) & set(reached[1]))
    part = next(
        (at for at, (a, b) in enumerate(zip(first, second, strict=False)) if (a.kind, a.n_rows) != (b.kind, b.n_rows)),
        0,
    )
    start = max(p for p in common if p <= max(reached[0][part] - LEAD_TOKENS, 1 if end_of_text else 0, 0))
    behind = [p for p in common if p > start]
    end = min(behind, key=lambda p: abs(p - start - n_tokens), default=start)
    shown = [
        tuple(record for record, at, to in zip(records, ends, ends[1:], strict=False) if start <= at and to <= end)
        for records, ends in zip((first, second), reached, strict=True)
    ]
    return Window(start, end, *(tuple(r for r in records if r.kind != "prefill") for records in shown))


@style.styled
def draw(
    gated: Sequence[Record],
    fused: Sequence[Record],
    names: tuple[str, str] = ("gated", "fused"),
    n_tokens: int = 60,
) -> Figure:
    """Both loops' passes over about `n_tokens` of the same tokens, coloured by kind.

    `gated` and `fused` are the records of whole runs over one text; `names` what the loops are called.
    """
    figure = style.page(2.55)
    seen = window(gated, fused, n_tokens)
    lanes = (seen.first, seen.second)
    shown = tuple(drawn(name, 18) for name in names)
    if not all(lanes):
        return style.nothing(figure, "There are no passes to show", "The text ended with the prefill.")
    seconds = [sum(record.seconds for record in lane) for lane in lanes]
    upper, lower = figure.subplots(2, 1, sharex=True, sharey=True)
    most_rows = max(record.n_rows for lane in lanes for record in lane)
    for number, (axes, lane, name, total) in enumerate(zip((upper, lower), lanes, shown, seconds, strict=True)):
        _passes(axes, lane, number)
        axes.set_ylim(0, 1.35 * most_rows)
        axes.set_yticks([1, most_rows] if most_rows > 1 else [1])
        axes.tick_params(axis="y", length=0)
        axes.set_ylabel("rows")
        axes.text(0, 1.0, name, transform=axes.transAxes, fontweight="bold", va="bottom")
        count = f"{len(lane)} {'pass' if len(lane) == 1 else 'passes'}, {1e3 * total:.3g} ms"
        if (less := max(seconds) - total) > 0:
            count += f" ({1e3 * less:.3g} ms less)"
            _saved(axes, 1e3 * total, 1e3 * max(seconds), most_rows)
        axes.text(1, 1.0, count, transform=axes.transAxes, ha="right", va="bottom")
    upper.tick_params(axis="x", length=0)
    upper.spines["bottom"].set_visible(False)
    lower.set_xlim(0, 1e3 * max(seconds) * 1.01)
    lower.set_xlabel("milliseconds")
    kinds = [kind for kind in style.KINDS if any(record.kind == kind for lane in lanes for record in lane)]
    handles = [Patch(color=style.LIGHT[style.KINDS[kind]]) for kind in kinds]
    labels: list[str] = list(kinds)
    if any(record.accepted < record.guessed for lane in lanes for record in lane):
        handles.append(Patch(facecolor=style.LIGHT["muted"], alpha=PALE))
        labels.append("wrong rows")
    style.keys(figure, handles, labels)
    style.title(figure, _finding(seen, shown, seconds))
    return figure


def _passes(axes: Axes, records: Sequence[Record], lane: int) -> None:
    """One column a pass: what was right at the bottom, what was guessed wrong on top of it."""
    at = 0.0
    for number, record in enumerate(records):
        width, wrong = 1e3 * record.seconds, record.guessed - record.accepted
        colour = style.LIGHT[style.KINDS.get(record.kind, "grey")]
        parts = [
            Rectangle((at, 0), width, record.n_rows - wrong, facecolor=colour, gid=f"{record.kind}-{lane}-{number}")
        ]
        if wrong:
            parts.append(
                Rectangle(
                    (at, record.n_rows - wrong),
                    width,
                    wrong,
                    facecolor=colour,
                    alpha=PALE,
                    gid=f"wrong-{lane}-{number}",
                )
            )
        for part in parts:
            part.set(edgecolor=style.LIGHT["paper"], linewidth=0.35)
            axes.add_patch(part)
        at += width


def _saved(axes: Axes, end: float, later: float, most_rows: int) -> None:
    """The time between the two ends, as a measure."""
    y = most_rows / 2
    muted = style.LIGHT["muted"]
    axes.annotate(
        "",
        (end, y),
        (later, y),
        arrowprops={"arrowstyle": "<->", "color": muted, "linewidth": 0.8, "shrinkA": 0, "shrinkB": 0},
    )


def _finding(seen: Window, names: tuple[str, ...], seconds: list[float]) -> str:
    """Which loop is through first, and what the other does more."""
    ratio = seconds[0] / seconds[1]
    tokens = f"the same {seen.end - seen.start} tokens"
    corrections = [sum(record.kind == "correction" for record in lane) for lane in (seen.first, seen.second)]
    if seen.first == seen.second or abs(ratio - 1) < 0.005:
        return f"{names[0]} and {names[1]} take equally long for {tokens}"
    sooner, less = (1, 0) if ratio > 1 else (0, 1)
    saved = 1 - seconds[sooner] / seconds[less]
    why = ""
    if ratio > 1 and corrections[0] > corrections[1]:
        why = f": {corrections[0]} corrections became {corrections[1] or 'none'}"
    return f"{names[sooner]} needs {100 * saved:.0f} % less time for {tokens}{why}"
