"""Timed runs as blocks: which settings are compared, one log-ratio a block, and which blocks are not like the others.

A block in which the machine was seen to be busy is *disturbed*: kept, listed, measured again, and left out of the
intervals. A block that merely disagrees is *odd*: kept, listed, measured again, and left in.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from math import inf, log
from typing import TypeAlias

import numpy as np

from validate.design import half_width, interval, odd
from validate.runs import Key, Run

Group: TypeAlias = tuple[str, Key]
"""A prompt and a setting: what is run once or twice in a block."""
Groups: TypeAlias = Mapping[Group, Sequence[Run]]

BASELINES = ("greedy", "gated")


def grouped(runs: Sequence[Run]) -> dict[Group, list[Run]]:
    """The runs of each prompt and setting, those of its twin among them: both lanes are runs of the setting."""
    groups: dict[Group, list[Run]] = defaultdict(list)
    for run in runs:
        groups[run.prompt, run.key].append(run)
    return dict(groups)


def pairs(groups: Groups) -> Iterator[tuple[Group, Group]]:
    """What is compared: (baseline, other) of a prompt, over `greedy`, and over `gated` at equal rows and drafter."""
    for prompt, setting in groups:
        if setting.loop == "greedy":
            continue
        for name in BASELINES:
            for other in groups:
                if name != setting.loop and other[0] == prompt and _is_baseline(other[1], name, setting):
                    yield other, (prompt, setting)
                    break


def _is_baseline(candidate: Key, baseline: str, setting: Key) -> bool:
    if candidate.loop != baseline:
        return False
    return baseline == "greedy" or (candidate.rows, candidate.drafter) == (setting.rows, setting.drafter)


def is_disturbed(run: Run) -> bool:
    """Whether the machine was busy with something else while the run was timed."""
    return run.machine is not None and bool(run.machine.disturbed)


def clean(runs: Sequence[Run]) -> list[Run]:
    """The runs of undisturbed blocks."""
    return [run for run in runs if not is_disturbed(run)]


def seconds_per_token(runs: Sequence[Run]) -> float:
    """Mean seconds a token behind the prefill, over some runs."""
    return sum(run.seconds for run in runs) / sum(run.n_tokens for run in runs)


def by_block(baseline: Sequence[Run], other: Sequence[Run]) -> dict[int, float]:
    """The log speedup in each block in which both settings ran."""
    blocks: dict[int, tuple[list[Run], list[Run]]] = defaultdict(lambda: ([], []))
    for side, runs in enumerate((baseline, other)):
        for run in runs:
            blocks[run.block][side].append(run)
    return {
        block: log(seconds_per_token(a) / seconds_per_token(b)) for block, (a, b) in sorted(blocks.items()) if a and b
    }


def block_log_ratios(baseline: Sequence[Run], other: Sequence[Run]) -> list[float]:
    """One log speedup for each block in which both settings ran."""
    return list(by_block(baseline, other).values())


def odd_blocks(baseline: Sequence[Run], other: Sequence[Run]) -> tuple[int, ...]:
    """The blocks whose ratio is not like that of the others."""
    ratios = by_block(baseline, other)
    return tuple(list(ratios)[place] for place in odd(list(ratios.values())))


def bad_blocks(runs: Sequence[Run]) -> set[int]:
    """The blocks of one prompt that were disturbed, or odd in any of its cells."""
    groups = grouped(runs)
    bad = {run.block for run in runs if is_disturbed(run)}
    for base, key in pairs(groups):
        if groups[key][0].n_tokens:
            bad |= {*odd_blocks(groups[base], groups[key])}
    return bad


def widest(runs: Sequence[Run]) -> float:
    """The largest half-width of the cells of one prompt; infinite with a single clean block, 0 without cells."""
    groups = grouped(runs)
    found = [0.0]
    for base, key in pairs(groups):
        if not groups[key][0].n_tokens:
            continue
        ratios = block_log_ratios(clean(groups[base]), clean(groups[key]))
        found.append(half_width(*interval(ratios)[1:]) if len(ratios) > 1 else inf)
    return max(found)


def pass_medians(baseline: Sequence[Run], other: Sequence[Run], speeds: Mapping[int, float]) -> float | None:
    """The speedup from passes instead of totals: of each pass the median over blocks, at equal speed.

    The same text gives the same passes, so noise can be removed pass by pass; seconds are divided by their block's
    speed first. None where the passes differ.
    """
    totals = []
    for runs in (baseline, other):
        if len({tuple((r.n_past, r.n_rows, r.n_out) for r in run.decode) for run in runs}) != 1:
            return None
        seconds = [[record.seconds / speeds[run.block] for record in run.decode] for run in runs]
        totals.append(float(np.median(seconds, axis=0).sum()) / runs[0].n_tokens)
    return totals[0] / totals[1]


def speeds(runs: Sequence[Run]) -> dict[int, float]:
    """How slow each block of one prompt was: the geometric mean of its lanes' seconds."""
    logs: dict[int, list[float]] = defaultdict(list)
    for run in runs:
        if run.seconds > 0:
            logs[run.block].append(log(run.seconds))
    return {block: float(np.exp(np.mean(values))) for block, values in logs.items()}
