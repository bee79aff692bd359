"""llama-server's n-gram drafters that copy a long continuation of a long key (common/ngram-map.cpp).

`ngram-simple` looks back for the last n tokens and copies what followed. The two maps remember the keys they
have drafted for and how far the last draft held: that length bounds the next draft of the key, for good.
Positions are of the key's first token; position 0 stands for "none" in the peer, so a key there is never
found.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from sim.drafters.base import Draft, Drafter, Judged, at_least

BUCKETS = 262144  # COMMON_NGRAM_HASH_MAP_SIZE
FACTOR = 2654435761 % BUCKETS  # LCG_FACTOR; only the low 18 bits of the hash choose the bucket
N_VALUES = 4  # COMMON_NGRAM_MAX_VALUES
MOST = 16380  # COMMON_NGRAM_MAX_VALUE_COUNT


class Simple(Drafter):
    """llama-server's `ngram-simple` (@0c1e57098, common/ngram-map.cpp, common_ngram_simple_draft).

    n_key       `size_n`, 12 by default: the only key length, and the shortest draft that is made
    n_draft     `size_m`, 48 by default

    The latest occurrence is taken. The text must be longer than n_key + n_draft + 2, and its last token is
    not copied.

    >>> Simple(n_key=2, n_draft=2)([9, 1, 2, 3, 4, 5, 1, 2])
    (3, 4)
    """

    def __init__(self, *, n_key: int = 12, n_draft: int = 48) -> None:
        at_least(1, n_key=n_key, n_draft=n_draft)
        self._n_key, self._n_draft = n_key, n_draft
        super().__init__()

    def _restart(self) -> None:
        self._next = 1
        self._places: dict[Draft, int] = {}

    def _draft(self, items: list[int], length: int) -> Draft:
        n = self._n_key
        # A key may end two tokens before the text does, so that one token is there to be copied.
        for i in range(self._next, length - n - 1):
            self._places[tuple(items[i : i + n])] = i
        self._next = max(self._next, length - n - 1)
        if length <= n + self._n_draft + 2:
            return ()
        place = self._places.get(tuple(items[length - n : length]))
        if place is None:
            return ()
        draft = items[place + n : min(place + n + self._n_draft, length - 1)]
        return tuple(draft) if len(draft) >= n else ()


class Value:
    """A continuation of a key: where the key first had it, how often, and how far its last draft held."""

    __slots__ = ("accepted", "count", "place")

    def __init__(self, place: int, accepted: int) -> None:
        self.place, self.accepted, self.count = place, accepted, 0


class Key:
    """A key that was found: how often, up to where its values are counted, and the values."""

    __slots__ = ("counted", "hits", "values")

    def __init__(self) -> None:
        self.hits, self.counted = 0, 0
        self.values: list[Value] = []


class MapK(Judged):
    """llama-server's `ngram-map-k` (@0c1e57098, common/ngram-map.cpp, common_ngram_map_draft with key_only).

    n_key       `size_n`, 12 by default
    n_draft     `size_m`, 48 by default: an occurrence needs that much text behind it
    min_hits    1 by default, and not looked at here
    judged      False where drafts are dropped unverified

    A key's draft is as long as its last draft held, or shorter: a key whose draft failed outright never
    drafts again. The index keeps a bucket's first entry, so the occurrence is the latest only among those
    that came in together.

    >>> MapK(n_key=1, n_draft=2)([9, 1, 2, 3, 4, 1])
    (2, 3)
    """

    _value: Value  # whose continuation the last draft was

    def __init__(self, *, n_key: int = 12, n_draft: int = 48, min_hits: int = 1, judged: bool = True) -> None:
        at_least(1, n_key=n_key, n_draft=n_draft, min_hits=min_hits)
        self._n_key, self._n_draft, self._min_hits = n_key, n_draft, min_hits
        super().__init__(judged=judged)

    def _begin(self, items: list[int], prompt: int) -> None:
        self._prompt = prompt
        self._hashes: list[int] = []  # the bucket of the key at each position
        self._entered = 0  # the last position in the index
        self._buckets: dict[int, int] = {}
        self._keys: dict[Draft, Key] = {}

    def _judge(self, accepted: int) -> None:
        self._value.accepted = accepted

    def _look_up(self, items: list[int], length: int) -> Draft:
        n, m = self._n_key, self._n_draft
        if length - 1 < 2 * n + m:
            return ()
        self._hash(items, length - n)
        key = tuple(items[length - n : length])
        last = length - n - m - 2
        fresh = self._fresh(last)
        place = self._match(items, key, fresh)
        self._enter(last, fresh)
        if not place:
            return ()
        entry = self._keys.setdefault(key, Key())
        entry.hits = min(entry.hits + 1, MOST)
        value = self._choose(items, key, entry, place)
        if value is None:
            return ()
        self._value = value
        return tuple(items[place + n : place + n + min(m, value.accepted)])

    def _fresh(self, last: int) -> list[range]:
        """Positions up to `last` not in the index yet, latest first: of the prompt, then of what came after.

        The keys that end within a draft's length of the prompt's end are in neither: the peer never looks
        there.
        """
        of_prompt = range(self._prompt - self._n_key - self._n_draft - 1, self._entered, -1)
        return [of_prompt, range(last, max(self._prompt, self._entered), -1)]

    def _hash(self, items: list[int], last: int) -> None:
        """Hash on to the key at `last`: each from the one before, by the token it loses and the one it gains."""
        n, hashes = self._n_key, self._hashes
        if not hashes:
            hashes.append(_bucket(items[:n]))
        leaving, value = pow(FACTOR, n, BUCKETS), hashes[-1]
        for place in range(len(hashes), last + 1):
            value = (value * FACTOR - items[place - 1] * leaving + items[place + n - 1]) % BUCKETS
            hashes.append(value)

    def _match(self, items: list[int], key: Draft, fresh: list[range]) -> int:
        """Where the key was: by the index, or else the latest place not in the index yet; 0 for nowhere."""
        n = self._n_key
        place = self._buckets.get(self._hashes[-1], 0)
        if place and tuple(items[place : place + n]) == key:
            return place
        first = key[0]
        for places in fresh:
            for place in places:
                if items[place] == first and tuple(items[place : place + n]) == key:
                    return place
        return 0

    def _enter(self, last: int, fresh: list[range]) -> None:
        for places in fresh:
            for place in places:
                self._buckets.setdefault(self._hashes[place], place)
        self._entered = max(last, self._entered)

    def _choose(self, items: list[int], key: Draft, entry: Key, place: int) -> Value | None:
        if not entry.values:
            entry.values.append(Value(place, self._n_draft))
        return entry.values[0]


class MapK4V(MapK):
    """llama-server's `ngram-map-k4v` (@0c1e57098, common/ngram-map.cpp, common_ngram_map_draft).

    As `ngram-map-k`, with up to 4 continuations counted per key: a draft is made from `min_hits` look-ups on,
    and when the most frequent continuation was seen twice as often as the others together. What is copied is
    the text behind the occurrence found, whichever continuation that is.
    """

    def _begin(self, items: list[int], prompt: int) -> None:
        super()._begin(items, prompt)
        self._places: dict[Draft, list[int]] = {}
        self._listed = 0

    def _choose(self, items: list[int], key: Draft, entry: Key, place: int) -> Value | None:
        if entry.hits < self._min_hits:
            return None
        n = self._n_key
        for i in range(self._listed, place + 1):
            self._places.setdefault(tuple(items[i : i + n]), []).append(i)
        self._listed = max(self._listed, place + 1)
        seen = self._places[key]
        # The peer counts from where it stopped, that place once more included.
        self._count(items, entry, seen[bisect_left(seen, entry.counted) : bisect_right(seen, place)])
        entry.counted = place
        counts = [value.count for value in entry.values]
        most = max(counts)
        best, others = entry.values[counts.index(most)], sum(counts) - most
        return best if most >= 2 * others else None

    def _count(self, items: list[int], entry: Key, places: list[int]) -> None:
        """Count the continuations of the key at these places: of any, but only the first four different ones."""
        n, m, values = self._n_key, self._n_draft, entry.values
        known = [items[value.place + n : value.place + n + m] for value in values]
        counts = [value.count for value in values]
        for place in places:
            text = items[place + n : place + n + m]
            for i, other in enumerate(known):  # `index` would search twice, or raise for most of a busy key
                if text == other:
                    counts[i] += 1
                    break
            else:
                if len(known) < N_VALUES:
                    known.append(text)
                    counts.append(1)
                    values.append(Value(place, m))
        for value, count in zip(values, counts, strict=True):
            value.count = min(count, MOST)


def _bucket(key: list[int]) -> int:
    value = 0
    for token in key:
        value = (value * FACTOR + token) % BUCKETS
    return value
