"""The drafters against second tellings that search the whole text every time; how they read; bad input."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Sequence
from itertools import count
from random import Random
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sim.answers import recorded
from sim.drafters import DRAFTERS, NGram
from sim.drafters.automaton import Automaton
from sim.drafters.ngram_mod import Mod
from sim.drafters.suffix_tree import SuffixTree
from sim.loops import LOOPS
from sim.machine import State
from sim.run import Record, run
from sim.tokens import Tokens

texts = st.lists(st.integers(0, 2), min_size=1, max_size=40)

# Every drafter with keys short enough to be found in short texts.
SMALL: dict[str, dict[str, Any]] = {
    "ngram": {},
    "hf-prompt-lookup": {"stops": {2}},
    "vllm-ngram": {"n_min": 1, "max_length": 30},
    "llama-cpp-python": {},
    "pld-original": {"n_max": 1, "n_draft": 3},
    "llama-lookup": {"dynamic": [[0, 1, 2, 0, 1, 2]], "static": [[0, 1, 1, 0, 1, 1]]},
    "ngram-simple": {"n_key": 2, "n_draft": 3},
    "ngram-map-k": {"n_key": 2, "n_draft": 3},
    "ngram-map-k4v": {"n_key": 1, "n_draft": 2, "min_hits": 2},
    "ngram-mod": {"n_key": 2, "n_draft": 4, "n_draft_min": 1},
    "ngram-cache": {},
    "arctic-suffix": {"depth": 6},
}
FORGETFUL = sorted(set(DRAFTERS) - {"ngram-map-k", "ngram-map-k4v", "ngram-mod", "ngram-cache"})


def make(name: str) -> Any:
    return DRAFTERS[name](**SMALL[name])


def test_every_drafter_is_tried() -> None:
    assert SMALL.keys() == DRAFTERS.keys()


# How they read.


@pytest.mark.parametrize("name", FORGETFUL)
@settings(max_examples=40)
@given(texts)
def test_a_pure_drafter_says_the_same_however_it_came_to_the_text(name: str, ids: list[int]) -> None:
    text, reading = Tokens(ids), make(name)
    assert [reading(text[:n]) for n in range(1, len(text) + 1)] == [
        make(name)(ids[:n]) for n in range(1, len(text) + 1)
    ]


@pytest.mark.parametrize("name", sorted(DRAFTERS))
@settings(max_examples=40)
@given(texts, texts, st.integers(1, 40), st.integers(1, 5))
def test_nothing_is_remembered_from_one_run_to_the_next(
    name: str, ids: list[int], others: list[int], start: int, stride: int
) -> None:
    def drafts(propose: Any, ids: list[int]) -> list[Any]:
        text = Tokens(ids)
        return [propose(text[:n]) for n in range(min(start, len(text)), len(text) + 1, stride)]

    propose, again = make(name), Tokens(ids)
    first = drafts(propose, ids)
    drafts(propose, others)
    assert drafts(propose, ids) == first
    # The same list, from a shorter prefix on, is a new run as well.
    propose(again)
    assert [propose(again[:n]) for n in range(min(start, len(again)), len(again) + 1, stride)] == first


@pytest.mark.parametrize("name", sorted(DRAFTERS))
def test_two_runs_of_one_prompt_do_not_meet_in_a_drafter(name: str) -> None:
    """The second run asks later for its first draft, where it could pass for the first one's continuation."""
    ids = [2, 0, 1, 2, 0, 1, 0, 0, 1, 2, 0, 1, 2, 0, 0, 1, 2, 0]
    prompt, answers = Tokens(ids[:12]), recorded(ids)

    def shapes(propose: Any, n_unheard: int) -> list[Record]:
        def late(tokens: Tokens) -> Sequence[int]:
            return propose(tokens) if len(tokens) > n_unheard else ()

        state, records = run(LOOPS["carry"](late, 4), State.start(prompt, 6), lambda pass_: (answers(pass_), 0.0))
        assert state.tokens == ids
        return records

    propose = make(name)
    for n_unheard in (0, 13, 14, 15, 16, 17):
        for n_first in range(13, 18):
            propose(State.start(prompt, 6).tokens.extended(ids[12:n_first]))
            assert shapes(propose, n_unheard) == shapes(make(name), n_unheard)


@pytest.mark.parametrize("name", sorted(DRAFTERS))
def test_the_same_text_gets_the_same_draft(name: str) -> None:
    text, propose = Tokens([0, 1, 2] * 6), make(name)
    drafts = [propose(text[:n]) for n in range(12, 19) for _ in range(2)]
    assert drafts[::2] == drafts[1::2]
    assert any(drafts)


@pytest.mark.parametrize("name", sorted(DRAFTERS))
@settings(max_examples=40)
@given(texts)
def test_tokens_behind_the_text_are_not_read(name: str, ids: list[int]) -> None:
    """A text's list may be longer than the text: another text goes on there."""
    hidden, plain = make(name), make(name)
    longer, text = Tokens([*ids, 0, 1, 2, 0, 1, 2]), Tokens(ids)
    assert [hidden(longer[:n]) for n in range(1, len(ids) + 1)] == [plain(text[:n]) for n in range(1, len(ids) + 1)]


# Second tellings.


def longest_match(
    text: Sequence[int],
    n_max: int,
    n_min: int,
    n_draft: int,
    pick: Literal["latest", "earliest"],
    whole: bool,
    run_on: bool,
) -> list[int]:
    """The n-gram drafter, told as a search."""
    for n in range(min(n_max, len(text)), n_min - 1, -1):
        places = [
            i
            for i in range(n, len(text))
            if text[i - n : i] == text[len(text) - n :] and (not whole or i + n_draft <= len(text))
        ]
        if places:
            copy = list(text[places[-1] if pick == "latest" else places[0] :])
            return (copy * n_draft if run_on else copy)[:n_draft]
    return []


@given(
    texts,
    st.integers(1, 3),
    st.integers(0, 3),
    st.integers(1, 6),
    st.sampled_from(("latest", "earliest")),
    st.booleans(),
    st.booleans(),
)
def test_ngram_is_the_longest_match(
    ids: list[int], n_min: int, more: int, n_draft: int, pick: Any, whole: bool, run_on: bool
) -> None:
    propose = NGram(n_max=n_min + more, n_min=n_min, n_draft=n_draft, pick=pick, whole=whole, run_on=run_on)
    assert list(propose(ids)) == longest_match(ids, n_min + more, n_min, n_draft, pick, whole, run_on)


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


def test_suffix_tree_finds_what_only_an_earlier_answer_says() -> None:
    assert SuffixTree(earlier=[[1, 2, 3, 4]])([5, 1, 2]) == (3, 4)
    assert SuffixTree(earlier=[[1, 2, 3, 4]])([5, 1, 3]) == (4,)  # 1 3 is nowhere, though 1 and 3 are
    assert SuffixTree(earlier=[])([5, 1, 2]) == ()


def test_hugging_face_drafts_nothing_behind_the_longest_text() -> None:
    assert DRAFTERS["hf-prompt-lookup"](max_length=4)([1, 2, 3, 4, 1, 2]) == (3, 4)
    # 1 2 goes on behind it only, so 2 alone is looked for.
    assert DRAFTERS["hf-prompt-lookup"](max_length=3)([2, 5, 0, 7, 1, 2, 4, 1, 2]) == (5, 0)
    # Here 1 2 goes on with the very token that would be the first behind it.
    assert DRAFTERS["hf-prompt-lookup"](max_length=6)([2, 5, 0, 7, 1, 2, 4, 1, 2]) == (5, 0, 7, 1, 2)


def test_vllm_drafts_nothing_behind_the_longest_text() -> None:
    text = [1, 2, 3, 1, 2]
    drafts = [DRAFTERS["vllm-ngram"](n_min=1, max_length=most)(text) for most in (3, 4, 5, 6, 7)]
    assert drafts == [(), (), (), (3,), (3, 1)]


def test_a_static_cache_gives_a_token_that_the_text_does_not() -> None:
    static = DRAFTERS["llama-lookup"](static=[[1, 2, 3, 1, 2, 3, 9]])
    assert static([7, 1, 2]) == (3, 9)
    assert static([1, 2]) == (3, 9)
    assert static([7, 8]) == ()


# (least followers, least percentage) behind 1 to 4 tokens: common/ngram-cache.cpp, draft_min_sample_size_* and
# draft_min_percent_*.
LAX, STRICT = ((2, 66), (2, 50), (1, 50), (1, 50)), ((4, 75), (3, 66), (2, 66), (2, 66))


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_lookup_drafts_from_just_enough_on(n: int, dynamic: bool) -> None:
    least, percent = (STRICT if dynamic else LAX)[n - 1]
    key, fresh, drafted = list(range(n)), count(100), set()
    for total in (1, 2, 3, 4, 20, 50, 100):
        for right in {total, *range(max(percent * total // 100 - 1, 2), min(percent * total // 100 + 3, total))}:
            text: list[int] = []
            for i in range(total):
                text += [next(fresh), *key, 50 if i < right else next(fresh)]
            for _ in range(2 * total if n > 1 else 0):  # what is shorter goes on in too many ways
                text += [next(fresh), *key[1:], next(fresh)]
            tail = [next(fresh), *key]
            propose = DRAFTERS["llama-lookup"](n_draft=1, dynamic=[text] if dynamic else ())
            enough = total >= least and 100 * right >= percent * total
            assert propose(tail if dynamic else text + tail) == ((50,) if enough else ())
            drafted.add(enough)
    assert drafted == {True, False}


def test_lookup_uses_a_whole_short_text_as_key() -> None:
    """The longest key decides: what is shorter goes on in two ways equally often, which is not enough."""
    four = DRAFTERS["llama-lookup"](n_draft=1, dynamic=[[1, 2, 3, 4, 5, 9, 2, 3, 4, 6] * 2])
    three = DRAFTERS["llama-lookup"](n_draft=1, dynamic=[[2, 3, 4, 5, 8, 3, 4, 6] * 2])
    assert (four([1, 2, 3, 4]), four([2, 3, 4])) == ((5,), ())
    assert (three([2, 3, 4]), three([3, 4])) == ((5,), ())


@pytest.mark.parametrize(("known", "unknown", "draft"), [(1, 99, ()), (1, 100, (8,)), (2, 150, ()), (2, 200, (8,))])
def test_a_follower_that_a_static_cache_knows_weighs_a_hundred_times(
    known: int, unknown: int, draft: tuple[int, ...]
) -> None:
    """7 is known and outweighs 8, but is too rare to be drafted; of equal ones the later wins."""
    fresh, text = count(100), list[int]()
    for follower in [7] * known + [8] * unknown:
        text += [next(fresh), 1, 2, follower]
    assert DRAFTERS["llama-lookup"](n_draft=1, static=[[1, 2, 7]])([*text, next(fresh), 1, 2]) == draft


# What llama-server's drafters learn from their drafts.


def told(propose: Any, text: Sequence[int], prompt: int) -> list[tuple[int, int, int]]:
    """Drafted and accepted lengths at every pass of a loop over a text."""
    tokens, known, passes = Tokens(text), prompt + 1, []
    while known < len(text):
        draft = propose(tokens[:known])
        accepted = 0
        while accepted < min(len(draft), len(text) - known - 1) and draft[accepted] == text[known + accepted]:
            accepted += 1
        passes.append((known, len(draft), accepted))
        known += accepted + 1
    return passes


def test_a_map_never_drafts_again_for_a_key_that_failed() -> None:
    text = [9, 1, 2, 3, 4, 5, 1, 2, 7, 7, 1, 2, 8]
    propose = DRAFTERS["ngram-map-k"](n_key=2, n_draft=2)
    assert told(propose, text, 7) == [(8, 2, 0), (9, 0, 0), (10, 0, 0), (11, 0, 0), (12, 0, 0)]
    dropped = DRAFTERS["ngram-map-k"](n_key=2, n_draft=2, judged=False)
    assert told(dropped, text, 7)[-1] == (12, 2, 0)


@pytest.mark.parametrize(
    ("grown", "draft"),
    [
        ([3], ()),  # the pass's own token alone, which nobody drafted, though it is the one drafted
        ([9, 4], ()),  # a wrong token, be it the greater or the smaller one, ends what is accepted
        ([0, 4], ()),
        ([0, 4, 9], ()),
        ([3, 9], (3,)),
        ([3, 0], (3,)),
        ([3, 4], (3,)),
        ([3, 4, 9], (3, 4)),
    ],
)
def test_a_pass_yields_what_was_accepted_and_one_more(grown: list[int], draft: tuple[int, ...]) -> None:
    """As long as the last draft held, so long is the key's next one: the key is 1 2, its draft 3 4."""
    text = Tokens([9, 1, 2, 3, 4, 5, 1, 2, *grown, 9, 9, 1, 2])
    propose = DRAFTERS["ngram-map-k"](n_key=2, n_draft=2)
    assert propose(text[:8]) == (3, 4)
    propose(text[: 8 + len(grown)])
    assert propose(text) == draft


def test_a_text_begins_with_the_first_token_not_given() -> None:
    """All but the last token of the first text is the prompt; behind it a key is looked for from the next one on."""
    text = Tokens([5, 1, 2, 3, 4, 1])
    propose = DRAFTERS["ngram-map-k"](n_key=1, n_draft=1)
    assert [propose(text[:n]) for n in (0, 1, 6)] == [(), (), (2,)]
    propose = DRAFTERS["ngram-map-k"](n_key=1, n_draft=1)
    assert [propose(text[:n]) for n in (2, 6)] == [(), ()]


@pytest.mark.parametrize("name", ["ngram-map-k", "ngram-map-k4v"])
def test_a_map_is_silent_until_two_keys_and_a_draft_have_been_seen(name: str) -> None:
    """The peer returns while what stands before the last token is shorter than 2 n + m, whatever it says."""
    text = [9, 1, 2, 3, 1, 2, 3]
    assert DRAFTERS[name](n_key=3, n_draft=1)(text) == ()
    assert DRAFTERS[name](n_key=3, n_draft=1)([8, *text]) == (1,)


@pytest.mark.parametrize("key", [[1], [1, 2]])
def test_a_key_is_lost_where_another_of_its_bucket_came_later(key: list[int]) -> None:
    """The index has 2^18 buckets, by the hash with the peer's factor, and is filled from the latest key back."""
    value = 0
    for token in key:
        value = (value * 2654435761 + token) % 2**64
    for other, draft in ((value % 2**18 + 2**18, ()), (value % 2**18 + 2**18 + 1, (5, 6))):
        hashed_alike = [0] * (len(key) - 1) + [other]
        text = Tokens([9, *key, 5, 6, 7, *hashed_alike, *range(11, 18), *key])
        propose = DRAFTERS["ngram-map-k"](n_key=len(key), n_draft=2)
        propose(text[: len(text) - len(key)])  # all that is before the key enters the index
        assert propose(text) == draft


def test_look_ups_of_a_key_are_counted_to_16380() -> None:
    """COMMON_NGRAM_MAX_VALUE_COUNT: a key that must be asked for more often than that is never drafted for."""
    text = Tokens([1] * 16400)
    for min_hits, n_drafts in ((16380, 1), (16381, 0)):
        propose = DRAFTERS["ngram-map-k4v"](n_key=1, n_draft=1, min_hits=min_hits)
        hits = range(5, 5 + 16380)  # a text of 4 has its key at position 0 only, where none is found
        assert sum(bool(propose(text[:n])) for n in hits) == n_drafts
        assert bool(propose(text)) == bool(n_drafts)


def test_what_was_accepted_is_what_the_text_repeats() -> None:
    text, propose = (
        Tokens([9, 1, 2, 3, 4, 5, 1, 2, 3, 7, 7, 1, 2]),
        DRAFTERS["ngram-map-k"](n_key=2, n_draft=2),
    )
    assert propose(text[:8]) == (3, 4)
    assert propose(text) == (3,)


def test_the_mod_table_is_filled_again_after_five_bad_drafts() -> None:
    """Behind a long text this brings the newest tokens in at once; behind a short one it leaves nothing."""
    rng = Random(3)
    for length, emptied in ((60, False), (6, True)):
        pair = [1, 2]
        text = [*pair, 3, *(rng.randrange(10, 99) for _ in range(length))]
        prompt = len(text)
        for wrong in range(6):
            text += [*pair, 50 + wrong]
        propose = Mod(n_key=2, n_draft=4, n_draft_min=1)
        passes = [(drafted, accepted) for _, drafted, accepted in told(propose, [*text, 0], prompt) if drafted]
        assert passes[:5] == [(4, 0)] * 5
        assert (len(passes) == 5) == emptied


def test_a_mod_table_too_full_is_emptied_once_and_filled_again_after_bad_drafts() -> None:
    text = [i % 11 for i in range(40)]
    assert Mod(n_key=1, n_draft=2, n_draft_min=1, size=32)([*text, 0]) == ()
    assert Mod(n_key=1, n_draft=2, n_draft_min=1, size=64)([*text, 0]) == (1, 2)
    propose = Mod(n_key=1, n_draft=3, n_draft_min=1, size=32)
    wrong = [0, 5, 0, 7, 0, 9, 0, 4, 0, 6, 0, 8]
    passes = told(propose, [*text, *([10] * 40), *wrong, 1], 40)
    assert any(drafted for _, drafted, _ in passes)


def mod_drafts(text: Sequence[int], prompt: int, n: int, size: int, n_draft: int) -> list[list[int]]:
    """`ngram-mod` told as its table, with the whole hash; no draft is judged, none is too short."""

    def place(key: Sequence[int]) -> int:
        value = 0
        for token in key:
            value = (value * 6364136223846793005 + token) % 2**64
        return value % size

    table: dict[int, int] = {}
    done, drafts = 0, []
    for known in range(prompt, len(text)):  # the length before the last token
        stop = known - n
        if known == prompt or done + 32 < known:
            table |= {place(text[i : i + n]): text[i + n] for i in range(done, stop)}
            done = max(stop, 0)
            if known == prompt and len(table) > size / 4:
                table.clear()
        window = list(text[known + 1 - n : known + 1])
        for i in range(n_draft if stop >= 0 else 0):
            if (token := table.get(place(window[i:]))) is None:
                break
            window.append(token)
        drafts.append(window[n:])
    return drafts


@given(st.integers(0, 10**6), st.integers(1, 60), st.integers(1, 4), st.sampled_from((1, 4, 16, 64, 256)))
def test_ngram_mod_with_collisions(seed: int, prompt: int, n: int, size: int) -> None:
    rng = Random(seed)
    ids = [rng.randrange(9) for _ in range(prompt + 50)]
    text, propose = Tokens(ids), Mod(n_key=n, n_draft=6, n_draft_min=0, size=size, judged=False)
    mine = [list(propose(text[: known + 1])) for known in range(prompt, len(text))]
    assert mine == mod_drafts(ids, prompt, n, size, 6)


def test_a_mod_table_of_one_entry() -> None:
    assert Mod(n_key=1, n_draft=2, n_draft_min=0, size=1)([4, 5, 6]) == ()


# Parameters.

# As the programs have them; the sources stand in the drafters' docstrings.
DEFAULTS: dict[str, dict[str, Any]] = {
    "ngram": {"n_max": 3, "n_min": 1, "n_draft": 16, "pick": "latest", "whole": False, "run_on": True},
    "hf-prompt-lookup": {"n_max": 2, "n_draft": 10, "stops": (), "forbidden": (), "max_length": None},
    "vllm-ngram": {"n_max": 5, "n_min": 5, "n_draft": 5, "max_length": None},
    "llama-cpp-python": {"n_max": 2, "n_draft": 10},
    "pld-original": {"n_max": 3, "n_draft": 10},
    "llama-lookup": {"n_draft": 3, "dynamic": (), "static": ()},
    "ngram-simple": {"n_key": 12, "n_draft": 48},
    "ngram-map-k": {"n_key": 12, "n_draft": 48, "min_hits": 1, "judged": True},
    "ngram-map-k4v": {"n_key": 12, "n_draft": 48, "min_hits": 1, "judged": True},
    "ngram-mod": {"n_key": 24, "n_draft": 64, "n_draft_min": 48, "size": 4194304, "judged": True},
    "ngram-cache": {"n_draft": 8, "dynamic": (), "static": ()},
    "arctic-suffix": {"depth": 24, "n_draft": None, "factor": 1.0, "offset": 0.0, "least": 0.1, "earlier": None},
}


def test_parameters_are_given_by_name_and_are_the_programs_own_unless_given() -> None:
    for name, drafter in DRAFTERS.items():
        parameters = inspect.signature(drafter).parameters.values()
        assert {p.name: p.default for p in parameters} == DEFAULTS[name]
        assert {p.kind for p in parameters} == {inspect.Parameter.KEYWORD_ONLY}


@pytest.mark.parametrize(
    ("name", "least", "draft"),
    [
        ("ngram", {"n_max": 1, "n_min": 1, "n_draft": 1}, (2,)),
        ("hf-prompt-lookup", {"n_max": 1, "n_draft": 1}, (2,)),
        ("vllm-ngram", {"n_max": 1, "n_min": 1, "n_draft": 1}, (2,)),
        ("llama-cpp-python", {"n_max": 1, "n_draft": 1}, (2,)),
        ("pld-original", {"n_max": 1, "n_draft": 1}, (2,)),
        ("llama-lookup", {"n_draft": 1}, (2,)),
        ("ngram-simple", {"n_key": 1, "n_draft": 1}, (2,)),
        ("ngram-map-k", {"n_key": 1, "n_draft": 1, "min_hits": 1}, (2,)),
        ("ngram-map-k4v", {"n_key": 1, "n_draft": 1, "min_hits": 1}, (2,)),
        ("ngram-mod", {"n_key": 1, "n_draft": 1, "n_draft_min": 0}, (2,)),
        ("ngram-cache", {"n_draft": 1}, (2,)),
        ("arctic-suffix", {"depth": 2, "n_draft": 1, "least": 0, "factor": 0, "offset": 1}, (2,)),
        ("arctic-suffix", {"least": 1}, ()),  # the end of the text is one occurrence that nothing follows
        ("arctic-suffix", {"depth": 1, "n_draft": 1}, ()),
        ("arctic-suffix", {"factor": 0, "offset": 0}, ()),
    ],
)
def test_the_least_parameters_are_taken(name: str, least: dict[str, Any], draft: tuple[int, ...]) -> None:
    assert DRAFTERS[name](**least)([5, 1, 2, 3, 5, 1, 2, 3, 5, 1]) == draft


# Bad input.


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("ngram", {"n_max": 1, "n_min": 2}, "n_max 1 must be at least n_min 2"),
        ("ngram", {"n_min": 0}, "n_min must be a whole number of at least 1, not 0"),
        ("ngram", {"n_draft": 0}, "n_draft must be a whole number of at least 1, not 0"),
        ("ngram", {"n_draft": 2.5}, "n_draft must be a whole number of at least 1, not 2.5"),
        ("ngram", {"n_draft": True}, "not True"),
        ("ngram", {"pick": "best"}, "pick must be 'latest' or 'earliest', not 'best'"),
        ("hf-prompt-lookup", {"n_max": 0}, "n_max must be a whole number of at least 1, not 0"),
        ("llama-lookup", {"n_draft": 0}, "n_draft"),
        ("ngram-simple", {"n_key": 0}, "n_key"),
        ("ngram-map-k", {"min_hits": 0}, "min_hits"),
        ("ngram-mod", {"n_draft_min": -1}, "n_draft_min must be a whole number of at least 0, not -1"),
        ("ngram-mod", {"size": 48}, "size must be a power of two, not 48"),
        ("arctic-suffix", {"depth": 0}, "depth"),
        ("arctic-suffix", {"least": -0.1}, "least must be a number between 0 and 1, not -0.1"),
        ("arctic-suffix", {"least": 1.5}, "least must be a number between 0 and 1, not 1.5"),
        ("arctic-suffix", {"offset": float("inf")}, "offset must be a number between 0 and inf, not inf"),
        ("arctic-suffix", {"factor": float("nan")}, "factor must be a number between 0 and inf, not nan"),
    ],
)
def test_bad_parameters_are_named(name: str, parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DRAFTERS[name](**parameters)


def test_the_original_code_refuses_a_text_shorter_than_its_key() -> None:
    with pytest.raises(ValueError, match="a text of 2 tokens is shorter than n_max 3"):
        DRAFTERS["pld-original"]()([1, 2])
