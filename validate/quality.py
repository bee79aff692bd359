"""What a run says about itself: its noise floor, what is missing, what drifted, what is not stated and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from validate import blocks
from validate.blocks import Group, Groups
from validate.comparison import Cell, Refused, Twin
from validate.design import interval, trend
from validate.runs import Header, Key, Run

TREND = 0.01
"""The p-value below which the ratios of a loop are said to drift with the blocks."""


def refusal(base: Sequence[Run], own: Sequence[Run]) -> str:
    """Why a speedup is not stated: no block holds both, or fewer than two are left without the disturbed ones."""
    there = len(blocks.by_block(base, own))
    if not there:
        return "no block holds both loops: there is nothing to compare at one time"
    left = len(blocks.by_block(blocks.clean(base), blocks.clean(own)))
    if left >= min(2, there):
        return ""
    seen = next(run.machine for run in (*base, *own) if blocks.is_disturbed(run))
    assert seen is not None
    return f"{there - left} of its {there} blocks were disturbed ({seen.disturbed}): measure again on a quiet machine"


def twins(groups: Groups) -> Iterator[Twin]:
    """The noise floor: lanes that ran the same passes, undisturbed blocks only.

    A setting and its twin; and settings of a prompt that happened to run the same passes over the same text, each
    against the first of them.
    """
    single = {key: alone for key, runs in groups.items() if (alone := [run for run in runs if not run.twin])}
    for key in single:
        if twin := [run for run in groups[key] if run.twin]:
            yield from _twin(key, single[key], key, twin)
    first: dict[object, Group] = {}
    for key, runs in single.items():
        passes = tuple((r.n_past, r.n_rows, r.n_out) for r in runs[0].passes)
        like = first.setdefault((key[0], passes, runs[0].tokens), key)
        if like != key:
            yield from _twin(like, single[like], key, runs)


def _twin(key: Group, runs: Sequence[Run], other: Group, others: Sequence[Run]) -> Iterator[Twin]:
    logs = blocks.block_log_ratios(blocks.clean(runs), blocks.clean(others)) if runs[0].n_tokens else []
    if logs:
        ratio, low, high = interval(logs)
        setting = key[1]
        yield Twin(
            prompt=key[0], loop=setting.loop, rows=setting.rows, drafter=setting.drafter, other=str(other[1]),
            ratio=ratio, low=low, high=high,
        )  # fmt: skip


def missing(header: Header, runs: Sequence[Run]) -> Iterator[tuple[int, str]]:
    """The prompts of begun blocks that lack runs; further blocks need not hold every prompt."""
    n_places = len(header.plan.get("settings", ())) + len(header.plan.get("twins", ()))
    places = Counter((run.block, run.prompt) for run in runs)
    begun = max((run.block for run in runs), default=0) + 1
    for block in range(min(begun, header.n_blocks)):
        for prompt in header.plan.get("prompts", ()):
            if places[block, prompt] < n_places:
                yield block, prompt


def unfinished(header: Header, runs: Sequence[Run]) -> list[str]:
    """Sentences about what was planned and is not there."""
    warnings = []
    if n := len(list(missing(header, runs))):
        warnings.append(
            f"this run is unfinished: {n} prompts of its blocks lack runs; the same command goes on from here"
        )
    n_blocks = len({run.block for run in runs})
    if n_blocks < header.n_blocks:
        warnings.append(
            f"{n_blocks} of {header.n_blocks} planned blocks were measured: the intervals are wider than planned"
        )
    return warnings


def warnings(cells: Sequence[Cell], refused: Sequence[Refused], groups: Groups) -> Iterator[str]:
    """What the reader must be told about the ratios."""
    if refused:
        yield f"{len(refused)} speedups are not stated, such as {refused[0].loop} on {refused[0].prompt!r}: " + (
            refused[0].reason
        )
    for (prompt, setting), group in groups.items():
        if any(run.tokens != group[0].tokens for run in group):
            yield f"{setting} did not write the same text every time on {prompt!r}: its first text is replayed"
    for prompt, loop in sorted({(cell.prompt, cell.loop) for cell in cells if cell.parity.verdict == "bug"}):
        yield (
            f"{loop} left the greedy text of {prompt!r} where its lead exceeds the measured numerical noise: a bug of"
            " the loop or of the engine, not a tie"
        )
    if odd := sorted({(cell.prompt, block) for cell in cells for block in cell.odd_blocks}):
        named = ", ".join(f"block {block} of {prompt!r}" for prompt, block in odd[:6])
        yield (
            f"{len(odd)} blocks disagree with the others of their prompt ({named}{', ...' if len(odd) > 6 else ''}):"
            " something woke up; they are kept, and the mean of the middle half is what is stated"
        )
    yield from _drifting(groups)


def _drifting(groups: Groups) -> Iterator[str]:
    """Loops whose ratio over greedy rises or falls with the blocks, over all prompts."""
    found: dict[Key, dict[int, list[float]]] = {}
    for base, (prompt, setting) in blocks.pairs(groups):
        if base[1].loop == "greedy" and groups[prompt, setting][0].n_tokens:
            ratios = blocks.by_block(groups[base], groups[prompt, setting])
            for block, ratio in ratios.items():
                found.setdefault(setting, {}).setdefault(block, []).append(
                    ratio - float(np.mean(list(ratios.values())))
                )
    for setting, by_block in found.items():
        p = trend([float(np.mean(values)) for _, values in sorted(by_block.items())])
        if p < TREND:
            yield (
                f"the speedup of {setting} over greedy drifts with the blocks (Kendall's tau, p = {p:.3f}): the"
                " machine was not the same at the end as at the beginning; measure again, with more warm-up"
            )
