"""The loop that drives a loop: the same few lines for toy, replayed, simulated and real passes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from sim.machine import Loop, Pass, State, known_rows, next_pass, step

Kind: TypeAlias = Literal["prefill", "decode", "verify", "chained", "correction", "replay"]


class Engine(Protocol):
    """What can answer a pass: a model, a recorded text, a price list."""

    def __call__(self, pass_: Pass, /) -> tuple[Sequence[int], float]:
        """The argmax after each of the pass's last `want` rows, and the seconds it took."""
        ...


@dataclass(frozen=True, slots=True)
class Record:
    """One pass: its shape, what it yielded, and what it cost.

    n_past   cached rows before it          guessed, accepted  speculative rows, and how many were right
    n_rows   rows fed                       n_tokens           tokens it added to the text
    n_out    rows whose logits were asked   seconds            wall time of the pass
    """

    kind: Kind
    n_past: int
    n_rows: int
    n_out: int
    guessed: int
    accepted: int
    n_tokens: int
    seconds: float


def kind(state: State, pass_: Pass) -> Kind:
    """What a pass is for: its rows against the state it starts from."""
    return _kind(state, pass_, len(pass_.rows) > known_rows(state, pass_))


def _kind(state: State, pass_: Pass, guesses: bool) -> Kind:
    if state.prefilling:
        return "prefill"
    if pass_.keep < state.cached:
        return "replay"
    if guesses:
        return "chained" if state.guessed else "verify"
    return "correction" if state.guessed else "decode"


def record_of(state: State, pass_: Pass, after: State, seconds: float) -> Record:
    """The record of a pass that led from one state to another in so many seconds."""
    return Record(
        _kind(state, pass_, after.guessed > 0),
        pass_.keep,
        len(pass_.rows),
        pass_.want,
        after.guessed,
        after.accepted,
        after.tokens.length - state.tokens.length,
        seconds,
    )


def passes(loop: Loop, state: State, engine: Engine) -> Iterator[tuple[State, Record]]:
    """The passes of a loop to the end of the text, one at a time: the state after each, and its record."""
    while (pass_ := next_pass(loop, state)) is not None:
        answer, seconds = engine(pass_)
        after = step(state, pass_, answer)
        yield after, record_of(state, pass_, after, seconds)
        state = after


def run(loop: Loop, state: State, engine: Engine) -> tuple[State, list[Record]]:
    """The state at the end of the text, and one record per pass."""
    records: list[Record] = []
    for after, record in passes(loop, state, engine):
        state = after
        records.append(record)
    return state, records
