"""What ran in the slots and on the device, in time: one lane each, one bar a pass, coloured by what it was for."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from figures import style
from sim.history import DevicePass, History

PALE = 0.35
ROOM = 0.012
"""Of the picture's width, for a digit."""


@style.styled
def draw(history: History, name: str = "", n_passes: int = 60) -> Figure:
    """The first passes of a history: the device on top, then a lane a slot; wrong guesses are pale, in their share."""
    figure = style.page(0.95 + 0.2 * (history.slots + 1))
    shown = history.passes[:n_passes]
    if not shown:
        return style.nothing(figure, "There are no passes to show", "Nothing was asked for.")
    axes = figure.add_subplot()
    start, end = shown[0].at - shown[0].drafting, shown[-1].at + shown[-1].seconds
    unit, scale = ("seconds", 1.0) if end - start > 2 else ("milliseconds", 1e3)
    for kind, colour in style.KINDS.items():
        for pale in (False, True):
            _bars(axes, _boxes(shown, kind, pale, start, scale), style.LIGHT[colour], pale, f"{kind}{'-wrong' * pale}")
    _bars(axes, [_box(p, start, scale, -0.4, 0.4) for p in shown], style.LIGHT["muted"], False, "device")
    for p in shown:
        if p.seconds > ROOM * len(str(p.n_rows)) * (end - start):
            place = scale * (p.at + p.seconds / 2 - start)
            axes.text(place, 0, str(p.n_rows), ha="center", va="center", fontsize=4, color=style.LIGHT["paper"])
    axes.set_ylim(history.slots + 0.6, -0.6)
    axes.set_xlim(0, scale * (end - start))
    axes.set_yticks(range(history.slots + 1), ["device, rows", *(f"slot {i}" for i in range(history.slots))])
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set_xlabel(unit)
    kinds = [k for k in style.KINDS if any(record.kind == k for p in shown for record in p.records)]
    handles = [Patch(color=style.LIGHT[style.KINDS[kind]]) for kind in kinds]
    labels: list[str] = list(kinds)
    if any(record.guessed > record.accepted for p in shown for record in p.records):
        handles.append(Patch(facecolor=style.LIGHT["muted"], alpha=PALE))
        labels.append("wrong rows")
    style.keys(figure, handles, labels)
    rows = sum(p.n_rows for p in shown)
    tokens = sum(record.n_tokens for p in shown for record in p.records)
    passes = "1 pass" if len(shown) == 1 else f"{len(shown)} passes"
    style.title(figure, f"{name + ': ' if name else ''}{tokens} tokens from {rows} rows in {passes}")
    return figure


def _box(p: DevicePass, start: float, scale: float, top: float, bottom: float) -> list[tuple[float, float]]:
    left, right = scale * (p.at - start), scale * (p.at + p.seconds - start)
    return [(left, top), (right, top), (right, bottom), (left, bottom)]


def _boxes(
    shown: tuple[DevicePass, ...], kind: str, pale: bool, start: float, scale: float
) -> list[list[tuple[float, float]]]:
    """The right rows of each pass at the bottom of its lane, or the wrong ones on top of them."""
    boxes = []
    for p in shown:
        for slot, record in zip(p.slots, p.records, strict=True):
            share = (record.guessed - record.accepted) / record.n_rows
            lane = slot + 1.4
            if record.kind == kind and (not pale or share):
                ends = (lane - 0.8, lane - 0.8 * (1 - share)) if pale else (lane - 0.8 * (1 - share), lane)
                boxes.append(_box(p, start, scale, *ends))
    return boxes


def _bars(axes: Axes, boxes: list[list[tuple[float, float]]], colour: str, pale: bool, gid: str) -> None:
    if boxes:
        axes.add_collection(
            PolyCollection(boxes, facecolor=colour, alpha=PALE if pale else 1.0, edgecolor=style.LIGHT["paper"],
                           linewidth=0.3, gid=gid)
        )  # fmt: skip
