"""A sweep's table -> a file, and its best settings -> the screen."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import polars as pl

from figures.terminal import TABLES, emit_table
from validate.files import write

SHOWN = 20


def show(table: pl.DataFrame, baseline: str, out: Path | None) -> None:
    """The quickest settings of each profile over all prompts, and where the whole table is."""
    for (profile,), some in table.filter(prompt="all").sort("profile").group_by("profile", maintain_order=True):
        best = some.sort("total_time", descending=True, maintain_order=True).head(SHOWN)
        where = f"; all {len(some):,} in {out}" if out else ""
        emit_table(
            f"the quickest of {len(some):,} settings on {profile} against {baseline} (total_time){where}",
            (
                "loop",
                "R",
                "drafter",
                "passes",
                "tok/pass",
                "accepted",
                "seconds",
                "speedup",
                "95 %",
                "oracle",
                "perfect",
            ),
            [
                (
                    row["loop"],
                    row["rows"],
                    row["drafter"] or "-",
                    row["n_passes"],
                    _number(row["tokens_per_pass"], "{:.2f}"),
                    _number(row["acceptance"], "{:.0%}", "no drafts"),
                    f"{row['seconds']:.3f}",
                    _number(row["total_time"], "{:.3f}x"),
                    _interval(row["total_time_low"], row["total_time_high"]),
                    _number(row["oracle"], "{:.3f}x"),
                    _number(row["perfect"], "{:.3f}x"),
                )
                for row in best.iter_rows(named=True)
            ],
        )


def save(table: pl.DataFrame, out: Path) -> None:
    """The whole table, as a file of the kind that its ending tells, or nothing."""
    buffer = BytesIO()
    getattr(table, TABLES[out.suffix])(buffer)
    write(out, buffer.getvalue())


def _number(value: float | None, form: str, none: str = "-") -> str:
    return none if value is None else form.format(value)


def _interval(low: float | None, high: float | None) -> str:
    return "-" if low is None or high is None else f"{low:.3f} to {high:.3f}"
