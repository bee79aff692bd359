"""Suffix-tree drafting: after each suffix of the text, the path most often taken; the best-scored path wins.

The score of a path is the sum over its tokens of the estimated probability that the text gets there: with N
the number of occurrences of a string, and s the suffix it starts behind,

    probability of t1..ti = N(s t1..ti) / N(s),    score = sum over i

(Oliaro et al. 2025, "SuffixDecoding", arXiv:2411.04975, section 3). Scores are compared as whole numbers, and
in the peer's single precision where these are equal.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import inf
from operator import itemgetter
from typing import NamedTuple

from sim.drafters.automaton import Automaton, Node, Suffix
from sim.drafters.base import Draft, Drafter, at_least

NEAR = 1e-5  # scores nearer than this, as a fraction, are compared in single precision
SINGLE = struct.Struct("f")
ROOM = itemgetter(0)


class Path(NamedTuple):
    """A draft and its score, `score / of`: `counts` of the strings up to each of its tokens, `of` before them."""

    draft: Draft = ()
    score: int = 0
    of: int = 1
    counts: Sequence[int] = ()
    match: int = 0

    def beats(self, other: Path) -> bool:
        """Whether its score, in single precision, is the higher one, or else its match the longer one."""
        mine, yours = self.score * other.of, other.score * self.of
        if abs(mine - yours) > NEAR * yours:
            return mine > yours
        return (self.rounded(), self.match) > (other.rounded(), other.match)

    def rounded(self) -> float:
        """The score in single precision, token by token, which decides between equal ones."""
        score, probability, of = 0.0, 1.0, self.of
        for count in self.counts:
            probability = _single(probability * _single(count / of))
            score = _single(score + probability)
            of = count
        return score


EMPTY = Path()


class SuffixTree(Drafter):
    """ArcticInference's suffix decoding (@9d464388, suffix_decoding/suffix_tree.cc and cache.py).

    depth           `max_tree_depth`, 24 by default in vLLM, which calls this with the defaults given here
    n_draft         `max_spec_tokens`, the same as depth by default
    factor, offset  at most `factor` times the matched length plus `offset` tokens are drafted (1 and 0)
    least           `min_token_prob`, 0.1 by default: less probable paths are cut
    earlier         the texts of earlier answers, searched in one tree with this run's own answer, but not its
                    prompt; None, the default, for no such tree (`max_cached_requests` 0)

    Of equal scores the longer match wins. Of equally frequent tokens the one that got there first does; in
    the peer that choice hangs on how the tree grew.

    >>> SuffixTree()([1, 2, 3, 4, 1, 2])
    (3, 4)
    """

    def __init__(
        self,
        *,
        depth: int = 24,
        n_draft: int | None = None,
        factor: float = 1.0,
        offset: float = 0.0,
        least: float = 0.1,
        earlier: Sequence[Sequence[int]] | None = None,
    ) -> None:
        n_draft = depth if n_draft is None else n_draft
        at_least(1, depth=depth, n_draft=n_draft)
        for name, value, most in (("factor", factor, inf), ("offset", offset, inf), ("least", least, 1)):
            if not (0 <= value <= most and value < inf):
                raise ValueError(f"{name} must be a number between 0 and {most}, not {value}")
        self._depth = depth
        # The peer computes in single precision, hence its 1e-6; a probability such as 0.1 means 1/10.
        rooms = [min(n_draft, depth - m, int(m * factor + offset + 1e-6)) for m in range(depth + 1)]
        # The most that may be drafted behind suffixes of these lengths, by the shortest's and the longest's.
        self._rooms = rooms
        self._most = [[max(rooms[low : high + 1], default=0) for high in range(depth + 1)] for low in range(depth + 1)]
        ratio = Fraction(least).limit_denominator(1_000_000)
        self._least, self._of = ratio.numerator, ratio.denominator
        self._earlier = None if earlier is None else [list(text) for text in earlier]
        super().__init__()

    def _restart(self) -> None:
        self._begun = False

    def _begin(self, items: list[int], prompt: int) -> None:
        self._begun = True
        self._history = Automaton(self._depth)
        self._history.begin(0)
        if self._earlier is not None:
            self._answers = Automaton(self._depth)
            for text in self._earlier:
                self._answers.begin(0)
                self._answers.read(text, len(text))
            self._answers.begin(prompt)

    def _draft(self, items: list[int], length: int) -> Draft:
        if not self._begun:
            self._begin(items, max(length - 1, 0))
        self._history.read(items, length)
        best = self._best(self._history.suffixes())
        if self._earlier is not None:
            self._answers.read(items, length)
            other = self._best(self._answers.suffixes_of(items[max(length - self._depth + 1, 1) : length]))
            best = other if other.rounded() > best.rounded() else best
        self.best = best
        return best.draft

    def _best(self, suffixes: Iterable[Suffix]) -> Path:
        """The best path behind some suffixes of the text, longest drafts first; what cannot win is not walked.

        Suffixes of one state go on alike, so only the one with the most room is walked.
        """
        most, best, bar = self._most, EMPTY, 0.0
        walks = [(most[low][high], high, node) for node, low, high in suffixes if node.head is not None]
        walks.sort(key=ROOM, reverse=True)
        for room, longest, node in walks:
            if room * best.of < bar:
                break
            found = self._walk(node, room, longest, bar / best.of)
            if found.draft and found.beats(best):
                best = found
                bar = best.score * (1 - NEAR)
        return best

    def _walk(self, node: Node, room: int, match: int, bar: float) -> Path:
        """The path most often taken from a state on, until its probability is below `least`.

        It is the draft of the longest suffix of the state, `match` tokens or fewer, that has room for all of it. An
        empty one as soon as its score cannot reach `bar`.
        """
        of, score = node.count, 0
        floor, bar = of * self._least / self._of, bar * of
        draft: list[int] = []
        counts: list[int] = []
        head = node.head
        while head is not None and room:
            count = head.count
            if count < floor:
                break
            if score + count * room < bar:
                return EMPTY
            score += count
            room -= 1
            draft.append(head.token)
            counts.append(count)
            head = head.head
        if score < bar:
            return EMPTY
        while self._rooms[match] < len(draft):
            match -= 1
        return Path(tuple(draft), score, of, counts, match)


def _single(value: float) -> float:
    """A number rounded to single precision."""
    (single,) = SINGLE.unpack(SINGLE.pack(value))
    return float(single)
