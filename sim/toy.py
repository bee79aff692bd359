"""A toy language model with real logits, so that penalties can be tested on it as on a real one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sim.answers import ToyModel
from sim.penalties import Logits, Penalties, inside, penalised


class ToyLogits(ToyModel):
    """As `ToyModel`, but the next token is the argmax of penalised logits, drawn from a hash of the last
    rows.

    The penalties of a row look at all rows cached before it, so a wrong row in the cache shows here too.

    >>> ToyLogits(n_vocab=5, order=1, seed=3).greedy([1], 6)
    [1, 4, 0, 0, 0, 0, 0]
    >>> ToyLogits(n_vocab=5, order=1, seed=3, penalties=Penalties(presence=9.0)).greedy([1], 4)
    [1, 4, 0, 3, 2]
    """

    def __init__(
        self,
        n_vocab: int = 11,
        order: int | None = 3,
        seed: int = 0,
        *,
        penalties: Penalties | None = None,
        n_prompt: int = 0,
    ) -> None:
        super().__init__(n_vocab, order, seed)
        self.penalties = penalties or Penalties()
        self.n_prompt = n_prompt
        for token in (*self.penalties.stops, *self.penalties.bias):
            inside(token, n_vocab)

    def logits(self, prefix: Sequence[int]) -> Logits:
        """The row of logits behind a prefix, in [-4, 4), without penalties."""
        value = np.uint64(self.hash(prefix))
        ids = np.arange(self.n_vocab, dtype=np.uint64)
        mixed = (ids * np.uint64(0x9E3779B97F4A7C15)) ^ value
        mixed = (mixed ^ (mixed >> np.uint64(31))) * np.uint64(0xBF58476D1CE4E5B9)
        return ((mixed >> np.uint64(40)).astype(np.float32) / 2**21 - 4).astype(np.float32)

    def next_token(self, prefix: Sequence[int]) -> int:
        """The argmax behind a prefix, penalties included."""
        row = penalised(self.logits(prefix), prefix, self.penalties, n_prompt=self.n_prompt)
        return int(row.argmax())
