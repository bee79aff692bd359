"""A scenario: which loop serves which requests on which device, and what of it counts.

Refused where it could not be run to its end: a pass that the cost table does not have, more rows than a pass may have,
a list of arrivals that is shorter than what is to be counted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from sim.arrivals import Arrivals, Closed, Listed, Patience
from sim.device import Device
from sim.policies import Policy, fixed
from sim.requests import Source
from sim.setting import Setting

Prefill: TypeAlias = Literal["shared", "alone"]

ALWAYS_BUSY = Closed()


@dataclass(frozen=True, slots=True)
class Scenario:
    """Many sequences with one loop on one device.

    slots           sequences that are served at a time; others wait in order of arrival
    requests        how many are counted, after the first `warmup`; arrivals go on until all of them have ended
    policy          R of each pass of each sequence (`sim.policies`), at most the setting's
    most_rows       the most rows of a pass; prompts go in by chunks that fit beside the decoding rows (None: whole)
    prefill         `shared`: chunks ride in the passes that decode; `alone`: in passes of their own, which go first
    draft_seconds   what one call of the drafter takes
    draft_overlaps  each sequence drafts while the device runs the others; otherwise the device waits for all drafts

    Raises ValueError for what could not be run to its end.
    """

    device: Device
    source: Source
    setting: Setting
    slots: int
    requests: int
    arrivals: Arrivals = ALWAYS_BUSY
    warmup: int = 0
    policy: Policy = fixed
    most_rows: int | None = None
    prefill: Prefill = "shared"
    draft_seconds: float = 0.0
    draft_overlaps: bool = False
    patience: Patience | None = None

    def __post_init__(self) -> None:
        for name, least in (("slots", 1), ("requests", 1), ("warmup", 0)):
            if (value := getattr(self, name)) < least:
                raise ValueError(f"{name} must be at least {least}, not {value}")
        if not 0 <= self.draft_seconds < math.inf:
            raise ValueError(f"draft_seconds must be zero or positive and finite, not {self.draft_seconds}")
        if self.prefill not in get_args(Prefill):
            raise ValueError(f"prefill must be one of {', '.join(get_args(Prefill))}, not {self.prefill!r}")
        counted = self.warmup + self.requests
        if isinstance(self.arrivals, Listed) and counted > (n := len(self.arrivals.seconds)):
            raise ValueError(f"{counted} requests are to be served, but the list has {n} arrivals")
        most, rows = self.slots * self.rows, self.rows
        if (check := getattr(self.device.cost, "check_rows", None)) is not None:
            check(rows, self.slots)
        if self.most_rows is not None and self.most_rows < most:
            raise ValueError(
                f"{self.slots} slots of up to {rows} rows are {most}, more than the {self.most_rows} rows"
                " that a pass may have: allow more, or take fewer slots or rows"
            )

    @property
    def rows(self) -> int:
        """The most rows of a sequence in a decoding pass."""
        return 1 if self.setting.loop == "greedy" else self.setting.rows
