"""One device that runs one pass at a time: what a pass costs, how the speed drifts, jitters and stalls.

    seconds = price * drift(start) * jitter + stalls

The price is the cost model's, on total rows, each sequence's cached length, and wanted answers. A stall stops the
device for a while; a pass that it meets takes that much longer, one that would begin in it waits for its end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from numpy.random import Generator

from sim.arrivals import BLOCK
from sim.drift import Constant, Drift


class BatchCost(Protocol):
    """What can price a pass over several sequences (`costmodel.batched.SlotCost`)."""

    def seconds(self, n_past: Sequence[int], n_rows: int, n_out: int, n_rows_before: int | None = None) -> float:
        """Seconds of a pass of so many rows and answers in all, by each sequence's cached length."""
        ...


@dataclass(frozen=True, slots=True)
class Lognormal:
    """Jitter of each pass: lognormal with mean 1 and this standard deviation of the logarithm."""

    sd: float

    def __post_init__(self) -> None:
        if not 0 <= self.sd < math.inf:
            raise ValueError(f"jitter must be zero or positive and finite, not {self.sd}")

    def draws(self, rng: Generator) -> Iterator[float]:
        """One factor after the other."""
        while True:
            yield from rng.lognormal(-self.sd * self.sd / 2, self.sd, BLOCK).tolist()


@dataclass(frozen=True, slots=True)
class Exponential:
    """Jitter of each pass: exponential with mean 1, which makes the device the second M of M/M/1."""

    def draws(self, rng: Generator) -> Iterator[float]:
        """One factor after the other."""
        while True:
            yield from rng.exponential(1.0, BLOCK).tolist()


Jitter: TypeAlias = Lognormal | Exponential


@dataclass(frozen=True, slots=True)
class Stalls:
    """Times in which nothing moves: exponential gaps of mean `every_seconds`, exponential lengths of mean `seconds`."""

    every_seconds: float
    seconds: float

    def __post_init__(self) -> None:
        for name in ("every_seconds", "seconds"):
            if not 0 < (value := getattr(self, name)) < math.inf:
                raise ValueError(f"{name} of stalls must be positive and finite, not {value}")

    def windows(self, rng: Generator) -> Iterator[tuple[float, float]]:
        """Start and end of one stall after the other."""
        end = 0.0
        while True:
            gaps = rng.exponential(self.every_seconds, BLOCK).tolist()
            for gap, length in zip(gaps, rng.exponential(self.seconds, BLOCK).tolist(), strict=True):
                start = end + gap
                end = start + length
                yield start, end


STEADY = Constant(1.0)

Clock: TypeAlias = "Callable[[float, float], float]"
"""Seconds that a pass of some price takes when it starts at some time; asked in the order of time."""


@dataclass(frozen=True, slots=True)
class Device:
    """A price for every pass, and what the machine makes of it."""

    cost: BatchCost
    drift: Drift = STEADY
    jitter: Jitter | None = None
    stalls: Stalls | None = None

    def clock(self, drift: Generator, jitter: Generator, stalls: Generator) -> Clock:
        """The device's time, drawn from three streams."""
        path = self.drift.path(drift)
        factors = self.jitter.draws(jitter) if self.jitter else None
        windows = self.stalls.windows(stalls) if self.stalls else None
        stall = next(windows) if windows else (math.inf, math.inf)

        def seconds(at: float, price: float) -> float:
            nonlocal stall
            taken: float = price * path.factor(at)
            if factors is not None:
                taken *= next(factors)
            while stall[0] < at + taken:
                assert windows is not None
                taken += max(stall[1] - max(stall[0], at), 0.0)
                stall = next(windows)
            return taken

        return seconds

    @property
    def is_plain(self) -> bool:
        """Whether a pass takes its price, always."""
        return self.drift == STEADY and self.jitter is None and self.stalls is None
