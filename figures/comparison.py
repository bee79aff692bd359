"""The comparison on the screen: one line a prompt and loop, the answer under it."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from figures.answer import Answer
from figures.report import noise_floor
from figures.terminal import emit, emit_table, say
from validate.comparison import Cell, Comparison

NAMES = (
    "prompt", "loop", "R", "passes", "rows",
    "over gated: predicted", "measured", "95 %", "error",
    "over greedy: predicted", "measured", "95 %", "error",
    "text",
)  # fmt: skip


def show(comparison: Comparison, words: Answer) -> None:
    """Print the table and the answer; warnings go to standard error."""
    for warning in comparison.warnings:
        say(warning)
    emit_table(
        f"speedups ({comparison.speedup}, behind the prefill), {comparison.n_blocks} blocks",
        NAMES,
        _rows(comparison.cells),
    )
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
                row += [f"{cell.predicted:.3f}", f"{cell.measured:.3f}"]
                row += [f"{cell.low:.3f}-{cell.high:.3f}", f"{cell.error:+.1%}"]
        row.append(_text(any_))
        rows.append(row)
    return rows


def _text(cell: Cell) -> str:
    parity = cell.parity
    if parity.same:
        return "same"
    margin = "" if parity.margin is None else f", lead {parity.margin:.3f} of noise {parity.noise or 0:.3f}"
    return f"{parity.verdict} at {parity.first_difference}{margin}"
