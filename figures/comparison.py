"""The comparison on the screen: one line a prompt and loop, the answer under it."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from figures.answer import Answer
from figures.report import noise_floor
from figures.terminal import emit, emit_table, say
from validate.comparison import Cell, Comparison, Overall
from validate.passes import Pace

NAMES = (
    "prompt", "loop", "R", "passes", "rows",
    "over gated: predicted", "measured", "95 %", "error",
    "over greedy: predicted", "measured", "95 %", "error",
    "text",
)  # fmt: skip
OVERALL = ("loop", "R", "baseline", "prompts", "total_time", "95 %", "mean_rate", "95 %", "mean_ratio", "95 %")
PACE = ("prompt", "loop", "runs", "passes", "tokens", "tokens/pass", "ms/token", "tokens/s")


def pace(line: Pace) -> list[object]:
    """A row of the table of imported runs."""
    per_token, rate, per_pass = line.seconds_per_token, line.tokens_per_second, line.tokens_per_pass
    return [
        *(line.prompt, line.loop, line.n_runs, line.n_passes, line.n_tokens),
        "-" if per_pass is None else f"{per_pass:.2f}",
        "-" if per_token is None else f"{1e3 * per_token:.2f}",
        "-" if rate is None else f"{rate:.2f}",
    ]


def show(comparison: Comparison, words: Answer) -> None:
    """Print the table and the answer; warnings go to standard error."""
    for warning in comparison.warnings:
        say(warning)
    emit_table(
        f"speedups ({comparison.speedup}, behind the prefill), {comparison.n_blocks} blocks",
        NAMES,
        _rows(comparison.cells),
    )
    if any(line.n_prompts > 1 for line in comparison.overall):
        emit("")
        emit_table("over all prompts, by each of the three speedups in use", OVERALL, map(_overall, comparison.overall))
    if floor := noise_floor(comparison):
        emit(f"\nnoise floor (A/A): {floor}")
    emit(f"\n{words.headline}\n{words.sentence}\n{words.trust}")


def _rows(cells: Iterable[Cell]) -> list[list[object]]:
    rows = []
    for (prompt, loop, n_rows, _), group in groupby(cells, lambda c: (c.prompt, c.loop, c.rows, c.drafter)):
        by = {cell.baseline: cell for cell in group}
        any_ = next(iter(by.values()))
        row: list[object] = [prompt, loop, n_rows, any_.n_passes, any_.n_rows]
        for baseline in ("gated", "greedy"):
            cell = by.get(baseline)
            if cell is None:
                row += ["-"] * 4
            else:
                row += ["-" if cell.predicted is None else f"{cell.predicted:.3f}", f"{cell.measured:.3f}"]
                row += [f"{cell.low:.3f}-{cell.high:.3f}", "-" if cell.error is None else f"{cell.error:+.1%}"]
        row.append(_text(any_))
        rows.append(row)
    return rows


def _overall(line: Overall) -> list[object]:
    row: list[object] = [line.loop, line.rows, line.baseline, line.n_prompts]
    for name in ("total_time", "mean_rate", "mean_ratio"):
        value, low, high = (getattr(line, f"{name}{end}") for end in ("", "_low", "_high"))
        row += [f"{value:.3f}", f"{low:.3f}-{high:.3f}"]
    return row


def _text(cell: Cell) -> str:
    parity = cell.parity
    if parity.same or parity.same is None:
        return "same" if parity.same else "not known"
    margin = "" if parity.margin is None else f", lead {parity.margin:.3f} of noise {parity.noise or 0:.3f}"
    return f"{parity.verdict} at {parity.first_difference}{margin}"
