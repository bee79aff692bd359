"""Real llama.cpp passes: the state machine drives it, and its passes are those of the replay of what it wrote."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sim.loops import LOOPS
from sim.machine import Pass
from sim.penalties import Penalties, penalised
from sim.predict import walk
from sim.setting import Setting
from sim.trace import Text

llama = pytest.importorskip("validate.llama", exc_type=ValueError)


def shapes(records: object) -> list[tuple[str, int, int, int, int]]:
    return [(r.kind, r.n_past, r.n_rows, r.n_out, r.accepted) for r in records]  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def engine(tiny: Path) -> object:
    with llama.Model(tiny) as model, llama.LlamaEngine(model, n_ctx=512, n_threads=1) as engine:
        yield engine


def test_answers_are_the_argmax_of_the_rows_asked_for(engine: object) -> None:
    rows = (1, 260, 261, 262, 260, 261)
    logits = engine.logits(Pass(0, rows, 6))
    answer, seconds = engine(Pass(0, rows, 3))
    assert answer == logits[3:].argmax(axis=1).tolist()
    assert seconds > 0
    assert len({row.tobytes() for row in logits}) == 6, "every row has its own logits"


def test_the_cache_is_cut_where_the_pass_says(engine: object) -> None:
    rows = (1, 260, 261, 262, 260, 261)
    whole = engine.logits(Pass(0, rows, 1))
    engine(Pass(0, (*rows[:4], 298, 297, 296), 1))
    again = engine.logits(Pass(4, rows[4:], 1))
    assert np.abs(whole - again).max() < 1e-4


def test_a_pass_that_cannot_be_is_refused(engine: object) -> None:
    engine(Pass(0, (1, 260), 1))
    with pytest.raises(ValueError, match="3 rows are to be kept, 2 are cached"):
        engine(Pass(3, (260,), 1))
    with pytest.raises(ValueError, match="do not fit the context of 512"):
        engine(Pass(2, (260,) * 511, 1))


@pytest.mark.parametrize("loop", LOOPS)
def test_f32_text_is_the_same_for_every_loop(engine: object, loop: str) -> None:
    from validate.lanes import timed_block
    from validate.record import record

    ids = engine.model.tokenize("ba be bi bo " * 5)
    text = record(engine, "again", "", ids, 60)
    (run,) = timed_block([engine], [Setting(loop, 6)], text, 60)
    assert run.tokens == text.tokens[text.n_prompt :]
    assert shapes(run.passes) == shapes(walk(text, Setting(loop, 6)))
    assert 0 < run.seconds <= run.wall_seconds


@pytest.fixture(scope="module")
def default_texts() -> object:
    from validate.models import default_model
    from validate.record import load_prompts, record, suite, tokenize

    try:
        path = default_model()
    except ValueError as error:
        pytest.skip(str(error))
    with llama.Model(path) as model, llama.LlamaEngine(model, n_ctx=256, n_threads=1) as engine:
        made = {p.name: p for p in load_prompts(suite())}
        texts = [record(engine, n, *tokenize(model, made[n]), 48) for n in ("locked repetition", "story")]
        yield engine, texts


@pytest.mark.parametrize("loop", LOOPS)
def test_default_model_runs_the_passes_of_the_replay_of_its_own_text(default_texts: object, loop: str) -> None:
    from validate.lanes import timed_block

    engine, texts = default_texts
    accepted = 0
    for text in texts:
        (run,) = timed_block([engine], [Setting(loop, 6)], text, 48)
        own = Text(
            name=text.name, n_prompt=text.n_prompt, tokens=text.tokens[: text.n_prompt] + run.tokens, stop=text.stop
        )
        assert shapes(run.passes) == shapes(walk(own, Setting(loop, 6)))
        assert run.n_tokens == 47, "the prefill yields the first of the 48"
        accepted += sum(record.accepted for record in run.passes)
    assert accepted > 30 or loop == "greedy", "the locked text accepts most drafts"


def test_the_noise_of_pass_widths_is_small_in_f32_and_a_planted_difference_is_a_bug(engine: object) -> None:
    from validate.parity import margin_noise, triage
    from validate.record import record

    text = record(engine, "again", "", engine.model.tokenize("ba be bi bo " * 5), 40)
    noise = margin_noise(engine, text, 6)
    assert 0 < noise < 0.02, "F32 kernels of other widths differ in the last bits only"
    generated = text.tokens[text.n_prompt :]
    assert triage(engine, text, generated, noise).verdict == "same"
    planted = (*generated[:10], (generated[10] + 1) % engine.model.n_vocab, *generated[11:])
    verdict = triage(engine, text, planted, noise)
    assert (verdict.verdict, verdict.first_difference) == ("bug", 10)
    assert verdict.margin is not None
    assert verdict.margin > noise
    assert triage(engine, text, planted, noise=verdict.margin).verdict == "tie"


PENALTIES = {
    "repeat": Penalties(repeat=1.3),
    "frequency": Penalties(frequency=0.5),
    "all": Penalties(repeat=1.1, frequency=0.2, presence=0.4, last_n=-1),
    "bias": Penalties(bias={261: 3.0}),
}


@pytest.mark.parametrize("name", PENALTIES)
def test_each_row_is_judged_with_the_tokens_before_it(tiny: Path, name: str) -> None:
    """One pass over many rows answers as one-row passes do, and as the pure function on the raw logits."""
    rows = (1, 260, 261, 260, 261, 260, 262, 261)
    penalties = PENALTIES[name]
    with (
        llama.Model(tiny) as model,
        llama.LlamaEngine(model, n_ctx=64, n_threads=1) as raw,
        llama.LlamaEngine(model, n_ctx=64, n_threads=1, penalties=penalties) as engine,
    ):
        plain = raw.logits(Pass(0, rows, 8))
        expected = [penalised(row, rows[: i + 1], penalties) for i, row in enumerate(plain)]
        assert np.array_equal(engine.logits(Pass(0, rows, 8)), expected)
        at_once, _ = engine(Pass(0, rows, 8))
        assert at_once == [int(row.argmax()) for row in expected]
        engine(Pass(3, rows[3:], 0))
        raw.adopt(engine)
        one_by_one = [engine(Pass(i, rows[i : i + 1], 1))[0][0] for i in range(8)]
        assert one_by_one == at_once
        assert (np.array(expected) != plain).any(axis=1).all(), "every row is touched"


@pytest.mark.parametrize("loop", LOOPS)
def test_penalised_text_is_the_same_for_every_loop_and_its_replay_exact(tiny: Path, loop: str) -> None:
    from validate.measure import timed_block
    from validate.record import record

    penalties, accepted = Penalties(repeat=0.7, last_n=16), 0  # what was said is likelier
    with (
        llama.Model(tiny) as model,
        llama.LlamaEngine(model, n_ctx=256, n_threads=1) as raw,
        llama.LlamaEngine(model, n_ctx=256, n_threads=1, penalties=penalties) as engine,
    ):
        ids = model.tokenize("ba be bi bo " * 5)
        text = record(engine, "again", "", ids, 60)
        assert text.tokens != record(raw, "again", "", ids, 60).tokens
        (run,) = timed_block([engine], [Setting(loop, 6)], text, 60)
        assert run.tokens == text.tokens[text.n_prompt :]
        assert shapes(run.passes) == shapes(walk(text, Setting(loop, 6), 60))
        accepted += sum(record.accepted for record in run.passes)
    assert accepted or loop == "greedy", "drafts are judged under penalties too"
