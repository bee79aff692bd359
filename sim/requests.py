"""What is asked of a server: texts that were recorded, or texts of an acceptance law.

A job is all that a loop needs to serve one request: where it starts, what answers it, and a fresh drafter. Jobs come in
the order of arrival, and are drawn from a stream of their own, so that every loop is asked the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Protocol

from numpy.random import Generator

from costmodel.acceptance import Law
from costmodel.chain import PLANS
from sim.answers import Answers, recorded
from sim.drafters import DRAFTERS
from sim.loops import Propose
from sim.machine import State
from sim.setting import Setting, parse_drafter
from sim.trace import Text

FIRST_ID, WRONG_ID = 1000, 999
"""Ids of a law's text count up from the first, so that nothing in it repeats; a wrong draft is the other."""


@dataclass(frozen=True, slots=True)
class Job:
    """One request: its name, the state before its first pass, its answers, and a drafter of its own."""

    name: str
    start: State
    answers: Answers
    propose: Propose


class Source(Protocol):
    """What can make jobs."""

    def jobs(self, setting: Setting, rng: Generator) -> Iterator[Job]:
        """One job after the other, without end, the same for every setting."""
        ...


@dataclass(frozen=True, slots=True)
class Texts:
    """Recorded texts, all of them once in every round, in a new random order each (or always as they are given).

    Raises ValueError when there are none.
    """

    texts: tuple[Text, ...]
    shuffled: bool = True

    def __post_init__(self) -> None:
        if not self.texts:
            raise ValueError("there is no text to serve")

    def jobs(self, setting: Setting, rng: Generator) -> Iterator[Job]:
        """See `Source`; the drafter is the setting's."""
        starts = [State.start(text.tokens[: text.n_prompt], text.n_tokens, text.stop) for text in self.texts]
        answers = [recorded(text.tokens) for text in self.texts]
        drafter, values = parse_drafter(setting.drafter)
        order: Sequence[int] = range(len(self.texts))
        while True:
            if self.shuffled:
                order = rng.permutation(len(self.texts)).tolist()
            for i in order:
                yield Job(self.texts[i].name, starts[i], answers[i], DRAFTERS[drafter](**values))


@dataclass(frozen=True, slots=True)
class LawTexts:
    """Texts of which a law says where drafts are right; by position of the text, so the same for every loop.

    A renewal law says it for every draft anew, by index. Raises ValueError for lengths below 1.
    """

    law: Law
    n_prompt: int
    n_tokens: int

    def __post_init__(self) -> None:
        for name in ("n_prompt", "n_tokens"):
            if (value := getattr(self, name)) < 1:
                raise ValueError(f"{name} must be at least 1, not {value}")

    def jobs(self, setting: Setting, rng: Generator) -> Iterator[Job]:
        """See `Source`; raises ValueError when the setting drafts further than the law was measured."""
        self._check_reach(setting)
        text = list(range(FIRST_ID, FIRST_ID + self.n_prompt + self.n_tokens))
        start, answers, law = State.start(text[: self.n_prompt], self.n_tokens), recorded(text), self.law.in_floats()
        for number in count():
            yield Job(f"{law.name} #{number}", start, answers, _drafter(law, text, setting.rows, rng))

    def _check_reach(self, setting: Setting) -> None:
        plan = PLANS[setting.loop]
        gates = {plan.fresh, plan.partial, plan.full} & {"gate", "gamble"}
        for index in range(0 if setting.loop == "greedy" else setting.rows - (not gates)):
            self.law.agrees(index, 0)


def _choice(weights: Sequence[float], draw: float) -> int:
    """Which of the weights a draw from [0, 1) falls on."""
    for i, weight in enumerate(weights[:-1]):
        if (draw := draw - weight) < 0:
            return i
    return len(weights) - 1


def _drafter(law: Law, text: Sequence[int], n_drafts: int, rng: Generator) -> Propose:
    """A drafter that knows the text, and errs and finds nothing where draws of the law say so."""
    found = (rng.random(len(text)) >= float(law.no_draft)).tolist()
    regimes = _regimes(law, rng.random(len(text)).tolist())
    # A renewal law tosses for every draft anew, the others once for each position.
    tosses = rng.random((len(text), len(law.agreement) if law.renewal else 1)).tolist()

    def propose(tokens: Sequence[int]) -> list[int]:
        at = len(tokens)
        if at >= len(text) or not found[at]:
            return []
        guess = text[at : at + min(n_drafts, len(law.agreement) if law.renewal else n_drafts)]
        return [
            token
            if (tosses[at][i] if law.renewal else tosses[at + i][0]) < law.agrees(i, regimes[at + i])
            else WRONG_ID
            for i, token in enumerate(guess)
        ]

    return propose


def _regimes(law: Law, draws: Sequence[float]) -> list[int]:
    """The regime at each position, from one draw for each."""
    regimes = []
    weights = law.stationary
    for draw in draws:
        regimes.append(_choice([float(weight) for weight in weights], draw))
        weights = law.transition[regimes[-1]]
    return regimes
