"""Clipping, prompt styles and the loops' own words."""

from __future__ import annotations

import pytest

from sim.answers import recorded
from sim.loops import (
    DUMMY,
    LOOPS,
    PADDING,
    alone,
    before_goal,
    before_stop,
    carry,
    last_apart,
    replay,
    together,
    uncut,
    useful,
)
from sim.machine import Pass, State, next_pass, step
from sim.run import run

STATE = step(State.start([1, 2], 5, [9]), Pass(0, (1, 2), 1), [3])  # 4 of 5 tokens remain
LAST = step(State.start([1, 2], 2, [9]), Pass(0, (1, 2), 1), [3])  # 1 remains


@pytest.mark.parametrize(
    ("clip", "guess", "fed"),
    [
        (uncut, [4, 9, 5, 6, 7], [4, 9, 5, 6, 7]),
        (before_goal, [4, 9, 5, 6, 7], [4, 9, 5]),
        (before_goal, [4, 9], [4, 9]),
        (before_stop, [4, 5, 6, 7, 8], [4, 5, 6, 7, 8]),
        (before_stop, [4, 9, 9, 6], [4]),
        (before_stop, [9, 4], []),
        (useful, [4, 5, 6, 7], [4, 5, 6]),
        (useful, [4, 5, 9, 7], [4, 5]),
    ],
)
def test_a_guess_is_cut(clip: object, guess: list[int], fed: list[int]) -> None:
    assert list(clip(STATE, guess)) == fed  # type: ignore[operator]


def test_where_one_token_remains_no_row_of_a_guess_is_useful() -> None:
    assert [list(clip(LAST, [4, 5])) for clip in (uncut, before_goal, before_stop, useful)] == [
        [4, 5],
        [],
        [],
        [],
    ]
    beyond = State([1, 2, 3, 4], 3, 3, 2, overrun=True)  # type: ignore[arg-type]
    assert list(before_goal(beyond, [5, 6])) == []


def shapes(prompt: object, guess: list[int], n_prompt: int = 3) -> list[tuple[int, int, int]]:
    text = [5, 6, 7, 8, 5, 6, 7, 8, 5]
    answers = recorded(text)
    loop = carry(lambda tokens: guess, 3, prompt=prompt)  # type: ignore[arg-type]
    _, records = run(loop, State.start(text[:n_prompt], 2), lambda pass_: (answers(pass_), 0.0))
    return [(r.n_past, r.n_rows, r.n_out) for r in records]


def test_how_the_prompt_goes_in() -> None:
    assert shapes(alone, [8]) == [(0, 3, 1), (3, 1, 1)]
    assert shapes(together, [8]) == [(0, 4, 2)]
    assert shapes(last_apart, [8]) == [(0, 2, 0), (2, 1, 1), (3, 1, 1)]
    assert shapes(last_apart, [8], n_prompt=1) == [(0, 1, 1), (1, 1, 1)]


def test_junk() -> None:
    """`padded` fills up to R with zeros whatever is left to do, `dummy` an empty guess with one 100."""
    for state in (STATE, LAST):
        assert next_pass(LOOPS["padded"](lambda tokens: [], 4), state) == Pass(2, (3, 0, 0, 0), 4)
        assert next_pass(LOOPS["padded"](lambda tokens: [4], 3), state) == Pass(2, (3, 4, 0), 3)
    assert next_pass(LOOPS["dummy"](lambda tokens: [4], 4), STATE) == Pass(2, (3, 4), 2)
    assert next_pass(LOOPS["dummy"](lambda tokens: [4], 4), LAST) == Pass(2, (3, 100), 2)
    assert (PADDING, DUMMY) == (0, 100)


def test_a_wrong_pass_is_undone_and_fed_again() -> None:
    """On memory that cannot be cut; after a right one there is nothing to undo."""
    text = list(range(20, 40))
    answers = recorded(text)
    loop = replay(carry)(lambda tokens: [text[len(tokens)], 1][: len(tokens) % 2 + 1], 3)
    _, records = run(loop, State.start(text[:3], 9), lambda pass_: (answers(pass_), 0.0))
    assert [(r.kind, r.n_past, r.n_rows, r.n_tokens) for r in records] == [
        ("prefill", 0, 3, 1),
        ("verify", 3, 2, 2),
        ("chained", 5, 2, 2),
        ("chained", 7, 2, 2),
        ("chained", 9, 2, 2),
    ]
    loop = replay(carry)(lambda tokens: [text[len(tokens)], 1], 3)
    _, records = run(loop, State.start(text[:3], 9), lambda pass_: (answers(pass_), 0.0))
    assert [(r.kind, r.n_past, r.n_rows, r.n_tokens) for r in records] == [
        ("prefill", 0, 3, 1),
        ("verify", 3, 3, 2),
        ("replay", 3, 3, 1),
        ("verify", 6, 3, 2),
        ("replay", 6, 3, 1),
        ("verify", 9, 2, 2),
    ]


@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_says_whose_it_is(name: str) -> None:
    words = LOOPS[name].__doc__ or ""
    assert name == "greedy" or "R = " in words
    assert replay(LOOPS[name]).__doc__ == words
