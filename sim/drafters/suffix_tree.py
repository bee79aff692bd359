"""Suffix-tree drafting: after each suffix of the text, the path most often taken; the best-scored path wins.

The score of a path is the sum over its tokens of the estimated probability that the text gets there: with N
the number of occurrences of a string, and s the suffix it starts behind,

    probability of t1..ti = N(s t1..ti) / N(s),    score = sum over i

(Oliaro et al. 2025, "SuffixDecoding", arXiv:2411.04975, section 3). Scores are compared as whole numbers, and
in the peer's single precision where these are equal.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from fractions import Fraction
from math import inf
from typing import NamedTuple

from sim.drafters.base import Draft, Drafter, at_least
from sim.drafters.tree import Node, Tree

NEAR = 1e-5  # scores nearer than this, as a fraction, are compared in single precision
SINGLE = struct.Struct("f")


class Path(NamedTuple):
    """A draft and its score, `score / of`; `steps` are the counts passed, each with its number of tokens."""

    draft: Draft = ()
    score: int = 0
    of: int = 1
    steps: tuple[tuple[int, int], ...] = ()
    match: int = 0

    @property
    def certain(self) -> bool:
        """Whether every token of it always followed."""
        return self.score == len(self.draft) * self.of

    def beats(self, other: Path) -> bool:
        """Whether its score, in single precision, is the higher one, or else its match the longer one."""
        mine, yours = self.score * other.of, other.score * self.of
        if abs(mine - yours) > NEAR * yours:
            return mine > yours
        return (self.rounded(), self.match) > (other.rounded(), other.match)

    def rounded(self) -> float:
        """The score in single precision, token by token, which decides between equal ones."""
        score, probability, of = 0.0, 1.0, self.of
        for count, n_tokens in self.steps:
            probability = _single(probability * _single(count / of))
            for _ in range(n_tokens):
                score = _single(score + probability)
            of = count
        return score


def path(node: Node, at: int, n_draft: int, least: Fraction, match: int, bar: float = 0) -> Path:
    """The path most often taken from `at` in a node's label on, until its probability is below `least`.

    An empty one as soon as its score cannot reach `bar`.
    """
    of = count = node.count
    floor, bar = of * least.numerator / least.denominator, bar * of
    steps: list[tuple[int, int]] = []
    places: list[tuple[list[int], int, int]] = []
    score, room, size = 0, n_draft, (node.length or node.size()) - at
    start = node.start + at
    while True:
        if size:
            if size > room:
                size = room
            score += count * size
            room -= size
            steps.append((count, size))
            places.append((node.source.items, start, start + size))
        head = node.head
        if head is None or not room:
            break
        node, count = head, head.count
        if count < floor:
            break
        if score + count * room < bar:
            return Path()
        start, size = node.start, node.length or node.size()
    draft: list[int] = []
    for items, start, stop in places:
        draft += items[start:stop]
    return Path(tuple(draft), score, of, tuple(steps), match)


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
        self._rooms = [min(n_draft, depth - m, int(m * factor + offset + 1e-6)) for m in range(depth)]
        self._order = sorted(range(1, depth), key=lambda match: (-self._rooms[match], -match))
        self._least = Fraction(least).limit_denominator(1_000_000)
        self._earlier = None if earlier is None else [list(text) for text in earlier]
        super().__init__()

    def _restart(self) -> None:
        self._begun = False

    def _begin(self, items: list[int], prompt: int) -> None:
        self._begun = True
        self._tree = Tree(self._depth)
        self._tree.begin(items, 0)
        if self._earlier is not None:
            self._answers = Tree(self._depth)
            for text in self._earlier:
                self._answers.begin(text, 0)
                self._answers.read(len(text))
            self._answers.begin(items, prompt)

    def _draft(self, items: list[int], length: int) -> Draft:
        if not self._begun:
            self._begin(items, max(length - 1, 0))
        self._tree.read(length)
        best = self._of_text()
        if self._earlier is not None:
            self._answers.read(length)
            other = self._of_answers(items[max(length - self._depth, 0) : length])
            best = other if other.rounded() > best.rounded() else best
        self.best = best
        return best.draft

    def _of_text(self) -> Path:
        """The best path behind the text's suffixes, longest drafts first; what cannot win is not walked."""
        best, bar = Path(), 0.0
        ends = self._tree.ends
        for match in self._order:
            if match > len(ends):
                continue
            room, node = self._rooms[match], ends[-match]
            if room * best.of < bar:
                break
            if node.head is not None and node.head.count * room * best.of >= bar * node.count:
                found = path(node, node.length, room, self._least, match, bar / best.of)
                if found.beats(best):
                    best = found
                    bar = best.score if best.certain else best.score * (1 - NEAR)
        return best

    def _of_answers(self, tail: list[int]) -> Path:
        """The best path behind the suffixes of the text in the tree of answers."""
        best = Path()
        for match in range(1, len(tail)):
            place = self._answers.match(tail[-match:])
            if place is None:
                break
            found = path(*place, self._rooms[match], self._least, match)
            best = best if best.beats(found) else found
        return best


def _single(value: float) -> float:
    """A number rounded to single precision."""
    return float(SINGLE.unpack(SINGLE.pack(value))[0])
