"""A loop as a Markov chain: what its next pass feeds and gains, given what the last pass was.

Between two passes three things matter: whether the last pass guessed and how that ended, whether the next
gate is known to fail, and the regime of the next position. A loop is then one line of `PLANS`: what it does
after each of them. `PLANS` is kept in step with `sim.loops`, which is not imported here, by tests that drive
every loop through the real machine over every string of agreements and find the same passes with the same
probabilities, exactly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from costmodel.acceptance import Law, Number, moved

Action: TypeAlias = Literal["decode", "gate", "speculate", "gamble"]
"""One row; a guess if its first token is what is due, else one row; a guess behind what is due; a guess instead."""
Mode: TypeAlias = Literal["fresh", "shut", "partial", "full"]
"""After: no guess; no guess, and the gate's look-up is known to be empty; a partly wrong guess; a right one."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a loop does after each kind of pass, and the fewest rows of a speculating pass (0: always R)."""

    fresh: Action
    partial: Action
    full: Action
    least_rows: int = 1


PLANS: dict[str, Plan] = {
    "greedy": Plan("decode", "decode", "decode"),
    "gated": Plan("gate", "decode", "decode"),
    "fused": Plan("gate", "decode", "speculate"),
    "fused-partial": Plan("gate", "speculate", "speculate"),
    "gated-held": Plan("gate", "gate", "gate"),
    "carry": Plan("speculate", "speculate", "speculate"),
    "decode-then-speculate": Plan("speculate", "decode", "decode"),
    "padded": Plan("speculate", "speculate", "speculate", least_rows=0),
    "dummy": Plan("speculate", "speculate", "speculate", least_rows=2),
    "re-anchor": Plan("gamble", "decode", "decode"),
}


class Place(NamedTuple):
    """Where a chain is between two passes; `n_rows` are those of the last one (0: none yet)."""

    mode: Mode
    regime: int
    n_rows: int


class Move(NamedTuple):
    """One way a pass can end: how likely, what it fed, what it gained, where it leads."""

    probability: Number
    n_rows: int
    n_tokens: int
    after: Place


def moves(loop: str, law: Law, n_rows: int, place: Place, room: int | None = None) -> Iterator[Move]:
    """All ends of the next pass, `room` tokens before the end of the text (None: far away).

    Raises ValueError for an unknown loop, or fewer than 2 rows for a loop that guesses.
    """
    plan = plan_of(loop, n_rows)
    mode, regime, _ = place
    action = plan.fresh if mode in ("fresh", "shut") else plan.partial if mode == "partial" else plan.full
    # A positional law says of the token that ended a partly wrong guess that its draft is wrong.
    known_shut = mode == "shut" or (mode == "partial" and not law.renewal)
    if action == "decode" or (action == "gate" and known_shut):
        yield from _sure(law, regime, 1, "fresh", 1)
        return
    guesses = n_rows - 1 if room is None else min(n_rows - 1, room - 1)
    least = plan.least_rows or n_rows
    rows = max(least, 1 + guesses)
    nothing: Number = law.no_draft
    found: Number = 1 - law.no_draft
    opens = law.agrees(0, regime) if action in ("gate", "gamble") else 1
    if action == "gate":
        nothing, found = nothing + found * (1 - opens), found * opens
    elif action == "gamble":
        if wrong := found * (1 - opens):
            yield Move(wrong, rows, 0, Place("partial", regime, rows))
        found = found * opens
    # After a chained look-up that found nothing the gate would look in the same place.
    yield from _sure(law, regime, nothing, "shut" if action == "speculate" else "fresh", least)
    if guesses:
        yield from _guess(law, regime, found, int(action != "speculate"), guesses, rows)
    else:
        yield from _sure(law, regime, found, "fresh", rows)


def plan_of(loop: str, n_rows: int) -> Plan:
    """The plan of a loop; ValueError for an unknown loop, or fewer than 2 rows for a loop that guesses."""
    if loop not in PLANS:
        raise ValueError(f"unknown loop {loop!r}; known are {', '.join(PLANS)}")
    if n_rows < 2 and loop != "greedy":
        raise ValueError(f"a guessing loop needs at least 2 rows a pass, not {n_rows}")
    return PLANS[loop]


def _sure(law: Law, regime: int, probability: Number, mode: Mode, n_rows: int) -> Iterator[Move]:
    """A pass that gains the one token it is sure of."""
    for after, share in enumerate(law.transition[regime]):
        if probability and share:
            yield Move(probability * share, n_rows, 1, Place(mode, after, n_rows))


def _guess(law: Law, regime: int, found: Number, first: int, guesses: int, n_rows: int) -> Iterator[Move]:
    """A pass of one known row and some guesses: wrong at the first, the second, ..., or all right."""
    weights = moved(law, [found if r == regime else 0 for r in range(law.n_regimes)])
    for accepted in range(guesses):
        agree = [law.agrees(first + accepted, r) for r in range(law.n_regimes)]
        for r, weight in enumerate(weights):
            if wrong := weight * (1 - agree[r]):
                yield Move(wrong, n_rows, accepted + 1, Place("partial", r, n_rows))
        weights = moved(law, [weight * right for weight, right in zip(weights, agree, strict=True)])
    for r, weight in enumerate(weights):
        if weight:
            yield Move(weight, n_rows, guesses + 1, Place("full", r, n_rows))
