"""One battery over every loop, drafter, penalty, stop set, memory, clipping and prompt style."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.drafters import DRAFTERS
from sim.loops import LOOPS
from tests.telling import TALES
from tests.worlds import CLIPS, FEATURES, KNOWING, PENALTIES, PROMPTS, World, explore, random_worlds


@st.composite
def worlds(draw: st.DrawFn, loop: str) -> World:
    n_vocab = draw(st.integers(2, 5))
    tokens = st.integers(0, n_vocab - 1)
    return World(
        loop,
        draw(st.integers(2, 8)),
        draw(st.sampled_from([*KNOWING, *DRAFTERS])),
        tuple(draw(st.lists(tokens, min_size=1, max_size=6))),
        draw(st.integers(0, 24)),
        draw(st.frozensets(tokens, max_size=2)),
        draw(st.sampled_from(sorted(PENALTIES))) if n_vocab > 2 else "none",
        draw(st.booleans()),
        draw(st.sampled_from(sorted(CLIPS))),
        draw(st.sampled_from(sorted(PROMPTS))),
        draw(st.booleans()),
        n_vocab,
        draw(st.sampled_from([1, 2, 3, None])),
        draw(st.integers(0, 999)),
    )


@pytest.mark.parametrize("loop", LOOPS)
@given(st.data())
@settings(max_examples=200, deadline=None)
def test_every_transition_of_every_world(loop: str, data: st.DataObject) -> None:
    """The model's own greedy text, a maximal cache, the passes of the second telling: see `explore`."""
    explore(data.draw(worlds(loop)))


def test_every_loop_is_told_twice() -> None:
    assert set(TALES) == set(LOOPS)


def test_the_interesting_cases_are_reached() -> None:
    """Sometimes-properties, per loop: a battery that never meets a case proves nothing about it."""
    met: dict[str, Counter[str]] = {loop: Counter() for loop in LOOPS}
    for _, world in zip(range(3000), random_worlds(seed=1), strict=False):
        met[world.loop].update(explore(world)[1])
    for loop in set(LOOPS) - {"greedy"}:
        never = FEATURES - set(met[loop])
        assert never <= UNREACHABLE.get(loop, set()) | {"wasted pass"} - {loop}, (loop, never)
    assert not set(met["greedy"]) - {"beyond the goal"}
    assert all(sum(met[loop][feature] for loop in LOOPS) >= 20 for feature in FEATURES), met
    assert {loop for loop in LOOPS if met[loop]["wasted pass"]} == {"re-anchor"}


GATED = {"guess behind the prompt"}  # no logits to check a guess against before the prompt is in
ALTERNATES = {"chained after chained"}
UNREACHABLE: dict[str, set[str]] = {
    "gated": GATED | ALTERNATES,
    "fused": GATED,
    "fused-partial": GATED,
    "gated-held": GATED,
    "decode-then-speculate": ALTERNATES,
    "re-anchor": GATED | ALTERNATES,
}
