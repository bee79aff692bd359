"""Caps in words and as plain numbers: what a loop can gain when every draft is right."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from costmodel.acceptance import Number
from costmodel.ask import Cap


def as_numbers(cap: Cap) -> dict[str, Any]:
    """A cap for JSON: floats, and the exact fraction of the flat one as text."""
    return {
        "rows": cap.n_rows,
        "flat": float(cap.flat),
        "flat_exact": str(cap.flat),
        "fused_over_gated": float(cap.fused),
        "fused_exact": str(cap.fused) if isinstance(cap.fused, Fraction) else None,
        "break_even_ratio": None if cap.break_even is None else float(cap.break_even),
        "carry_over_greedy": float(cap.rows_gain),
        "best_rows": None if cap.best is None else cap.best[0],
        "best_gain": None if cap.best is None else float(cap.best[1]),
        "notes": cap.notes,
    }


def in_words(cap: Cap, where: str = "") -> str:
    """A cap in sentences; `where` says which cost it is on, if not the flat one.

    >>> from costmodel.ask import cap
    >>> print(in_words(cap(6)))
    fused over gated at R = 6, every pass one sweep: at most 12/7 = 1.714
    it is 1 where c(6)/c(1) = 6; carry over greedy is at most 6 = 6.000
    """
    r = cap.n_rows
    lines = [f"fused over gated at R = {r}, every pass one sweep: at most {_value(cap.flat)}"]
    if where:
        lines.append(f"{where}: at most {_value(cap.fused)}")
    even = "never 1" if cap.break_even is None else f"1 where c({r})/c(1) = {float(cap.break_even):g}"
    lines.append(f"it is {even}; carry over greedy is at most {_value(cap.rows_gain)}")
    if cap.best is not None:
        best, gain = cap.best
        advice = (
            f"best at R = {best}, {float(gain):.3f}x greedy" if best > 1 else "no R pays, even if all drafts are right"
        )
        lines.append(f"over all rows measured: {advice}")
    return "\n".join((*lines, *cap.notes))


def _value(number: Number) -> str:
    return f"{number} = {float(number):.3f}" if isinstance(number, Fraction) else f"{float(number):.3f}"
