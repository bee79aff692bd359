"""Caps in words: what a loop can gain when every draft is right."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from costmodel.caps import break_even_ratio, full_acceptance_speedup, sweep_cap
from costmodel.table import Table


@dataclass(frozen=True, slots=True)
class CapLine:
    """One cap: a loop over a baseline at R rows; `exact` is the fraction where the inputs are exact."""

    loop: str
    baseline: str
    rows: int
    speedup: float
    exact: str | None
    sentence: str


def cap_lines(rows: int, ratio: float | None = None, cost: Table | None = None) -> list[CapLine]:
    """The sweep-ideal cap of deleting the correction; with c(R)/c(1), or a cost table, what is left of it.

    Raises ValueError for rows below 2, for a ratio that is not positive, and for rows that the table lacks.

    >>> [line.sentence for line in cap_lines(6, 1.5)]
    ['fused over gated at R = 6, c(6)/c(1) = 1.5: 10/7 = 1.429']
    """
    if rows < 2:
        raise ValueError(f"--rows must be at least 2 (one known, one guessed), not {rows}")
    if cost is not None:
        past = cost.n_past[0]
        pairs = [("fused", "gated"), *((loop, "greedy") for loop in ("gated", "fused", "carry"))]
        known = f"c({rows})/c(1) = {cost.seconds(past, rows, rows) / cost.seconds(past, 1, 1):.3f} at {past} cached tokens"
        return [
            _line(loop, base, rows, full_acceptance_speedup(loop, base, rows, cost, n_past=past), known)
            for loop, base in pairs
        ]
    if ratio is not None:
        exact = Fraction(ratio).limit_denominator(10**6)
        gain = full_acceptance_speedup("fused", "gated", rows, ratio=exact)
        return [_line("fused", "gated", rows, gain, f"c({rows})/c(1) = {ratio:g}")]
    even = break_even_ratio("fused", "gated", rows)
    return [
        _line(
            "fused", "gated", rows, sweep_cap(rows), f"every pass one sweep; 1 where c({rows})/c(1) = {even}"
        )
    ]


def _line(loop: str, baseline: str, rows: int, gain: float | Fraction, known: str) -> CapLine:
    exact = str(gain) if isinstance(gain, Fraction) else None
    value = f"{exact} = {float(gain):.3f}" if exact else f"{float(gain):.3f}"
    return CapLine(
        loop, baseline, rows, float(gain), exact, f"{loop} over {baseline} at R = {rows}, {known}: {value}"
    )
