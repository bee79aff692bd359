"""Pure models: what answers a pass without any weights.

Greedy output does not depend on the loop, so one recorded text answers every pass of every loop. A toy model
answers from the rows it was really fed, so that a loop with a wrong cache says something else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from sim.machine import Pass
from sim.tokens import Tokens

Answers: TypeAlias = "Callable[[Pass], Sequence[int]]"

UNKNOWN = -1
"""The answer behind the end of a recorded text: no row equals it, so nothing is accepted there."""


def recorded(text: Sequence[int]) -> Answers:
    """Answers from a recorded text (prompt first): after a row at position p, the token at p + 1.

    >>> recorded([7, 8, 1, 2, 3])(Pass(2, (1, 2), 2))
    [2, 3]
    >>> recorded([7, 8, 1, 2, 3])(Pass(4, (3, 3), 2))
    [-1, -1]
    """
    items, length = text.items if isinstance(text, Tokens) else list(text), len(text)

    def answers(pass_: Pass) -> list[int]:
        end = pass_.keep + len(pass_.rows) + 1
        answer = items[end - pass_.want : min(end, length)]
        return answer + [UNKNOWN] * (pass_.want - len(answer))

    return answers


class ToyModel:
    """A deterministic language model with a KV cache: the next token is a hash of the last `order` rows.

    `order=None` hashes everything, so any wrong row in the cache shows. Small vocabularies repeat themselves,
    which is what retrieval drafting lives on. Keeping rows that are not cached raises ValueError.

    >>> model = ToyModel(n_vocab=5, order=2)
    >>> len(model(Pass(0, (1, 2, 3), 2)))
    2
    """

    def __init__(self, n_vocab: int = 11, order: int | None = 3, seed: int = 0) -> None:
        if n_vocab < 1:
            raise ValueError(f"n_vocab must be at least 1, not {n_vocab}")
        self.n_vocab, self.order, self.seed = n_vocab, order, seed
        self.cache: list[int] = []

    def hash(self, prefix: Sequence[int]) -> int:
        """64 bits that the rows in sight decide (FNV-1a with a shift, so that the low bits mix too)."""
        value = 0x9E3779B9 + self.seed
        for token in prefix if self.order is None else prefix[max(len(prefix) - self.order, 0) :]:
            value = (value ^ (token + 1)) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
            value ^= value >> 29
        return value

    def next_token(self, prefix: Sequence[int]) -> int:
        """The argmax behind a prefix."""
        return self.hash(prefix) % self.n_vocab

    def __call__(self, pass_: Pass) -> list[int]:
        """Cut the cache, feed the rows, answer after the last `want` of them."""
        if pass_.keep > len(self.cache):
            raise ValueError(f"{pass_.keep} rows are to be kept, {len(self.cache)} are cached")
        self.cache[pass_.keep :] = pass_.rows
        end = len(self.cache)
        return [self.next_token(self.cache[: end - pass_.want + i + 1]) for i in range(pass_.want)]

    def greedy(self, prompt: Sequence[int], n_tokens: int) -> list[int]:
        """The model's own greedy text behind a prompt."""
        text = list(prompt)
        for _ in range(n_tokens):
            text.append(self.next_token(text))
        return text
