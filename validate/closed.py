"""A closed system of slots: each slot always has a request, and all rows of all slots go in one pass.

A slot serves one recorded text again and again, from behind its prompt (whose cache is kept) to its end. At the
beginning slot i of n stands at i/n of its text: so a short run shows what a long one would, all slots busy and out of
step. The seconds are the engine's: llama.cpp's, or nothing at all when only the passes are wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import TypeAlias

from sim.answers import recorded
from sim.machine import Pass, State, next_pass, step
from sim.setting import Setting
from sim.tokens import Tokens
from sim.trace import Text
from validate.slotruns import Served, SlotPass, SlotRun

SlotsAnswer: TypeAlias = "Callable[[Sequence[Pass]], tuple[Sequence[Sequence[int]], float]]"
"""Each slot's answers to its pass, and the seconds of the one pass over all."""


def begins(texts: Sequence[Text]) -> list[int]:
    """How many tokens of each slot's text are known at the beginning: the prompt, and a share of what follows.

    >>> begins([Text(name="a", n_prompt=3, tokens=tuple(range(11)))] * 4)
    [4, 5, 7, 9]
    """
    return [text.n_prompt + 1 + i * (text.n_tokens - 1) // len(texts) for i, text in enumerate(texts)]


def state_at(text: Text, n_known: int) -> State:
    """The state in which so many tokens of a text are known and all but the last are cached."""
    known, goal = text.tokens[:n_known], len(text.tokens)
    return State(Tokens(known), n_known - 1, goal, text.n_prompt, frozenset(text.stop))


def check_long_enough(text: Text) -> None:
    """Raise ValueError for a text that says too little to be served in slots."""
    if text.n_tokens < 8:
        raise ValueError(
            f"the text {text.name!r} is {text.n_tokens} tokens behind its prompt, at least 8 are needed: ask for more"
            " --tokens, or for another prompt"
        )


def replayed(texts: Sequence[Text]) -> SlotsAnswer:
    """Answers from the slots' own recorded texts, in no time."""
    answers = [recorded(text.tokens) for text in texts]

    def engine(passes: Sequence[Pass]) -> tuple[list[Sequence[int]], float]:
        return [answer(pass_) for answer, pass_ in zip(answers, passes, strict=True)], 0.0

    return engine


class _Request:
    """A request in its slot."""

    def __init__(self, slot: int, text: Text, setting: Setting, n_known: int, first: int) -> None:
        self.slot, self.text, self.n_known, self.first = slot, text, n_known, first
        self.state, self.loop = state_at(text, n_known), setting.make()

    def served(self, last: int | None) -> Served:
        tokens = tuple(self.state.tokens[self.n_known :])
        return Served(
            slot=self.slot, text=self.text.name, n_known=self.n_known, tokens=tokens, first=self.first, last=last
        )


class SlotLane:
    """One setting in slots over their texts, a pass at a time, until each has been gone through once on average."""

    def __init__(self, engine: SlotsAnswer, setting: Setting, workload: str, texts: Sequence[Text]) -> None:
        self.setting, self.workload, self.texts = setting, workload, texts
        self.n_tokens, self.goal = 0, sum(text.n_tokens - 1 for text in texts)
        self.wall_seconds = 0.0
        self.passes: list[SlotPass] = []
        self._engine = engine
        self._slots = [
            _Request(i, text, setting, n, 0) for i, (text, n) in enumerate(zip(texts, begins(texts), strict=True))
        ]
        self._served: dict[tuple[int, int], Served] = {}

    @property
    def share(self) -> float:
        """How much of the run is done."""
        return self.n_tokens / self.goal

    def known(self) -> list[tuple[int, ...]]:
        """The text of each slot as far as it is known."""
        return [tuple(request.state.tokens) for request in self._slots]

    def turn(self) -> bool:
        """Run the next pass; False when all is done."""
        if self.n_tokens >= self.goal:
            return False
        begin, slots = perf_counter(), self._slots
        passes = [next_pass(request.loop, request.state) for request in slots]
        answers, seconds = self._engine(passes)  # type: ignore[arg-type]  # who has ended was replaced
        yielded, n = [], len(self.passes)
        for slot, (request, pass_, answer) in enumerate(zip(slots, passes, answers, strict=True)):
            assert pass_ is not None
            after = step(request.state, pass_, answer)
            yielded.append(len(after.tokens) - len(request.state.tokens))
            request.state = after
            if after.ended:
                self._served[request.first, slot] = request.served(n)
                slots[slot] = _Request(slot, request.text, self.setting, request.text.n_prompt + 1, n + 1)
        self.n_tokens += sum(yielded)
        fed = [pass_ for pass_ in passes if pass_]
        n_past, n_rows = tuple(p.keep for p in fed), tuple(len(p.rows) for p in fed)
        self.passes.append(SlotPass(seconds, n_past, n_rows, tuple(yielded)))
        self.wall_seconds += perf_counter() - begin
        return True

    def result(self, place: int) -> SlotRun:
        """The run as it is now."""
        going = {(r.first, r.slot): r.served(None) for r in self._slots if r.first < len(self.passes)}
        return SlotRun(
            place=place,
            n_slots=len(self.texts),
            workload=self.workload,
            loop=self.setting.loop,
            rows=self.setting.rows,
            drafter=self.setting.drafter,
            wall_seconds=self.wall_seconds,
            requests=tuple(request for _, request in sorted((self._served | going).items())),
            passes=tuple(self.passes),
        )


def walked(setting: Setting, workload: str, texts: Sequence[Text]) -> SlotRun:
    """The passes that a setting takes in slots over recorded texts; they cost nothing yet."""
    lane = SlotLane(replayed(texts), setting, workload, texts)
    while lane.turn():
        pass
    return lane.result(0)
