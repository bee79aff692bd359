"""The programs people run, each as a choice of loop, drafter, prompt style, clipping and stop rule.

HF transformers, llama-cpp-python and llama.cpp `lookup` were recorded running (tests/goldens) and are reproduced pass
by pass; the loops of the others are told from their sources. Sources by version, file and function: the drafters'
docstrings and docs/loops.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sim.drafters import DRAFTERS
from sim.loops import (
    LOOPS,
    Clip,
    Prompt,
    alone,
    before_goal,
    before_stop,
    last_apart,
    together,
    uncut,
)
from sim.machine import Loop, State


@dataclass(frozen=True, slots=True)
class Peer:
    """A program's way of decoding.

    loop, drafter   names in `LOOPS` and `DRAFTERS`
    n_draft         the most tokens it drafts unless told otherwise; R is one more
    clip            which part of a draft it feeds
    prompt          how the prompt goes in
    overrun         whether it looks for the end only between passes

    >>> PEERS["llama-lookup"].n_draft, PEERS["llama-lookup"].overrun
    (3, True)
    """

    loop: str
    drafter: str
    n_draft: int
    clip: Clip
    prompt: Prompt
    overrun: bool = False

    def make(self, n_draft: int | None = None, **parameters: Any) -> Loop:
        """A fresh loop with a fresh drafter, of the program's defaults unless given: one for every run."""
        n_draft = self.n_draft if n_draft is None else n_draft
        propose = DRAFTERS[self.drafter](n_draft=n_draft, **parameters)
        return LOOPS[self.loop](propose, 1 + n_draft, clip=self.clip, prompt=self.prompt)

    def start(self, prompt: Iterable[int], n_tokens: int, stops: Iterable[int] = ()) -> State:
        """The state before its first pass (`State.start` with this program's stop rule)."""
        return State.start(prompt, n_tokens, stops, overrun=self.overrun)


def _server(drafter: str, n_draft: int, loop: str = "carry") -> Peer:
    """llama-server: it drafts no further than `remaining - 1`, stop tokens included (tools/server)."""
    return Peer(loop, drafter, n_draft, before_goal, alone)


PEERS: dict[str, Peer] = {
    "hf-prompt-lookup": Peer("carry", "hf-prompt-lookup", 10, before_stop, together),
    "vllm-ngram": Peer("carry", "vllm-ngram", 5, uncut, alone),
    "vllm-suffix": Peer("carry", "arctic-suffix", 24, uncut, alone),
    "llama-cpp-python": Peer("carry", "llama-cpp-python", 10, uncut, alone),
    "pld-original": Peer("dummy", "pld-original", 10, uncut, together),
    "llama-lookup": Peer("carry", "llama-lookup", 3, uncut, last_apart, overrun=True),
    "llama-server-ngram-simple": _server("ngram-simple", 48),
    "llama-server-ngram-map-k": _server("ngram-map-k", 48),
    "llama-server-ngram-map-k4v": _server("ngram-map-k4v", 48),
    "llama-server-ngram-mod": _server("ngram-mod", 64),
    "llama-server-ngram-cache": _server("ngram-cache", 8),
}
