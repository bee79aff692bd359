"""Predictions -> the screen: what each loop takes over recorded texts, or is expected to for an acceptance law."""

from __future__ import annotations

from collections.abc import Iterable

from costmodel.ask import Prediction as Expected
from figures.terminal import emit_table
from figures.text import number
from sim.predict import Line

TIMES = "{:.3f}x"


def show(lines: Iterable[Line]) -> None:
    """A line for each text and setting."""
    emit_table(
        "predicted, behind the prefill; speedups are total_time",
        (
            "prompt", "loop", "R", "passes", "rows", "tokens",
            "tok/pass", "accepted", "seconds", "over greedy", "over gated",
        ),
        [
            (
                line.prompt, line.loop, line.rows, line.n_passes, line.n_rows, line.n_tokens,
                number(line.tokens_per_pass, "{:.2f}"), number(line.acceptance, "{:.0%}", "no drafts"),
                f"{line.seconds:.3f}", number(line.over_greedy, TIMES), number(line.over_gated, TIMES),
            )
            for line in lines
        ],
    )  # fmt: skip


def show_expected(lines: Iterable[Expected], what: str) -> None:
    """A line for each setting, in expectation."""
    emit_table(
        f"expected for {what}; speedups are ratios of expected total time",
        ("loop", "R", "passes", "tok/pass", "seconds", "95 % of texts", "over greedy", "over gated"),
        [
            (
                line.loop, line.n_rows, f"{line.n_passes:.2f}", f"{line.tokens_per_pass:.3f}", f"{line.seconds:.4f}",
                f"{line.low:.4f}-{line.high:.4f}", number(line.over_greedy, TIMES), number(line.over_gated, TIMES),
            )
            for line in lines
        ],
    )  # fmt: skip
