"""What every command has: help with an example, quiet and verbose, completion, no colours unasked, a clean stop."""

from __future__ import annotations

import inspect
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer

import sweepcap as module
from tests.conftest import Outcome
from tests.test_command import recorded, refused

Program = Callable[..., Outcome]
__all__ = ["recorded"]


def commands(app: typer.Typer, above: str = "") -> list[tuple[str, Any]]:
    """Every command's full name and function."""
    found = [(f"{above}{c.name}", c.callback) for c in app.registered_commands]
    for group in app.registered_groups:
        assert group.typer_instance is not None
        found += commands(group.typer_instance, f"{above}{group.name} ")
    return found


COMMANDS = commands(module.app)


@pytest.mark.parametrize(("name", "function"), COMMANDS, ids=[name for name, _ in COMMANDS])
def test_every_command_shows_an_example_that_its_own_options_allow(sweepcap: Program, name: str, function: Any) -> None:
    done = sweepcap(*name.split(), "--help")
    assert done.status == 0
    assert all(option in done.out for option in ("--quiet", "--verbose", "--json"))
    told = (inspect.getdoc(function) or "").partition("Example:")[2]
    examples = [line.strip() for line in told.splitlines() if line.strip().startswith(f"sweepcap {name}")]
    assert examples, f"the docstring of `{name}` has no `Example:` with a line `sweepcap {name} ...`"
    for example in examples:
        assert example in done.out
        assert set(re.findall(r"--[\w-]+", example)) <= set(re.findall(r"--[\w-]+", done.out))


def test_quiet_leaves_results_and_errors_and_verbose_tells_where(sweepcap: Program, tiny: Path, tmp_path: Path) -> None:
    prompts = tmp_path / "p.jsonl"
    prompts.write_text('{"name": "a", "prompt": "ba ba ba"}\n')
    words = ("record", "--model", tiny, "--prompts", prompts, "--tokens", 4, "--threads", 1, "--out", tmp_path / "t")
    assert "recording a" in sweepcap(*words).err
    quiet = sweepcap(*words, "--quiet")
    assert (quiet.status, quiet.err) == (0, "")
    assert "recorded in" in quiet.out
    prompts.write_text("")
    refused(sweepcap(*words, "--quiet"), "holds no prompt")
    loud = sweepcap(*words, "--verbose")
    assert loud.status == 2
    assert "in load_prompts" in loud.err
    refused(sweepcap(*words), "holds no prompt")  # and is not verbose for ever


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("sweepcap ca", {"calibrate", "cap"}),
        ("sweepcap import p", {"passes"}),
        ("sweepcap predict --loop fu", {"fused", "fused-partial"}),
        ("sweepcap predict --device Apple", {"Apple M3 Max"}),
    ],
)
def test_commands_and_names_complete_in_a_shell(line: str, expected: set[str]) -> None:
    words = {"COMP_WORDS": line, "COMP_CWORD": str(line.count(" ")), "_SWEEPCAP_COMPLETE": "complete_bash"}
    done = subprocess.run(
        [sys.executable, "-m", "sweepcap"], env=os.environ | words, capture_output=True, text=True, check=False
    )
    assert expected <= set(done.stdout.splitlines()), done
    begun = line.split()[-1]
    assert all(found.startswith(begun) for found in done.stdout.splitlines())


def on_a_terminal(command: list[str], **more: str) -> str:
    """What a command writes to a terminal."""
    main, its = pty.openpty()
    environment = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR")}
    process = subprocess.Popen(
        command, stdout=its, stderr=its, env=environment | {"TERM": "xterm-256color", "COLUMNS": "200"} | more
    )
    os.close(its)
    read = b""
    while True:
        try:
            if not (some := os.read(main, 65536)):
                break
        except OSError:  # how Linux says that the other end is closed
            break
        read += some
    process.wait()
    os.close(main)
    return read.decode()


def test_colours_only_on_a_terminal_and_never_with_no_color() -> None:
    words = ["predict", "--acceptance", "iid 0.5", "--model-spec", "SmolLM2-135M", "--device", "Apple M3 Max"]
    command = [sys.executable, "-m", "sweepcap", *words]
    assert "\x1b[" in on_a_terminal(command)
    plain = on_a_terminal(command, NO_COLOR="1")
    assert "over greedy" in plain
    assert "\x1b" not in plain
    piped = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "\x1b" not in piped.stdout + piped.stderr


@pytest.mark.parametrize("command", ["record", "calibrate", "measure", "sweep", "run"])
def test_ctrl_c_ends_in_one_line_with_nothing_half_written(
    command: str, recorded: Path, tiny: Path, tmp_path: Path
) -> None:
    out = tmp_path / "made"
    out.mkdir()
    prompts = tmp_path / "many.jsonl"
    prompts.write_text("".join(f'{{"name": "p{i}", "prompt": "ba be bi {i}"}}\n' for i in range(3000)))
    model = ["--model", str(tiny), "--threads", "1"]
    words = {
        "record": [*model, "--prompts", str(prompts), "--tokens", "500", "--out", str(out / "t.jsonl")],
        "calibrate": [*model, "--rounds", "100000", "--out", str(out / "p.json")],
        "measure": [*model, "--texts", str(recorded), "--blocks", "100000", "--out", str(out / "r.jsonl")],
        "run": [*model, "--prompts", str(prompts), "--tokens", "50", "--out", str(out)],
        "sweep": [
            *("--texts", str(long_text(tmp_path)), "--profile", str(flat_profile(tmp_path)), "--rows", "2..8"),
            *("--drafter", "ngram n_max=1..8 n_min=1", "--workers", "1", "--out", str(out / "s.csv")),
        ],
    }[command]
    process = subprocess.Popen(
        [sys.executable, "-m", "sweepcap", command, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    begun = process.stderr.readline()
    assert begun.startswith("sweepcap: "), begun
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    text, err = process.communicate(timeout=120)
    assert process.returncode == 130, (process.returncode, err)
    assert text == ""
    assert "Traceback" not in err
    (last,) = [line for line in err.splitlines() if "stopped; " in line]
    assert err.splitlines()[-1] == last
    for file in out.rglob("*"):
        assert not file.name.endswith(".tmp"), file
        if file.name.endswith(".jsonl"):
            assert all(json.loads(line) for line in file.read_text().splitlines())
        else:
            assert file.name.startswith(("s.csv", ".s.csv")), file  # a sweep's journal


def long_text(folder: Path) -> Path:
    path = folder / "long.jsonl"
    ids = [(7 * i + i // 13) % 211 for i in range(60_000)]
    path.write_text("".join(json.dumps({"name": f"t{k}", "n_prompt": 16, "tokens": ids}) + "\n" for k in range(20)))
    return path


def flat_profile(folder: Path) -> Path:
    path = folder / "flat.json"
    rows = list(range(1, 13))
    cost = {"n_rows": rows, "n_past": [0], "all_rows_seconds": [[0.01 + 0.001 * n for n in rows]]}
    path.write_text(json.dumps({
        "format": "sweepcap-profile", "version": 1, "source": "made up", "model": "m", "cost": cost
    }))  # fmt: skip
    return path
