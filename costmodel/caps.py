"""What a loop can gain at most: every draft right, every pass priced; exact where the inputs are.

At full acceptance a loop repeats a short cycle of passes that yields a fixed number of tokens, so with R rows

    speed-up = (tokens of its cycle / cost of its cycle) / (the same of the baseline)

On a flat cost fused over gated is 2R/(R+1); in general (R/(R+1)) (1 + c1/cR), which crosses 1 where cR = R
c1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

from costmodel.acceptance import Number
from costmodel.passcost import PassCost

MOST_ROWS = 64  # a table may hold the passes of a prompt too; no loop drafts more than this
Curve: TypeAlias = PassCost | Mapping[int, Number]
"""A pass cost, or the cost of each row count in any unit."""


@dataclass(frozen=True, slots=True)
class Cycle:
    """What a loop repeats while every draft is right: tokens gained, and the row counts of the passes."""

    n_tokens: int
    n_rows: tuple[int, ...]


def sweep_cap(k: int) -> Fraction:
    """2k/(k+1): what deleting the 1-row correction of a k-row verify is worth when every pass costs one sweep.

    Raises ValueError for k < 1. Source: the "sweep-ideal cap" of Fused Correction, Zenodo 23990528.

    >>> sweep_cap(6)
    Fraction(12, 7)
    """
    if k < 1:
        raise ValueError(f"a pass has at least 1 row, not {k}")
    return Fraction(2 * k, k + 1)


def full_acceptance_cycle(loop: str, n_rows: int) -> Cycle:
    """The cycle of a loop at full acceptance, at most `n_rows` rows a pass.

    Raises ValueError for an unknown loop, or fewer than 2 rows for a loop that guesses.

    >>> full_acceptance_cycle("gated", 6), full_acceptance_cycle("fused", 6)
    (Cycle(n_tokens=7, n_rows=(6, 1)), Cycle(n_tokens=6, n_rows=(6,)))
    """
    if loop not in CORRECTS:
        raise ValueError(f"unknown loop {loop!r}; known are {', '.join(CORRECTS)}")
    if loop == "greedy":
        return Cycle(1, (1,))
    if n_rows < 2:
        raise ValueError(f"a guessing loop needs at least 2 rows a pass (one known, one guessed), not {n_rows}")
    return Cycle(n_rows + 1, (n_rows, 1)) if CORRECTS[loop] else Cycle(n_rows, (n_rows,))


CORRECTS: dict[str, bool] = {
    "greedy": False,
    "gated": True,
    "fused": False,
    "fused-partial": False,
    "gated-held": False,
    "carry": False,
    "decode-then-speculate": True,
    "padded": False,
    "dummy": False,
    "re-anchor": True,
}
"""Whether a loop runs a 1-row pass beside every fully accepted verify."""


def cycle_cost(cycle: Cycle, curve: Curve, n_past: int = 0) -> Number:
    """The cost of one round of a cycle, every row's logits wanted; in the curve's unit, exact if the curve is.

    Raises ValueError for a row count that the curve does not have.

    >>> cycle_cost(full_acceptance_cycle("gated", 6), {1: 10, 6: 21})
    31
    """
    if isinstance(curve, Mapping):
        if missing := [n for n in cycle.n_rows if n not in curve]:
            raise ValueError(f"the cost curve has no {missing[0]} rows, only {', '.join(map(str, curve))}")
        return sum(curve[n] for n in cycle.n_rows)
    befores = (cycle.n_rows[-1], *cycle.n_rows)
    return sum(curve.seconds(n_past, n, n, before) for n, before in zip(cycle.n_rows, befores, strict=False))


def full_acceptance_speedup(
    loop: str,
    baseline: str,
    n_rows: int,
    cost: Curve | None = None,
    ratio: Number | None = None,
    n_past: int = 0,
) -> Number:
    """Speed-up of `loop` over `baseline` when every draft is right: on a curve, on c_R/c_1 alone, or on a flat cost.

    Raises ValueError for unknown loops, for both a curve and a ratio, for a ratio that is not positive.

    >>> full_acceptance_speedup("fused", "gated", 6)
    Fraction(12, 7)
    >>> full_acceptance_speedup("fused", "gated", 6, ratio=Fraction(3, 2))
    Fraction(10, 7)
    >>> full_acceptance_speedup("carry", "greedy", 6, cost={1: 10, 6: 21})
    Fraction(20, 7)
    """
    if cost is not None and ratio is not None:
        raise ValueError("give a cost curve or the ratio c_R/c_1, not both")
    if ratio is not None and not ratio > 0:
        raise ValueError(f"the ratio c_R/c_1 must be positive, not {ratio}")
    curve: Curve = cost if cost is not None else {1: Fraction(1), n_rows: _exact(1 if ratio is None else ratio)}
    ours, theirs = full_acceptance_cycle(loop, n_rows), full_acceptance_cycle(baseline, n_rows)
    return (
        _exact(cycle_cost(theirs, curve, n_past))
        * ours.n_tokens
        / (_exact(cycle_cost(ours, curve, n_past)) * theirs.n_tokens)
    )


def break_even_ratio(loop: str, baseline: str, n_rows: int) -> Fraction | None:
    """The c_R/c_1 at which two loops are equally fast at full acceptance; None when they never cross.

    >>> break_even_ratio("fused", "gated", 6), break_even_ratio("fused", "carry", 6)
    (Fraction(6, 1), None)
    """
    ours, theirs = full_acceptance_cycle(loop, n_rows), full_acceptance_cycle(baseline, n_rows)

    def parts(cycle: Cycle) -> tuple[int, int]:
        return cycle.n_rows.count(1), cycle.n_rows.count(n_rows)

    # tokens (o1 + oR x) is linear in x: ours.tokens (t1 + tR x) = theirs.tokens (o1 + oR x)
    (o1, o_r), (t1, t_r) = parts(ours), parts(theirs)
    slope = ours.n_tokens * t_r - theirs.n_tokens * o_r
    if slope == 0:
        return None
    ratio = Fraction(theirs.n_tokens * o1 - ours.n_tokens * t1, slope)
    return ratio if ratio > 0 else None


def rows_gain(curve: Curve, n_rows: int, n_past: int = 0) -> Number:
    """n c(1)/c(n): how much faster n rows that are all right are than n passes of one row.

    >>> rows_gain({1: 10, 6: 21}, 6)
    Fraction(20, 7)
    """
    return full_acceptance_speedup("carry", "greedy", n_rows, curve, n_past=n_past) if n_rows > 1 else 1


def best_rows(curve: Curve, n_rows: Iterable[int] | None = None, n_past: int = 0) -> tuple[int, Number]:
    """The row count with the largest n c(1)/c(n), cliffs included, and that gain; (1, 1) when no guess can pay.

    Looks at `n_rows`, or at every row count up to MOST_ROWS that the curve holds; ties go to the smaller
    count. Raises ValueError when neither says which.

    >>> best_rows({1: 10, 2: 12, 3: 40, 4: 16})
    (4, Fraction(5, 2))
    """
    given = n_rows is not None
    if n_rows is None:
        n_rows = curve if isinstance(curve, Mapping) else getattr(curve, "n_rows", None)
    if n_rows is None:
        raise ValueError("say which row counts to compare: this cost has a price for any")
    n_rows = [n for n in n_rows if given or n <= MOST_ROWS]
    candidates = [(n, rows_gain(curve, n, n_past)) for n in sorted({1, *n_rows})]
    return max(candidates, key=lambda candidate: (candidate[1], -candidate[0]))


def _exact(value: Number) -> Number:
    return Fraction(value) if isinstance(value, int) else value
