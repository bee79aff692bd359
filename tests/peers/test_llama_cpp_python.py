"""llama-cpp-python's own loop, live on the default model: every eval's rows equal those of `carry`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from sim.answers import recorded
from sim.machine import next_pass, step
from sim.peers import PEERS
from validate.models import default_model

pytestmark = pytest.mark.peers

N_TOKENS = 48
PROMPTS = {
    "repetition": "The river rises in the hills. The river rises in the hills. The river rises in",
    "list": "Repeat the list twice: apples, pears, plums, quinces.\n1. apples, pears, plums, quinces.\n2.",
    "code": "def width(box):\n    return box.right - box.left\n\ndef height(box):\n    return box.",
    "free": "It had been raining for three days when the postman finally",
}
Fed = list[tuple[int, list[int]]]


@pytest.fixture(scope="module")
def llama() -> Iterator[Any]:
    llama_cpp = pytest.importorskip("llama_cpp", reason="needs the extra `llama`: llama-cpp-python")

    try:
        path = default_model()
    except ValueError as error:
        pytest.skip(str(error))
    from llama_cpp.llama_speculative import LlamaPromptLookupDecoding

    llama = llama_cpp.Llama(
        str(path),
        n_ctx=512,
        n_threads=1,
        n_threads_batch=1,
        logits_all=True,  # or else its table of scores is too small for a draft model (Llama.__init__)
        draft_model=LlamaPromptLookupDecoding(),
        verbose=False,
    )
    yield llama
    llama.close()


def generate(llama: Any, prompt: list[int], n_draft: int, penalty: float, monkeypatch: Any) -> tuple[list[int], Fed]:
    """The tokens the peer yields, and for every eval how many rows were cached and which were fed."""
    fed: Fed = []
    evaluate = llama.eval

    def note(tokens: list[int]) -> None:
        fed.append((llama.n_tokens, [int(token) for token in tokens]))
        evaluate(tokens)

    llama.reset()
    monkeypatch.setattr(llama, "eval", note)
    monkeypatch.setattr(llama.draft_model, "num_pred_tokens", n_draft)
    output: list[int] = []
    sampling = {"temp": 0.0, "top_k": 1, "top_p": 1.0, "min_p": 0.0, "repeat_penalty": penalty}
    for token in llama.generate(prompt, **sampling):
        output.append(token)
        if token == llama.token_eos() or len(output) == N_TOKENS:
            break
    return output, fed


@pytest.mark.parametrize(("name", "n_draft", "penalty"), list(product(PROMPTS, (2, 10), (1.0, 1.1))))
def test_every_eval(llama: Any, name: str, n_draft: int, penalty: float, monkeypatch: Any) -> None:
    prompt = llama.tokenize(PROMPTS[name].encode())
    output, fed = generate(llama, prompt, n_draft, penalty, monkeypatch)
    answers, mine = recorded([*prompt, *output]), []
    peer = PEERS["llama-cpp-python"]
    loop, state = peer.make(n_draft), peer.start(prompt, N_TOKENS, [llama.token_eos()])
    while (pass_ := next_pass(loop, state)) is not None:
        mine.append((pass_.keep, list(pass_.rows)))
        state = step(state, pass_, answers(pass_))
    assert mine == fed
    assert name != "repetition" or max(len(rows) for _, rows in fed[1:]) == 1 + n_draft
    assert state.tokens == [*prompt, *output]
