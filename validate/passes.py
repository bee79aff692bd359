"""Passes timed by an engine that cannot be driven from here, as runs to compare: `sweepcap import passes`.

JSON lines, or CSV with the same names in its first line; one line a pass, in the order in which a run made them:

    run       which run it belongs to: a number or a name
    loop      the loop's name; `greedy` and `gated` are the baselines
    rows      rows fed in this pass (tokens, draft included)
    cached    KV rows kept before it
    seconds   wall time of the pass
    tokens    tokens that it added to the text; a pass of n rows adds n at most
    prompt    optional: the prompt's name, so that loops are compared on equal prompts
    block     optional: which repetition; without it the runs of a loop on a prompt are counted
    drafter   optional: what drafted
    max_rows  optional: R, the most rows the loop allows; without it the widest pass of the file

A run that starts at 0 cached rows starts with its prefill, which ends with the first token and is not compared.
Token ids are not asked for, so whether all loops wrote one text is not known, and said.
"""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from math import isfinite
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from sim.run import Kind, Record
from sim.trace import lines
from validate.runs import Header, Key, Run

NEEDED = ("run", "loop", "rows", "cached", "seconds", "tokens")
FAR = 10
"""A pass this many times dearer than the median of the others with its rows is an outlier."""
LONG = 5.0
"""Seconds; what a pass hardly ever takes, where there are no others to compare it with."""


class Pass(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the file."""

    run: int | str
    loop: str
    rows: int
    cached: int
    seconds: float
    tokens: int
    prompt: str = ""
    block: int | None = None
    drafter: str = "unknown"
    max_rows: int | None = None


@dataclass(slots=True)
class Gathered:
    """The passes of one run so far, and the lines they stand in."""

    first: Pass
    passes: list[Pass] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)


def import_passes(path: Path, model: str = "", engine: str = "", n_threads: int = 0) -> tuple[Header, list[Run]]:
    """Header and runs of a log of passes, in the file's order.

    Raises ValueError naming the line and the field that cannot be.
    """
    gathered: dict[int | str, Gathered] = {}
    for number, line in _read(path):
        try:
            _add(gathered, number, line)
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: {error}") from error
    if not gathered:
        raise ValueError(f"{path} holds no pass: give a line with {', '.join(NEEDED)} for each")
    logs = list(gathered.values())
    widest = max((p.rows for log in logs for p, _ in _decode(log)), default=2)
    blocks: dict[tuple[str, str, str], Iterator[int]] = {}
    runs: list[Run] = []
    for log in logs:
        first = log.first
        nth = next(blocks.setdefault((first.prompt, first.loop, first.drafter), count()))
        block = nth if first.block is None else first.block
        runs.append(_run(log, block, len(runs), first.max_rows or max(widest, 2)))
    head = Header(
        model=model or path.stem,
        model_hash="",
        n_threads=n_threads,
        n_ctx=0,
        n_tokens=max(run.n_tokens for run in runs),
        n_blocks=len({run.block for run in runs}),
        environment={"engine": engine} if engine else {},
        source="imported",
        notes=(*_outliers(logs), *_uneven(runs), *_once(runs)),
    )
    return head, runs


def _read(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The numbered lines as mappings of fields; ValueError for what is neither JSON lines nor CSV with a header."""
    numbered = lines(path)
    first = next(numbered, None)
    if first is None:
        return
    if first[1].lstrip().startswith(("{", "[")):
        yield from ((number, _json(path, number, line)) for number, line in _and_rest(first, numbered))
        return
    names = [name.strip() for name in next(csv.reader([first[1]]))]
    if missing := [name for name in NEEDED if name not in names]:
        raise ValueError(
            f"{path}, line {first[0]}: no column {', '.join(missing)}: a log of passes is JSON lines, or CSV whose"
            f" first line names {', '.join(NEEDED)}"
        )
    for number, line in numbered:
        cells = [cell.strip() for cell in next(csv.reader([line]))]
        if len(cells) != len(names):
            raise ValueError(f"{path}, line {number}: {len(cells)} columns where the first line names {len(names)}")
        yield number, {name: cell for name, cell in zip(names, cells, strict=True) if cell}


def _and_rest(first: tuple[int, str], rest: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    yield first
    yield from rest


def _json(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        value = json.loads(line)  # reads NaN and Infinity too, so that the field can be named
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}, line {number}: not a whole JSON object, cut short? ({error})") from error
    if not isinstance(value, dict):
        raise ValueError(f"{path}, line {number}: not a JSON object with {', '.join(NEEDED)}")
    return value


def _add(gathered: dict[int | str, Gathered], number: int, fields: dict[str, Any]) -> None:
    """Put a line to its run; ValueError naming the field that cannot be."""
    line = _checked(fields)
    log = gathered.setdefault(line.run, Gathered(line))
    for name in ("loop", "prompt", "drafter", "block", "max_rows"):
        if getattr(line, name) != getattr(log.first, name):
            raise ValueError(
                f"{name} is {getattr(line, name)!r} here and {getattr(log.first, name)!r} before in run {line.run}:"
                " number the runs differently"
            )
    if log.passes and line.cached > (most := log.passes[-1].cached + log.passes[-1].rows):
        raise ValueError(
            f"cached is {line.cached}, but run {line.run} had fed only {most} rows by then: is a pass missing, or are"
            " two runs of one number?"
        )
    log.passes.append(line)
    log.numbers.append(number)


def _checked(fields: dict[str, Any]) -> Pass:
    for name in NEEDED:
        if fields.get(name) is None:
            raise ValueError(f"{name} is missing")
    try:
        line = msgspec.convert(fields, Pass, strict=False)
    except msgspec.ValidationError as error:
        raise ValueError(_in_words(str(error))) from error
    if not (isfinite(line.seconds) and line.seconds > 0):
        raise ValueError(f"seconds must be positive and finite, not {line.seconds}: time with a monotonic clock")
    for name, least in (("rows", 1), ("cached", 0), ("tokens", 0), ("block", 0), ("max_rows", line.rows)):
        value = getattr(line, name)
        # The prefill is as wide as the prompt, whatever R is.
        if value is not None and value < least and not (name == "max_rows" and line.cached == 0):
            raise ValueError(f"{name} must be at least {least}, not {value}")
    if line.tokens > line.rows:
        raise ValueError(
            f"tokens is {line.tokens}, but a pass of {line.rows} {_rows(line.rows)} yields at most {line.rows}"
        )
    if not line.loop:
        raise ValueError("loop is empty: name it, as in docs/loops.md")
    return line


def _rows(n: int) -> str:
    return "row" if n == 1 else "rows"


def _in_words(error: str) -> str:
    """msgspec's "Expected `int`, got `str` - at `$.rows`" with the field in front."""
    what, _, where = error.partition(" - at `$.")
    return f"{where.rstrip('`')}: {what}" if where else what


def _decode(log: Gathered) -> Iterator[tuple[Pass, int]]:
    """The passes behind the prefill, with their line numbers."""
    start = 0
    if log.first.cached == 0:
        start = next((i for i, p in enumerate(log.passes) if p.tokens), len(log.passes) - 1) + 1
    return zip(log.passes[start:], log.numbers[start:], strict=True)


def _run(log: Gathered, block: int, place: int, max_rows: int) -> Run:
    first, n_decode = log.first, sum(1 for _ in _decode(log))
    records: list[Record] = []
    for i, p in enumerate(log.passes):
        prefill = i < len(log.passes) - n_decode
        before = records[-1] if records and records[-1].kind != "prefill" else None
        guessed = 0 if prefill else p.rows - 1
        records.append(
            Record(
                kind="prefill" if prefill else _kind(p, before),
                n_past=p.cached,
                n_rows=p.rows,
                n_out=1 if prefill else p.rows,
                guessed=guessed,
                accepted=min(guessed, max(p.tokens - 1, 0)),
                n_tokens=p.tokens,
                seconds=p.seconds,
            )
        )
    return Run(
        block=block,
        place=place,
        prompt=first.prompt,
        loop=first.loop,
        rows=max_rows,
        drafter=first.drafter,
        tokens=(),
        wall_seconds=sum(r.seconds for r in records if r.kind != "prefill"),
        passes=tuple(records),
    )


def _kind(p: Pass, before: Record | None) -> Kind:
    """`sim.run.kind`, from the shapes alone: one row of a pass is known, the others are guesses."""
    if p.rows > 1:
        return "chained" if before and before.guessed else "verify"
    return "correction" if before and before.guessed else "decode"


def _outliers(logs: Sequence[Gathered]) -> list[str]:
    """A sentence for each pass that is far from the others of its rows, the first few; all are kept."""
    alike: dict[int, list[tuple[Pass, int]]] = {}
    for log in logs:
        for p, number in _decode(log):
            alike.setdefault(p.rows, []).append((p, number))
    told = []
    for rows, group in sorted(alike.items()):
        usual = median(p.seconds for p, _ in group)
        if len(group) == 2:
            usual = min(p.seconds for p, _ in group)
        for p, number in group:
            if len(group) > 1 and p.seconds > FAR * usual:
                told.append(
                    f"line {number} is an outlier: {p.seconds:g} s for a pass of {rows} {_rows(rows)} that else takes"
                    f" {usual:g} s; it is kept, so the means of its run are those of the outlier"
                )
            elif p.seconds > LONG * rows:
                told.append(
                    f"line {number} says {p.seconds:g} s for a pass of {rows} {_rows(rows)}: are these milliseconds?"
                )
    return told[:5] + ([f"{len(told) - 5} more passes are outliers"] if len(told) > 5 else [])


def _once(runs: Sequence[Run]) -> list[str]:
    """That there is no interval, where nothing was run twice."""
    if any(run.block for run in runs):
        return []
    return ["every loop was run once on a prompt: there is no interval, so a difference may be chance"]


def _uneven(runs: Sequence[Run]) -> list[str]:
    """Prompts on which the runs differ in their number of tokens."""
    tokens: dict[str, Counter[int]] = {}
    for run in runs:
        tokens.setdefault(run.prompt, Counter())[run.n_tokens] += 1
    return [
        f"the runs on {prompt!r} wrote between {min(seen)} and {max(seen)} tokens: they are compared by seconds a token"
        for prompt, seen in tokens.items()
        if len(seen) > 1
    ]


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """What all runs of a loop on a prompt come to, behind the prefill; nothing to divide by gives None."""

    prompt: str
    loop: str
    rows: int
    drafter: str
    n_runs: int
    n_passes: int
    n_tokens: int
    seconds: float
    seconds_per_token: float | None
    tokens_per_second: float | None
    tokens_per_pass: float | None


def paces(runs: Sequence[Run]) -> list[Pace]:
    """One line a prompt and setting: seconds a token are those of all passes over all tokens, never of a chunk."""
    groups: dict[tuple[str, Key], list[Run]] = {}
    for run in runs:
        groups.setdefault((run.prompt, run.key), []).append(run)
    made = []
    for (prompt, key), group in groups.items():
        n_passes, n_tokens = sum(len(run.decode) for run in group), sum(run.n_tokens for run in group)
        seconds = sum(run.seconds for run in group)
        made.append(
            Pace(
                prompt=prompt,
                loop=key.loop,
                rows=key.rows,
                drafter=key.drafter,
                n_runs=len(group),
                n_passes=n_passes,
                n_tokens=n_tokens,
                seconds=seconds,
                seconds_per_token=seconds / n_tokens if n_tokens else None,
                tokens_per_second=n_tokens / seconds if seconds else None,
                tokens_per_pass=n_tokens / n_passes if n_passes else None,
            )
        )
    return made
