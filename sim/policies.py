"""How many rows the next pass of a sequence may have: R chosen pass by pass, from what a server can see.

    fixed          always the setting's R
    shared TOTAL   what is to be had of TOTAL rows when all busy slots get equally many; more where slots are free
    quiet BUSY     R while at most BUSY slots are busy, none guessed above (vLLM's `disable_by_batch_size`)
    backoff N M    after N guesses in a row of which nothing was right, none for M passes (llama-server and HF
                   transformers stop or shorten drafts that keep failing)

A policy is a function of the moment; one row means plain decoding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import NamedTuple, TypeAlias


class Moment(NamedTuple):
    """What is known when a sequence's next pass is chosen.

    rows     R of the setting                busy    slots with a sequence, this one included
    n_slots  slots there are                 failed  its guessing passes in a row, up to now, with nothing accepted
                                             rested  its passes since the last guess
    """

    rows: int
    n_slots: int
    busy: int
    failed: int
    rested: int


Policy: TypeAlias = "Callable[[Moment], int]"


def fixed(moment: Moment) -> int:
    """The setting's R, whatever happens."""
    return moment.rows


@dataclass(frozen=True, slots=True)
class Shared:
    """Equal shares of a total that all rows of a pass come to: full R where slots are free.

    >>> [Shared(12)(Moment(6, 8, busy, 0, 0)) for busy in (1, 2, 4, 8)]
    [6, 6, 3, 1]
    """

    total: int

    def __post_init__(self) -> None:
        _at_least_one(self)

    def __call__(self, moment: Moment) -> int:
        return max(1, min(moment.rows, self.total // moment.busy))


@dataclass(frozen=True, slots=True)
class Quiet:
    """No guesses when more than so many slots are busy.

    >>> [Quiet(2)(Moment(6, 8, busy, 0, 0)) for busy in (1, 2, 3)]
    [6, 6, 1]
    """

    busy: int

    def __post_init__(self) -> None:
        _at_least_one(self)

    def __call__(self, moment: Moment) -> int:
        return moment.rows if moment.busy <= self.busy else 1


@dataclass(frozen=True, slots=True)
class Backoff:
    """A rest of so many passes after so many guesses in a row with nothing right.

    >>> [Backoff(2, 3)(Moment(6, 1, 1, failed, rested)) for failed, rested in ((1, 0), (2, 0), (2, 2), (2, 3))]
    [6, 1, 1, 6]
    """

    failures: int
    rest: int

    def __post_init__(self) -> None:
        _at_least_one(self)

    def __call__(self, moment: Moment) -> int:
        return 1 if moment.failed >= self.failures and moment.rested < self.rest else moment.rows


def _at_least_one(policy: Shared | Quiet | Backoff) -> None:
    for field in fields(policy):
        if (value := getattr(policy, field.name)) < 1:
            raise ValueError(f"{field.name} of the policy must be at least 1, not {value}")


POLICIES: dict[str, tuple[int, Callable[..., Policy]]] = {
    "fixed": (0, lambda: fixed),
    "shared": (1, Shared),
    "quiet": (1, Quiet),
    "backoff": (2, Backoff),
}


def parse(words: str) -> Policy:
    """The policy in words; ValueError listing the known ones for any other.

    >>> parse("backoff 3 16")
    Backoff(failures=3, rest=16)
    """
    name, *numbers = words.split() or [""]
    n_numbers, make = POLICIES.get(name, (-1, None))
    if make is None or len(numbers) != n_numbers or not all(number.isdecimal() for number in numbers):
        raise ValueError(f'policy {words!r} is none of "fixed", "shared TOTAL", "quiet BUSY", "backoff FAILURES REST"')
    return make(*map(int, numbers))
