"""Pass costs -> the screen."""

from __future__ import annotations

from pathlib import Path

from costmodel.profile import Profile
from figures.terminal import emit_table


def show(profile: Profile, out: Path) -> None:
    """A profile's table in milliseconds, and where it is."""
    cost = profile.cost
    head = ["cached", *(f"c({n})" for n in cost.n_rows)]
    lines = [
        [past, *(f"{1e3 * s:.2f}" for s in row)] for past, row in zip(cost.n_past, cost.all_rows_seconds, strict=True)
    ]
    threads = f", {profile.n_threads} threads" if profile.n_threads else ""
    emit_table(f"milliseconds a pass, {profile.model}{threads} ({out})", head, lines)
