"""Backwards from a speed-up that was printed: which c_R/c_1 gives it, and how slow a window, if none does.

A loop's passes over a text are counted by their rows. With c_1 = 1 and a cost that is affine in the rows between 1 and
R, c_n = 1 + (x - 1)(n - 1)/(R - 1), both loops' costs are linear in x = c_R/c_1, so

    speedup = (a + b (x - 1)) / (c + d (x - 1))

is solved for x. At full acceptance without an end it is fused/gated = (R/(R + 1)) (1 + 1/x).
"""

from __future__ import annotations

from collections.abc import Mapping

from costmodel.acceptance import Number
from costmodel.caps import full_acceptance_cycle


def implied_ratio(
    speedup: Number, passes: Mapping[int, Number], baseline: Mapping[int, Number], n_rows: int
) -> Number | None:
    """The c_R/c_1 at which `passes` (rows -> how many) are `speedup` times as fast as `baseline`, same tokens.

    Below 1 where even free rows would not do. None where no c_R/c_1 above 0 does.

    >>> from fractions import Fraction
    >>> implied_ratio(Fraction(10, 7), {6: 7}, {6: 6, 1: 6}, 6)
    Fraction(3, 2)
    """
    (ours, our_slope), (theirs, their_slope) = (_line(counts, n_rows) for counts in (passes, baseline))
    steepness = speedup * our_slope - their_slope
    if not steepness:
        return None
    ratio = 1 + (theirs - speedup * ours) / steepness
    return ratio if ratio > 0 else None


def free_rows_speedup(passes: Mapping[int, Number], baseline: Mapping[int, Number]) -> float:
    """The cap of these passes: how much faster they are when every pass costs one sweep, whatever its rows.

    >>> round(free_rows_speedup({6: 7}, {6: 6, 1: 6}), 4)
    1.7143
    """
    return float(sum(baseline.values()) / sum(passes.values()))


def endless(loop: str, n_rows: int) -> dict[int, int]:
    """The passes of a loop, by rows, at full acceptance without an end: R (R + 1) tokens of them.

    >>> endless("gated", 6), endless("fused", 6)
    ({6: 6, 1: 6}, {6: 7})
    """
    cycle = full_acceptance_cycle(loop, n_rows)
    times = n_rows * (n_rows + 1) // cycle.n_tokens
    return {n: times * cycle.n_rows.count(n) for n in dict.fromkeys(cycle.n_rows)}


def _line(counts: Mapping[int, Number], n_rows: int) -> tuple[Number, Number]:
    """A number of passes, and how their cost grows with c_R/c_1 - 1."""
    slope: Number = sum(times * (n - 1) for n, times in counts.items())
    exact = slope if isinstance(slope, float) else _fraction(slope)
    return sum(counts.values()), exact / (n_rows - 1)


def _fraction(value: Number) -> Number:
    from fractions import Fraction

    return Fraction(value)
