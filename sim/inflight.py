"""A request on its way through a slot, and the rows that those in slots put into one pass."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

from sim.history import Outcome, Request
from sim.loops import LOOPS
from sim.machine import Loop, Pass
from sim.requests import Job
from sim.run import Record
from sim.scenario import Prefill


class InFlight:
    """A request on its way: what is known of it, and what it took so far."""

    __slots__ = (
        "answers", "arrived", "calls", "cancelled", "drafting", "failed", "first", "job", "loop", "loops", "n_passes",
        "n_rows", "number", "pass_", "rested", "slot", "started", "state",
    )  # fmt: skip

    # Without a slot and a pass nothing runs, and what runs has both.
    slot: Any
    pass_: Any

    def __init__(self, number: int, job: Job, arrived: float) -> None:
        self.number, self.job, self.arrived = number, job, arrived
        self.state, self.answers = job.start, job.answers
        self.slot = self.pass_ = None
        self.loop: Loop | None = None
        self.loops: dict[int, Loop] = {}
        self.started: float | None = None
        self.first: float | None = None
        self.n_passes = self.n_rows = self.failed = self.rested = self.calls = 0
        self.drafting = self.cancelled = False

    def make(self, name: str, n_rows: int, counting: bool) -> Loop:
        """The loop at so many rows, with the request's own drafter; one row guesses nothing."""
        propose = self._counting if counting else self.job.propose
        made = self.loops[n_rows] = LOOPS[name if n_rows > 1 else "greedy"](propose, n_rows)
        return made

    def judge(self, record: Record) -> None:
        """Count guesses that failed in a row, and passes since the last one."""
        if record.guessed:
            self.failed, self.rested = 0 if record.accepted else self.failed + 1, 0
        else:
            self.rested += 1

    def _counting(self, tokens: Sequence[int]) -> Sequence[int]:
        self.calls += 1
        return self.job.propose(tokens)

    def record(self, outcome: Outcome, now: float) -> Request:
        """The request as it is now."""
        start = self.job.start
        return Request(
            self.number,
            self.job.name,
            outcome,
            self.slot,
            self.arrived,
            self.started,
            self.first,
            now,
            start.prompt,
            start.goal - start.prompt,
            self.state.tokens.length - start.prompt,
            self.n_passes,
            self.n_rows,
            self.n_rows - self.state.cached,
        )


Batch: TypeAlias = "list[InFlight]"


def with_prompts(batch: Batch, most_rows: int | None, prefill: Prefill) -> Batch:
    """Prompts in order of arrival, in chunks that fit beside the decoding rows, or in a pass without these; by slot."""
    prompts = sorted((s for s in batch if s.state.prefilling), key=lambda sequence: sequence.number)
    chosen = [s for s in batch if not s.state.prefilling] if prefill == "shared" else []
    room = math.inf if most_rows is None else most_rows - sum(len(s.pass_.rows) for s in chosen)
    for sequence in prompts:
        if room < 1:
            break
        if len(sequence.pass_.rows) > room:
            sequence.pass_ = first_rows(sequence.pass_, int(room))
        room -= len(sequence.pass_.rows)
        chosen.append(sequence)
    return sorted(chosen, key=lambda sequence: sequence.slot)


def first_rows(pass_: Pass, n: int) -> Pass:
    """The first rows of a pass, and what is wanted of them.

    >>> first_rows(Pass(3, (5, 6, 7, 8), 2), 3)
    Pass(keep=3, rows=(5, 6, 7), want=1)
    """
    return Pass(pass_.keep, pass_.rows[:n], max(pass_.want - (len(pass_.rows) - n), 0))
