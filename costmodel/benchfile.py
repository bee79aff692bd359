"""Tests out of a captured benchmark output: log lines around them skipped and counted, a cut end noticed.

JSON (one array) and JSON lines are read; everything else that llama.cpp's benchmarks can print is named, with
the option that makes it readable.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

ARRAY = re.compile(r"^\[\s*(\{|\]|$)", re.MULTILINE)  # log lines may start with a bracket, but go on differently
TOO_LARGE = 1 << 28  # bytes; a benchmark of a thousand tests is a few million


@dataclass(frozen=True, slots=True)
class Captured:
    """The tests of one file, which program wrote them, and what was odd about the file (`cut`: its sudden end)."""

    path: Path
    program: Literal["llama-bench", "llama-batched-bench"]
    tests: list[dict[str, Any]]
    notes: tuple[str, ...]
    cut: str


def read_captured(path: Path, partial: bool = False) -> Captured:
    """The tests of a file; a cut one only if `partial`.

    Raises ValueError, naming the file and the cure, for other formats, other programs and a cut file.
    """
    try:
        if path.stat().st_size > TOO_LARGE:
            raise ValueError(f"{path} has {path.stat().st_size} bytes, which no benchmark's output has")
        text = path.read_text(encoding="utf-8-sig", errors="replace")
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror or error}") from None
    _check_format(path, text)
    match = ARRAY.search(text)
    tests, skipped, cut = _lines(text) if match is None else _array(text, match.start())
    if cut and not partial:
        raise ValueError(
            f"{path} is cut short after {len(tests)} complete tests: run it again, with -o jsonl so that a "
            "stopped run is whole, or take the complete ones with --force"
        )
    if not tests:
        raise ValueError(
            f"{path} holds no tests: give the output of llama-bench -o json or llama-batched-bench "
            "--output-format jsonl"
        )
    notes = (f"{skipped} lines that are not JSON were skipped",) if skipped else ()
    said = f"the file was cut short: only its {len(tests)} complete tests are used" if cut else ""
    return Captured(path, _program(path, tests), tests, notes, said)


def _check_format(path: Path, text: str) -> None:
    """Named refusals of what llama.cpp's benchmarks print besides JSON."""
    cure = "run llama-bench with -o json"
    if re.search(r"^\|.*\|\s*(t/s|S_TG t/s|S_PP t/s)", text, re.MULTILINE):
        if "S_TG" in text:
            cure = "run llama-batched-bench with --output-format jsonl"
        raise ValueError(f"{path} is a Markdown table, whose rounded speeds are not read: {cure}")
    if re.search(r"^\"?build_commit\"?,", text, re.MULTILINE):
        raise ValueError(f"{path} is CSV: {cure}")
    if re.search(r"^INSERT INTO|^CREATE TABLE", text, re.MULTILINE):
        raise ValueError(f"{path} is SQL: {cure}")


def _array(text: str, start: int) -> tuple[list[dict[str, Any]], int, bool]:
    """Tests of one JSON array, object by object, so that the complete ones of a cut file are known."""
    decoder, at = json.JSONDecoder(), start + 1
    tests: list[dict[str, Any]] = []
    skipped = len(text[:start].splitlines())
    while True:
        space = re.compile(r"[\s,]*").match(text, at)
        at = space.end() if space else at
        if text[at : at + 1] == "]":
            return tests, skipped + sum(map(bool, text[at + 1 :].split("\n"))), False
        if text[at : at + 1] == "{":
            try:
                test, at = decoder.raw_decode(text, at)
            except json.JSONDecodeError:
                return tests, skipped, True
            tests.append(test)
        elif at >= len(text):
            return tests, skipped, True
        else:  # a log line between two tests
            end = text.find("\n", at)
            at, skipped = (len(text) if end < 0 else end), skipped + 1


def _lines(text: str) -> tuple[list[dict[str, Any]], int, bool]:
    tests, skipped, cut = [], 0, False
    for line in filter(str.strip, text.splitlines()):
        try:
            test = json.loads(line)
        except json.JSONDecodeError:
            cut = line.lstrip().startswith("{")
            skipped += not cut
            continue
        if isinstance(test, dict):
            tests.append(test)
            cut = False
        else:
            skipped += 1
    return tests, skipped, cut


def _program(path: Path, tests: list[dict[str, Any]]) -> Literal["llama-bench", "llama-batched-bench"]:
    for test in tests:
        if {"n_prompt", "n_gen", "avg_ns"} <= test.keys():
            continue
        if {"pp", "tg", "pl", "t_tg"} <= test.keys():
            continue
        if {"t_pp", "t_tg", "n_kv"} <= test.keys():
            raise ValueError(
                f"{path} is llama-sweep-bench's output, which has passes of one row and of n_ubatch rows "
                "only: run llama-batched-bench with --output-format jsonl, or llama-bench -p "
                "1,2,3,4,5,6,7,8 -o json"
            )
        raise ValueError(f"{path} holds JSON, but neither llama-bench's nor llama-batched-bench's tests")
    kinds = {"n_prompt" in test for test in tests}
    if len(kinds) > 1:
        raise ValueError(f"{path} holds tests of llama-bench and of llama-batched-bench: give one of them")
    return "llama-bench" if kinds.pop() else "llama-batched-bench"
