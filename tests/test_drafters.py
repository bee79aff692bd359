"""The drafters against second tellings that search the whole text every time; how they read; bad input."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from itertools import count
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.answers import recorded
from sim.drafters import DRAFTERS, NGram
from sim.loops import LOOPS
from sim.machine import State
from sim.run import Record, run
from sim.setting import IMPURE
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
FORGETFUL = sorted(set(DRAFTERS) - IMPURE)


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
    for total in (1, 2, 3, 4, 20, 29, 50, 100):  # 19 of 29 is 65.5 %
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
    # A pair is too rare when it was seen twice, be it the whole text or not.
    twice, thrice = (DRAFTERS["llama-lookup"](n_draft=1, dynamic=[[1, 2, 3]] * n) for n in (2, 3))
    assert (twice([1, 2]), twice([9, 1, 2]), thrice([1, 2])) == ((), (), (3,))


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
        ("ngram-mod", {"n_key": 0}, "n_key must be a whole number of at least 1, not 0"),
        ("ngram-mod", {"size": 0}, "size must be a whole number of at least 1, not 0"),
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
