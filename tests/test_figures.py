"""The pictures show the records: their artists' data are what was measured, whatever the names look like."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
import warnings
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import matplotlib
import msgspec
import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.text import Text as Label

from costmodel.passcost import Table
from figures import agreement, passcost, speedup, style, timeline
from figures.ratios import ratio_ticks
from figures.text import apart, drawn, plain
from sim.loops import LOOPS
from sim.run import Record
from tests import small_run
from validate.comparison import Cell
from validate.runs import Run


@pytest.fixture(scope="module")
def timed() -> list[Run]:
    return small_run.runs(small_run.PROMPTS)


@pytest.fixture(scope="module")
def cells(timed: list[Run]) -> list[Cell]:
    return small_run.cells(timed)


def by_gid(figure: Figure, gid: str) -> list:
    return figure.findobj(lambda artist: artist.get_gid() == gid)


def headline(figure: Figure) -> str:
    return " ".join(figure.get_suptitle().split())


def labels(figure: Figure) -> list[Label]:
    """Every piece of text that is seen."""
    hidden = {
        id(tick_label)
        for axes in figure.axes
        for axis in (axes.xaxis, axes.yaxis)
        for tick in axis.get_major_ticks() + axis.get_minor_ticks()
        for tick_label in (tick.label1, tick.label2)
        if not tick_label.get_visible()
        or not min(axis.get_view_interval()) <= tick.get_loc() <= max(axis.get_view_interval())
    }
    return [
        label
        for label in figure.findobj(Label)
        if label.get_visible() and label.get_text().strip() and id(label) not in hidden
    ]


def check_layout(figure: Figure) -> None:
    """One column wide; no text leaves the figure, and none lies over another."""
    assert figure.get_figwidth() == pytest.approx(3.3)
    renderer = figure.canvas.get_renderer()
    extents = {label: label.get_window_extent(renderer) for label in labels(figure)}
    assert extents
    for label, box in extents.items():
        assert figure.bbox.padded(1).containsx(box.x0), label.get_text()
        assert figure.bbox.padded(1).containsx(box.x1), label.get_text()
        assert figure.bbox.padded(1).containsy(box.y0), label.get_text()
        assert figure.bbox.padded(1).containsy(box.y1), label.get_text()
        assert label.get_fontsize() >= 5.5
    for (one, a), (other, b) in itertools.combinations(extents.items(), 2):
        assert not a.padded(-1).overlaps(b.padded(-1)), (one.get_text(), other.get_text())


# The style


def luminance(colour: str) -> float:
    """Relative luminance, WCAG 2.2."""
    channels = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def contrast(one: str, other: str) -> float:
    low, high = sorted(map(luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("palette", [style.LIGHT, style.DARK], ids=["light", "dark"])
def test_every_colour_stands_out_from_the_paper(palette: dict[str, str]) -> None:
    assert set(palette) == set(style.LIGHT)
    for name, colour in palette.items():
        if name not in ("paper", "rule"):
            assert contrast(colour, palette["paper"]) >= (4.5 if name in ("ink", "muted") else 3), name


def test_every_loop_has_its_own_mark() -> None:
    assert set(LOOPS) <= set(style.MARKS)
    assert len(set(style.MARKS.values())) == len(style.MARKS)
    assert len({marker for _, marker in style.MARKS.values()}) == len(style.MARKS)
    assert style.marker("a loop of tomorrow") not in {marker for _, marker in style.MARKS.values()}


@pytest.mark.parametrize(
    "sight",
    [
        # Machado, Oliveira, Fernandes 2009, severity 1.0: protanopia, deuteranopia
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    ],
    ids=["protanopia", "deuteranopia"],
)
def test_loops_that_are_compared_differ_for_colour_blind_readers(sight: list[list[float]]) -> None:
    def seen(colour: str) -> np.ndarray:
        srgb = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
        linear = np.clip(np.array(sight) @ (((srgb + 0.055) / 1.055) ** 2.4), 0, 1)
        xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]) @ linear
        f = np.cbrt(xyz / np.array([0.9505, 1, 1.089]))
        return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])

    compared = ("greedy", "gated", "fused", "fused-partial", "gated-held", "carry")
    for one, other in itertools.combinations(compared, 2):
        # 2.3 is just noticeable; 10 is told apart at a glance
        assert np.linalg.norm(seen(style.colour(one)) - seen(style.colour(other))) > 10, (one, other)


def test_pictures_and_the_users_matplotlib_settings_do_not_touch_each_other(cells: list[Cell]) -> None:
    before = dict(matplotlib.rcParams)
    ours = style.rendered(speedup.draw(cells), "svg")
    assert dict(matplotlib.rcParams) == before
    taste = {"font.size": 30, "text.parse_math": True, "savefig.bbox": "tight", "axes.grid": True, "figure.dpi": 20}
    with matplotlib.rc_context(taste):
        assert style.rendered(speedup.draw(cells), "svg") == ours


def test_importing_figures_is_cheap_and_pyplot_is_never_needed() -> None:
    code = (
        "import sys, figures; assert 'matplotlib' not in sys.modules; import figures.report; "
        "print('matplotlib.pyplot' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_saved_files_are_repeatable_embed_their_font_and_need_nothing(tmp_path: Path, cells: list[Cell]) -> None:
    once = style.save(speedup.draw(cells), tmp_path / "new folder" / "a.b")
    again = style.save(speedup.draw(cells), tmp_path / "c")
    assert [path.name for path in once] == ["a.b.svg", "a.b.pdf", "a.b.png"]
    for one, other in zip(once, again, strict=True):
        assert one.read_bytes() == other.read_bytes()
    svg, pdf, png = (path.read_bytes() for path in once)
    assert b"/FontFile2" in pdf  # the TrueType program itself (pdf.fonttype 42)
    assert b"/Type3" not in pdf
    assert png.startswith(b"\x89PNG")
    assert b"<text" not in svg  # letters are outlines: no font is looked for
    assert ElementTree.fromstring(svg).tag.endswith("svg")
    assert not list(tmp_path.rglob("*.part"))


def test_an_inline_picture_takes_its_colours_from_the_page(cells: list[Cell]) -> None:
    figure = speedup.draw(cells)
    svg = style.inline(style.rendered(figure, "svg").decode(), "one", 'said "so" <b>')
    root = ElementTree.fromstring(svg)
    assert root.attrib["aria-label"] == 'said "so" <b>'
    assert "width" not in root.attrib
    assert "viewBox" in root.attrib
    ids = re.findall(r'\bid="([^"]*)"', svg)
    assert ids
    assert all(name.startswith("one-") for name in ids)
    assert {name.removeprefix("#") for name in re.findall(r'href="([^"]*)"', svg)} <= set(ids)
    assert set(re.findall(r"url\(#([^)]*)\)", svg)) <= set(ids)
    assert set(re.findall(r"var\(--(\w+)\)", svg)) <= set(style.LIGHT)
    assert not re.findall(r"#[0-9a-f]{6}\b", svg)  # nothing that would stay black on a dark page
    assert "<!--" not in svg


# c(rows)


def test_the_cost_curve_is_the_table() -> None:
    table = small_run.table()
    figure = passcost.draw(table, n_rows=6, n_past=60)
    (flat,), (linear,) = by_gid(figure, "flat"), by_gid(figure, "linear")
    (bars,) = (c for c in figure.axes[0].containers if isinstance(c, ErrorbarContainer))
    rows, milliseconds = bars.lines[0].get_data()
    assert list(rows) == list(table.n_rows)
    assert milliseconds == pytest.approx([1e3 * table.seconds(64, n, n) for n in table.n_rows])
    assert flat.get_ydata() == pytest.approx([milliseconds[0]] * 2)
    assert linear.get_ydata() == pytest.approx(linear.get_xdata() * milliseconds[0])
    ends = np.array(bars.lines[2][0].get_segments())[:, :, 1]
    assert ends == pytest.approx(1e3 * np.stack([table.low[0], table.high[0]], axis=1))
    assert headline(figure) == "A pass of 6 rows costs 1.95 times one of 1 row"
    check_layout(figure)


@pytest.mark.parametrize(
    ("rows", "factor"),
    [
        ((1, 2, 3, 4, 5, 6), lambda n: n),
        ((1, 2, 3, 4, 5, 6), lambda n: 0.95 * n + 0.05),
        ((1, 6), lambda n: 1 + n / 100),
        ((1, 2, 4, 8, 16, 512), lambda n: 1 + n / 8),
        ((1, 2, 6), lambda n: 1 / n),
        ((1,), lambda n: 1),
        ((2, 6), lambda n: n),
        (tuple(range(1, 65)), lambda n: 1 + n // 4),
    ],
)
def test_any_cost_curve_is_drawn(rows: tuple[int, ...], factor: object) -> None:
    table = Table(rows, (0,), (tuple(0.01 * factor(n) for n in rows),))
    figure = passcost.draw(table)
    check_layout(figure)
    if rows[0] == 1:
        (bars,) = (c for c in figure.axes[0].containers if isinstance(c, ErrorbarContainer))
        assert list(bars.lines[0].get_xdata()) == [n for n in rows if n <= passcost.MOST_ROWS]


# Predicted against measured


def test_every_cell_is_a_point_of_the_agreement(cells: list[Cell]) -> None:
    for baseline in ("greedy", "gated"):
        shown = [cell for cell in cells if cell.baseline == baseline]
        figure = agreement.draw(cells, baseline)
        points, loops = set(), list(dict.fromkeys(cell.loop for cell in shown))
        for container in figure.axes[0].containers:
            loop = loops[int(container.lines[0].get_gid().removeprefix("loop-"))]
            assert to_hex(container.lines[0].get_color()) == style.colour(loop)
            points |= {(loop, x, y) for x, y in zip(*container.lines[0].get_data(), strict=True)}
        assert points == {(cell.loop, cell.measured, cell.predicted) for cell in shown}
        (diagonal,) = by_gid(figure, "diagonal")
        assert list(diagonal.get_xdata()) == list(diagonal.get_ydata())
        assert figure.axes[0].get_xlim() == figure.axes[0].get_ylim()
        assert "miss by 1.0 % on average, 1.0 % at worst" in headline(figure)
        check_layout(figure)


# Speedups


def test_every_cell_has_its_marker_stroke_and_interval(cells: list[Cell]) -> None:
    figure = speedup.draw(cells, "greedy")
    shown = [cell for cell in cells if cell.baseline == "greedy"]
    axes = figure.axes[0]
    for number, cell in enumerate(shown):
        (point,) = by_gid(figure, f"cell-{number}")
        (x,), (y,) = point.get_data()
        assert x == cell.measured
        assert point.get_marker() == style.marker(cell.loop)
        lane = [line for line in axes.lines if next(iter(line.get_ydata())) == y and line is not point]
        assert [cell.low, cell.high] in [list(line.get_xdata()) for line in lane]
        assert [cell.predicted] in [list(line.get_xdata()) for line in lane]
    names = [label.get_text().replace("\n", " ") for label in axes.get_yticklabels()]
    best = {name: max(cell.measured for cell in shown if cell.prompt == name) for name in names}
    assert names == sorted(names, key=lambda name: -best[name])  # the most rewarding on top: the axis points down
    assert axes.yaxis_inverted()
    assert headline(figure).startswith("Guessing pays on 2 of 3 prompts: up to")
    check_layout(figure)


def test_lanes_of_one_loop_are_told_apart(cells: list[Cell]) -> None:
    wider = [msgspec.structs.replace(cell, rows=8, measured=1.1 * cell.measured) for cell in cells]
    words = {label.get_text() for label in labels(speedup.draw([*cells, *wider]))}
    assert {"R=6", "R=8"} <= words
    assert not any("R=" in label.get_text() for label in labels(speedup.draw(cells)))


def test_the_title_says_so_when_nothing_is_gained(cells: list[Cell]) -> None:
    slow = [msgspec.structs.replace(cell, measured=0.9, low=0.88, high=0.93, predicted=0.9) for cell in cells]
    figure = speedup.draw(slow)
    assert headline(figure).startswith("No loop is faster than greedy: 0.90x at best")
    check_layout(figure)


def test_ticks_are_few_round_and_inside() -> None:
    for low, high in itertools.combinations([0.2, 0.7, 0.95, 0.99, 1.01, 1.3, 2.0, 4.0, 30.0], 2):
        ticks = ratio_ticks(low, high)
        assert 1 <= len(ticks) <= 8, (low, high)
        assert sum(low <= tick <= high for tick in ticks) >= 1
        assert ticks == sorted(set(ticks))
        if low < 1 < high < 5:
            assert 1 in ticks


# Timeline


def columns(figure: Figure) -> list[list[tuple[str, float, float, float, float]]]:
    """(gid, x, y, width, height) of every rectangle, lane by lane."""
    return [
        [
            (str(p.get_gid()).partition("-")[0], p.get_x(), p.get_y(), p.get_width(), p.get_height())
            for p in axes.patches
            if isinstance(p, Rectangle)
        ]
        for axes in figure.axes
    ]


@pytest.mark.parametrize("n_tokens", [7, 10_000])
@pytest.mark.parametrize("regime", ["locked", "mixed", "free"])
def test_the_timeline_is_the_passes(regime: str, n_tokens: int) -> None:
    text = small_run.ids(regime)
    gated, fused = (small_run.walk(loop, text) for loop in ("gated", "fused"))
    seen = timeline.window(gated, fused, n_tokens)
    assert sum(r.n_tokens for r in seen.first) == sum(r.n_tokens for r in seen.second) == seen.end - seen.start > 0
    figure = timeline.draw(gated, fused, n_tokens=n_tokens)
    for lane, drawn_lane in zip((seen.first, seen.second), columns(figure), strict=True):
        at, expected = 0.0, []
        for record in lane:
            wrong = record.guessed - record.accepted
            width = 1e3 * record.seconds
            expected.append((record.kind, at, 0, width, record.n_rows - wrong))
            expected += [("wrong", at, record.n_rows - wrong, width, wrong)] if wrong else []
            at += width
        assert [column[0] for column in drawn_lane] == [column[0] for column in expected]
        assert np.array([c[1:] for c in drawn_lane]) == pytest.approx(np.array([c[1:] for c in expected]))
    for axes in figure.axes:
        for patch in axes.patches:
            kind = str(patch.get_gid()).partition("-")[0]
            if kind in style.KINDS:
                assert to_hex(patch.get_facecolor()) == style.LIGHT[style.KINDS[kind]]
    check_layout(figure)


def test_the_interesting_passes_are_reached() -> None:
    seen = set()
    for regime in ("locked", "mixed", "free"):
        for loop in ("gated", "fused"):
            passes = small_run.walk(loop, small_run.ids(regime))
            seen |= {record.kind for record in passes}
            seen |= {"wrong" for record in passes if record.accepted < record.guessed}
    assert seen == {"prefill", "decode", "verify", "chained", "correction", "wrong"}


def test_the_title_names_what_was_saved() -> None:
    gated, fused = (small_run.walk(loop, small_run.ids("locked")) for loop in ("gated", "fused"))
    seen = timeline.window(gated, fused, 60)
    saved = 1 - sum(r.seconds for r in seen.second) / sum(r.seconds for r in seen.first)
    corrections = sum(record.kind == "correction" for record in seen.first)
    assert headline(timeline.draw(gated, fused)) == (
        f"fused needs {100 * saved:.0f} % less time for the same {seen.end - seen.start} tokens: "
        f"{corrections} corrections became none"
    )
    assert "equally long" in headline(timeline.draw(gated, gated))


# Whatever comes


def test_pictures_of_nothing_say_so(cells: list[Cell]) -> None:
    only_prefill = [Record("prefill", 0, 20, 1, 0, 0, 1, 0.05)]
    for figure in (
        agreement.draw([]),
        agreement.draw(cells, "no such baseline"),
        speedup.draw([]),
        timeline.draw([], []),
        timeline.draw(only_prefill, only_prefill),
    ):
        check_layout(figure)
        style.rendered(figure, "png")


def test_one_cell_is_enough(cells: list[Cell]) -> None:
    for draw in (agreement.draw, speedup.draw):
        for cell in cells[:2]:
            figure = draw([cell], cell.baseline)
            check_layout(figure)
    broken = msgspec.structs.replace(cells[0], low=float("nan"), high=float("nan"))
    check_layout(agreement.draw([broken]))
    check_layout(speedup.draw([broken]))


@pytest.mark.parametrize("name", small_run.HOSTILE, ids=range(len(small_run.HOSTILE)))
def test_hostile_names_are_drawn_as_text(name: str, cells: list[Cell], timed: list[Run]) -> None:
    swapped = [
        msgspec.structs.replace(
            cell, prompt=name, model=name, loop=name if cell.loop == "carry" else cell.loop, drafter=name
        )
        for cell in cells[:5]
    ] + cells[5:]
    passes = [run.passes for run in timed if run.loop in ("gated", "fused")][:2]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for figure in (
            speedup.draw(swapped),
            agreement.draw(swapped),
            timeline.draw(*passes, names=(name, "fused")),
        ):
            check_layout(figure)
            assert not any(label.get_parse_math() for label in figure.findobj(Label))
            svg = style.rendered(figure, "svg")
            assert svg == svg.decode("utf-8").encode()
            ElementTree.fromstring(svg)


def test_names_that_differ_only_at_the_end_stay_apart() -> None:
    long = ["same beginning " * 3 + end for end in ("one", "two", "three")]
    shown = apart(long, 20)
    assert len(set(shown.values())) == 3
    assert all(len(label) <= 20 for label in shown.values())


def test_plain_text_has_one_line_a_bound_and_nothing_unseen() -> None:
    for text in small_run.HOSTILE:
        line = plain(text, 50)
        assert len(line) <= 50
        assert line.isprintable()
        assert "\u202e" not in line
        line.encode("utf-8")
        assert "$" in drawn(text, 50) or "$" not in text
