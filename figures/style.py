"""One look for all pictures: legible at one column (3.3 in), for the colour-blind, in print and on screen.

Colours follow Okabe and Ito (2008, "Color Universal Design"), darkened until each has a contrast of at least
3:1 against white (WCAG 2.2, 1.4.11); a loop has its own marker too, so that no reading hangs on colour. The
same names have a second set of values for dark pages: `inline` puts `var(--name)` where a colour stands.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec

import matplotlib
from markupsafe import escape
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text as Label
from numpy import array_split

from figures.text import ems, wrapped
from validate.files import write

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

P = ParamSpec("P")

COLUMN_INCHES = 3.3
LIGHT = {
    "ink": "#1f2328",
    "muted": "#5f666e",
    "rule": "#d5d9de",
    "paper": "#ffffff",
    "black": "#404040",
    "blue": "#0062a3",
    "sky": "#3c97d3",
    "orange": "#c4480c",
    "amber": "#bf8700",
    "green": "#00956f",
    "pink": "#be62a6",
    "grey": "#6e6e6f",
    "ash": "#919498",
}
DARK = {
    "ink": "#e6e8eb",
    "muted": "#a3abb5",
    "rule": "#3a4048",
    "paper": "#16181d",
    "black": "#dadada",
    "blue": "#5b9df0",
    "sky": "#9ad3f7",
    "orange": "#f07f3c",
    "amber": "#e8b93a",
    "green": "#1fb389",
    "pink": "#d97fc0",
    "grey": "#a8a8a9",
    "ash": "#7c8188",
}

MARKS: dict[str, tuple[str, str]] = {
    "greedy": ("black", "s"),
    "gated": ("orange", "o"),
    "fused": ("blue", "D"),
    "fused-partial": ("sky", "v"),
    "gated-held": ("pink", "P"),
    "carry": ("green", "^"),
    "decode-then-speculate": ("amber", "X"),
    "padded": ("grey", "<"),
    "dummy": ("grey", ">"),
    "re-anchor": ("grey", "p"),
    "replay": ("grey", "h"),
}
KINDS = {
    "prefill": "ash",
    "decode": "black",
    "verify": "amber",
    "chained": "blue",
    "correction": "orange",
    "replay": "pink",
}
RC: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 7,
    "axes.titlesize": 8,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 7,
    "xtick.labelsize": 6.5,
    "ytick.labelsize": 6.5,
    "legend.fontsize": 6.5,
    "legend.frameon": False,
    "text.parse_math": False,
    "text.usetex": False,
    "text.color": LIGHT["ink"],
    "axes.labelcolor": LIGHT["ink"],
    "axes.edgecolor": LIGHT["muted"],
    "xtick.color": LIGHT["muted"],
    "ytick.color": LIGHT["muted"],
    "xtick.labelcolor": LIGHT["ink"],
    "ytick.labelcolor": LIGHT["ink"],
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "axes.unicode_minus": True,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "lines.linewidth": 1.2,
    "lines.markersize": 4,
    "figure.facecolor": LIGHT["paper"],
    "axes.facecolor": "none",
    "savefig.facecolor": LIGHT["paper"],
    "savefig.edgecolor": "none",
    "pdf.fonttype": 42,
    "svg.fonttype": "path",
    "svg.hashsalt": "sweepcap",
}


def colour(loop: str) -> str:
    """A loop's colour, the same in every picture; grey for loops that have none of their own."""
    return LIGHT[MARKS.get(loop, ("grey", "d"))[0]]


def marker(loop: str) -> str:
    """A loop's marker, the same in every picture."""
    return MARKS.get(loop, ("grey", "d"))[1]


@contextmanager
def look() -> Iterator[None]:
    """This style and nothing else, whatever the user's matplotlibrc says; afterwards all is as before."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(RC)
        yield


def styled(draw: Callable[P, Figure]) -> Callable[P, Figure]:
    """`draw` in this style; nothing stays behind in matplotlib, and no text is taken for mathematics."""

    @wraps(draw)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> Figure:
        with look():
            figure = draw(*args, **kwargs)
            FigureCanvasAgg(figure)
            figure.draw_without_rendering()  # arranges the parts, and makes every tick while this style holds
            figure.set_layout_engine(None)  # done: saving need not arrange again
        for label in figure.findobj(Label):
            label.set_parse_math(False)
        return figure

    return wrapper


def page(height: float, width: float = COLUMN_INCHES) -> Figure:
    """An empty figure, inches; its parts arrange themselves."""
    return Figure(figsize=(width, height), layout="constrained")


def title(figure: Figure, finding: str, width: int = 43) -> None:
    """The finding as the title of the whole figure, flush left, wrapped at `width` average letters a line."""
    figure.suptitle(wrapped(finding, width), x=0.012, ha="left", fontsize=8, fontweight="bold", linespacing=1.25)


def nothing(figure: Figure, finding: str, why: str) -> Figure:
    """The figure when there is nothing to draw: it says so."""
    title(figure, finding)
    axes = figure.add_subplot()
    axes.set_axis_off()
    axes.text(0.5, 0.5, wrapped(why, 44), ha="center", va="center", transform=axes.transAxes)
    return figure


def on_paper() -> dict[str, Any]:
    """A box behind a text that would otherwise be crossed by lines."""
    return {"facecolor": LIGHT["paper"], "edgecolor": "none", "pad": 0.8}


def grid(axes: Axes, which: str) -> None:
    """Faint lines behind the data, across the axis `which` (x, y or both)."""
    axes.set_axisbelow(True)
    axes.grid(True, axis=which, color=LIGHT["rule"], linewidth=0.5)  # type: ignore[arg-type]


def keys(figure: Figure, handles: Sequence[Artist], names: Sequence[str]) -> None:
    """A key under the picture, in as many columns as the names leave room for."""
    widths = [RC["legend.fontsize"] * (max(map(ems, name.split("\n"))) + 2.1) for name in names]

    def width(n_columns: int) -> float:
        return sum(float(max(column)) for column in array_split(widths, n_columns))

    room = 72 * figure.get_figwidth() - 4
    figure.legend(
        handles,
        names,
        loc="outside lower left",
        ncols=next((n for n in range(len(names), 1, -1) if width(n) <= room), 1),
        handlelength=0.8,
        handleheight=0.8,
        handletextpad=0.4,
        columnspacing=0.9,
        labelspacing=0.3,
        borderpad=0.1,
    )


def save(figure: Figure, stem: Path, formats: tuple[str, ...] = ("svg", "pdf", "png")) -> list[Path]:
    """The files written, one a format, each whole or not at all; equal figures give equal bytes."""
    paths = []
    for form in formats:
        path = stem.with_name(f"{stem.name}.{form}")
        write(path, rendered(figure, form))
        paths.append(path)
    return paths


def rendered(figure: Figure, form: str) -> bytes:
    """The figure's bytes as `svg`, `pdf` or `png`."""
    undated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(form)
    buffer = io.BytesIO()
    with look():
        figure.savefig(buffer, format=form, dpi=220, metadata=undated)
    return buffer.getvalue()


def inline(svg: str, name: str, described: str) -> str:
    """A figure's SVG file as an element of a page that defines `--ink`, `--blue`, ... for light and for dark.

    Ids get `name` in front, so that several pictures share a page. `described` is what a screen reader says.
    """
    svg = re.sub(r"<!--.*?-->", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    svg = re.sub(r"\s*<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", svg)
    names = {value: key for key, value in LIGHT.items()}
    svg = re.sub(r"#[0-9a-f]{6}\b", lambda found: f"var(--{names[found[0]]})" if found[0] in names else found[0], svg)
    svg = re.sub(r' (width|height)="[0-9.]+pt"', "", svg, count=2)
    return svg.replace("<svg ", f'<svg role="img" aria-label="{escape(described)}" ', 1).strip()
