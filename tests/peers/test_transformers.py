"""HF transformers' own prompt lookup, live: every forward's rows equal those of `carry` with its preset."""

from __future__ import annotations

from functools import cache
from random import Random
from typing import Any

import pytest

from sim.answers import recorded
from sim.machine import next_pass, step
from sim.peers import PEERS

pytestmark = pytest.mark.peers

N_PROMPTS, PROMPTS_PER_MODEL = 240, 24
BEYOND = 12  # greedy tokens behind the goal, to answer rows guessed beyond it
Fed = list[tuple[int, list[int]]]


@cache
def model(seed: int, n_vocab: int) -> Any:
    """A small Llama with random weights, large enough to say something, and no stop token of its own."""
    torch = pytest.importorskip("torch", reason="needs the extra `peers`: torch (CPU)")
    transformers = pytest.importorskip("transformers", reason="needs the extra `peers`: transformers")
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    config = transformers.LlamaConfig(
        vocab_size=n_vocab,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        initializer_range=0.3,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=0,
    )
    return transformers.LlamaForCausalLM(config).eval()


def generate(llama: Any, prompt: list[int], n_tokens: int, **settings: Any) -> tuple[list[int], Fed]:
    """The whole text, and for every forward how many rows were cached and which were fed."""
    import torch

    fed: Fed = []

    def note(module: Any, args: Any, kwargs: Any) -> None:
        fed.append((kwargs["cache"].get_seq_length(), kwargs["input_ids"][0].tolist()))

    hook = llama.register_forward_pre_hook(note, with_kwargs=True)
    try:
        with torch.inference_mode():
            ids = torch.tensor([prompt])
            text = llama.generate(
                ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=n_tokens, **settings
            )
    finally:
        hook.remove()
    return text[0].tolist(), fed


def a_prompt(rng: Random, n_vocab: int) -> list[int]:
    """Random tokens, a repeated piece, or one token: what a lookup misses, finds, and finds too much of."""
    piece = [rng.randrange(1, n_vocab) for _ in range(rng.randint(1, 8))]
    return rng.choice(
        (
            [rng.randrange(1, n_vocab) for _ in range(rng.randint(1, 30))],
            (piece * 6)[: rng.randint(len(piece), 24)],
            piece[:1] * rng.randint(1, 20),
        )
    )


def predicted(text: list[int], prompt: list[int], n_tokens: int, stops: list[int], **parameters: Any) -> Fed:
    """The passes of the preset over a greedy text."""
    answers, fed = recorded(text), []
    loop, state = (
        PEERS["hf-prompt-lookup"].make(**parameters),
        PEERS["hf-prompt-lookup"].start(prompt, n_tokens, stops),
    )
    while (pass_ := next_pass(loop, state)) is not None:
        fed.append((pass_.keep, list(pass_.rows)))
        state = step(state, pass_, answers(pass_))
    return fed


@pytest.mark.parametrize("group", range(N_PROMPTS // PROMPTS_PER_MODEL))
def test_every_forward(group: int) -> None:
    rng = Random(group)
    n_vocab = rng.choice((8, 16, 64))
    llama = model(group, n_vocab)
    reached = set()
    for _ in range(PROMPTS_PER_MODEL):
        prompt, n_tokens = a_prompt(rng, n_vocab), rng.randint(1, 40)
        n_draft, n_max = rng.choice((1, 2, 5, 10)), rng.choice((1, 2, 3))
        penalty = rng.choice((1.0, 1.0, 1.1))
        plain, _ = generate(llama, prompt, n_tokens + BEYOND, repetition_penalty=penalty)
        stops = rng.sample(plain[len(prompt) :], 1) if rng.random() < 0.5 else []
        text, fed = generate(
            llama,
            prompt,
            n_tokens,
            repetition_penalty=penalty,
            eos_token_id=stops or None,
            prompt_lookup_num_tokens=n_draft,
            max_matching_ngram_size=n_max,
        )
        assert text == plain[: len(text)]
        reached |= {
            f"penalty {penalty}",
            "stopped" if len(text) < len(prompt) + n_tokens else "reached the goal",
        }
        reached |= {"one row" if len(rows) == 1 else "guessed" for _, rows in fed[1:]}
        assert fed == predicted(plain, prompt, n_tokens, stops, n_draft=n_draft, n_max=n_max)
    assert reached == {"penalty 1.0", "penalty 1.1", "stopped", "reached the goal", "one row", "guessed"}
