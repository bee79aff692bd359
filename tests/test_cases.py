"""docs/cases.md names tests that exist, and here are those of its cases that no other file is about."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from docs.write_cases import PAGE, cases, page
from sim.drafters import DRAFTERS
from sim.loops import LOOPS
from sim.predict import walk
from sim.setting import Setting
from sim.trace import Text
from tests.conftest import Outcome

HERE = Path(__file__).parent


def test_the_page_is_what_the_cases_say() -> None:
    assert PAGE.read_text() == page(), "run `make docs`"


@pytest.mark.parametrize("name", cases())
def test_a_case_names_tests_that_exist_or_says_what_is_open(name: str) -> None:
    case = cases()[name]
    assert bool(case["tests"]) != ("open" in case)
    for test in case["tests"]:
        file, _, function = test.partition("::")
        names = {n.name for n in ast.parse((HERE / file).read_text()).body if isinstance(n, ast.FunctionDef)}
        assert function in names


def decode(text: Text, loop: str, n_rows: int) -> list[int]:
    """Rows of each pass behind the prefill."""
    return [r.n_rows for r in walk(text, Setting(loop, n_rows)) if r.kind != "prefill"]


@pytest.mark.parametrize("at", range(1, 6))
def test_a_stop_token_inside_accepted_rows_ends_every_loop(at: int) -> None:
    """Wherever it falls in the draft; the same id in the prompt stops nothing."""
    phrase = [620, 621, 622, *range(610, 610 + at), 2]
    text = Text(name="stop", n_prompt=len(phrase) + 5, tokens=(*phrase, 615, 616, *phrase), stop=(2,))
    assert text.n_tokens == at + 1
    assert decode(text, "greedy", 8) == [1] * at
    for loop in ("gated", "fused", "carry"):
        (rows,) = decode(text, loop, 8)
        assert rows in (at, at + 1)
    for loop in LOOPS:
        records = walk(text, Setting(loop, 8))
        assert sum(r.n_tokens for r in records) == text.n_tokens, "nothing behind the stop token"


# --- on real passes --------------------------------------------------------------------------------------------------

llama = pytest.importorskip("validate.llama", exc_type=ValueError)

from tests.tiny import write_tiny  # noqa: E402


def test_any_path_under_a_plain_locale(prompts: Path, tmp_path: Path) -> None:
    folder = tmp_path / "Modelle ü 模型 [x]"
    folder.mkdir()
    model, out = write_tiny(folder / "my model #1.gguf"), tmp_path / "Aus gabe [/b]"
    words = ["run", "--quick", "--model", model, "--out", out, "--prompts", prompts, "--tokens", 8, "--blocks", 1]
    words += ["--loop", "carry", "--threads", 1]
    env = os.environ | {"LC_ALL": "POSIX"}
    command = [sys.executable, "-m", "sweepcap", *map(str, words)]
    done = subprocess.run(command, capture_output=True, env=env, check=False, cwd=HERE.parent)
    assert done.returncode == 0, done.stderr.decode()
    assert str(out / "report.html") in done.stderr.decode().replace("\n", "")
    assert "my model #1.gguf" in (out / "report.html").read_text(encoding="utf-8")
    missing = subprocess.run(
        [*command[:3], "calibrate", "--model", f"{model}x"], capture_output=True, env=env, check=False
    )
    assert (missing.returncode, f"{model}x" in missing.stderr.decode()) == (2, True)


def test_blank_prompts_are_recorded_and_what_comes_to_no_token_is_refused(
    sweepcap: Callable[..., Outcome], tmp_path: Path
) -> None:
    model = write_tiny(tmp_path / "m.gguf", bos=False, template="{{ '' }}")
    file, texts = tmp_path / "p.jsonl", tmp_path / "t.jsonl"
    words = ("record", "--model", model, "--prompts", file, "--out", texts, "--tokens", 8, "--threads", 1)
    blank = {"spaces": "   ", "newline": "\n", "one letter": "a"}
    file.write_text("".join(json.dumps({"name": k, "prompt": v}) + "\n" for k, v in blank.items()))
    assert sweepcap(*words).status == 0
    assert len(texts.read_text().splitlines()) == 1 + len(blank)
    timed = sweepcap(
        "measure", "--model", model, "--texts", texts, "--out", tmp_path / "r", "--blocks", 1, "--threads", 1, "--json"
    )
    assert timed.status == 0, timed
    assert all(run.get("parity") is None for run in json.loads(timed.out)["runs"]), "all loops agree"
    texts.unlink()
    nothing = {"name": "nothing", "messages": [{"role": "user", "content": "a"}]}  # the template makes nothing of it
    file.write_text('{"name": "a", "prompt": "ba"}\n' + json.dumps(nothing) + "\n")
    outcome = sweepcap(*words)
    assert (outcome.status, outcome.out) == (2, "")
    assert "'nothing' is empty for this model" in outcome.err
    assert not texts.exists(), "the sound prompt is not recorded half-way"


def test_the_same_prompt_under_two_names_takes_the_same_passes_in_every_block(tiny: Path) -> None:
    from validate.measure import timed_block
    from validate.record import record

    drafted = 0
    with llama.Model(tiny) as model, llama.LlamaEngine(model, n_ctx=256, n_threads=1) as engine:
        ids = model.tokenize("ba be bi bo " * 5)
        texts = [record(engine, name, "", ids, 40) for name in ("first", "second")]
        for drafter in DRAFTERS:
            setting, seen = Setting("carry", 6, drafter), set()
            for block, text in enumerate((*texts, *reversed(texts))):
                (run,) = timed_block([engine], [setting], text, 40, block)
                seen.add((run.tokens, tuple((r.kind, r.n_past, r.n_rows, r.accepted) for r in run.passes)))
            assert len(seen) == 1, drafter
            drafted += any(n_rows > 1 for _, _, n_rows, _ in next(iter(seen))[1][1:])
    assert drafted > len(DRAFTERS) / 3, "most drafters found something"


def test_json_is_one_document_even_beside_a_talking_library(tiny: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sweepcap", "calibrate", "--model", tiny, "--out", tmp_path / "p.json", "--json"]
    few = ["--threads", 1, "--rounds", 1, "--rows", 2, "--context", 64]
    env = os.environ | {"OMP_DISPLAY_ENV": "true"}
    done = subprocess.run([*map(str, command + few)], capture_output=True, env=env, check=False, cwd=HERE.parent)
    assert done.returncode == 0, done.stderr.decode()
    assert json.loads(done.stdout)["n_ctx"] == 256
    bad = subprocess.run([*map(str, command), "--rows", "1"], capture_output=True, check=False, cwd=HERE.parent)
    assert (bad.returncode, bad.stdout) == (2, b"")
