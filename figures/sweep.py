"""A sweep's table -> the screen: its best settings."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from figures.terminal import emit_table
from figures.text import number

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
                    number(row["tokens_per_pass"], "{:.2f}"),
                    number(row["acceptance"], "{:.0%}", "no drafts"),
                    f"{row['seconds']:.3f}",
                    number(row["total_time"], "{:.3f}x"),
                    _interval(row["total_time_low"], row["total_time_high"]),
                    number(row["oracle"], "{:.3f}x"),
                    number(row["perfect"], "{:.3f}x"),
                )
                for row in best.iter_rows(named=True)
            ],
        )


def _interval(low: float | None, high: float | None) -> str:
    return "-" if low is None or high is None else f"{low:.3f} to {high:.3f}"
