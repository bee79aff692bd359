"""The step rule against an independent judge: any passes, any answers, all small worlds, bad input."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.answers import recorded
from sim.drafters import NGram
from sim.loops import LOOPS, replay
from sim.machine import Pass, State, next_pass, step
from sim.run import Record, kind, run
from sim.tokens import Tokens
from tests.judge import agree, babble, small_texts, small_worlds
from tests.quick import START, WRONG, facts

ids = st.integers(0, 2)


@st.composite
def states(draw: st.DrawFn) -> State:
    tokens = draw(st.lists(ids, min_size=1, max_size=6))
    prompt = draw(st.integers(0, len(tokens)))
    guessed = draw(st.integers(0, 3))
    cached = draw(st.integers(0, len(tokens) - 1))
    return State(
        tokens,  # type: ignore[arg-type]
        cached,
        draw(st.integers(prompt, 9)),
        prompt,
        draw(st.frozensets(ids, max_size=1)),
        draw(st.booleans()),
        draw(st.integers(0, cached)),
        guessed,
        draw(st.integers(0, guessed)),
    )


@st.composite
def moves(draw: st.DrawFn) -> tuple[State, Pass, list[int]]:
    """A state, a pass that often repeats what is known, and answers, sometimes too many or too few."""
    state = draw(states())
    keep = draw(st.integers(0, min(len(state.tokens), state.cached + 1)))
    repeated = list(state.tokens[keep : keep + draw(st.integers(0, 7))])
    rows = repeated + draw(st.lists(ids, min_size=0 if repeated else 1, max_size=4))
    want = draw(st.integers(0, len(rows)) | st.just(len(rows)))
    n_answers = max(want + draw(st.sampled_from((0, 0, 0, 0, 0, 1, -1))), 0)
    return state, Pass(keep, tuple(rows), want), draw(st.lists(ids, min_size=n_answers, max_size=n_answers))


@given(moves())
def test_any_pass_is_judged_as_by_positions(move: tuple[State, Pass, list[int]]) -> None:
    agree(*move)


@given(st.integers(0, 10**6), st.sampled_from(sorted(LOOPS)), st.integers(2, 5), st.booleans())
def test_any_answers_leave_the_bookkeeping_exact(seed: int, name: str, n_rows: int, recurrent: bool) -> None:
    assert babble(seed, name, n_rows, recurrent) < 80


@given(st.integers(0, 10**6))
def test_every_run_ends(seed: int) -> None:
    """Passes drawn at random, all the legal ones taken: text grows, or cache grows, or one pass is wasted."""
    dice = random.Random(seed)
    state, n = State.start([0, 1], 8), 0
    while not state.ended:
        keep = dice.randint(0, state.cached)
        rows = (*state.tokens[keep : dice.randint(keep, len(state.tokens))], *dice.choices(range(2), k=2))
        pass_ = Pass(keep, rows, len(rows))
        try:
            state = step(state, pass_, dice.choices(range(2), k=len(rows)))
        except ValueError:
            continue
        n += 1
    assert n <= 8 * 2 * 10  # tokens, times the cached rows a token can be worth, each with one wasted pass


@pytest.mark.parametrize("name", LOOPS)
def test_all_small_worlds(name: str) -> None:
    """Texts of at most 5 tokens over 2, all guesses at all steps, R = 2 and 3, both memories, 2 stop sets."""
    n = sum(
        small_worlds(name, n_rows, recurrent, text, stops)
        for n_rows, recurrent, text, stops in product(
            (2, 3), (False, True), small_texts(), (frozenset[int](), frozenset({1}))
        )
    )
    assert n > 500


CYCLES = {  # at full acceptance and R = 6: rows and tokens of the passes of one cycle
    "greedy": [(1, 1)],
    "gated": [(6, 6), (1, 1)],
    "fused": [(6, 6)],
    "fused-partial": [(6, 6)],
    "gated-held": [(6, 6)],
    "carry": [(6, 6)],
    "decode-then-speculate": [(6, 6), (1, 1)],
    "padded": [(6, 6)],
    "dummy": [(6, 6)],
    "re-anchor": [(6, 6), (1, 1)],
}


@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize("recurrent", [False, True])
def test_cycles_at_full_acceptance(name: str, recurrent: bool) -> None:
    """Design section 3: `gated` 7 tokens in 6 + 1 rows, `fused` and `carry` 6 in 6; undoing never happens."""
    text = list(range(400))
    make = replay(LOOPS[name]) if recurrent else LOOPS[name]
    answers = recorded(text)
    loop = make(lambda tokens: text[len(tokens) : len(tokens) + 6], 6)
    state, records = run(loop, State.start(text[:10], 85), lambda pass_: (answers(pass_), 0.25))
    assert state.tokens == text[:95]
    cycle = CYCLES[name]
    shapes = [(r.n_rows, r.n_tokens) for r in records]
    assert shapes[0] == (10, 1)
    steady = shapes[1 : -1 if name != "greedy" else None]
    assert steady == (cycle * len(steady))[: len(steady)]
    assert sum(r.n_tokens for r in records) == 85
    assert {r.seconds for r in records} == {0.25}


def test_carry_at_seven_rows() -> None:
    text = list(range(200))
    loop = LOOPS["carry"](lambda tokens: text[len(tokens) : len(tokens) + 9], 7)
    answers = recorded(text)
    _, records = run(loop, State.start(text[:2], 71), lambda pass_: (answers(pass_), 0.0))
    assert [(r.n_rows, r.n_tokens) for r in records] == [(2, 1)] + [(7, 7)] * 10


def test_a_pass_has_a_kind() -> None:
    """The names of passes, over one hand-made `fused` run and one replay."""
    text = [5, 6, 5, 6, 5, 6, 5, 6, 9, 9, 9]
    answers = recorded(text)
    loop = LOOPS["fused"](NGram(), 3)
    _, records = run(loop, State.start(text[:4], 7), lambda pass_: (answers(pass_), 1.0))
    assert [r.kind for r in records] == ["prefill", "verify", "chained", "correction", "decode"]
    assert records[1] == Record("verify", 4, 3, 3, 2, 2, 3, 1.0)
    _, records = run(replay(LOOPS["carry"])(NGram(), 3), State.start(text[:7], 4), lambda p: (answers(p), 1.0))
    assert [r.kind for r in records] == ["prefill", "verify", "replay", "decode"]
    state = State(text[:5], 4, 9, 4)  # type: ignore[arg-type]
    assert kind(state, Pass(4, (5,), 1)) == "decode"


@pytest.mark.parametrize(("make", "says"), WRONG)
def test_what_is_wrong_is_named(make: Callable[[], object], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        make()


@pytest.mark.parametrize("name", [name for name in LOOPS if name != "greedy"])
@pytest.mark.parametrize("word", ["a", 1.0, None, -1, True])
def test_a_drafter_that_returns_no_token_is_named(name: str, word: object) -> None:
    loop = LOOPS[name](lambda tokens: [7, word, word], 4)  # type: ignore[list-item]
    state = step(State.start([1, 2], 9), Pass(0, (1, 2), 1), [7])
    with pytest.raises(ValueError, match=f"row {word!r} is no token id"):
        next_pass(loop, state)


def test_small_facts() -> None:
    facts()


def test_values_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        START.cached = 1  # type: ignore[misc]
    again = State.start((1, 2), 3)
    assert (again, hash(again)) == (START, hash(START))
    assert START.due == (1, 2)
    assert (START.remaining, START.prefilling, START.ended) == (3, True, False)


def test_a_run_has_a_list_of_its_own() -> None:
    prompt = Tokens([1, 2])
    one, other = State.start(prompt, 3), State.start(prompt, 3)
    assert not one.tokens.shares(prompt)
    assert not one.tokens.shares(other.tokens)
    prompt.items[0] = 9  # against the rules, and yet
    assert (one, other) == (START, START)


def test_an_unknown_answer_may_end_an_overrun_text_only() -> None:
    """The answer behind a recorded text is unknown; `lookup`'s last pass may ask for it after a stop."""
    state = State([1, 2], 1, 5, 1, frozenset({9}), True)  # type: ignore[arg-type]
    after = step(state, Pass(1, (2, 9), 2), [9, -1])
    assert after.tokens == [1, 2, 9, -1]
    assert after.ended
