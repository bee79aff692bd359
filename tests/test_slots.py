"""Several sequences in one pass of real llama.cpp: each writes what it writes alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from sim.loops import LOOPS, greedy
from sim.machine import Pass, State, next_pass, step
from sim.run import run
from sim.setting import Setting

llama = pytest.importorskip("validate.llama", exc_type=ValueError)

PROMPTS = ([1, 260, 261, 262] * 4, [1, 270, 275, 280, 285, 262], [1, 290, 291] * 5)
N_TOKENS = 40


@pytest.fixture(scope="module")
def model(tiny: Path) -> object:
    with llama.Model(tiny) as model:
        yield model


@pytest.fixture(scope="module")
def alone(model: object) -> list[tuple[int, ...]]:
    """What each prompt goes on with, decoded alone, a row a pass."""
    texts = []
    for prompt in PROMPTS:
        with llama.LlamaEngine(model, n_ctx=512, n_threads=1) as engine:
            state, _ = run(greedy(lambda _: (), 2), State.start(prompt, N_TOKENS), engine)
            texts.append(tuple(state.tokens))
    return texts


@pytest.mark.parametrize("loop", LOOPS)
def test_sequences_in_one_pass_write_what_each_writes_alone(
    model: object, alone: list[tuple[int, ...]], loop: str
) -> None:
    loops = [Setting(loop, 6).make() for _ in PROMPTS]
    states = [State.start(prompt, N_TOKENS - 8 * slot) for slot, prompt in enumerate(PROMPTS)]
    shapes = set()
    with llama.SlotsEngine(model, 3, n_ctx=512, n_threads=1) as engine:
        while any(passes := [next_pass(loop, state) for loop, state in zip(loops, states, strict=True)]):
            answers, seconds = engine(passes)
            assert seconds > 0
            shapes.add(tuple(len(p.rows) if p else 0 for p in passes))
            states = [
                step(state, p, answer) if p else state for state, p, answer in zip(states, passes, answers, strict=True)
            ]
    assert [tuple(state.tokens) for state in states] == [text[: s.goal] for text, s in zip(alone, states, strict=True)]
    assert len(shapes) > 2, "prompts of several lengths, decoding, and sequences that had ended"


def test_a_prompt_read_once_is_taken_over(model: object, alone: list[tuple[int, ...]]) -> None:
    engine = llama.LlamaEngine(model, n_ctx=512, n_threads=1)
    with engine as one, llama.SlotsEngine(model, 2, n_ctx=512, n_threads=1) as slots:
        for slot in (1, 0):
            one(Pass(0, tuple(alone[slot][:20]), 1))
            slots.restore(slot, one.snapshot())
        assert slots.n_cached == [20, 20]
        answers, _ = slots([Pass(20, tuple(text[20:26]), 6) for text in alone[:2]])
    assert answers == [list(text[21:27]) for text in alone[:2]]


def test_what_cannot_be_is_refused(model: object) -> None:
    with pytest.raises(ValueError, match="slots must be at least 1, not 0"):
        llama.SlotsEngine(model, 0, n_ctx=512, n_threads=1)
    with llama.SlotsEngine(model, 2, n_ctx=256, n_threads=1) as slots:
        with pytest.raises(ValueError, match="no sequence has a pass"):
            slots([None, None])
        with pytest.raises(ValueError, match="1 rows are to be kept in slot 1, 0 are cached"):
            slots([None, Pass(1, (260,), 1)])
        with pytest.raises(ValueError, match="2 sequences do not fit the context of 256"):
            slots([Pass(0, (260,) * 150, 1)] * 2)
        answers, _ = slots([Pass(0, (1, 260), 0), None])
        assert answers == [[], []]
        assert slots.n_cached == [2, 0]
