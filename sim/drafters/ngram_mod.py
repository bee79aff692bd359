"""llama-server's `ngram-mod`: a table from the hash of n tokens to the token behind them, unverified."""

from __future__ import annotations

from itertools import islice

from sim.drafters.base import Draft, Judged, at_least

FACTOR = 6364136223846793005
CHUNK = 32
LOW, N_LOW = 0.25, 5


class Mod(Judged):
    """llama-server's `ngram-mod` (@0c1e57098, common/ngram-mod.cpp, common/speculative.cpp).

    n_key           `n_match`, 24 by default
    n_draft         `n_max`, 64 by default
    n_draft_min     `n_min`, 48 by default: a shorter draft is dropped
    size            entries of the table, 4 Mi there; a power of two
    judged          False where drafts are dropped unverified

    New text enters the table once more than 32 - n_key tokens are new. After 5 drafts in a row of which less
    than a quarter was right, the table is emptied and filled again from the text. Only the table's used
    entries are stored.

    >>> Mod(n_key=2, n_draft=4, n_draft_min=1)([1, 2, 3] * 2)
    (1, 2, 3, 1)
    """

    def __init__(
        self,
        *,
        n_key: int = 24,
        n_draft: int = 64,
        n_draft_min: int = 48,
        size: int = 4 * 1024 * 1024,
        judged: bool = True,
    ) -> None:
        at_least(1, n_key=n_key, n_draft=n_draft, size=size)
        at_least(0, n_draft_min=n_draft_min)
        if size & (size - 1):
            raise ValueError(f"size must be a power of two, not {size}: only the hash's low bits are kept")
        self._n_key, self._n_draft, self._n_draft_min = n_key, n_draft, n_draft_min
        self._mask = size - 1
        self._factor = FACTOR & self._mask
        self._leaving = pow(FACTOR, n_key, size)
        super().__init__(judged=judged)

    def _begin(self, items: list[int], prompt: int) -> None:
        # A key's hash to the token behind it, the key's first token, and the hash of the key one further.
        self._next: dict[int, tuple[int, int, int]] = {}
        self._filled_from = self._filled = 0  # the table holds the keys that begin in this range
        self._low = 0
        self._done = 0  # up to where the peer believes that the table is filled
        if prompt >= self._n_key:
            self._done = prompt - self._n_key
            self._fill(items, self._done)
            if len(self._next) > 0.25 * (self._mask + 1):
                self._next.clear()
                self._filled_from = self._filled

    def _judge(self, accepted: int) -> None:
        self._low = self._low + 1 if accepted < LOW * len(self._last) else 0
        if self._low == N_LOW:
            self._low = self._done = 0
            # To fill it again from the start would leave what is there, unless too little is there to be
            # filled at once.
            if self._filled_from or self._filled <= CHUNK:
                self._next.clear()
                self._filled_from = self._filled = 0

    def _look_up(self, items: list[int], length: int) -> Draft:
        n, mask, factor, leaving = self._n_key, self._mask, self._factor, self._leaving
        prompt = length - 1
        if prompt < n:
            return ()
        if self._done + CHUNK < prompt:
            self._fill(items, prompt - n)
            self._done = prompt - n
        text = items[length - n : length]
        value, follower = self._hash(text), self._next.get
        for first in islice(text, self._n_draft):  # the text grows under the iterator
            entry = follower(value)
            if entry is None:
                if len(text) - n < self._n_draft_min:
                    return ()
                break
            token, usual, after = entry
            text.append(token)
            value = after if first == usual else (value * factor - first * leaving + token) & mask
        return tuple(text[n:])

    def _fill(self, items: list[int], stop: int) -> None:
        n, mask, factor, leaving = self._n_key, self._mask, self._factor, self._leaving
        value = self._hash(items[self._filled : self._filled + n])
        for i in range(self._filled, stop):
            first, token = items[i], items[i + n]
            after = (value * factor - first * leaving + token) & mask
            self._next[value] = token, first, after
            value = after
        self._filled = max(self._filled, stop)

    def _hash(self, key: list[int]) -> int:
        value = 0
        for token in key:
            value = value * self._factor + token & self._mask
        return value
