"""Another engine's log of passes: read as it is written, refused with line and field, compared like our own."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.passcost import Affine, Table
from costmodel.profile import Profile
from sim.loops import LOOPS
from tests import small_run
from tests.conftest import Outcome
from tests.test_command import refused
from validate.compare import compare
from validate.passes import NEEDED, import_passes, paces
from validate.runs import Run, dumps
from validate.runs import load as load_runs

Program = Callable[..., Outcome]
Fields = dict[str, Any]
GOOD: Fields = {
    "run": 1, "prompt": "p", "loop": "greedy", "rows": 1, "cached": 64, "seconds": 0.0081, "tokens": 1
}  # fmt: skip


def passes(
    run: int, loop: str, shapes: list[tuple[int, int, float]], prompt: str = "p", past: int = 64
) -> list[Fields]:
    """The lines of a run from (rows, tokens, seconds) of each pass."""
    made = []
    for rows, tokens, seconds in shapes:
        shape = {"rows": rows, "cached": past, "seconds": seconds, "tokens": tokens}
        made.append(GOOD | {"run": run, "prompt": prompt, "loop": loop} | shape)
        past += tokens
    return made


def as_json(lines: list[Fields]) -> str:
    return "".join(json.dumps(line) + "\n" for line in lines)


def as_csv(lines: list[Fields]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, list(lines[0]))
    writer.writeheader()
    writer.writerows(lines)
    return out.getvalue()


CHUNKS = passes(1, "carry", [(6, 6, 0.1)] * 5) + passes(2, "greedy", [(1, 1, 0.05)] * 30)
THREE = [
    *passes(1, "greedy", [(1, 1, 0.1)] * 200, "edit"),
    *passes(2, "carry", [(6, 5, 0.2)] * 40, "edit"),
    *passes(3, "greedy", [(1, 1, 0.08)] * 50, "story"),
    *passes(4, "carry", [(6, 1, 0.1)] * 40 + [(6, 2, 0.1)] * 5, "story"),
    *passes(5, "greedy", [(1, 1, 0.125)] * 10, "note"),
    *passes(6, "carry", [(6, 2, 0.2)] * 5, "note"),
]


@pytest.mark.parametrize("write", [as_json, as_csv])
def test_seconds_a_token_are_those_of_all_tokens_never_of_a_chunk(
    sweepcap: Program, tmp_path: Path, write: Callable[[list[Fields]], str]
) -> None:
    log, out = tmp_path / "log.txt", tmp_path / "theirs" / "runs.jsonl"
    log.write_text(write(CHUNKS))
    done = sweepcap("import", "passes", log, "--out", out, "--engine", "some engine", "--json")
    assert done.status == 0, done
    by = {line["loop"]: line for line in json.loads(done.out)["paces"]}
    assert by["carry"]["seconds_per_token"] == pytest.approx(0.1 / 6)
    assert by["carry"]["tokens_per_second"] == pytest.approx(60)
    assert by["carry"]["tokens_per_pass"] == 6
    assert by["greedy"]["seconds_per_token"] == pytest.approx(0.05)
    (cell,) = json.loads(sweepcap("compare", "--runs", out, "--json").out)["cells"]
    assert (cell["loop"], cell["baseline"], cell["measured"]) == ("carry", "greedy", pytest.approx(3.0))
    assert (cell["predicted"], cell["parity"]["same"]) == (None, None)
    assert "some engine" in out.read_text()


def test_the_three_speedups_are_named_and_total_time_is_the_first(sweepcap: Program, tmp_path: Path) -> None:
    log, out = tmp_path / "log.csv", tmp_path / "theirs" / "runs.jsonl"
    log.write_text(as_csv(THREE))
    assert sweepcap("import", "passes", log, "--out", out).status == 0
    done = sweepcap("compare", "--runs", out, "--out", out.parent / "comparison.json", "--json")
    found = json.loads(done.out)
    assert found["speedup"] == "total_time"
    assert [c["measured"] for c in found["cells"]] == pytest.approx([20 / 8, 4 / 4.5, 1.25 / 1.0])
    (line,) = found["overall"]
    assert line["total_time"] == pytest.approx(25.25 / 13.5)
    assert line["mean_rate"] == pytest.approx((25 + 50 / 4.5 + 10) / (10 + 12.5 + 8))
    assert line["mean_ratio"] == pytest.approx((2.5 + 4 / 4.5 + 1.25) / 3)
    shown = sweepcap("compare", "--runs", out).out
    assert all(word in shown for word in ("total_time", "mean_rate", "mean_ratio", "1.870", "1.512", "1.546"))
    done = sweepcap("report", out.parent)
    assert done.status == 0, done
    page = (out.parent / "report.html").read_text()
    assert "another engine&#39;s log" in page
    assert "there is no interval" in page
    assert "sweepcap compare --runs" in page  # what was typed
    assert page.count("<table>") == 2


BAD: list[tuple[str, tuple[str, ...]]] = [
    *((json.dumps(GOOD | {"seconds": value}), ("seconds",)) for value in (float("nan"), float("inf"), -0.0004, 0.0)),
    *((json.dumps({k: v for k, v in GOOD.items() if k != name}), (name, "missing")) for name in NEEDED),
    *((json.dumps(GOOD | {name: None}), (name, "missing")) for name in ("rows", "seconds")),
    *((json.dumps(GOOD | {name: "many"}), (name,)) for name in ("rows", "cached", "seconds", "tokens")),
    (json.dumps(GOOD | {"tokens": 2}), ("tokens", "1 row yields at most 1")),
    (json.dumps(GOOD | {"rows": 0}), ("rows", "at least 1")),
    (json.dumps(GOOD | {"rows": 1.5}), ("rows",)),
    (json.dumps(GOOD | {"cached": -1}), ("cached", "at least 0")),
    (json.dumps(GOOD | {"tokens": -1}), ("tokens", "at least 0")),
    (json.dumps(GOOD | {"loop": ""}), ("loop",)),
    (json.dumps(GOOD | {"loop": "carry"}), ("loop", "'greedy' before")),
    (json.dumps(GOOD | {"prompt": "q"}), ("prompt", "'p' before")),
    (json.dumps(GOOD | {"cached": 66}), ("cached", "had fed only 65")),
    (json.dumps(GOOD | {"rows": 6, "max_rows": 4}), ("max_rows", "at least 6")),
    ('{"run": 1, "loop"', ("cut short",)),
    ("[1, 2]", ("not a JSON object",)),
    ("seconds", ("not a whole JSON object",)),
]  # fmt: skip


@pytest.mark.parametrize(("line", "parts"), BAD)
def test_what_cannot_be_is_refused_with_line_and_field(
    sweepcap: Program, tmp_path: Path, line: str, parts: tuple[str, ...]
) -> None:
    log, out = tmp_path / "log.jsonl", tmp_path / "r.jsonl"
    log.write_text(f"{json.dumps(GOOD)}\n\n{line}\n")
    refused(sweepcap("import", "passes", log, "--out", out), "log.jsonl", "line 3", *parts)
    assert not out.exists()


def test_a_csv_without_its_columns_or_cut_short_is_refused(sweepcap: Program, tmp_path: Path) -> None:
    log, out = tmp_path / "log.csv", tmp_path / "r.jsonl"
    whole = as_csv(CHUNKS)
    for text, parts in (
        ("run,loop,rows,cached,ms,tokens\n1,greedy,1,5,8.1,1\n", ("line 1", "no column seconds")),
        (whole[: whole.rindex(",")], ("line 36", "6 columns where the first line names 7")),
        (whole.replace("0.05", "nan", 1), ("line 7", "seconds")),
        ("", ("holds no pass",)),
        (whole.splitlines()[0], ("holds no pass",)),
    ):
        log.write_text(text)
        refused(sweepcap("import", "passes", log, "--out", out), *parts)
    assert not out.exists()


def test_a_slow_pass_is_kept_and_told(sweepcap: Program, tmp_path: Path) -> None:
    log, out = tmp_path / "log.jsonl", tmp_path / "r.jsonl"
    for lines, word in (
        ([GOOD, GOOD | {"seconds": 8.1}], "line 2 is an outlier"),
        ([GOOD | {"seconds": 8.1}], "milliseconds?"),
        (passes(1, "greedy", [(1, 1, 0.01)] * 9 + [(1, 1, 0.11)]), "line 10 is an outlier"),
    ):
        log.write_text(as_json(lines))
        done = sweepcap("import", "passes", log, "--out", out)
        assert done.status == 0, done
        assert word in done.err
        header, (run,) = load_runs(out)
        assert max(record.seconds for record in run.passes) == max(line["seconds"] for line in lines)
        assert any(word in note for note in header.notes)
    log.write_text(as_json(passes(1, "greedy", [(1, 1, 0.01)] * 9 + [(1, 1, 0.02)])))
    assert "outlier" not in sweepcap("import", "passes", log, "--out", out).err


def test_what_was_timed_here_must_still_be_compared_with_its_texts(sweepcap: Program, tmp_path: Path) -> None:
    timed = small_run.runs({"a": "locked"})
    (tmp_path / "r.jsonl").write_bytes(dumps(small_run.header(), timed))
    refused(sweepcap("compare", "--runs", tmp_path / "r.jsonl"), "--profile", "--texts")


def test_a_log_without_a_baseline_says_so(sweepcap: Program, tmp_path: Path) -> None:
    log, out = tmp_path / "log.jsonl", tmp_path / "r.jsonl"
    log.write_text(as_json(passes(1, "carry", [(6, 6, 0.1)] * 5)))
    assert sweepcap("import", "passes", log, "--out", out).status == 0
    refused(sweepcap("compare", "--runs", out), "greedy", "gated")


def log_of(timed: list[Run]) -> list[Fields]:
    """What an engine would have logged of some runs, their prefill included."""
    return [
        {
            "run": f"{run.loop} {run.prompt}", "prompt": run.prompt, "loop": run.loop, "drafter": run.drafter,
            "rows": p.n_rows, "cached": p.n_past, "seconds": p.seconds, "tokens": p.n_tokens,
        }
        for run in timed
        for p in run.passes
    ]  # fmt: skip


def test_a_log_of_our_own_runs_gives_our_own_shapes_speedups_and_predictions(tmp_path: Path) -> None:
    timed = small_run.runs(small_run.PROMPTS, ("greedy", "gated", "fused", "carry", "gated-held"))
    log = tmp_path / "log.jsonl"
    log.write_text(as_json(log_of(timed)))
    header, back = import_passes(log)
    assert [(r.prompt, r.loop, r.rows, r.n_tokens, r.seconds) for r in back] == [
        (r.prompt, r.loop, r.rows, r.n_tokens, r.seconds) for r in timed
    ]
    for ours, theirs in zip(timed, back, strict=True):
        assert [(p.kind, p.n_rows, p.accepted) for p in theirs.decode] == [
            (p.kind, p.n_rows, p.accepted) for p in ours.decode
        ]
    profile = small_run.profile()
    cells = compare(profile, (), header, back).cells
    own = compare(profile, small_run.texts(small_run.PROMPTS), small_run.header(), timed).cells
    assert {(c.prompt, c.loop, c.baseline) for c in cells} == {(c.prompt, c.loop, c.baseline) for c in own}
    assert {c.loop for c in cells} == {"gated", "fused", "carry", "gated-held"}
    for theirs, ours in zip(cells, own, strict=True):
        assert theirs.measured == pytest.approx(ours.measured)
        assert theirs.text == "passes"
        assert theirs.predicted is not None


def test_predictions_are_exact_where_the_log_was_priced_by_the_same_costs(tmp_path: Path) -> None:
    n_rows = tuple(range(1, 7))
    cost = Affine(0.01, 0.001, 1e-5, 0.0)
    grid = tuple(tuple(cost.seconds(past, n, n) for n in n_rows) for past in (0, 4096))
    profile = Profile(source="made up", model="m", cost=Table(n_rows, (0, 4096), grid, padding=None))
    lines: list[Fields] = []
    for run, (loop, shapes) in enumerate(
        {"greedy": [(1, 1)] * 30, "carry": [(6, 4), (3, 3), (6, 6), (1, 1), (6, 2)] * 2}.items()
    ):
        cached = 64
        for rows, tokens in shapes:
            lines += passes(run, loop, [(rows, tokens, cost.seconds(cached, rows, rows))], past=cached)
            cached += tokens
    log = tmp_path / "log.jsonl"
    log.write_text(as_json(lines))
    (cell,) = compare(profile, (), *import_passes(log)).cells
    assert cell.predicted == pytest.approx(cell.measured, rel=1e-9)


def test_repeated_runs_are_blocks_and_their_spread_is_the_interval(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    lines: list[Fields] = []
    for block, slow in enumerate((1.0, 1.3, 0.8, 1.1, 0.9, 1.2)):
        lines += passes(2 * block, "greedy", [(1, 1, 0.01 * slow)] * 12)
        lines += passes(2 * block + 1, "their own loop", [(4, 3, 0.015 * slow * (1 + block / 100))] * 4)
    log.write_text(as_json(lines))
    header, runs = import_passes(log)
    assert [run.block for run in runs] == [block for block in range(6) for _ in range(2)]
    assert not any("no interval" in note for note in header.notes)
    (cell,) = compare(None, (), header, runs).cells
    assert cell.loop not in LOOPS
    assert 2.0 / 1.05 < cell.low < cell.measured < cell.high < 2.0  # the drift of the machine cancels in a block


@given(st.lists(st.tuples(st.integers(1, 12), st.integers(0, 12), st.floats(1e-6, 10)), min_size=1, max_size=20))
def test_nothing_is_lost_or_made_up(
    tmp_path_factory: pytest.TempPathFactory, shapes: list[tuple[int, int, float]]
) -> None:
    fitting = [(rows, min(tokens, rows), seconds) for rows, tokens, seconds in shapes]
    log = tmp_path_factory.mktemp("log") / "log.jsonl"
    log.write_text(as_json(passes(1, "carry", fitting)))
    _, (run,) = import_passes(log)
    assert [(p.n_rows, p.n_tokens, p.seconds) for p in run.decode] == fitting
    (pace,) = paces([run])
    assert (pace.n_passes, pace.n_tokens) == (len(fitting), sum(tokens for _, tokens, _ in fitting))
