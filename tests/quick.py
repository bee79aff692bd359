"""Checks that need no test runner: what `tests.prove` repeats, and what `tests.mutate` tries first."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from math import inf, nan
from random import Random

import numpy as np

from sim.answers import ToyModel
from sim.drafters import NGram
from sim.loops import LOOPS, replay
from sim.machine import Pass, State, step
from sim.penalties import Penalties, inside, penalised
from sim.tokens import Tokens
from tests.judge import babble
from tests.telling import plainly
from tests.worlds import explore, random_worlds

WORLDS_PER_BLOCK = 100
BABBLES_PER_BLOCK = 50

Counts = Counter[tuple[str, str]]


def block(seed: int) -> Counts:
    """Check one block of worlds; transitions and worlds by loop, and how often each case was met."""
    counts: Counts = Counter()
    for world in islice(random_worlds(seed), WORLDS_PER_BLOCK):
        n, met = explore(world)
        counts["transitions", world.loop] += n
        counts["worlds", world.loop] += 1
        counts.update(("met", feature) for feature in met)
    dice = Random(seed)
    for _ in range(BABBLES_PER_BLOCK):
        name, n_rows, recurrent = dice.choice(list(LOOPS)), dice.randint(2, 6), dice.random() < 0.5
        counts["babbled", name] += babble(dice.randrange(10**9), name, n_rows, recurrent)
    return counts


START = State.start([1, 2], 3)

WRONG: list[tuple[Callable[[], object], str]] = [
    (lambda: State.start([], 3), "the prompt is empty"),
    (lambda: State.start([1], -1), "n_tokens must be at least 0, not -1"),
    (lambda: State.start([1], 3, [7], n_vocab=7), "stop token 7 .* between 0 and 6"),
    (lambda: State.start([1], 3, [-2]), "stop token -2 is no token id.* at least 0"),
    (lambda: State.start([-1], 3), "prompt token -1 is no token id"),
    (lambda: State.start([12], 3, n_vocab=9), "prompt token 12 .* between 0 and 8"),
    (lambda: State.start([1, 9], 3, n_vocab=9), "prompt token 9 .* between 0 and 8"),
    (lambda: State.start([1.5], 3), "prompt token 1.5 is no token id"),  # type: ignore[list-item]
    (lambda: State([1, 2], 0, 1, 2), "goal 1 is below the prompt's length 2"),  # type: ignore[arg-type]
    (lambda: State([1, 2], 0, 5, 3), "prompt 3 must be between 0 and the 2"),  # type: ignore[arg-type]
    (lambda: State([1, 2], 0, 5, -1), "prompt -1 must"),  # type: ignore[arg-type]
    (lambda: State([1, 2], 3, 5), "cached 3 must be between 0 and the 2"),  # type: ignore[arg-type]
    (lambda: State([1, 2], -1, 5), "cached -1 must be"),  # type: ignore[arg-type]
    (lambda: State(Tokens([1, 2]), 3, 2, 2), "cached 3 must be"),
    (lambda: State(Tokens([1, 2]), 2, 5, 1, guessed=1, accepted=1, checkpoint=1), "all 2 tokens are cached"),
    (lambda: State(Tokens([1, 2]), 2, 5, guessed=1), "all 2 tokens are cached"),
    (lambda: State([1, 2], 2, 5), "all 2 tokens are cached"),  # type: ignore[arg-type]
    (lambda: replace(START, checkpoint=1), "checkpoint 1 must be between 0 and the 0"),
    (lambda: replace(START, checkpoint=-1), "checkpoint -1 must be"),
    (lambda: replace(START, guessed=1, accepted=2), "accepted 2 must be between 0 and guessed 1"),
    (lambda: replace(START, accepted=-1), "accepted -1 must be"),
    (lambda: Pass(0, (), 0), "at least one row"),
    (lambda: Pass(-1, (1,), 0), "keep must be at least 0, not -1"),
    (lambda: Pass(0, (1,), 2), "want 2 must be between 0 and the 1 rows"),
    (lambda: Pass(0, (1,), -1), "want -1 must be"),
    (lambda: Pass(0, (1, -1), 1), "row -1 is no token id"),
    (lambda: Pass(0, (True,), 1), "row True is no token id"),
    (lambda: step(START, Pass(1, (2,), 1), [1]), "keeps 1 cached rows, but only 0 are there"),
    (lambda: step(START, Pass(0, (1, 2), 1), [1, 2]), "1 answers were wanted, 2 were given"),
    (lambda: step(START, Pass(0, (1, 2), 2), [1]), "2 answers were wanted, 1 were given"),
    (lambda: step(START, Pass(0, (1, 2, 2, 2), 1), [1]), "answer after position 1 continues the text"),
    (lambda: step(START, Pass(0, (1, 2), 0), []), "answer after position 1 continues the text"),
    (lambda: step(START, Pass(0, (1, 2, 2), 1), [1]), "answer after position 1 continues the text"),
    (lambda: step(START, Pass(0, (1, 2), 1), [-1]), "the answer -1 is no token.* goal 5"),
    (lambda: step(START, Pass(0, (1, 2, 5), 2), [5, -1]), "the answer -1 is no token.* goal 5"),
    (lambda: step(State.start([1], 0), Pass(0, (1,), 1), [1]), "the text has ended"),
    (lambda: step(replace(START, guessed=1), Pass(0, (2, 2), 2), [1, 1]), "gets nowhere"),
    (lambda: LOOPS["greedy"](NGram(), 0), "n_rows must be at least 1 for this loop, not 0"),
    (lambda: replay(LOOPS["gated"])(NGram(), 0), "n_rows must be at least 2 for this loop, not 0"),
    *(
        (lambda name=name: LOOPS[name](NGram(), 1), "n_rows must be at least 2 for this loop, not 1")
        for name in LOOPS
        if name != "greedy"
    ),
    (lambda: ToyModel(0), "n_vocab must be at least 1, not 0"),
    (lambda: ToyModel()(Pass(1, (1,), 1)), "1 rows are to be kept, 0 are cached"),
    (lambda: inside(-1, 3), "token -1 is outside the vocabulary of 3 tokens"),
    (lambda: inside(4, 3), "token 4 is outside the vocabulary of 3 tokens"),
    (lambda: inside(3, 3), "token 3 is outside the vocabulary of 3 tokens"),
    (lambda: Penalties(repeat=0.0), "repeat penalty must be above 0 and finite, not 0.0"),
    (lambda: Penalties(repeat=-1.1), "repeat penalty must be above 0 and finite, not -1.1"),
    (lambda: Penalties(repeat=nan), "repeat penalty must be above 0 and finite, not nan"),
    (lambda: Penalties(repeat=inf), "repeat penalty must be above 0 and finite, not inf"),
    (lambda: Penalties(frequency=nan), "frequency penalty must be finite, not nan"),
    (lambda: Penalties(presence=inf), "presence penalty must be finite, not inf"),
    (lambda: Penalties(last_n=-2), "last_n must be at least 0, or -1 for all tokens, not -2"),
    (lambda: Penalties(min_tokens=-1), "min_tokens must be at least 0, not -1"),
    (lambda: Penalties(bias={-1: 1.0}), "logit bias is given for -1, which is no token id"),
    (lambda: Penalties(bias={1: nan}), "logit bias of token 1 must be finite or -inf, not nan"),
    (lambda: Penalties(bias={1: inf}), "logit bias of token 1 must be finite or -inf, not inf"),
]


def refusals() -> None:
    """Every wrong input of the list is refused with its words."""
    for make, says in WRONG:
        words = ""
        try:
            make()
        except ValueError as error:
            words = str(error)
        assert re.search(says, words), (says, words)


def facts() -> None:
    """Small things that random worlds do not come to."""
    assert {Pass(0, (1,), 1), Pass(0, (1,), 1)} == {Pass(0, (1,), 1)}
    for value, name in ((START, "cached"), (Pass(0, (1,), 1), "keep"), (Penalties(), "repeat")):
        assert not hasattr(value, "__dict__")
        try:
            value.__setattr__(name, 1)
        except AttributeError:
            continue
        raise AssertionError(f"{value} was changed")
    text = Tokens([1, 9, 3])
    assert not State(text, 2, 9, 1, frozenset({9})).ended, "a stop token before the last pass ended nothing"
    assert State(text, 2, 9, 1, frozenset({9}), guessed=1, accepted=1).ended
    assert not State(text, 2, 9, 2, frozenset({9}), guessed=1, accepted=1).ended, "nor does one in the prompt"
    assert State.start([4], n_tokens=1, stops=[6], n_vocab=7).remaining == 1
    assert [State(Tokens([1, 2, 3, 4]), n, 9, 2).prefilling for n in range(4)] == [True, True, False, False]
    assert State(text, 0, 9) == State(text, 0, 9, 0, frozenset(), False, 0, 0, 0)
    assert text == State([1, 9, 3], 0, 9).tokens  # type: ignore[arg-type]
    assert LOOPS["greedy"](NGram(), 1)(State.start([4], 1)) == Pass(0, (4,), 1)
    for make in (LOOPS["carry"], replay(LOOPS["carry"])):
        assert make(propose=NGram(), n_rows=2)(State.start([4], 1)) == Pass(0, (4,), 1)


def penalty_facts() -> None:
    """Random rows of logits against the telling in plain Python; nothing is written into the row."""
    dice = Random(1)
    for _ in range(400):
        p = Penalties(
            dice.choice((1.0, 0.5, 2.0)),
            dice.choice((0.0, 0.25)),
            dice.choice((0.0, -1.5)),
            dice.randint(-1, 4),
            {dice.randrange(4): dice.choice((2.0, -inf))} if dice.random() < 0.4 else {},
            frozenset(dice.sample(range(4), dice.randrange(3))),
            dice.randrange(4),
        )
        row, n_prompt = [dice.choice((-2.0, -0.5, 0.0, 1.0, 3.0)) for _ in range(4)], dice.randrange(3)
        logits, prefix = np.array(row), dice.choices(range(4), k=dice.randrange(7))
        assert penalised(logits, prefix, p, n_prompt=n_prompt).tolist() == plainly(row, prefix, p, n_prompt), p
        assert logits.tolist() == row
    stop = Penalties(stops=frozenset({0}), min_tokens=2)
    assert [penalised(np.ones(2), [1] * n, stop)[0] for n in range(4)] == [-inf, -inf, 1, 1]
    assert Penalties() == Penalties(1.0, 0.0, 0.0, 64, {}, frozenset(), 0)
    for stranger in (3, 100, -1):
        assert penalised(np.ones(3), [stranger, 1], Penalties(presence=1.0)).tolist() == [1.0, 0.0, 1.0]
        assert penalised(logits=np.ones(3), prefix=[stranger], penalties=Penalties()).tolist() == [1.0] * 3
    assert (inside(0, 3), inside(2, 3)) == (0, 2)


if __name__ == "__main__":
    facts()
    refusals()
    penalty_facts()
    for seed in range(1, 4):
        block(seed)
