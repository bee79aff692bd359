"""Which pictures belong to a run, and what their captions say."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure

from costmodel.passcost import Table
from figures import agreement, passcost, speedup, timeline
from figures.text import plain
from validate.comparison import Comparison
from validate.runs import Run


@dataclass(frozen=True, slots=True)
class Picture:
    """A figure, its file name, and its caption."""

    name: str
    figure: Figure
    caption: str


def typical_past(table: Table, runs: Sequence[Run] = ()) -> int:
    """The measured cached length nearest to the median one of the runs; the middle one without runs."""
    seen = [record.n_past for run in runs for record in run.decode]
    if not seen:
        return table.n_past[len(table.n_past) // 2]
    median = statistics.median(seen)
    return min(table.n_past, key=lambda n_past: abs(n_past - median))


def pictures(comparison: Comparison, table: Table | None = None, runs: Sequence[Run] = ()) -> list[Picture]:
    """The pictures that can be drawn from what is there, in the order they are read."""
    cells = comparison.cells
    drawn = [
        Picture(
            "speedup",
            speedup.draw(cells),
            "What each loop gains over greedy decoding on each prompt: total time for the same tokens, with "
            "the 95 % interval of the measurement."
            + (" The upright stroke is the prediction." if any(cell.predicted for cell in cells) else ""),
        )
    ]
    if any(cell.baseline == "gated" for cell in cells):
        drawn.append(
            Picture(
                "speedup-over-gated",
                speedup.draw(cells, "gated"),
                "The same over gated: what is won by not paying its one-row corrections.",
            )
        )
    if (pair := telling_pair(runs)) is not None:
        first, second = pair
        drawn.append(
            Picture(
                "timeline",
                timeline.draw(first.passes, second.passes, (first.loop, second.loop)),
                f"Passes over the same stretch of {plain(first.prompt, 60)}: as wide as their seconds, "
                "as high as their rows; rows guessed wrong are pale.",
            )
        )
    if table is not None:
        n_rows = max((cell.rows for cell in cells), default=6)
        drawn.append(
            Picture(
                "passcost",
                passcost.draw(table, n_rows, typical_past(table, runs)),
                "Measured seconds of a pass by its rows, with 95 % intervals, between a flat cost (guessing "
                "is free) and a linear one (guessing gains nothing).",
            )
        )
    if not cells or any(cell.predicted for cell in cells):
        drawn.append(
            Picture(
                "agreement",
                agreement.draw(cells),
                "Predicted against measured speedup over greedy, each with its 95 % interval; a perfect model "
                "puts every cell on the diagonal.",
            )
        )
    return drawn


def telling_pair(runs: Sequence[Run]) -> tuple[Run, Run] | None:
    """Runs of `gated` and `fused` over one text, where they differ most; None when there are none."""
    fused = {(run.prompt, run.rows, run.drafter, run.block): run for run in runs if run.loop == "fused"}
    pairs = []
    for run in runs:
        other = fused.get((run.prompt, run.rows, run.drafter, run.block))
        if run.loop == "gated" and other is not None and other.tokens == run.tokens and run.decode and other.decode:
            pairs.append((run, other))
    return max(pairs, key=lambda pair: len(pair[0].decode) / len(pair[1].decode), default=None)
