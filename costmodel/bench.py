"""Cost tables from what llama.cpp's own benchmarks print, read as what they are.

    llama-bench -o json | -o jsonl                   c(n) of one sequence from -p 1,2,3,...  (-d: cached length)
    llama-batched-bench --output-format jsonl        c(n) of n sequences, t_tg / tg

llama-bench asks for the last row's logits only, so its c(n) is too cheap for a verify pass, which asks for
all of them; where the model's spec is given, the missing rows of the head are added at the price of the other
weights: all(n) = last(n) + (last(n) - last(1)) head / dense. Field names: tools/llama-bench and
tools/batched-bench of llama.cpp; older files lack some (n_depth, backends). Nothing is averaged over
different settings.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from costmodel.benchfile import Captured, read_captured
from costmodel.passcost import Table
from costmodel.profile import Profile
from costmodel.specs import ModelSpec

ALIASES = {"model": "model_filename", "threads": "n_threads"}
RESULTS = frozenset(
    [
        "n_prompt",
        "n_gen",
        "n_depth",
        "test_time",
        "avg_ns",
        "stddev_ns",
        "avg_ts",
        "stddev_ts",
        "samples_ns",
        "samples_ts",
        "pp",
        "tg",
        "pl",
        "n_kv",
        "t_pp",
        "speed_pp",
        "t_tg",
        "speed_tg",
        "t",
        "speed",
        "build_number",
        "model_size",
        "model_n_params",
    ]
)
"""Fields that differ from test to test; all others are settings, and must agree within a table."""
ON_CPU = frozenset({"CPU", "BLAS", "ACCEL", "RPC"})
OLD_GPU_FLAGS = ("cuda", "opencl", "metal", "vulkan", "sycl", "kompute")
MIXTURE = re.compile(r"moe|\d+x\d+|\bA\d+(\.\d+)?B\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Imported:
    """A profile, and what was left out or taken apart on the way to it, to be printed once."""

    profile: Profile
    notes: tuple[str, ...]


def import_cost(
    path: str | Path,
    select: Mapping[str, str] | None = None,
    spec: ModelSpec | None = None,
    force: bool = False,
) -> Imported:
    """The cost table in a file that llama-bench or llama-batched-bench wrote.

    select  field -> value, where the file holds several settings ("model" and "threads" are short for
            model_filename and n_threads; of a file name its last part is enough)
    spec    the model, to price the logits that llama-bench does not ask for
    force   take a file that was cut short, or that has other threads for one row than for more, and say so in
            every number that comes of it

    Raises ValueError, in one sentence with the cure, for anything that is not one whole table of one setting.
    """
    captured = read_captured(Path(path), partial=force)
    tests = _selected(captured, select or {})
    notes = list(captured.notes)
    caveats = [captured.cut] if captured.cut else []
    if captured.program == "llama-bench":
        samples = _of_llama_bench(tests, notes)
        caveats += _circumstances(tests[0])
    else:
        samples = _of_batched_bench(tests, notes)
        caveats += _other_threads(path, tests[0], force)
        caveats.append("the rows of llama-batched-bench are of different sequences, each with a cache of its own")
    table = _table(path, samples, caveats)
    if captured.program == "llama-bench":
        table = _all_logits(table, spec, notes, caveats)
    first = tests[0]
    settings = {key: value for key, value in first.items() if key not in RESULTS}
    profile = Profile(
        source=captured.program,
        model=Path(str(first.get("model_filename", ""))).name or "unknown",
        cost=table,
        n_threads=int(first.get("n_threads", 0)),
        environment=settings,
        caveats=tuple(caveats),
    )
    return Imported(profile, tuple(notes))


def _selected(captured: Captured, select: Mapping[str, str]) -> list[dict[str, Any]]:
    """The tests of one setting; ValueError listing the settings when there are several, or none that fits."""
    tests = captured.tests
    wanted = {ALIASES.get(key, key): value for key, value in select.items()}
    for key, value in wanted.items():
        if not any(key in test for test in tests):
            raise ValueError(f"{captured.path} has no field {key!r} to select by")
        kept = [test for test in tests if _fits(test.get(key), value)]
        if not kept:
            held = sorted({str(test.get(key)) for test in tests})
            raise ValueError(f"{captured.path} has no test with {key} {value!r}, only {', '.join(held)}")
        tests = kept
    fields = {key for test in tests for key in test} - RESULTS
    several = sorted(key for key in fields if len({repr(test.get(key)) for test in tests}) > 1)
    if "model_filename" in several:
        several = [key for key in several if key != "model_type"]
    if several:
        raise ValueError(f"{captured.path} holds {_settings(tests, several)}")
    return tests


def _settings(tests: Sequence[Mapping[str, Any]], several: Sequence[str]) -> str:
    """The settings of a file by the fields in which they differ, and how to pick the first."""
    short = {field: alias for alias, field in ALIASES.items()}
    names = [short.get(key, key) for key in several]
    held = list(dict.fromkeys(tuple(Path(str(test.get(key))).name for key in several) for test in tests))
    shown = "; ".join(
        ", ".join(f"{name} {value}" for name, value in zip(names, values, strict=True)) for values in held
    )
    cure = " ".join(f"--select {name}={value}" for name, value in zip(names, held[0], strict=True))
    return f"{len(held)} settings ({shown}): pick one, as in {cure}"


def _fits(held: Any, wanted: str) -> bool:
    return wanted in (str(held), Path(str(held)).name, Path(str(held)).stem)


Samples = dict[tuple[int, int], list[float]]
"""(cached length, rows) -> seconds of single passes."""


def _of_llama_bench(tests: Iterable[Mapping[str, Any]], notes: list[str]) -> Samples:
    samples: Samples = {}
    per_token: list[str] = []
    combined, split = [], []
    for test in tests:
        n_prompt, n_gen, depth = (int(test.get(key, 0)) for key in ("n_prompt", "n_gen", "n_depth"))
        values = [float(ns) / 1e9 for ns in test.get("samples_ns") or [test["avg_ns"]]]
        if n_prompt and n_gen:
            combined.append(f"pg{n_prompt}+{n_gen}")
        elif n_gen:
            per_token.append(f"tg{n_gen} gives {np.median(values) / n_gen * 1e3:.4g} ms a token")
        elif n_prompt > min(int(test.get("n_ubatch", n_prompt)), int(test.get("n_batch", n_prompt))):
            split.append(f"pp{n_prompt}")
        elif n_prompt:
            samples.setdefault((depth, n_prompt), []).extend(values)
    if per_token:
        notes.append(f"generation is kept apart as a cross-check of c(1): {', '.join(per_token)}")
    if combined:
        notes.append(f"left out, because prompt and generation together are no pass: {', '.join(combined)}")
    if split:
        notes.append(f"left out, because it is several passes of n_ubatch rows: {', '.join(split)}")
    return samples


def _of_batched_bench(tests: Iterable[Mapping[str, Any]], notes: list[str]) -> Samples:
    samples: Samples = {}
    for test in tests:
        if int(test["tg"]) < 1:
            notes.append(f"left out, because nothing was generated: pp {test['pp']}, pl {test['pl']}")
            continue
        cached = int(test["pp"]) + int(test["tg"]) // 2  # the mean over the generated tokens
        samples.setdefault((cached, int(test["pl"])), []).append(float(test["t_tg"]) / int(test["tg"]))
    notes.append("seconds of a pass are t_tg / tg, at a cached length of pp + tg/2 in each sequence")
    return samples


def _table(path: str | Path, samples: Samples, caveats: list[str]) -> Table:
    if not samples:
        raise ValueError(f"{path} holds no passes to price: run llama-bench -p 1,2,3,4,5,6,7,8 -n 0 -o json")
    pasts = sorted({past for past, _ in samples})
    rows = sorted({n for _, n in samples})
    for past in pasts:
        if missing := [str(n) for n in rows if (past, n) not in samples]:
            raise ValueError(
                f"{path} has no passes of {', '.join(missing)} rows at cached length {past}, but at others: "
                "measure the same row counts at every length"
            )
    center = [[float(np.median(samples[past, n])) for n in rows] for past in pasts]
    low, high = ([[_interval(samples[past, n])[side] for n in rows] for past in pasts] for side in (0, 1))
    once = any(len(values) < 2 for values in samples.values())
    if once:
        caveats.append("some passes were timed once only: no interval")
    if len(pasts) > 1:
        caveats.append(f"cached lengths {', '.join(map(str, pasts))} were measured; between them it is linear")
    return Table(
        n_rows=tuple(rows),
        n_past=tuple(pasts),
        all_rows_seconds=_grid(center),
        low=None if once else _grid(low),
        high=None if once else _grid(high),
    )


def _interval(values: Sequence[float]) -> tuple[float, float]:
    """95 % around the median, from the scatter of the repetitions."""
    from scipy.special import stdtrit

    center = float(np.median(values))
    if len(values) < 2:
        return center, center
    half = float(stdtrit(len(values) - 1, 0.975) * np.std(values, ddof=1) / np.sqrt(len(values)))
    return max(center - half, center / 1e6), center + half


def _all_logits(table: Table, spec: ModelSpec | None, notes: list[str], caveats: list[str]) -> Table:
    """The table with the logits of all rows priced, where the model's spec says how many weights they are."""
    what = "llama-bench asks for the last row's logits only, a verify pass for all rows'"
    if spec is None or table.n_rows[0] != 1:
        caveats.append(f"{what}: c(n) is too cheap for it; the model's GGUF or spec gives a correction")
        return table
    routed = spec.dense_weights + spec.n_experts_used * spec.expert_weights
    share = spec.head_weights / routed
    corrected = [[last + (last - line[0]) * share for last in line] for line in table.all_rows_seconds]
    pairs = zip(table.n_rows, table.all_rows_seconds[0], corrected[0], strict=True)
    shown = ", ".join(f"c({n}) {last * 1e3:.4g} -> {full * 1e3:.4g} ms" for n, last, full in pairs if n > 1)
    notes.append(f"logits of all rows added at the price of the other weights (head/dense {share:.3f}): {shown}")
    caveats.append(f"{what}: they are estimated, not measured")
    return Table(
        n_rows=table.n_rows,
        n_past=table.n_past,
        all_rows_seconds=_grid(corrected),
        last_row_seconds=table.all_rows_seconds,
    )


def _circumstances(test: Mapping[str, Any]) -> list[str]:
    """What must be said of every number that comes of a llama-bench table."""
    caveats = []
    backends = {name.strip() for name in str(test.get("backends", "CPU")).split(",")}
    gpus = sorted(name for name in backends if name and name not in ON_CPU)
    gpus += [flag for flag in OLD_GPU_FLAGS if test.get(flag) is True]
    if gpus and test.get("n_gpu_layers", 0) != 0:
        caveats.append(f"measured on a GPU ({', '.join(gpus)}): it does not hold for a CPU")
    if MIXTURE.search(str(test.get("model_type", ""))):
        caveats.append(
            "a mixture of experts: which experts a pass touches depends on the text; llama-bench feeds "
            "random tokens, which touch more of them than a repetition does"
        )
    return caveats


def _other_threads(path: str | Path, test: Mapping[str, Any], force: bool) -> list[str]:
    few, many = test.get("n_threads"), test.get("n_threads_batch")
    if few == many:
        return []
    what = f"passes of one row ran with {few} threads and wider ones with {many}, which falsifies every ratio to c(1)"
    if not force:
        raise ValueError(f"{path}: {what}: measure again with -t and -tb equal")
    return [what]


def _grid(rows: Sequence[Sequence[float]]) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(row) for row in rows)
