"""`import sweepcap` in a notebook: every step a function, every result a table that shows itself, frames of polars."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import polars as pl
import pytest

import sweepcap
from costmodel.passcost import Flat
from figures import notebook
from figures.results import Compared, Costs, Texts, Timed
from figures.shown import Shown
from sim.trace import Header
from tests import small_run

pytestmark = pytest.mark.usefixtures("on_any_machine")

PROMPTS = {"again": "ba be bi bo bu " * 4, "once": "ca de fi go hu"}


@pytest.fixture(scope="module")
def texts(tiny: Path) -> Texts:
    return sweepcap.record(PROMPTS, tiny, tokens=12, threads=1)


@pytest.fixture(scope="module")
def costs(tiny: Path, texts: Texts) -> Costs:
    return sweepcap.calibrate(texts, tiny, rows=6, rounds=2, threads=1)


@pytest.fixture(scope="module")
def timed(tiny: Path, texts: Texts) -> Timed:
    return sweepcap.measure(texts, tiny, ["fused", "carry"], blocks=1, threads=1)


def check(shown: Shown, height: int | None = None) -> pl.DataFrame:
    """Text and HTML tell the title and every column; the frame is polars'."""
    text, html = repr(shown), shown._repr_html_()
    assert isinstance(shown.frame, pl.DataFrame)
    assert shown.frame.height > 0 if height is None else shown.frame.height == height
    assert shown.title.split()[0] in text
    for name in shown.frame.columns:
        assert name in text
        assert f"<th>{name}</th>" in html
    assert html.count("<tr>") == 1 + min(shown.frame.height, 20)
    return shown.frame


def test_the_public_names_are_those_of_the_notebook_and_no_command_hides_one() -> None:
    assert set(sweepcap.PUBLIC) == set(notebook.__all__)
    assert {"record", "calibrate", "predict", "measure", "compare", "replay", "sweep", "caps"} <= set(sweepcap.PUBLIC)
    for name in sweepcap.PUBLIC:
        assert getattr(sweepcap, name) is getattr(notebook, name)
        assert name in dir(sweepcap)
    with pytest.raises(AttributeError, match="no attribute 'recrod'"):
        sweepcap.recrod  # type: ignore[attr-defined] # noqa: B018


def test_from_prompts_to_a_comparison(texts: Texts, costs: Costs, timed: Timed, tmp_path: Path) -> None:
    assert check(texts, 2)["n_tokens"].to_list() == [t.n_tokens for t in texts.texts]
    assert check(costs)["seconds"].min() > 0
    assert set(check(timed)["loop"]) == {"greedy", "gated", "fused", "carry"}
    assert timed.passes.height == sum(len(run.passes) for run in timed.runs)
    told = sweepcap.predict(costs, texts, ["carry"], [4, 6])
    assert set(check(told)["loop"]) == {"greedy", "gated", "carry"}
    found = sweepcap.compare(costs, texts, timed)
    assert {"predicted", "measured", "low", "high", "parity"} <= set(check(found).columns)
    assert set(found.overall["baseline"]) == {"greedy", "gated"}
    assert "<svg" in found.draw()._repr_svg_()
    assert "<svg" in costs.draw()._repr_svg_()
    page = found.report(tmp_path / "r")
    assert "Loop by loop" in page.read_text()


def test_a_sweep_and_a_replay_agree_with_the_prediction(texts: Texts, costs: Costs) -> None:
    told = sweepcap.predict(costs, texts, ["carry"], 6).frame
    swept = check(sweepcap.sweep(costs, texts, ["carry"], [4, 6], by_prompt=True))
    for text in texts.texts:
        one = sweepcap.replay(texts, "carry rows=6", costs, name=text.name)
        (seconds,) = told.filter(prompt=text.name, loop="carry")["seconds"]
        assert check(one)["seconds"].sum() == pytest.approx(seconds)
        (again,) = swept.filter(prompt=text.name, loop="carry", rows=6)["seconds"]
        assert again == pytest.approx(seconds)
    with pytest.raises(ValueError, match="no text is named 'x'"):
        sweepcap.replay(texts, "carry rows=6", name="x")


def test_what_is_saved_is_loaded(texts: Texts, costs: Costs, tiny: Path, tmp_path: Path) -> None:
    texts.save(tmp_path / "t.jsonl")
    costs.save(tmp_path / "p.json")
    sweepcap.measure(texts, tiny, ["carry"], blocks=1, threads=1, out=tmp_path / "r.jsonl")
    assert sweepcap.load(tmp_path / "t.jsonl") == texts
    assert sweepcap.load(tmp_path / "p.json") == costs
    again = sweepcap.load(tmp_path / "r.jsonl")
    assert isinstance(again, Timed)
    assert isinstance(sweepcap.compare(costs, texts, again), Compared)
    with pytest.raises(ValueError, match=r"none\.json"):
        sweepcap.load(tmp_path / "none.json")


def test_caps_are_the_closed_forms() -> None:
    flat = check(sweepcap.caps(6, costs=Flat(0.02)), 1)
    assert flat["fused/gated"].to_list() == pytest.approx([12 / 7])
    assert sweepcap.caps([6], ratio=1.5).frame["fused/gated"].to_list() == pytest.approx([6 / 7 * (1 + 1 / 1.5)])
    assert sweepcap.caps().frame["flat"].to_list() == pytest.approx([2 * n / (n + 1) for n in range(2, 9)])
    law = sweepcap.predict(Flat(0.02), "iid 1", ["fused", "gated"], 6, tokens=42).frame
    assert dict(zip(law["loop"], law["n_passes"], strict=True)) == {"fused": 7, "gated": 12}


def test_what_is_wrong_is_one_sentence(texts: Texts, costs: Costs, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="empty"):
        sweepcap.record(["a", ""])
    with pytest.raises(ValueError, match=r"none\.gguf"):
        sweepcap.record(["a"], tmp_path / "none.gguf")
    with pytest.raises(ValueError, match="unknown loop 'carri'"):
        sweepcap.predict(costs, texts, ["carri"])
    other = Texts(msgspec.structs.replace(texts.header, model_hash="00"), texts.texts)
    with pytest.raises(ValueError, match="different models"):
        sweepcap.predict(costs, other)


def test_hostile_words_are_text_in_a_notebook_too() -> None:
    some = small_run.texts(dict.fromkeys(small_run.HOSTILE, "free"))
    shown = Texts(Header(model="<b>model</b>"), tuple(some))
    html, text = shown._repr_html_(), repr(shown)
    for tag in ("<script", "<img", "<b>"):
        assert tag not in html
    assert "&lt;script&gt;alert(1)" in html
    assert "\x1b" not in html + text
    assert "\u202e" not in html + text
    assert max(map(len, text.splitlines())) < 400
    assert len(text.splitlines()) == 2 + len(small_run.HOSTILE)


def test_importing_it_loads_nothing_until_it_is_used() -> None:
    code = "import sys, sweepcap; a = 'polars' in sys.modules; sweepcap.caps; print(a, 'polars' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]
