"""`Tokens` is a tuple in all but its cost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.tokens import Tokens

lists = st.lists(st.integers(0, 3), max_size=6)


@given(lists, lists, lists, st.slices(6))
def test_as_a_tuple(a: list[int], b: list[int], c: list[int], cut: slice) -> None:
    """Extending one prefix in two ways, and cutting, as tuples would."""
    text = Tokens(a)
    one, other = text.extended(b), text.extended(c)
    for tokens, plain in ((text, tuple(a)), (one, tuple(a + b)), (other, tuple(a + c))):
        assert tokens == plain
        assert tokens == list(plain)
        assert tokens == Tokens(plain)
        assert hash(tokens) == hash(plain)
        assert (len(tokens), tokens.length, tuple(tokens)) == (len(plain), len(plain), plain)
        assert tokens[cut] == plain[cut]
        assert tokens[: len(a)] == text
        assert repr(tokens) == f"Tokens({list(plain)})"
        for i in range(-len(plain), len(plain)):
            assert tokens[i] == plain[i]
        for i in (-len(plain) - 1, len(plain)):
            with pytest.raises(IndexError, match=f"of {len(plain)}"):
                tokens[i]
    assert (one == other) == (b == c)
    assert (one == text) == (not b)
    assert text.shares(one)
    assert other.shares(text) or bool(b) or not c


def test_prefixes_and_extensions_share_one_list() -> None:
    text = Tokens([1, 2, 3])
    longer = text.extended([4])
    assert longer.shares(text)
    assert longer[:2].shares(text)
    assert longer[:2].extended([3, 4]).shares(text)
    assert not longer[:2].extended([9]).shares(text)
    assert not text[1:].shares(text)
    assert Tokens(text).shares(text)
    assert not Tokens([1, 2, 3]).shares(text)


def test_a_view_of_a_longer_list_shows_its_own_part_only() -> None:
    head = Tokens([1, 2, 3, 4])[:2]
    assert [list(part) for part in (head, head[::-1], head[5:])] == [[1, 2], [2, 1], []]
    assert list(reversed(head)) == [2, 1]
    assert head == Tokens([1, 2, 7])[:2]
    assert head != Tokens([1, 3, 3])[:2]
    assert 3 not in head
    assert head != "12"
    assert (head == [1, 2, 3], head == [1, 2], head == (1, 3)) == (False, True, False)
