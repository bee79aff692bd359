"""Any GGUF: attention of several kinds, experts, recurrent and hybrid memory; every loop writes the greedy text."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sim.loops import LOOPS
from sim.machine import Pass
from sim.penalties import NONE, Penalties
from sim.predict import walk
from sim.setting import Setting
from tests.conftest import Outcome

llama = pytest.importorskip("validate.llama", exc_type=ValueError)

from tests.tiny import ARCHITECTURES, WINDOW, write_tiny  # noqa: E402

WRITERS = tuple(name for name in ARCHITECTURES if name != "bert")
UNCUT = ("mamba", "jamba")
ROWS = (1, 260, 261, 262, 260, 261, 263, 264, 270, 271)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A tiny model of each kind."""
    folder = tmp_path_factory.mktemp("kinds")
    return {name: write_tiny(folder / f"{name}.gguf", kind=name, context=512) for name in ARCHITECTURES}


@pytest.fixture(params=WRITERS)
def engine(request: pytest.FixtureRequest, models: dict[str, Path]) -> Iterator[Any]:
    """An engine on each kind that writes text."""
    # Random recurrent layers hardly repeat themselves: what was said is made likelier.
    penalties = Penalties(repeat=0.6, last_n=16) if request.param == "mamba" else NONE
    with (
        llama.Model(models[request.param]) as model,
        llama.LlamaEngine(model, n_ctx=256, n_threads=1, penalties=penalties) as engine,
    ):
        yield engine


def test_whether_memory_can_be_cut_is_found_out(engine: Any) -> None:
    assert engine.can_cut == (engine.model.path.stem not in UNCUT)
    assert engine.n_cached == 0, "the question leaves nothing behind"


def test_a_pass_is_the_same_after_a_cut_anywhere(engine: Any) -> None:
    """Whether the memory is cut, put back or read again; with the same rows behind it, the same logits."""
    whole = [engine.logits(Pass(0, ROWS[: i + 1], 1))[0] for i in range(len(ROWS))]
    engine(Pass(0, ROWS[:4], 1))
    for keep in (4, 4, 2, 6, 1, 0, 3):
        if keep > engine.n_cached:
            engine(Pass(engine.n_cached, ROWS[engine.n_cached : keep], 1))
        engine(Pass(keep, (300, 301, 302), 3))
        again = engine.logits(Pass(keep, ROWS[keep : keep + 3], 3))
        assert np.abs(again - whole[keep : keep + 3]).max() < 1e-3, keep


@pytest.mark.parametrize("loop", LOOPS)
def test_every_loop_writes_the_greedy_text_by_the_passes_of_its_replay(engine: Any, loop: str) -> None:
    from validate.measure import timed_block
    from validate.record import record

    accepted, kinds = 0, set[str]()
    for prompt in ("ba be bi bo " * 5, "ca de fi go hu"):
        text = record(engine, "text", "", engine.model.tokenize(prompt), 60)
        (run,) = timed_block([engine], [Setting(loop, 6)], text, 60)
        assert run.tokens == text.tokens[text.n_prompt :]
        told = [(r.kind, r.n_past, r.n_rows, r.n_out, r.accepted) for r in run.passes]
        replayed = walk(text, Setting(loop, 6), 60, replays=not engine.can_cut)
        assert told == [(r.kind, r.n_past, r.n_rows, r.n_out, r.accepted) for r in replayed]
        accepted += sum(r.accepted for r in run.passes)
        kinds |= {r.kind for r in run.passes}
    if loop != "greedy":
        assert accepted, "drafts were right somewhere"
    if loop in ("padded", "dummy"):
        assert ("replay" in kinds) == (not engine.can_cut), "wrong drafts are replayed where nothing can be cut"


def test_a_sliding_window_is_passed_and_cut_within(models: dict[str, Path]) -> None:
    """What lies further back than every window does not matter, what lies within does, before and after a cut."""
    with llama.Model(models["gemma2"]) as model, llama.LlamaEngine(model, n_ctx=256, n_threads=1) as engine:
        rows = tuple(260 + i % 40 for i in range(4 * WINDOW))
        whole = engine.logits(Pass(0, rows, 1))
        engine(Pass(WINDOW, (300,) * 3 * WINDOW, 1))
        assert np.abs(engine.logits(Pass(WINDOW, rows[WINDOW:], 1)) - whole).max() < 0.02
        assert np.abs(engine.logits(Pass(3 * WINDOW, rows[3 * WINDOW - 1 : -1], 1)) - whole).max() > 0.2


@pytest.mark.parametrize("name", ["gemma2", "experts", "mamba", "jamba"])
def test_the_whole_way(
    sweepcap: Callable[..., Outcome], models: dict[str, Path], prompts: Path, tmp_path: Path, name: str
) -> None:
    few = ("--model", models[name], "--threads", 1)
    texts, profile, runs = tmp_path / "t.jsonl", tmp_path / "p.json", tmp_path / "r.jsonl"
    for words in (
        ("record", *few, "--prompts", prompts, "--out", texts, "--tokens", 20),
        ("calibrate", *few, "--texts", texts, "--out", profile, "--rows", 6, "--rounds", 1),
        ("predict", "--profile", profile, "--texts", texts, "--loop", "carry"),
        ("measure", *few, "--texts", texts, "--out", runs, "--loop", "carry", "--blocks", 1),
    ):
        outcome = sweepcap(*words)
        assert outcome.status == 0, outcome
    outcome = sweepcap("compare", "--profile", profile, "--texts", texts, "--runs", runs, "--json")
    assert outcome.status == 0, outcome
    assert all(cell["parity"]["same"] for cell in json.loads(outcome.out)["cells"])
    assert json.loads(texts.read_text().splitlines()[0])["replays"] == (name in UNCUT)


def test_a_model_that_writes_no_text_is_refused(
    sweepcap: Callable[..., Outcome], models: dict[str, Path], tmp_path: Path
) -> None:
    outcome = sweepcap("calibrate", "--model", models["bert"], "--out", tmp_path / "p.json", "--threads", 1)
    assert (outcome.status, outcome.out) == (2, "")
    assert "bert.gguf" in outcome.err
    assert "give a model that generates" in outcome.err


CHATML = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{{ eos_token }}{% endfor %}"
    "{% if add_generation_prompt %}<|a|>{% endif %}"
)


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        (CHATML, "<|user|>ba be</s><|a|>"),
        ("{{ bos_token }}" + CHATML, "<|user|>ba be</s><|a|>"),  # the tokenizer adds the start token itself
        ("{{ raise_exception('roles must alternate') }}", None),
        ("{% if %}", None),
        (None, None),
    ],
)
def test_a_chat_goes_through_the_models_own_template(
    tmp_path: Path, template: str | None, expected: str | None
) -> None:
    from validate.record import Message, Prompt, tokenize

    path = write_tiny(tmp_path / "chat.gguf", template=template)
    prompt = Prompt(name="chat", messages=(Message("user", "ba be"),))
    with llama.Model(path) as model:
        if expected is None:
            with pytest.raises(ValueError, match=r"chat\.gguf.*chat template"):
                tokenize(model, prompt)
            return
        text, ids = tokenize(model, prompt)
        assert text == expected
        assert ids.count(1) == 1, "one start token"
        assert ids.count(2) == 1, "the template's end token is a token, not its letters"
