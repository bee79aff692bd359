"""`sweepcap accuracy`: the design that fits the time, and a small run of it, judged from raw records."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from costmodel.passcost import Table
from sim.predict import predict
from sim.setting import Setting
from tests.test_measuring import FREE, LOCKED
from validate.accuracy import DEVELOPED_PROMPTS, held_out, prompts
from validate.budget import CANDIDATES, GIVEN, VARIANTS, Design, block_seconds, choose
from validate.record import load_prompts, suite

LOOPS = ("greedy", "gated", "fused", "fused-partial", "gated-held", "carry")
COST = Table(n_rows=tuple(range(1, 9)), n_past=(1, 56), all_rows_seconds=(tuple(0.01 * n for n in range(1, 9)),) * 2)


def test_six_prompts_three_of_which_no_development_saw() -> None:
    names = [prompt.name for prompt in prompts()]
    seen = {prompt.name for prompt in load_prompts(suite())}
    assert len(set(names)) == 6
    assert {name for name in names if name in seen} == set(DEVELOPED_PROMPTS)
    assert sorted(held_out(GIVEN).values()) == ["", "", "", "prompt", "prompt", "prompt"]
    assert sorted(held_out("F32").values()) == ["both", "both", "both", "variant", "variant", "variant"]


def test_a_design_runs_greedy_once_and_every_other_loop_at_every_r() -> None:
    for design in CANDIDATES:
        plan = design.plan(LOOPS, 128, 2)
        assert len(set(plan.settings)) == len(plan.settings) == 1 + 5 * len(design.rows)
        assert {s.rows for s in plan.settings} == set(design.rows)
        assert len(plan.lanes) == len(plan.settings) + design.n_twins


def test_a_block_is_reckoned_by_the_prediction_itself() -> None:
    design = Design(rows=(6,), n_blocks=3)
    lanes = design.plan(LOOPS, 64, 1).lanes
    wide = replace(COST, extrapolate=True)
    alone = sum(predict(text, s, wide).seconds for text in (LOCKED, FREE) for s in lanes)
    seconds = block_seconds(design, LOOPS, [LOCKED, FREE], COST)
    assert alone < seconds < 4 * alone
    assert block_seconds(Design(rows=(4, 6, 8), n_blocks=3), LOOPS, [LOCKED, FREE], COST) > 2 * seconds


def test_the_fullest_design_that_fits_is_chosen_and_a_later_call_counts_what_is_done() -> None:
    each = {GIVEN: 100.0, "Q8_0": 100.0, "Q4_0": 90.0, "BF16": 200.0, "F32": 450.0}
    planned = [msgspec.structs.replace(c, seconds={v: s * len(c.rows) for v, s in each.items()}) for c in CANDIDATES]
    found = [choose(planned, 60 * minutes) for minutes in (5, 10, 30, 75, 240)]
    for minutes, design in zip((10, 30, 75, 240), found[1:], strict=True):
        assert design.left({}) <= 60 * minutes
    assert (found[0].variants, found[0].n_blocks) == (VARIANTS[:3], 1), "the least there is, whatever the time"
    assert found[2].variants == VARIANTS[:4]
    assert found[3].variants == VARIANTS
    assert found[4].rows == (4, 6, 8)
    halves = [design.half_width for design in found]
    assert halves[0] > halves[2] > 0.01
    done = dict.fromkeys(VARIANTS, 3)
    fuller = choose(planned, 30 * 60, done)
    assert fuller.n_blocks > found[2].n_blocks or fuller.variants == VARIANTS


def test_a_visit_takes_its_own_blocks_time_and_more_only_where_the_others_leave_it() -> None:
    design = Design(rows=(6,), n_blocks=4, variants=(GIVEN, "F32"), seconds={GIVEN: 100.0, "F32": 300.0})
    own = 2 * 100 + design.visit(GIVEN)
    others = design.left({GIVEN: 2})
    assert design.share(GIVEN, 2, {}, own + others) == own
    assert design.share(GIVEN, 2, {}, own + others + 50) == own + 50
    assert design.share(GIVEN, 2, {}, own + 1) == own, "late: the others get less, not this one"
    assert design.share(GIVEN, 2, {}, own - 1) == own - 1
    assert design.share("F32", 4, {GIVEN: 4, "F32": 4}, 90.0) == 90.0, "the last visit may take all that is left"


@pytest.fixture(scope="module", autouse=True)
def quiet() -> Iterator[None]:
    """Other tests run beside this one: what is tested here is not whether the machine is quiet."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("validate.watch.OTHERS_BOUND", 9.0)
        patch.setattr("validate.watch.STEAL_BOUND", 9.0)
        yield


@pytest.fixture(scope="module")
def measured(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A small accuracy run on the tiny model, and what it said."""
    pytest.importorskip("llama_cpp")
    from validate.accuracy import measured as run
    from validate.record import Prompt

    out, said = tmp_path_factory.mktemp("accuracy"), []
    asked = [Prompt(name=p.name, prompt=words) for p, words in zip(prompts(), ("ba be " * 8, "ca de fi"), strict=False)]
    least = [Design(rows=(4,), n_blocks=2, variants=(GIVEN, "Q8_0"))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SWEEPCAP_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setattr("validate.accuracy.WANTED", None)  # or all the time would be used
        for _ in range(2):
            run(out, tiny, LOOPS, 1, 5.0, candidates=least, n_tokens=16, asked=asked, say=said.append)
    return out, said


def test_a_run_is_judged_from_its_records_as_often_as_one_likes(
    measured: tuple[Path, list[str]], tmp_path: Path
) -> None:
    from figures.accuracy import draw
    from validate.accuracy_page import page
    from validate.verdict import analysed

    out, said = measured
    assert any("intervals of about" in sentence for sentence in said)
    verdict = analysed(out)
    assert analysed(out) == verdict
    cells = {(c.variant, c.cell.prompt, c.cell.loop, c.cell.baseline) for c in verdict.cells}
    assert len(cells) == len(verdict.cells) == 2 * 2 * (5 + 4)
    assert {c.held_out for c in verdict.cells} == {"", "variant"}
    assert verdict.twins
    written = page(verdict, "sweepcap accuracy", "accuracy.svg")
    for word in ("held out by variant", "rows table", "host time", "A/A", "| as it is | 2 |"):
        assert word in written
    assert draw(verdict.cells).axes
    assert draw([]) is not None


def test_the_command_judges_again_without_measuring(
    sweepcap: object, measured: tuple[Path, list[str]], tmp_path: Path
) -> None:
    out, _ = measured
    before = sorted((p, p.stat().st_mtime_ns) for p in out.rglob("*"))
    outcome = sweepcap("accuracy", "--analyse", "--out", out, "--page", tmp_path / "a.md")  # type: ignore[operator]
    assert outcome.status == 0, outcome
    assert (tmp_path / "a.svg").read_bytes().startswith(b"<?xml")
    assert "a.svg" in (tmp_path / "a.md").read_text()
    assert sorted((p, p.stat().st_mtime_ns) for p in out.rglob("*")) == before
    outcome = sweepcap("accuracy", "--analyse", "--out", out, "--json")  # type: ignore[operator]
    assert len(json.loads(outcome.out)["cells"]) == 36
    outcome = sweepcap("accuracy", "--analyse", "--out", tmp_path / "nothing")  # type: ignore[operator]
    assert (outcome.status, outcome.out) == (2, "")
    assert "holds no timed run yet" in outcome.err


def test_a_run_killed_at_any_moment_leaves_whole_files_and_goes_on(tiny: Path, prompts: Path, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "tests.killed", str(tiny), str(prompts), str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[1])
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("20 kills")


def test_a_greedy_setting_is_the_same_at_every_r() -> None:
    assert Design(rows=(4, 6, 8), n_blocks=1).settings(LOOPS)[0] == Setting("greedy", 4)
