"""Fixtures that several files share: a tiny real model, and the command line in this process."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest


class Outcome(NamedTuple):
    """What a command left: its status, and what it wrote to either stream."""

    status: int
    out: str
    err: str


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny real model."""
    pytest.importorskip("llama_cpp")
    from tests.tiny import write_tiny

    return write_tiny(tmp_path_factory.mktemp("models") / "tiny.gguf")


@pytest.fixture(scope="session")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another tiny model of the same shape."""
    pytest.importorskip("llama_cpp")
    from tests.tiny import write_tiny

    return write_tiny(tmp_path_factory.mktemp("models") / "other.gguf", seed=7)


@pytest.fixture
def on_any_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests run beside this one: what is tested is not whether the machine is quiet."""
    monkeypatch.setattr("validate.watch.OTHERS_BOUND", 9.0)
    monkeypatch.setattr("validate.watch.STEAL_BOUND", 9.0)


@pytest.fixture
def sweepcap(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], on_any_machine: None
) -> Callable[..., Outcome]:
    """The program as a function of its words."""
    import sweepcap as program

    def call(*words: object) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["sweepcap", *map(str, words)])
        monkeypatch.setattr("signal.signal", lambda *_: None)
        capfd.readouterr()
        status = 0
        try:
            program.main()
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        out, err = capfd.readouterr()
        return Outcome(status, out, err)

    return call


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    """Two short prompts: one that repeats itself, one that does not."""
    path = tmp_path / "prompts.jsonl"
    lines = [{"name": "again", "prompt": "ba be bi bo bu " * 4}, {"name": "once", "prompt": "ca de fi go hu"}]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path
