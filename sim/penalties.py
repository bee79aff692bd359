"""Penalties on logits: one pure function of a row and of the tokens before it.

    a = logit + bias                         logit bias first, as in llama.cpp's sampler chain
    b = a / repeat if a > 0 else a * repeat  for tokens among the last `last_n` (CTRL, Keskar et al. 2019)
    c = b - count * frequency - presence     for the same tokens, `count` times there (OpenAI's penalties)
    -inf                                     for stop tokens before `min_tokens` (vLLM, HF `min_new_tokens`)

The order and the treatment of zero are those of llama.cpp (src/llama-sampling.cpp @0c1e57098,
`llama_sampler_penalties_apply`). A row is judged with the tokens before it, drafts of the same pass included;
where the row counts at all these are the text, so penalties are exact in every loop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from math import inf, isfinite, isnan
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Logits: TypeAlias = NDArray[np.floating[Any]]


@dataclass(frozen=True, slots=True)
class Penalties:
    """What makes a token less likely; the defaults change nothing.

    repeat       factor above 0 on the logits of tokens seen; 1 changes nothing
    frequency    subtracted for each time the token was seen
    presence     subtracted when it was seen at all
    last_n       how many of the last tokens are looked at, the prompt included; -1 for all, 0 for none
    bias         added to the logits of these tokens; -inf forbids one, +inf is refused
    stops        tokens that are forbidden while fewer than `min_tokens` follow the prompt
    min_tokens   see `stops`

    Raises ValueError for `repeat` <= 0, anything not finite, `last_n` < -1 and `min_tokens` < 0.
    """

    repeat: float = 1.0
    frequency: float = 0.0
    presence: float = 0.0
    last_n: int = 64
    bias: Mapping[int, float] = field(default_factory=dict)
    stops: frozenset[int] = frozenset()
    min_tokens: int = 0

    def __post_init__(self) -> None:
        if not (self.repeat > 0 and isfinite(self.repeat)):
            raise ValueError(f"the repeat penalty must be above 0 and finite, not {self.repeat}")
        for name, value in (("frequency", self.frequency), ("presence", self.presence)):
            if not isfinite(value):
                raise ValueError(f"the {name} penalty must be finite, not {value}")
        if self.last_n < -1:
            raise ValueError(f"last_n must be at least 0, or -1 for all tokens, not {self.last_n}")
        if self.min_tokens < 0:
            raise ValueError(f"min_tokens must be at least 0, not {self.min_tokens}")
        for token, value in self.bias.items():
            if token < 0:
                raise ValueError(f"logit bias is given for {token}, which is no token id")
            if isnan(value) or value == inf:
                raise ValueError(f"the logit bias of token {token} must be finite or -inf, not {value}")

    @property
    def counts_tokens(self) -> bool:
        """Whether the tokens before a row matter at all."""
        return (self.repeat, self.frequency, self.presence) != (1.0, 0.0, 0.0) and self.last_n != 0

    def __str__(self) -> str:
        given = [f"{f.name}={getattr(self, f.name)}" for f in fields(self) if getattr(self, f.name) != _usual(f)]
        return " ".join(given) or "none"


NONE = Penalties()


def _usual(one: Field[Any]) -> Any:
    return getattr(NONE, one.name)


def penalised(logits: Logits, prefix: Sequence[int], penalties: Penalties, *, n_prompt: int = 0) -> Logits:
    """A copy of one row of logits with the penalties of its prefix.

    logits     (n_vocab,), of any float type, which is kept
    prefix     all tokens up to and including the row's own, the prompt first
    n_prompt   how many of them are the prompt's

    Raises ValueError when a biased or a stop token is outside the vocabulary.

    >>> penalised(np.array([3.0, -1.0, 2.0]), [0, 1, 1], Penalties(repeat=2.0, presence=0.5))
    array([ 1. , -2.5,  2. ])
    """
    row = logits.copy()
    penalise(row, prefix, penalties, n_prompt=n_prompt)
    return row


def penalise(row: Logits, prefix: Sequence[int], penalties: Penalties, *, n_prompt: int = 0) -> None:
    """`penalised` in place: touches the logits of the tokens looked at, and no others."""
    for token, value in penalties.bias.items():
        row[inside(token, len(row))] += value
    start = 0 if penalties.last_n < 0 else max(len(prefix) - penalties.last_n, 0)
    # A wrong draft may be no token of this model; it has no logit.
    counts = {token: n for token, n in Counter(prefix[start:]).items() if 0 <= token < len(row)}
    if penalties.counts_tokens:
        tokens = np.fromiter(counts, np.intp, len(counts))
        times = np.fromiter(counts.values(), row.dtype, len(counts))
        seen = row[tokens]
        seen = np.where(seen > 0, seen / penalties.repeat, seen * penalties.repeat)
        row[tokens] = seen - times * penalties.frequency - penalties.presence
    if len(prefix) - n_prompt < penalties.min_tokens:
        for token in penalties.stops:
            row[inside(token, len(row))] = -inf


def inside(token: int, n_vocab: int) -> int:
    """The token itself; ValueError when it is outside the vocabulary."""
    if not 0 <= token < n_vocab:
        raise ValueError(f"token {token} is outside the vocabulary of {n_vocab} tokens")
    return token
