"""A pass-cost profile: one model's table on one machine, with what it took to get it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from costmodel.rounds import Round, table
from costmodel.table import Table

FORMAT, VERSION = "sweepcap-profile", 1


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """A measured or imported pass-cost table and its circumstances.

    source      how it came about: "calibrated", "llama-bench", "llama-batched-bench"
    model       the model's name; `model_hash` its SHA-256, empty when the source does not tell
    n_threads   threads of every pass, 1-row passes included; 0 when the source does not tell
    cost        the table, seconds
    rounds      the raw seconds behind the table, where they were measured here
    environment what must be known to compare: CPU, build, load (see validate.environment)
    caveats     sentences that go with every number derived from it
    """

    source: str
    model: str
    cost: Table
    model_hash: str = ""
    n_threads: int = 0
    n_ctx: int = 0
    rounds: tuple[Round, ...] = ()
    environment: dict[str, Any] = {}
    caveats: tuple[str, ...] = ()
    format: str = FORMAT
    version: int = VERSION

    def resampled(self, rng: np.random.Generator) -> Table:
        """A draw of the table under its own uncertainty; the table itself when there are no rounds to resample."""
        if len(self.rounds) < 2:
            return self.cost
        return table(self.cost.n_past, self.cost.n_rows, self.rounds, padding=self.cost.padding, rng=rng)


def extrapolating(profile: Profile) -> Profile:
    """The same profile, which prices what was not measured too, with the caveat of it."""
    rows = ", ".join(map(str, profile.cost.n_rows))
    caveat = f"rows other than {rows} and other lengths are extrapolated, not measured"
    cost = replace(profile.cost, extrapolate=True)
    return msgspec.structs.replace(profile, cost=cost, caveats=(*profile.caveats, caveat))


def load(path: Path) -> Profile:
    """The profile in a file; ValueError naming the file when it is none, or one of another version."""
    try:
        head = msgspec.json.decode(path.read_bytes())
    except (OSError, msgspec.DecodeError) as error:
        raise ValueError(f"{path} cannot be read as a profile: {error}; make one with sweepcap calibrate") from error
    if not isinstance(head, dict) or head.get("format") != FORMAT:
        raise ValueError(f"{path} is not a sweepcap profile; make one with sweepcap calibrate")
    if head.get("version") != VERSION:
        raise ValueError(
            f"{path} is a profile of version {head.get('version')}, this program reads {VERSION}: calibrate again"
        )
    try:
        return msgspec.convert(head, Profile)
    except (msgspec.ValidationError, ValueError) as error:
        raise ValueError(f"{path} is a damaged profile: {error}; calibrate again") from error
