"""One loop against one baseline over all prompts, by each of the three speedups in use.

    total_time   sum of the baseline's seconds / sum of the loop's, for the same tokens
    mean_rate    mean over prompts of the loop's tokens/s / mean of the baseline's
    mean_ratio   mean over prompts of the ratios

They differ by more than any error of the model: a long prompt that gains decides the first, a fast one the second.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from math import log

import numpy as np

from validate.blocks import Group, Groups
from validate.comparison import Overall
from validate.design import interval
from validate.runs import Key

NAMES = ("total_time", "mean_rate", "mean_ratio")


def overall(groups: Groups, pairs: Sequence[tuple[Group, Group]]) -> tuple[Overall, ...]:
    """The three speedups of each setting over its baseline, over the prompts of the (baseline, other) `pairs`."""
    prompts: dict[tuple[Key, Key], list[str]] = {}
    for base, other in pairs:
        prompts.setdefault((base[1], other[1]), []).append(other[0])
    return tuple(made for (base, other), names in prompts.items() if (made := _overall(groups, base, other, names)))


def speedups(tokens: Sequence[float], base: Sequence[float], own: Sequence[float]) -> tuple[float, float, float]:
    """The three from tokens and seconds a token of either side, a prompt each.

    >>> total, rate, ratio = speedups([200, 50, 10], [0.1, 0.08, 0.125], [0.04, 0.09, 0.1])
    >>> print(f"{total:.4f} {rate:.4f} {ratio:.4f}")
    1.8704 1.5118 1.5463
    """
    n, a, b = np.asarray(tokens), np.asarray(base), np.asarray(own)
    return float((n * a).sum() / (n * b).sum()), float((1 / b).mean() / (1 / a).mean()), float((a / b).mean())


def _overall(groups: Groups, base: Key, other: Key, prompts: Sequence[str]) -> Overall | None:
    pace: dict[tuple[int, str], list[list[float]]] = defaultdict(lambda: [[], []])
    for prompt in prompts:
        for side, key in enumerate((base, other)):
            for run in groups[prompt, key]:
                pace[run.block, prompt][side].append(run.seconds / run.n_tokens)
    tokens = [float(groups[prompt, other][0].n_tokens) for prompt in prompts]
    per_block = []
    for block in sorted({block for block, _ in pace}):
        sides = [pace[block, prompt] for prompt in prompts]
        if all(a and b for a, b in sides):
            per_block.append(speedups(tokens, *zip(*[(np.mean(a), np.mean(b)) for a, b in sides], strict=True)))
    if not per_block:
        return None
    values: dict[str, float] = {}
    for name, ratios in zip(NAMES, zip(*per_block, strict=True), strict=True):
        values |= zip((name, f"{name}_low", f"{name}_high"), interval([log(r) for r in ratios]), strict=True)
    return Overall(
        loop=other.loop,
        rows=other.rows,
        drafter=other.drafter,
        baseline=base.loop,
        n_prompts=len(prompts),
        n_tokens=int(sum(tokens)),
        **values,
    )
