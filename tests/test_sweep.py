"""Sweeps: the table against plain arithmetic, the same for any workers, kills and resumptions; bad input."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import numpy as np
import polars as pl
import pytest

from costmodel.passcost import Table
from costmodel.profile import Profile
from sim.grid import drafters, grid, numbers
from sim.predict import predict
from sim.setting import Setting, canonical
from sim.summary import GREEDY, baseline_of, frame, speedups, with_baselines
from sim.sweep import Work, sweep, tasks
from sim.trace import Header, Text, dumps
from tests.conftest import Outcome
from tests.test_command import refused

Program = Callable[..., Outcome]


def curve(seconds: tuple[float, ...]) -> Table:
    return Table(tuple(range(1, len(seconds) + 1)), (0, 4000), (seconds,) * 2, padding=None)


CHEAP = curve(tuple(0.01 + 0.001 * n for n in range(12)))
M3MAX = curve((1.0, 4.914, 4.91, 4.902, 4.9456, 4.93, 4.954, 4.944))
"""c(n) of table-08: n/c(n) is 0.407, 0.611, 0.816, 1.011, 1.217, 1.413, 1.618."""


def texts(length: int = 300) -> tuple[Text, ...]:
    rng = np.random.default_rng(1)
    sentence = rng.integers(100, 5000, 23).tolist()
    source = rng.integers(100, 400, 150).tolist()
    edit: list[int] = []
    while len(edit) < length:
        at = int(rng.integers(150))
        edit += [*source[at : at + int(rng.integers(4, 30))], int(rng.integers(100, 400))]
    return (
        Text(name="locked", n_prompt=46, tokens=tuple((sentence * 99)[:length])),
        Text(name="edit", n_prompt=100, tokens=tuple(edit[:length]), stop=(2,)),
        Text(name="free", n_prompt=30, tokens=tuple(rng.integers(100, 900, length).tolist())),
    )


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """A profile and texts that belong together."""
    profile, recorded = tmp_path / "profile.json", tmp_path / "texts.jsonl"
    profile.write_bytes(msgspec.json.encode(Profile(source="calibrated", model="m", model_hash="h", cost=CHEAP)))
    recorded.write_bytes(dumps(Header(model="m", model_hash="h"), texts()))
    return profile, recorded


def words(files: tuple[Path, Path]) -> tuple[object, ...]:
    return "--profile", files[0], "--texts", files[1]


# --- grids -----------------------------------------------------------------------------------------------------------


def test_patterns_stand_for_all_their_combinations() -> None:
    made, left_out = drafters("ngram n_max=1..3 n_min=1,2 pick=latest,earliest")
    assert len(made) == 2 * (3 + 2)
    assert len(left_out) == 2
    assert "n_max 1 must be at least n_min 2" in left_out[0]
    assert numbers("2..4,8") == (2, 3, 4, 8)
    every = grid(("greedy", "carry", "gated"), (4, 6), ["ngram n_max=3", "ngram", "hf-prompt-lookup"]).settings
    assert len(every) == 1 + 2 * 2 * 2
    assert len(set(every)) == len(every)


def test_a_drafter_has_one_way_of_being_written() -> None:
    assert canonical("ngram n_min=2 n_max=4") == canonical(" ngram  n_max=4 n_min=2 ") == "ngram n_max=4 n_min=2"
    assert canonical("ngram n_max=3 run_on=true") == "ngram"
    assert Setting("carry", 4, "ngram run_on=false").drafter == "ngram run_on=false"
    assert Setting.parse("carry rows=17 hf-prompt-lookup") == Setting("carry", 17, "hf-prompt-lookup")
    assert Setting.parse("greedy").loop == "greedy"
    assert Setting("carry", 4, "ngram n_draft=2").make() is not None


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        ("carry", "write LOOP rows=R"),
        ("carry rows=x", "write LOOP rows=R"),
        ("carri rows=4", "unknown loop 'carri'"),
        ("carry rows=4 ngramm", "unknown drafter 'ngramm'"),
        ("carry rows=4 ngram n_mx=2", "its parameters are n_max, n_min, n_draft, pick, whole, run_on"),
        ("carry rows=4 ngram n_max", "written as in"),
        ("carry rows=4 ngram n_max=two", "n_max must be a whole number"),
        ("carry rows=4 hf-prompt-lookup stops=1", "its parameters are n_max, n_draft, max_length"),
        ("", "unknown loop"),
    ],
)
def test_settings_that_cannot_be(words: str, parts: str) -> None:
    with pytest.raises(ValueError, match=parts):
        Setting.parse(words)


# --- the table -------------------------------------------------------------------------------------------------------


def test_every_number_of_the_table_is_that_of_predict() -> None:
    settings = grid(
        ("greedy", "gated", "carry", "fused"), (4, 7), ["ngram n_max=1,2", "ngram-map-k n_key=2 n_draft=4"]
    ).settings
    work = Work(with_baselines(settings, "gated"), texts(), (CHEAP,))
    table = frame(sweep(work), settings, "gated", ["p"], by_prompt=True)
    assert len(table) == len(settings) * 4
    for row in table.iter_rows(named=True):
        s = GREEDY if row["loop"] == "greedy" else Setting(row["loop"], row["rows"], row["drafter"])
        some = [text for text in texts() if row["prompt"] in ("all", text.name)]
        own = [predict(text, s, CHEAP) for text in some]
        base = [predict(text, baseline_of(s, "gated"), CHEAP) for text in some]
        assert row["n_passes"] == sum(len(p.records) for p in own)
        assert row["n_tokens"] == sum(p.n_tokens for p in own)
        seconds = sum(p.seconds for p in own)
        assert row["seconds"] == pytest.approx(seconds, rel=1e-9)
        assert row["total_time"] == pytest.approx(sum(p.seconds for p in base) / seconds, rel=1e-9)
        rates = [np.mean([p.n_tokens / p.seconds for p in some]) for some in (own, base)]
        assert row["mean_rate"] == pytest.approx(rates[0] / rates[1], rel=1e-9)
        ratios = [b.seconds / p.seconds for b, p in zip(base, own, strict=True)]
        assert row["mean_ratio"] == pytest.approx(np.mean(ratios), rel=1e-9)
        if row["prompt"] == "all":
            assert min(ratios) - 1e-9 <= row["total_time_low"] <= row["total_time"] <= row["total_time_high"]
        else:
            assert row["total_time_low"] is None
        if row["loop"] != "greedy" and "map" not in row["drafter"]:
            assert row["total_time"] <= row["oracle"] * (1 + 1e-6) <= row["perfect"] * (1 + 2e-6)
        assert (row["oracle"] is None) == ("map" in row["drafter"])


def test_three_speedups_are_three() -> None:
    """The figures of three runs of 260 tokens: greedy 20 + 4 + 1.25 s, carry 8 + 4.5 + 1 s."""
    made = speedups(np.array([[200, 40, 20]]), np.array([[20, 4, 1.25]]), np.array([[8, 4.5, 1]]))
    assert made["total_time"][0] == pytest.approx(1.8704, abs=1e-4)
    assert made["mean_ratio"][0] == pytest.approx((2.5 + 0.8889 + 1.25) / 3, abs=1e-4)
    tokens, base, own = (200, 40, 20), (20, 4, 1.25), (8, 4.5, 1)
    rates = [sum(t / s for t, s in zip(tokens, some, strict=True)) for some in (own, base)]
    assert made["mean_rate"][0] == pytest.approx(rates[0] / rates[1])


def test_intervals_of_equal_prompts_have_no_width() -> None:
    work = Work(
        with_baselines([Setting("carry", 6)], "greedy"),
        (texts()[0], msgspec.structs.replace(texts()[0], name="b")),
        (CHEAP,),
    )
    (row,) = frame(sweep(work), [Setting("carry", 6)], "greedy", ["p"]).to_dicts()
    assert row["total_time_low"] == pytest.approx(row["total_time"]) == row["total_time_high"]


def test_any_executor_any_order_and_any_resumption_give_the_same_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sim.sweep.TASK_TOKENS", 900)
    settings = grid(("carry", "gated"), (4, 6), ["ngram n_max=1..3", "llama-lookup"]).settings
    work = Work(with_baselines(settings, "greedy"), texts(), (CHEAP, M3MAX))
    assert len(tasks(work)) > 10
    kept = []
    plain = frame(sweep(work, keep=kept.append), settings, "greedy", ["a", "b"])
    with ThreadPoolExecutor(3) as executor:
        assert frame(sweep(work, executor), settings, "greedy", ["a", "b"]).equals(plain)
    some = msgspec.json.decode(msgspec.json.encode(kept[::-2]), type=list[type(kept[0])])  # as read from a journal
    again = []
    resumed = sweep(work, done=some, keep=again.append)
    assert len(again) == len(kept) - len(some)
    assert frame(resumed, settings, "greedy", ["a", "b"]).equals(plain)


def test_the_command_writes_one_table_in_three_formats_whatever_the_workers(
    sweepcap: Program, files: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sim.sweep.TASK_TOKENS", 3000)
    asked = ("--loop", "carry", "--loop", "fused", "--rows", "4..6", "--drafter", "ngram n_max=2..4")
    tables = []
    for out, *more in (("a.parquet", "--workers", 2), ("a.csv",), ("a.json",)):
        outcome = sweepcap("sweep", *words(files), *asked, "--out", tmp_path / out, *more)
        assert outcome.status == 0, outcome
        assert "quickest of 18 settings" in outcome.out
        assert "sweeping: 57 of 57" in outcome.err
        tables.append({"parquet": pl.read_parquet, "csv": pl.read_csv, "json": pl.read_json}[out[2:]](tmp_path / out))
    assert tables[0].equals(tables[1])
    assert tables[0].equals(tables[2].select(tables[0].columns))
    assert not list(tmp_path.glob("*.part"))
    shown = json.loads(sweepcap("sweep", *words(files), *asked, "--json").out)
    assert shown["settings"] == tables[0].to_dicts()


def test_the_first_use_says_that_it_compiles(
    sweepcap: Program, files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "compiling" not in sweepcap("sweep", *words(files)).err
    monkeypatch.setattr("validate.sweeping.ready", lambda: False)
    assert (
        "compiling the replay for this machine: about a quarter of a minute, this once"
        in sweepcap("sweep", *words(files)).err
    )


def test_a_grid_file_says_it_all_and_the_command_line_overrules_it(
    sweepcap: Program, files: tuple[Path, Path], tmp_path: Path
) -> None:
    file = tmp_path / "grid.toml"
    file.write_text(
        f"loops = ['carry']\nrows = '4,6'\ndrafters = ['ngram n_max=1,2']\nprompts = ['edit']\nbaseline = 'gated'\n"
        f"profiles = ['{files[0]}']\ntexts = ['{files[1]}']\n"
    )
    told = json.loads(sweepcap("sweep", "--grid", file, "--json").out)
    assert told["baseline"] == "gated"
    assert [(s["rows"], s["drafter"]) for s in told["settings"]] == [
        (r, d) for d in ("ngram n_max=1", "ngram n_max=2") for r in (4, 6)
    ]
    other = json.loads(sweepcap("sweep", "--grid", file, "--rows", "5", "--baseline", "greedy", "--json").out)
    assert {s["rows"] for s in other["settings"]} == {5}
    assert other["settings"][0]["total_time"] != told["settings"][0]["total_time"]


def test_a_killed_sweep_goes_on_to_the_same_table(
    sweepcap: Program, files: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = tmp_path / "long.jsonl"
    recorded.write_bytes(dumps(Header(model="m", model_hash="h"), texts(1500)))
    asked = ("--rows", "2..12", "--drafter", "llama-lookup n_draft=1..4", "--texts", recorded, "--profile", files[0])
    out, journal = tmp_path / "t.csv", tmp_path / "t.csv.part"
    code = "import sim.sweep, sweepcap; sim.sweep.TASK_TOKENS = 30_000; sweepcap.main()"
    command = [sys.executable, "-c", code, "sweep", *map(str, asked), "--out", str(out), "--workers", "1"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (journal.exists() and journal.read_bytes().count(b"\n") > 3):
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert not out.exists()
    with journal.open("ab") as file:
        file.write(b'{"task": {"te')  # as a kill in mid-line leaves it
    monkeypatch.setattr("sim.sweep.TASK_TOKENS", 30_000)
    refused(sweepcap("sweep", *asked, "--rows", "2", "--out", out, "--workers", 1), "another sweep", "another --out")
    outcome = sweepcap("sweep", *asked, "--out", out, "--workers", 1)
    assert outcome.status == 0, outcome
    assert "going on from" in outcome.err
    assert sweepcap("sweep", *asked, "--out", tmp_path / "u.csv", "--workers", 1).status == 0
    assert (tmp_path / "u.csv").read_bytes() == out.read_bytes()


@pytest.fixture
def many_tasks(monkeypatch: pytest.MonkeyPatch) -> tuple[tuple[Setting, ...], Work]:
    """Settings, and the work that they are, in enough tasks for something to happen between two."""
    monkeypatch.setattr("sim.sweep.TASK_TOKENS", 20_000)
    settings = grid(("carry", "fused"), range(2, 12), ["llama-lookup n_draft=1..4"]).settings
    return settings, Work(with_baselines(settings, "greedy"), texts(1200), (CHEAP,))


def test_dask_gives_the_same_table_with_a_worker_killed_in_mid_sweep(
    many_tasks: tuple[tuple[Setting, ...], Work], tmp_path: Path
) -> None:
    distributed = pytest.importorskip("distributed")
    from validate.sweeping import swept

    settings, work = many_tasks
    plain = frame(sweep(work), settings, "greedy", ["p"])
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:
        with distributed.Client(cluster) as client:
            pids = list(client.run(os.getpid).values())
        killed = []

        def kill(what: str, done: int, total: int) -> None:
            if done and not killed:
                killed.append(pids[0])
                os.kill(pids[0], signal.SIGKILL)

        result = swept(work, tmp_path / "t.csv", scheduler=cluster.scheduler_address, advance=kill)
        assert killed
        assert frame(result, settings, "greedy", ["p"]).equals(plain)


def test_a_cluster_that_goes_away_is_a_sentence_and_what_was_finished_is_kept(
    many_tasks: tuple[tuple[Setting, ...], Work], tmp_path: Path
) -> None:
    distributed = pytest.importorskip("distributed")
    from validate.sweeping import swept

    settings, work = many_tasks
    out = tmp_path / "t.csv"
    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:

        def leave(what: str, done: int, total: int) -> None:
            if done:
                cluster.close()

        with pytest.raises(ValueError, match="was lost"):
            swept(work, out, scheduler=cluster.scheduler_address, advance=leave)
    n_kept = (tmp_path / "t.csv.part").read_bytes().count(b"\n") - 1
    assert 0 < n_kept < len(tasks(work))
    said: list[str] = []
    result = swept(work, out, n_workers=1, say=said.append)
    assert said[0].startswith("going on from")
    assert frame(result, settings, "greedy", ["p"]).equals(frame(sweep(work), settings, "greedy", ["p"]))


# --- advice ----------------------------------------------------------------------------------------------------------


# --- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words_", "parts"),
    [
        (("--drafter", "ngram n_max=1 n_min=2"), ("the grid is empty", "n_max 1 must be at least n_min 2")),
        (
            ("--drafter", "ngram n_max=1..999 n_draft=1..999", "--rows", "2..40"),
            ("stands for 194,610,196 settings", "more than 1,000,000"),
        ),
        (("--rows", "2..12", "--limit", 10), ("56 settings", "more than 10")),
        (("--drafter", "ngram n_mx=2"), ("unknown parameter 'n_mx=2'", "n_max, n_min, n_draft, pick, whole, run_on")),
        (("--drafter", "ngrams"), ("unknown drafter 'ngrams'", "hf-prompt-lookup")),
        (("--loop", "carri"), ("unknown loop 'carri'",)),
        (("--rows", "6..2"), ("no range '6..2'",)),
        (("--rows", "six"), ("no list of whole numbers",)),
        (("--rows", "1"), ("rows must be at least 2",)),
        (("--rows", "40", "--drafter", "ngram n_draft=39"), ("no passes of", "rows")),
        (("--baseline", "carri"), ("unknown loop 'carri'",)),
        (("--prompt", "nobody"), ("no text named 'nobody'", "locked, edit, free")),
        (("--out", "table.xls"), (".csv, .parquet, .json",)),
        (("--scheduler", "tcp://127.0.0.1:9"), ("the scheduler tcp://127.0.0.1:9 does not answer",)),
    ],
)
def test_what_cannot_be_swept(
    sweepcap: Program, files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, words_: tuple[object, ...],
    parts: tuple[str, ...],
) -> None:  # fmt: skip
    monkeypatch.setattr("validate.sweeping.PATIENCE", "1s")
    if "--scheduler" in words_:
        pytest.importorskip("distributed")
    refused(sweepcap("sweep", *words(files), *words_), *parts)


def test_texts_of_different_models_and_files_that_are_none(
    sweepcap: Program, files: tuple[Path, Path], tmp_path: Path
) -> None:
    theirs = tmp_path / "theirs.jsonl"
    theirs.write_bytes(dumps(Header(model="other", model_hash="x"), [msgspec.structs.replace(texts()[0], name="z")]))
    refused(sweepcap("sweep", *words(files), "--texts", theirs), "different models", "m and other")
    refused(sweepcap("sweep", "--profile", files[0], "--texts", theirs), "different models")
    refused(sweepcap("sweep", *words(files), "--texts", files[1]), "two texts are named 'locked'")
    refused(sweepcap("sweep", "--profile", files[0]), "--texts FILE")
    theirs.write_text('{"name": "a", "n_prompt": 5, "tokens": [1, 2, 3]}\n')
    refused(sweepcap("sweep", "--profile", files[0], "--texts", theirs), "line 1", "n_prompt 5", "3 tokens")
    file = tmp_path / "g.toml"
    for content, part in (
        ("loop = ['carry']", "unknown field `loop`"),
        ("loops = 3", "is no grid"),
        ("a b", "is no grid"),
    ):
        file.write_text(content)
        refused(sweepcap("sweep", *words(files), "--grid", file), part)
    refused(sweepcap("sweep", "--grid", tmp_path / "none.toml"), "cannot be read")
    refused(sweepcap("advise", *words(files), "--today", "carry"), "write LOOP rows=R")
