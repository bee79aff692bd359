"""Every peer decodes a toy model's own greedy text, in its own way."""

from __future__ import annotations

from inspect import signature
from typing import Any

import pytest

from sim.answers import ToyModel
from sim.drafters import DRAFTERS
from sim.loops import LOOPS
from sim.machine import Pass, next_pass, step
from sim.peers import PEERS

PROMPT = [1, 2, 3, 1, 2, 3, 1, 2]
SHORT: dict[str, Any] = {"n_key": 1}  # keys of llama-server's drafters are long; these texts are short
PARAMETERS: dict[str, dict[str, Any]] = {
    "llama-server-ngram-simple": SHORT,
    "llama-server-ngram-map-k": SHORT,
    "llama-server-ngram-map-k4v": SHORT,
    "llama-server-ngram-mod": SHORT | {"n_draft_min": 1},
    "vllm-ngram": {"n_min": 1},
}


@pytest.mark.parametrize("name", PEERS)
@pytest.mark.parametrize("seed", range(4))
def test_the_text_is_the_models_own(name: str, seed: int) -> None:
    peer, model = PEERS[name], ToyModel(n_vocab=4, order=2, seed=seed)
    truth = model.greedy(PROMPT, 80)
    loop, state = peer.make(4, **PARAMETERS.get(name, {})), peer.start(PROMPT, 60)
    passes: list[Pass] = []
    while (pass_ := next_pass(loop, state)) is not None:
        passes.append(pass_)
        state = step(state, pass_, model(pass_))
    assert state.tokens == truth[: len(state.tokens)]
    assert len(state.tokens) == len(PROMPT) + 60 or peer.overrun
    assert 1 < max(len(pass_.rows) for pass_ in passes[2:]) <= 5
    assert all(pass_.keep + len(pass_.rows) > len(PROMPT) for pass_ in passes[2:])


@pytest.mark.parametrize("name", PEERS)
def test_a_peer_names_what_there_is_and_drafts_as_many_as_its_drafter(name: str) -> None:
    peer = PEERS[name]
    assert peer.loop in LOOPS
    parameters = signature(DRAFTERS[peer.drafter]).parameters
    assert peer.n_draft == (parameters["n_draft"].default or parameters["depth"].default)
    peer.make()


@pytest.mark.parametrize(
    ("name", "first"),
    [("hf-prompt-lookup", [(0, 12)]), ("llama-cpp-python", [(0, 8)]), ("llama-lookup", [(0, 7), (7, 1)])],
)
def test_how_the_prompt_goes_in(name: str, first: list[tuple[int, int]]) -> None:
    peer, model = PEERS[name], ToyModel(n_vocab=4)
    loop, state = peer.make(4), peer.start(PROMPT, 20)
    shapes = []
    for _ in first:
        pass_ = next_pass(loop, state)
        assert pass_ is not None
        shapes.append((pass_.keep, len(pass_.rows)))
        state = step(state, pass_, model(pass_))
    assert shapes == first


def test_drafting_nothing_at_most_is_refused() -> None:
    with pytest.raises(ValueError, match="n_draft must be a whole number of at least 1, not 0"):
        PEERS["hf-prompt-lookup"].make(0)
