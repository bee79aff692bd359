"""The suffix drafter against a search for its best path through the whole text, and its automaton string by string."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from sim.drafters.automaton import Automaton
from sim.drafters.suffix_tree import SuffixTree
from sim.tokens import Tokens

texts = st.lists(st.integers(0, 2), min_size=1, max_size=40)


class Occurrences:
    """How often a string occurs in some texts, told as a search; none crosses from text to text."""

    def __init__(self, texts: Sequence[Sequence[int]], depth: int) -> None:
        self.counts = Counter(
            tuple(text[i:j])
            for text in texts
            for i in range(len(text))
            for j in range(i + 1, min(i + depth, len(text)) + 1)
        )

    def followers(self, string: tuple[int, ...]) -> list[tuple[int, int]]:
        return sorted(
            ((count, s[-1]) for s, count in self.counts.items() if len(s) == len(string) + 1 and s[:-1] == string),
            reverse=True,
        )


def best_path(
    text: Sequence[int], counted: Occurrences, depth: int, factor: float, least: float
) -> tuple[Any, list[int]]:
    """The suffix-tree drafter, told as a search in single precision; texts with equal counts are left out."""
    best: tuple[Any, list[int]] = (np.float32(0), [])
    for match in range(1, min(len(text), depth)):
        string = tuple(text[-match:])
        if not counted.counts[string]:
            break
        probability, score = np.float32(1), np.float32(0)
        draft: list[int] = []
        while len(draft) < int(match * factor + 1e-6):
            found = counted.followers(string)
            if not found:
                break
            assume(len(found) == 1 or found[0][0] > found[1][0])
            if found[0][0] != counted.counts[string]:
                probability *= np.float32(found[0][0]) / np.float32(counted.counts[string])
            if probability < np.float32(least):
                break
            score += probability
            draft.append(found[0][1])
            string = (*string, found[0][1])
        if score >= best[0]:
            best = score, draft
    return best


@given(texts, st.integers(2, 8), st.sampled_from((1.0, 2.5)), st.sampled_from((0.0, 0.3)))
def test_suffix_tree_is_the_best_path(ids: list[int], depth: int, factor: float, least: float) -> None:
    _, draft = best_path(ids, Occurrences([ids], depth), depth, factor, least)
    assert list(SuffixTree(depth=depth, n_draft=99, factor=factor, least=least)(ids)) == draft


@given(texts, st.lists(texts, max_size=3), st.data(), st.integers(2, 6))
def test_suffix_tree_with_earlier_answers(
    ids: list[int], earlier: list[list[int]], data: st.DataObject, depth: int
) -> None:
    prompt = data.draw(st.integers(0, len(ids) - 1))
    text, propose = Tokens(ids), SuffixTree(depth=depth, earlier=earlier)
    for n in range(prompt + 1, len(text)):
        propose(text[:n])
    mine = best_path(ids, Occurrences([ids], depth), depth, 1.0, 0.1)
    theirs = best_path(ids, Occurrences([*earlier, ids[prompt:]], depth), depth, 1.0, 0.1)
    assert list(propose(text)) == max(mine, theirs, key=lambda path: path[0])[1]


@given(st.lists(texts, min_size=1, max_size=3), st.integers(1, 6))
def test_an_automaton_counts_every_substring(many: list[list[int]], depth: int) -> None:
    """A state is all suffixes of equal count; it goes on to every follower, most often to its head."""
    automaton, counted = Automaton(depth), Occurrences(many, depth)
    for text in many:
        automaton.begin(0)
        automaton.read(text, len(text))
    for string, n in counted.counts.items():
        node, low, high = next(automaton.suffixes_of(string))
        assert (node.token, node.count, high) == (string[-1], n, len(string))
        same = [m for m in range(1, high + 1) if counted.counts[string[-m:]] == n]
        assert same == list(range(low, high + 1))
        followers = {token: n for n, token in counted.followers(string)}
        if high < depth:
            assert {t: child.count for t in range(3) if (child := node.child(t))} == followers
            assert (node.head.count if node.head else 0) == max(followers.values(), default=0)
    last = many[-1][-depth:]
    chain = [(node, low, high) for node, low, high in automaton.suffixes()]
    assert chain == list(automaton.suffixes_of(last))
    assert [high for _, _, high in chain][:1] == [len(last)]


def test_of_equally_frequent_tokens_the_one_that_got_there_first_is_drafted() -> None:
    assert SuffixTree()([1, 2, 8, 1, 3, 9, 1]) == (2,)
    assert SuffixTree()([1, 2, 8, 1, 3, 9, 1, 3, 7, 1, 2, 6, 1]) == (3,)


def test_an_answer_begins_where_the_first_draft_was_asked_for() -> None:
    """Of the answer's own tree, in which a rare continuation is the only one, a token more or less is seen."""

    def drafted(prompt: list[int], answer: list[int]) -> tuple[int, ...]:
        propose, text = SuffixTree(earlier=[]), Tokens([*prompt, *answer])
        propose(text[: len(prompt) + 1])
        return propose(text)

    assert drafted([1, 3, 1, 3, 1], [4, 1, 2, 7, 1]) == (2,)  # one 1 in two, but with the prompt's last one in three
    assert drafted([], [1, 3, 5, 1, 2, 6, 1]) == (3,)  # 3 was first; without the first 1 there is but 2
    assert SuffixTree(earlier=[])([]) == ()


def test_suffix_tree_finds_what_only_an_earlier_answer_says() -> None:
    assert SuffixTree(earlier=[[1, 2, 3, 4]])([5, 1, 2]) == (3, 4)
    assert SuffixTree(earlier=[[1, 2, 3, 4]])([5, 1, 3]) == (4,)  # 1 3 is nowhere, though 1 and 3 are
    assert SuffixTree(earlier=[])([5, 1, 2]) == ()
