"""Drafters that learn from what became of their drafts: maps and mod tables, against what the programs do."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.drafters import DRAFTERS
from sim.drafters.ngram_mod import Mod
from sim.tokens import Tokens

texts = st.lists(st.integers(0, 2), min_size=1, max_size=40)


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


def test_a_table_emptied_at_the_prompt_knows_it_after_bad_drafts() -> None:
    """Filled again from the start, in the lookup of the fifth bad draft; before that no key of the prompt is there."""
    filled = [*range(40), *([50, 51] * 20)]  # 39 keys are more than a quarter of 128; then 50 and 51 enter
    bad = [5, 70, 50, 60, 50, 61, 5, 71, 50, 62, 50, 63, 50, 64, 6, 72]  # behind 50 the draft begins with 51
    passes = told(Mod(n_key=1, n_draft=3, n_draft_min=1, size=128), [*filled, *bad], 40)
    assert [drafted for known, drafted, _ in passes if [*filled, *bad][known - 1] in (5, 6)] == [0, 0, 3]


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
