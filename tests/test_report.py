"""The page opens with the answer, shows every cell, and stays whole whatever the names in it look like."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
import tempfile
import unicodedata
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest

from costmodel.caps import sweep_cap
from figures import report, style
from figures.answer import answer, standings
from sim.loops import LOOPS
from tests import small_run
from validate.comparison import Cell, Comparison, Parity
from validate.runs import Run

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)


class Page(HTMLParser):
    """The page's visible text in order, its table, and every start tag."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.rows: list[list[str]] = []
        self.texts: list[str] = []
        self._silent = self._in_body = self._in_cell = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._in_body |= tag == "body"
        if tag in ("script", "style", "svg"):
            self._silent = True
        elif tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")
            self._in_cell = True

    def handle_endtag(self, tag: str) -> None:
        if tag in ("script", "style", "svg"):
            self._silent = False
        elif tag in ("td", "th"):
            self._in_cell = False

    def handle_data(self, data: str) -> None:
        if self._in_body and not self._silent and data.strip():
            self.texts.append(" ".join(data.split()))
            if self._in_cell:
                self.rows[-1][-1] += data


@pytest.fixture(scope="module")
def timed() -> list[Run]:
    return small_run.runs(small_run.PROMPTS)


@pytest.fixture(scope="module")
def cells(timed: list[Run]) -> list[Cell]:
    return small_run.cells(timed)


@pytest.fixture(scope="module")
def page(cells: list[Cell], timed: list[Run]) -> str:
    return report.render(
        small_run.comparison(cells, warnings=("The load was 1.7 before block 3.",)),
        small_run.profile(caveats=("The clock was not steady.",)),
        timed,
        small_run.texts(small_run.PROMPTS),
        header=small_run.header(),
        command="sweepcap run --model small.gguf --out here",
    )


@pytest.fixture(scope="module")
def hostile_page() -> str:
    """Every hostile string as a prompt, and as model, loop, drafter, path, warning and environment."""
    prompts = dict.fromkeys(small_run.HOSTILE, "locked")
    timed = small_run.runs(prompts, ("greedy", "gated", "fused"))
    strange = [
        msgspec.structs.replace(
            cell,
            model=cell.prompt,
            drafter=cell.prompt,
            loop=cell.prompt if cell.loop == "gated" else cell.loop,
        )
        for cell in small_run.cells(timed)
    ]
    odd = "".join(small_run.HOSTILE)
    whole = small_run.comparison(
        strange, environment={odd: {odd: [odd, odd]}, "x": odd}, warnings=small_run.HOSTILE, complete=False
    )
    return report.render(
        whole,
        small_run.profile(caveats=small_run.HOSTILE, model=odd, source=odd),
        timed,
        [msgspec.structs.replace(text, prompt=text.name) for text in small_run.texts(prompts)],
        header=small_run.header(model=odd, model_hash=odd),
        command=f"sweepcap run --model {odd}",
    )


def scaled(cells: list[Cell], factor: float) -> Comparison:
    """The same cells, every loop `factor` times as fast."""
    fields = ("measured", "low", "high", "predicted", "predicted_low", "predicted_high")
    return small_run.comparison(
        [msgspec.structs.replace(cell, **{name: factor * getattr(cell, name) for name in fields}) for cell in cells]
    )


# What it says


def test_the_page_opens_with_the_answer(page: str, cells: list[Cell]) -> None:
    seen = Page(page).texts
    over_gated = {cell.prompt: cell.measured for cell in cells if (cell.loop, cell.baseline) == ("fused", "gated")}
    best, least = max(over_gated, key=over_gated.__getitem__), min(over_gated, key=over_gated.__getitem__)
    verdict, sentence = seen[1], seen[2]
    assert verdict.startswith(("Speculate here, with ", "Speculate only where text repeats, with "))
    assert sentence.startswith(
        f"On this machine fused gains {over_gated[best]:.2f}x over gated on {best} "
        f"and {over_gated[least]:.2f}x on {least}; the cap is 12/7 = 1.71x "
    )
    table = small_run.table()
    ratio = table.seconds(64, 6, 6) / table.seconds(64, 1, 1)
    assert f"(6/7)(1 + c1/c6) = {6 / 7 * (1 + 1 / ratio):.2f}x" in sentence
    assert sweep_cap(6) * 7 == 12


def test_it_says_whether_to_speculate_at_all(cells: list[Cell]) -> None:
    assert answer(scaled(cells, 0.2)).headline == "Do not speculate here"
    assert answer(scaled(cells, 5.0)).headline.startswith("Speculate here, with ")
    spread = {"locked repetition": 1.5, "now and then": 1.0, "free text": 0.6}
    mixed = [
        msgspec.structs.replace(cell, measured=value, low=value - 0.02, high=value + 0.02)
        for cell in cells
        for value in [spread[cell.prompt]]
    ]
    told = answer(small_run.comparison(mixed))
    assert told.headline.startswith("Speculate only where text repeats, with ")
    assert "pays on locked repetition and costs time on free text" in told.sentence
    assert answer(small_run.comparison([])).headline == "Nothing is compared yet"


def test_the_best_loop_is_the_one_with_the_largest_geometric_mean(cells: list[Cell]) -> None:
    means: dict[str, float] = {}
    for loop in ("gated", "fused", "carry"):
        product = 1.0
        for cell in cells:
            if (cell.loop, cell.baseline) == (loop, "greedy"):
                product *= cell.measured
        means[loop] = product ** (1 / 3)
    found = standings(cells, "greedy")
    assert [s.key[0] for s in found] == sorted(means, key=lambda loop: -means[loop])
    for standing in found:
        assert standing.mean == pytest.approx(means[standing.key[0]])
    assert len(standings(cells[:-1], "greedy")) >= 2  # a loop that misses a prompt is not ranked with the others


def test_the_trust_line_names_the_errors_the_texts_and_the_time_outside(cells: list[Cell]) -> None:
    worst = msgspec.structs.replace(cells[3], predicted=1.07 * cells[3].measured)
    some = [*cells[:3], worst, *cells[4:]]
    trust = answer(small_run.comparison(some)).trust
    mean = (0.01 * (len(cells) - 1) + 0.07) / len(cells)
    assert f"miss by {100 * mean:.1f} % on average over {len(cells)} cells" in trust
    assert f"the worst is +7.0 %, {worst.loop} over {worst.baseline} on {worst.prompt}" in trust
    assert "Every loop wrote greedy's text." in trust
    assert "0.42 % of the timed loops was spent outside llama.cpp" in trust


def test_the_table_holds_every_cell(page: str, cells: list[Cell]) -> None:
    group, head, *body = Page(page).rows
    assert [name for name in group if name] == ["over greedy", "over gated"]
    assert head == [
        *("prompt", "loop"),
        *("predicted", "measured", "error") * 2,
        *("passes", "rows", "text"),
    ]
    assert len(body) == len({(cell.prompt, cell.loop) for cell in cells})
    for cell in cells:
        (row,) = (row for row in body if row[:2] == [cell.prompt, cell.loop])
        at = 2 if cell.baseline == "greedy" else 5
        assert row[at : at + 3] == [
            f"{cell.predicted:.2f}x",
            f"{cell.measured:.2f}x [{cell.low:.2f}, {cell.high:.2f}]",
            "+1.0 %",
        ]
        assert row[8:] == [str(cell.n_passes), str(cell.n_rows), "same"]
    assert ["–"] * 3 in [row[5:8] for row in body]  # gated over itself is no number


def test_rows_drafters_and_models_get_a_column_where_they_differ(cells: list[Cell]) -> None:
    other = [msgspec.structs.replace(cell, rows=8, drafter="n-gram map", model="b.gguf") for cell in cells]
    head = Page(report.render(small_run.comparison([*cells, *other]))).rows[1]
    assert {"model", "R", "drafter"} <= set(head)


def test_texts_that_differ_are_told_apart_and_shouted(cells: list[Cell]) -> None:
    tie = Parity(same=False, first_difference=71, margin=0.12, noise=1.8, verdict="tie")
    bug = Parity(same=False, first_difference=5, margin=9.0, noise=1.8, verdict="bug")
    some = [
        msgspec.structs.replace(cells[0], parity=tie),
        msgspec.structs.replace(cells[1], parity=bug),
        *cells[2:],
    ]
    page = Page(report.render(small_run.comparison(some)))
    assert sorted({row[-1] for row in page.rows[2:]}) == ["differs", "same", "tie at 71"]
    (hint,) = (attrs["title"] for tag, attrs in page.tags if tag == "abbr" and "token 71" in str(attrs["title"]))
    assert "0.12" in str(hint)
    assert "1.8" in str(hint)
    lead = page.texts[: page.texts.index("Loop by loop")]
    assert any("from generated token 5 on, beyond the numerical noise" in text for text in lead)
    assert any("1 left the baseline's text at a numerical tie" in text for text in lead)


def test_an_unfinished_run_says_so_in_the_first_line(cells: list[Cell], page: str) -> None:
    unfinished = report.render(small_run.comparison(cells, complete=False, n_blocks=1))
    assert Page(unfinished).texts[0].startswith("This run is unfinished: what follows rests on 1 complete block")
    assert not any("unfinished" in text for text in Page(page).texts)


def test_warnings_environment_command_and_prompts_are_there(page: str) -> None:
    seen = Page(page).texts
    before_the_table = seen[: seen.index("Loop by loop")]
    assert {"The load was 1.7 before block 3.", "The clock was not steady."} <= set(before_the_table)
    for words in (
        "Some CPU",
        "8.0 GiB",
        "0.1, 0.2",
        "ab" * 32,
        "0.42 % of the timed loops",
        "sweepcap run --model small.gguf --out here",
        "Please: free text",
    ):
        assert words in seen, words


def test_every_loop_is_said_in_plain_words_on_hover(page: str) -> None:
    words = report.loop_words(LOOPS)
    for loop, told in words.items():
        assert told.endswith("."), loop
        assert told.replace("`", "").split(maxsplit=1)[0] in str(LOOPS[loop].__doc__)
        assert "\n" not in told
    hints = {attrs["title"] for tag, attrs in Page(page).tags if tag == "abbr"}
    assert hints == {words[loop] for loop in ("gated", "fused", "carry")}
    assert report.loop_words(["a loop of tomorrow"]) == {"a loop of tomorrow": ""}


# What it is


def test_the_page_needs_nothing_from_elsewhere(page: str, hostile_page: str) -> None:
    for text in (page, hostile_page):
        for tag, attrs in Page(text).tags:
            assert tag not in ("img", "iframe", "object", "embed", "base", "form")
            for name in ("src", "href", "xlink:href", "action"):
                value = str(attrs.get(name) or "")
                assert value.startswith(("#", "data:,")) or not value, (tag, value)
            assert not [name for name in attrs if name.startswith("on")], tag
        assert sum(tag == "script" for tag, _ in Page(text).tags) == 1
        addresses = set(re.findall(r'(?:https?:)?//[\w.]+\.\w+[^\s"<]*', text))
        assert addresses <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
        ids = [attrs["id"] for _, attrs in Page(text).tags if "id" in attrs]
        assert len(ids) == len(set(ids))


def test_hostile_names_are_text_and_break_nothing(hostile_page: str, page: str) -> None:
    seen, normal = Page(hostile_page), Page(page)
    assert {tag for tag, _ in seen.tags} <= {tag for tag, _ in normal.tags}
    assert not [c for c in hostile_page if unicodedata.category(c) in ("Cc", "Cs", "Cf") and c != "\n"]
    assert len({len(row) for row in seen.rows[1:]}) == 1
    assert len(seen.rows) == 2 + 2 * len(small_run.HOSTILE)
    cells = [cell for row in seen.rows[2:] for cell in row]
    assert max(map(len, cells)) <= 80
    assert any(cell.startswith("<script>alert(1)</script><img src=x") for cell in cells)
    assert any("}}{{ 7 * 7 }}{% raw %}" in cell for cell in cells)
    assert any("$x_1^2$" in cell for cell in cells)
    assert len(hostile_page) < 2_000_000
    hostile_page.encode("utf-8")


@pytest.mark.parametrize("loops", [("greedy",), ("greedy", "carry"), ("gated", "fused"), ("gated",)])
def test_any_choice_of_loops_gives_a_page(loops: tuple[str, ...]) -> None:
    timed = small_run.runs({"only one": "free"}, loops)
    whole = small_run.comparison(small_run.cells(timed))
    zero = [msgspec.structs.replace(cell, measured=0.0, low=0.0, high=0.0) for cell in whole.cells]
    assert report.lines(zero) == []
    for profile in (None, small_run.profile()):
        page = Page(report.render(whole, profile, timed))
        assert len(page.rows) in (0, 2 + len(loops) - 1)
        assert page.texts[1]
    assert not [record for run in timed for record in run.decode if record.guessed]  # and nobody ever guessed


def test_writing_leaves_the_page_and_every_picture(cells: list[Cell], timed: list[Run], tmp_path: Path) -> None:
    folder = tmp_path / "new" / "run"
    path = report.write(folder, small_run.comparison(cells), small_run.profile(), timed)
    assert path == folder / "report.html"
    names = {"speedup", "speedup-over-gated", "timeline", "passcost", "agreement"}
    assert {file.name for file in (folder / "figures").iterdir()} == {
        f"{name}.{form}" for name in names for form in ("svg", "pdf", "png")
    }
    text = path.read_text("utf-8")
    assert text == report.render(small_run.comparison(cells), small_run.profile(), timed)
    assert text.count("<svg ") == len(names)
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="file"):
        report.write(tmp_path / "file", small_run.comparison(cells))


def test_without_a_command_the_page_names_the_model_safely(cells: list[Cell]) -> None:
    spaced = [msgspec.structs.replace(cell, model="my model; rm -rf x.gguf") for cell in cells]
    page = Page(report.render(small_run.comparison(spaced)))
    assert "sweepcap run --model 'my model; rm -rf x.gguf'" in page.texts


# In a browser

MEASURE = """
const frame = document.querySelector("iframe");
frame.addEventListener("load", () => {
  const page = frame.contentDocument, view = frame.contentWindow, root = page.documentElement;
  const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = (c) => c.slice(0, 3).map((v) => v / 255)
    .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const c = rgb(view.getComputedStyle(at).backgroundColor);
      if (c.length === 3 || c[3] > 0) return c;
    }
    return [255, 255, 255];
  };
  const poor = [], walker = page.createTreeWalker(page.body, 4);
  let n = 0;
  for (let node; (node = walker.nextNode());) {
    const parent = node.parentElement;
    if (!node.textContent.trim() || parent.closest("script, svg, style")) continue;
    const ink = rgb(view.getComputedStyle(parent).color);
    const pair = [light(ink), light(behind(parent))].sort((a, b) => b - a);
    n += 1;
    if ((pair[0] + 0.05) / (pair[1] + 0.05) < 4.5) poor.push(node.textContent.trim().slice(0, 40));
  }
  const inside = page.querySelector(".table"), table = page.querySelector("table");
  const rows = () => [...page.querySelectorAll("tbody tr")];
  const column = () => rows().map((row) => Number(row.children[3].dataset.sort));
  const head = page.querySelectorAll("thead tr:last-child button")[3], order = [];
  for (let i = 0; i < 2; i += 1) { head.click(); order.push(column()); }
  const result = {
    width: root.clientWidth, scroll: root.scrollWidth, body: page.body.scrollWidth,
    container: inside.clientWidth, table: table.scrollWidth,
    texts: n, poor, order, sort: head.closest("th").getAttribute("aria-sort"),
    paper: rgb(view.getComputedStyle(page.body).backgroundColor),
    ink: rgb(view.getComputedStyle(page.querySelector("svg g[style*='--ink']") || page.body).fill),
  };
  document.body.dataset.result = JSON.stringify(result);
});
frame.srcdoc = PAGE;
"""


@pytest.fixture(scope="module")
def opened() -> Iterator[object]:
    """A function that opens a page in a frame of some width, and gives what was measured and the console."""
    if CHROMIUM is None:
        pytest.skip("no Chromium is installed: the page is not opened")

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:

        def run(page: str, width: int, scheme: int) -> tuple[dict, list[str]]:
            folder = Path(tempfile.mkdtemp(dir=name))
            source = json.dumps(page).replace("</", "<\\/").replace("<!--", "<\\u0021--")
            outer = folder / "outer.html"
            outer.write_text(
                f'<!doctype html><meta charset="utf-8"><body><iframe style="border:0" width="{width}" '
                f'height="800"></iframe><script>const PAGE = {source};{MEASURE}</script></body>',
                "utf-8",
            )
            done = subprocess.run(
                [
                    *(str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic"),
                    *("--no-first-run", "--disable-background-networking", "--disable-component-update"),
                    *("--disable-sync", f"--user-data-dir={folder / 'profile'}", "--window-size=1400,900"),
                    *("--enable-logging=stderr", f"--blink-settings=preferredColorScheme={scheme}"),
                    *("--virtual-time-budget=4000", "--dump-dom", outer.as_uri()),
                ],
                capture_output=True,
                timeout=120,
                check=False,
            )
            dom = done.stdout.decode("utf-8", "replace")
            console = [line for line in done.stderr.decode("utf-8", "replace").splitlines() if ":CONSOLE" in line]
            found = re.search(r'data-result="([^"]*)"', dom)
            assert found, (dom[-300:], console)
            return json.loads(html.unescape(found[1])), console

        yield run


@pytest.mark.parametrize("scheme", [1, 0], ids=["light", "dark"])
@pytest.mark.parametrize("which", ["page", "hostile_page"])
def test_in_a_browser_the_page_fits_a_phone_and_can_be_read(
    which: str, scheme: int, opened: object, request: pytest.FixtureRequest
) -> None:
    seen, console = opened(request.getfixturevalue(which), 360, scheme)
    assert console == []
    assert 340 <= seen["width"] <= 360  # 15 less where the scroll bar takes its place
    assert seen["scroll"] <= seen["width"]
    assert seen["body"] <= seen["width"]
    assert seen["table"] > seen["container"]  # the table is wider, and scrolls by itself
    assert seen["texts"] > 100
    assert seen["poor"] == []
    palette = style.LIGHT if scheme else style.DARK
    for name in ("paper", "ink"):
        assert seen[name][:3] == [int(palette[name][i : i + 2], 16) for i in (1, 3, 5)], name
    if which == "page":
        up, down = seen["order"]
        assert up == sorted(up)
        assert down == sorted(up, reverse=True)
        assert len(set(up)) > 3
        assert seen["sort"] == "descending"
