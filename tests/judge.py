"""An independent judge of single steps, by positions, and runs that are held against it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import product
from random import Random

from sim.answers import recorded
from sim.drafters import NGram
from sim.loops import LOOPS, replay
from sim.machine import Pass, State, known_rows, next_pass, step
from tests.worlds import common


def judge(state: State, pass_: Pass, answer: Sequence[int]) -> tuple[list[int], int] | None:
    """The text and the cached length after a pass, told by positions; None where the pass is illegal."""
    text, shadow = list(state.tokens), [*state.tokens[: pass_.keep], *pass_.rows]
    if pass_.keep > state.cached or len(answer) != pass_.want or ended(text, state):
        return None
    first = len(shadow) - pass_.want
    says = {first + i: token for i, token in enumerate(answer)}
    if len(text) - 1 not in says and (len(shadow) >= len(text) or first >= len(text)):
        return None
    over = False
    while not over and shadow[: len(text)] == text:
        text.append(says[len(text) - 1])
        over = not state.overrun and (len(text) >= state.goal or text[-1] in state.stops)
    cached = common(shadow, text)
    wasted = len(text) == len(state.tokens) and cached <= state.cached
    if wasted and (state.guessed or shadow == text[: len(shadow)]):
        return None
    return text, cached


def ended(text: Sequence[int], state: State) -> bool:
    """Whether a text that grew by one pass has ended."""
    if state.goal == state.prompt or len(text) >= state.goal + (1 if state.overrun else 0):
        return True
    grown = text[max(state.prompt, len(text) - state.accepted - 1) :]
    return any(token in state.stops for token in grown)


def agree(state: State, pass_: Pass, answer: Sequence[int]) -> State | None:
    """Step, and hold the outcome against the judge; None where both say that the pass is illegal."""
    before, told = (repr(state), list(answer)), judge(state, pass_, answer)
    after = None
    with suppress(ValueError):
        after = step(state, pass_, answer)
    assert (repr(state), list(answer)) == before, "a step changes nothing"
    assert (after is None) == (told is None), (state, pass_, answer)
    if after is None or told is None:
        return None
    assert (list(after.tokens), after.cached) == told
    assert after.guessed == len(pass_.rows) - known_rows(state, pass_)
    assert after.accepted == max(after.cached - pass_.keep - known_rows(state, pass_), 0)
    assert after.checkpoint == pass_.keep
    for name in ("goal", "prompt", "stops", "overrun"):
        assert getattr(after, name) == getattr(state, name)
    return after


def babble(seed: int, name: str, n_rows: int, recurrent: bool) -> int:
    """Run a loop on answers that follow no model; the number of passes, each held against the judge."""
    dice = Random(seed)
    n_tokens, overrun = dice.randrange(20), dice.random() < 0.3
    prompt = [dice.randrange(3) for _ in range(dice.randint(1, 4))]
    make = replay(LOOPS[name]) if recurrent else LOOPS[name]
    loop = make(NGram(n_max=2), n_rows)
    state = State.start(prompt, n_tokens, dice.sample(range(3), dice.randrange(2)), overrun=overrun)
    n = 0
    while (pass_ := next_pass(loop, state)) is not None:
        n += 1
        assert n < 500, "this never ends"
        after = agree(state, pass_, [dice.randrange(3) for _ in range(pass_.want)])
        assert after is not None, "a loop's pass is legal whatever is answered"
        state = after
    return n


def small_worlds(name: str, n_rows: int, recurrent: bool, text: Sequence[int], stops: frozenset[int]) -> int:
    """Follow a loop through every guess of at most `n_rows` tokens at every step; the transitions seen."""
    make = replay(LOOPS[name]) if recurrent else LOOPS[name]
    guesses = [guess for n in range(n_rows + 1) for guess in product((0, 1), repeat=n)]
    loops = [make(lambda tokens, guess=guess: guess, n_rows) for guess in guesses]  # type: ignore[misc]
    answers = recorded([*text, 0, 0, 0])
    end = next((i for i in range(2, len(text) + 1) if text[i - 1] in stops), len(text))
    todo, seen, n = [State.start(text[:1], len(text) - 1, stops)], set(), 0
    while todo:
        state = todo.pop()
        if state in seen:
            continue
        seen.add(state)
        assert list(state.tokens) == list(text[: len(state.tokens)])
        passes = {next_pass(loop, state) for loop in loops}
        if None in passes:
            assert len(state.tokens) == end
            continue
        for pass_ in passes:
            assert pass_ is not None
            after = agree(state, pass_, answers(pass_))
            assert after is not None
            todo.append(after)
            n += 1
    return n


def small_texts() -> Iterator[tuple[int, ...]]:
    return (text for n in range(1, 6) for text in product((0, 1), repeat=n))
