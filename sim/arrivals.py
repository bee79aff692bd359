"""When requests arrive, and how long they have patience.

    closed         as many users as slots (or `closed N`): whoever is served asks again at once
    poisson RATE   so many requests a second, independently of everything (M in Kendall's notation)
    a list         recorded arrivals, seconds from the start, ascending

Served in order of arrival. Drawn from a stream of their own, so that every loop meets the same arrivals.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TypeAlias

import msgspec
from numpy.random import Generator

from sim.trace import lines

BLOCK = 256
"""Draws at a time: one by one they cost more than what is simulated with them."""


@dataclass(frozen=True, slots=True)
class Closed:
    """A fixed number of users who ask again as soon as they are served; `None`: one for each slot."""

    users: int | None = None

    def __post_init__(self) -> None:
        if self.users is not None and self.users < 1:
            raise ValueError(f"closed arrivals need at least 1 user, not {self.users}")


@dataclass(frozen=True, slots=True)
class Poisson:
    """Independent requests at a mean rate, without end."""

    per_second: float

    def __post_init__(self) -> None:
        if not 0 < self.per_second < math.inf:
            raise ValueError(f"the rate of arrivals must be positive and finite, not {self.per_second} a second")

    def times(self, rng: Generator) -> Iterator[float]:
        """Seconds of one arrival after the other."""
        at = 0.0
        while True:
            for gap in rng.exponential(1 / self.per_second, BLOCK).tolist():
                at += gap
                yield at


@dataclass(frozen=True, slots=True)
class Listed:
    """Arrivals as they were recorded, seconds from the start."""

    seconds: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.seconds:
            raise ValueError("the list of arrivals is empty")
        if not all(0 <= at < math.inf for at in self.seconds):
            raise ValueError("arrivals are seconds from the start: zero or positive, and finite")
        for a, b in pairwise(self.seconds):
            if b < a:
                raise ValueError(f"arrivals must be ascending, but {b} comes after {a}")

    def times(self, rng: Generator) -> Iterator[float]:
        """Seconds of one arrival after the other."""
        return iter(self.seconds)


Arrivals: TypeAlias = Closed | Poisson | Listed


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a user waits before the request is cancelled, wherever it is: exponential with this mean, or exactly."""

    seconds: float
    exact: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.seconds < math.inf:
            raise ValueError(f"patience must be positive and finite, not {self.seconds} seconds")

    def draws(self, rng: Generator) -> Iterator[float]:
        """One user's patience after the other's, in seconds."""
        while True:
            yield from [self.seconds] * BLOCK if self.exact else rng.exponential(self.seconds, BLOCK).tolist()


def parse(words: str) -> Arrivals:
    """Arrivals in words, or from a file with a number of seconds in each line; ValueError for anything else.

    >>> parse("closed"), parse("poisson 0.5")
    (Closed(users=None), Poisson(per_second=0.5))
    """
    kind, *numbers = words.split() or [""]
    try:
        if kind == "closed" and len(numbers) < 2:
            return Closed(*map(int, numbers))
        if kind == "poisson" and len(numbers) == 1:
            return Poisson(float(numbers[0]))
    except ValueError as error:
        if "convert" not in str(error) and "literal" not in str(error):
            raise
    else:
        if kind not in ("closed", "poisson") and Path(words).is_file():
            return load(Path(words))
    raise ValueError(f'arrivals {words!r} are none of "closed", "closed USERS", "poisson RATE", and no file')


def load(path: Path) -> Listed:
    """Recorded arrivals: a JSON number of seconds in each line; ValueError naming the line that is none."""
    seconds = []
    for number, line in lines(path):
        try:
            seconds.append(msgspec.json.decode(line, type=float))
        except msgspec.MsgspecError as error:
            raise ValueError(f"{path}, line {number}: {line[:40]!r} is no number of seconds") from error
    try:
        return Listed(tuple(seconds))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
