"""llama.cpp's count-based lookup: after the last n tokens, the token that followed them most often.

A cache counts, for every n-gram of 1 to 4 tokens, what followed it. A draft grows by one token at a time: the
longest n-gram whose most frequent follower is frequent enough gives the next. `lax` bounds hold for the
text's own cache, `strict` ones for that of earlier texts; a static cache of a corpus re-weighs the followers
of both and, where neither knows an answer, gives one itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from sim.drafters.base import Draft, Drafter, at_least

SIZES = (1, 2, 3, 4)
STATIC = 2
# (least number of followers seen, least percentage of the most frequent one) for 1 to 4 tokens: ngram-
# cache.cpp.
LAX = ((2, 66), (2, 50), (1, 50), (1, 50))
STRICT = ((4, 75), (3, 66), (2, 66), (2, 66))


class Followers:
    """What followed an n-gram: how many tokens in all, the most frequent one and its count, and all counts.

    Of two equally frequent tokens the one seen first later is preferred: that is the order in which the
    peer's hash table lists two entries, and three equals are below every percentage.
    """

    __slots__ = ("count", "counts", "token", "total")

    def __init__(self, token: int) -> None:
        self.token, self.count, self.total = token, 1, 1
        self.counts: dict[int, int] | None = None  # most n-grams have one follower and need no table

    def add(self, token: int) -> None:
        """Count one more follower."""
        self.total += 1
        if self.counts is None:
            if token == self.token:
                self.count += 1
                return
            self.counts = {self.token: self.count}
        count = self.counts[token] = self.counts.get(token, 0) + 1
        if count > self.count or (count == self.count and token == next(reversed(self.counts))):
            self.token, self.count = token, count

    def best(self, weights: Followers | None) -> tuple[int, int]:
        """The most frequent token and its count; each that a static cache knows weighs 100 times as there."""
        if weights is None:
            return self.token, self.count
        counts = self.counts or {self.token: self.count}
        token = max(reversed(counts), key=lambda other: counts[other] * (100 * weights.of(other) or 1))
        return token, counts[token]

    def of(self, token: int) -> int:
        """How often this token followed."""
        if self.counts is None:
            return self.count if token == self.token else 0
        return self.counts.get(token, 0)


class Counts(dict[Draft, Followers]):
    """A cache: n-gram to what followed it."""

    def read(self, items: list[int], start: int, stop: int, since: int = 0, sizes: Sequence[int] = SIZES) -> None:
        """Count the tokens at `start` up to `stop` behind every n-gram that does not begin before `since`."""
        for i in range(start, stop):
            token = items[i]
            for n in sizes:
                if i - n < since:
                    break
                key = tuple(items[i - n : i])
                if (followers := self.get(key)) is None:
                    self[key] = Followers(token)
                else:
                    followers.add(token)


class Lookup(Drafter):
    """llama.cpp's `lookup` example (@0c1e57098, common/ngram-cache.cpp, common_ngram_cache_draft).

    n_draft     `--spec-draft-n-max`, 3 by default (16 and 5 in older versions)
    dynamic     texts counted beforehand, as `--lookup-cache-dynamic` does with the texts of earlier runs
    static      texts counted beforehand by pairs, as `lookup-create` does for `--lookup-cache-static`

    >>> Lookup()([1, 2, 3, 4, 1, 2, 3])
    (4, 1, 2)
    """

    def __init__(
        self,
        *,
        n_draft: int = 3,
        dynamic: Sequence[Sequence[int]] = (),
        static: Sequence[Sequence[int]] = (),
    ) -> None:
        at_least(1, n_draft=n_draft)
        self._n_draft = n_draft
        self._dynamic, self._static = Counts(), Counts()
        for text in dynamic:
            self._dynamic.read(list(text), 0, len(text))
        for text in static:
            self._static.read(list(text), 0, len(text), sizes=(STATIC,))
        super().__init__()

    def _restart(self) -> None:
        self._read = 0
        self._context = Counts()

    def _learn(self, items: list[int], length: int) -> None:
        self._context.read(items, self._read, length)

    def _draft(self, items: list[int], length: int) -> Draft:
        self._learn(items, length)
        self._read = length
        if length < STATIC:
            return ()
        tail = items[max(length - SIZES[-1], 0) : length]
        start = len(tail)
        while len(tail) - start < self._n_draft:
            pair = self._static.get(tuple(tail[-STATIC:])) if self._static else None
            token = _frequent(self._context, tail, pair, LAX)
            if token is None and self._dynamic:
                token = _frequent(self._dynamic, tail, pair, STRICT)
            if token is None and pair is not None:
                token = _enough(pair, None, LAX[STATIC - 1])
            if token is None:
                break
            tail.append(token)
        return tuple(tail[start:])


class ServerCache(Lookup):
    """llama-server's `ngram-cache` (@0c1e57098, common/speculative.cpp, common_speculative_impl_ngram_cache).

    As `lookup`, but it counts only n-grams that lie within the tokens added since its last draft, so text
    that is generated one token at a time is never learned; the draft's length, 8, is fixed there.
    """

    def __init__(
        self,
        *,
        n_draft: int = 8,
        dynamic: Sequence[Sequence[int]] = (),
        static: Sequence[Sequence[int]] = (),
    ) -> None:
        super().__init__(n_draft=n_draft, dynamic=dynamic, static=static)

    def _learn(self, items: list[int], length: int) -> None:
        self._context.read(items, self._read, length, since=self._read)


def _frequent(
    cache: Counts, tail: list[int], weights: Followers | None, bounds: tuple[tuple[int, int], ...]
) -> int | None:
    """The follower of the longest n-gram whose followers are many enough and agree enough."""
    for n in range(min(SIZES[-1], len(tail)), 0, -1):
        followers = cache.get(tuple(tail[-n:]))
        if followers is not None and (token := _enough(followers, weights, bounds[n - 1])) is not None:
            return token
    return None


def _enough(followers: Followers, weights: Followers | None, bounds: tuple[int, int]) -> int | None:
    least, percent = bounds
    if followers.total < least:
        return None
    token, count = followers.best(weights)
    return token if 100 * count >= percent * followers.total else None
