"""Worlds: a loop, a drafter, a model, wishes and a memory; `explore` runs one and checks every transition.

Used by the property tests, where hypothesis makes the worlds, and by `tests.prove`, where a seed does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from operator import eq
from random import Random
from typing import Any

from sim import loops
from sim.answers import ToyModel
from sim.drafters import DRAFTERS
from sim.loops import LOOPS, Propose, replay
from sim.machine import Loop, Pass, State, next_pass, step
from sim.penalties import Penalties
from sim.tokens import Tokens
from sim.toy import ToyLogits
from tests.telling import TALES, Tale

BEYOND = 13  # tokens of truth known behind the goal, for loops that overrun it

CLIPS = {name: getattr(loops, name) for name in ("useful", "before_goal", "before_stop", "uncut")}
PROMPTS = {name: getattr(loops, name) for name in ("alone", "together", "last_apart")}

PENALTIES = {
    "none": None,
    "repeat": Penalties(repeat=1.3),
    "repeat last 4": Penalties(repeat=1.5, last_n=4),
    "reward": Penalties(repeat=0.7, presence=-0.5),
    "frequency": Penalties(frequency=0.3, last_n=-1),
    "bias": Penalties(presence=0.4, bias={1: 2.5, 2: float("-inf")}),
    "no stop yet": Penalties(repeat=1.1, stops=frozenset({0, 1}), min_tokens=6),
}


@dataclass(frozen=True)
class World:
    """Everything that decides a run."""

    loop: str
    n_rows: int
    drafter: str
    prompt: tuple[int, ...]
    n_tokens: int
    stops: frozenset[int] = frozenset()
    penalties: str = "none"
    recurrent: bool = False
    clip: str = "useful"
    prompt_style: str = "alone"
    overrun: bool = False
    n_vocab: int = 3
    order: int | None = 2
    seed: int = 0

    def model(self, *, recurrent: bool = False) -> ToyModel:
        made: ToyModel
        if (penalties := PENALTIES[self.penalties]) is None:
            made = ToyModel(self.n_vocab, self.order, self.seed)
        else:
            made = ToyLogits(self.n_vocab, self.order, self.seed, penalties=penalties, n_prompt=len(self.prompt))
        return Uncuttable(made) if recurrent else made

    def make(self, truth: Sequence[int]) -> Loop:
        make = replay(LOOPS[self.loop]) if self.recurrent else LOOPS[self.loop]
        return make(
            drafter(self.drafter, truth, self.seed),
            self.n_rows,
            clip=CLIPS[self.clip],
            prompt=PROMPTS[self.prompt_style],
        )

    def start(self) -> State:
        return State.start(self.prompt, self.n_tokens, self.stops, overrun=self.overrun)


class Uncuttable(ToyModel):
    """A memory that can only go on from where it is, or go back to where it was before the last pass."""

    def __init__(self, model: ToyModel) -> None:
        super().__init__(model.n_vocab, model.order, model.seed)
        self.next_token = model.next_token  # type: ignore[method-assign]
        self.checkpoint = 0

    def __call__(self, pass_: Pass) -> list[int]:
        assert pass_.keep in (len(self.cache), self.checkpoint), "this memory cannot be cut"
        self.checkpoint = pass_.keep
        return super().__call__(pass_)


def drafter(name: str, truth: Sequence[int], seed: int) -> Propose:
    """A fresh drafter: one of `DRAFTERS`, or one that knows the text and errs where a hash says so."""
    if name in DRAFTERS:
        return DRAFTERS[name](**SMALL.get(name, {}))
    dice = ToyModel(1 << 16, None, seed)

    def knowing(tokens: Sequence[int]) -> Sequence[int]:
        n, luck = len(tokens), dice.next_token((len(tokens),))
        if not n or name == "nothing":
            return ()
        guess = list(truth[n : n + 12])
        if name == "errs":
            guess = guess[: luck % 9]
            if guess and luck & 512:
                guess[luck // 1024 % len(guess)] ^= 1
        if name == "junk":
            guess = [(luck >> i) % 3 for i in range(luck % 7)]
        return guess

    return knowing


def continuing(propose: Propose) -> Propose:
    """The drafter, told of tuples, as of one growing text: one with state learns from how it goes on."""
    text = Tokens()

    def read(tokens: Sequence[int]) -> Sequence[int]:
        nonlocal text
        assert tokens[: len(text)] == text, "the tale never goes back"
        text = text.extended(tokens[len(text) :])
        return propose(text)

    return read


KNOWING = ("perfect", "errs", "junk", "nothing")
SMALL: dict[str, dict[str, Any]] = {  # parameters that make a drafter of `DRAFTERS` at home in short texts
    "vllm-ngram": {"n_max": 3, "n_min": 1},
    "pld-original": {"n_max": 1, "n_draft": 3},
    "ngram-simple": {"n_key": 1, "n_draft": 3},
    "ngram-map-k": {"n_key": 1, "n_draft": 3},
    "ngram-map-k4v": {"n_key": 1, "n_draft": 3},
    "ngram-mod": {"n_key": 2, "n_draft": 5, "n_draft_min": 1, "size": 1024},
}


def greedy_text(world: World, model: ToyModel) -> tuple[list[int], int]:
    """The model's own greedy text to well behind the end, and the length at which an exact loop ends it."""
    text = list(world.prompt)
    goal = len(text) + world.n_tokens
    end = goal if world.n_tokens else len(text)
    while len(text) < goal + BEYOND:
        text.append(model.next_token(text))
        if text[-1] in world.stops and len(text) < end:
            end = len(text)
    return text, end


def common(a: Sequence[int], b: Sequence[int]) -> int:
    """The length of the longest common prefix."""
    n = min(len(a), len(b))
    return n if a[:n] == b[:n] else sum(1 for _ in takewhile(bool, map(eq, a, b)))


def explore(world: World) -> tuple[int, set[str]]:
    """Run a world to its end and check every transition; how many there were, and what was met on the way."""
    truth, end = greedy_text(world, world.model())
    loop, state, model = world.make(truth), world.start(), world.model(recurrent=world.recurrent)
    tale = TALES[world.loop](
        Tale(
            lambda text: truth[len(text)],
            list(world.prompt),
            world.n_tokens,
            world.stops,
            continuing(drafter(world.drafter, truth, world.seed)),
            world.n_rows,
            world.clip,
            world.prompt_style,
            world.overrun,
            world.recurrent,
        )
    )
    met: set[str] = set()
    n = 0
    chained = False
    while (pass_ := next_pass(loop, state)) is not None:
        n += 1
        assert n < 500, (world, "this never ends")
        assert (pass_.keep, pass_.rows, pass_.want) == next(tale, "the tale has ended"), (world, n)
        after = step(state, pass_, model(pass_))
        known = len(after.tokens)
        assert after.tokens == truth[:known], (world, n)
        assert after.cached == common(model.cache, after.tokens), (world, n)
        assert after.checkpoint == pass_.keep, (world, n)
        assert 0 <= after.accepted <= after.guessed < len(pass_.rows) + 1, (world, n)
        assert after.ended or after.cached == known - 1 or after.cached < len(world.prompt), (world, n)
        assert after.ended or after.cached < known, (world, n)
        if not state.prefilling and pass_.keep == state.cached and not world.recurrent:
            assert len(pass_.rows) <= max(world.n_rows, 1), (world, n)
        if world.clip == "useful" and world.loop not in ("padded", "dummy"):
            assert pass_.keep + len(pass_.rows) < after.goal + world.overrun, (world, n)
            assert not world.stops.intersection(pass_.rows[len(state.tokens) - pass_.keep :]), (world, n)
        met |= features(state, pass_, after, chained)
        chained = bool(state.guessed and after.guessed)
        state = after
    assert next(tale, None) is None, (world, n)
    if world.overrun:
        assert len(state.tokens) >= end, world
        assert state.tokens == truth[: len(state.tokens)], world
    else:
        assert state.tokens == truth[:end], world
    return n, met


def features(state: State, pass_: Pass, after: State, chained: bool) -> set[str]:
    """The interesting things about a transition."""
    met = set()
    if after.guessed:
        met.add("full" if after.accepted == after.guessed else "partial" if after.accepted else "zero")
    if pass_.keep < state.cached:
        met.add("replay")
    if after.cached == state.cached and len(after.tokens) == len(state.tokens):
        met.add("wasted pass")
    if chained and state.guessed and after.guessed:
        met.add("chained after chained")
    if after.ended and after.guessed:
        met.add("goal in a pass" if len(after.tokens) >= after.goal else "stop in a pass")
        if after.accepted < after.guessed and after.cached == len(after.tokens):
            met.add("the last token cached")
    if len(after.tokens) > after.goal:
        met.add("beyond the goal")
    if state.prefilling and after.guessed:
        met.add("guess behind the prompt")
    return met


FEATURES = {
    "full",
    "partial",
    "zero",
    "replay",
    "wasted pass",
    "chained after chained",
    "goal in a pass",
    "stop in a pass",
    "the last token cached",
    "beyond the goal",
    "guess behind the prompt",
}


def random_worlds(seed: int) -> Iterator[World]:
    """Worlds without end, the same for the same seed."""
    dice = Random(seed)
    pick = dice.choice
    while True:
        n_vocab = pick((2, 3, 3, 5))
        yield World(
            pick(list(LOOPS)),
            dice.randint(2, 8),
            pick([*KNOWING, *DRAFTERS]),
            tuple(dice.choices(range(n_vocab), k=dice.randint(1, 6))),
            dice.randint(0, 24),
            frozenset(dice.sample(range(n_vocab), pick((0, 0, 1)))),
            pick(list(PENALTIES)) if n_vocab > 2 and dice.random() < 0.1 else "none",
            dice.random() < 0.4,
            pick(list(CLIPS)),
            pick(list(PROMPTS)),
            dice.random() < 0.2,
            n_vocab,
            pick((1, 2, 2, 3, 3, None)),
            dice.randrange(1000),
        )
