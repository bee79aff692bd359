"""A setting: which loop, how many rows a pass, which drafter. What is compared, priced and timed."""

from __future__ import annotations

from dataclasses import dataclass

from sim.drafters import DRAFTERS
from sim.loops import LOOPS
from sim.machine import Loop

DEFAULT_DRAFTER = "ngram"


@dataclass(frozen=True, slots=True, order=True)
class Setting:
    """A loop of `LOOPS`, its R, and a drafter of `DRAFTERS`; ValueError listing the known ones for any other.

    >>> print(Setting("carry", 6))
    carry R=6
    """

    loop: str
    rows: int
    drafter: str = DEFAULT_DRAFTER

    def __post_init__(self) -> None:
        if self.loop not in LOOPS:
            raise ValueError(f"unknown loop {self.loop!r}: the loops are {', '.join(LOOPS)}")
        if self.drafter not in DRAFTERS:
            raise ValueError(f"unknown drafter {self.drafter!r}: the drafters are {', '.join(DRAFTERS)}")
        if self.rows < 2:
            raise ValueError(f"rows must be at least 2 (one known, one guessed), not {self.rows}")

    def make(self) -> Loop:
        """A fresh loop with a fresh drafter: one for every run, so that nothing is remembered."""
        return LOOPS[self.loop](DRAFTERS[self.drafter](), self.rows)

    def __str__(self) -> str:
        drafter = "" if self.drafter == DEFAULT_DRAFTER else f" {self.drafter}"
        return f"{self.loop} R={self.rows}{drafter}"
