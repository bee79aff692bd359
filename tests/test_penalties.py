"""Penalties against a telling in plain Python, and exact in every row of a pass."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sim.machine import Pass
from sim.penalties import NONE, Penalties, inside, penalise, penalised
from sim.toy import ToyLogits
from tests.quick import penalty_facts
from tests.telling import plainly
from tests.worlds import PENALTIES

N = 4
numbers = st.floats(-8, 8).map(lambda x: round(x, 3))
penalties = st.builds(
    Penalties,
    repeat=st.sampled_from([1.0, 0.5, 1.1, 2.0]),
    frequency=st.sampled_from([0.0, 0.25, -0.5]),
    presence=st.sampled_from([0.0, 1.5, -0.5]),
    last_n=st.integers(-1, 5),
    bias=st.dictionaries(st.integers(0, N - 1), st.sampled_from([2.0, -1.0, -inf]), max_size=2),
    stops=st.frozensets(st.integers(0, N - 1), max_size=2),
    min_tokens=st.integers(0, 4),
)


@given(
    st.lists(numbers, min_size=N, max_size=N),
    st.lists(st.integers(0, N - 1), max_size=8),
    penalties,
    st.integers(0, 8),
)
@example([1.0, -1.0, 0.0, 2.0], [0, 1, 1, 2], Penalties(repeat=2.0, frequency=0.5, last_n=3), 0)
@example([1.0, -1.0, 0.0, 2.0], [3, 3], Penalties(stops=frozenset({3}), min_tokens=2), 1)
@example([1.0, -1.0, 0.0, 2.0], [3, 3], Penalties(stops=frozenset({3}), min_tokens=2), 0)
def test_as_told_plainly(logits: list[float], prefix: list[int], p: Penalties, n_prompt: int) -> None:
    row = np.array(logits)
    got = penalised(row, prefix, p, n_prompt=n_prompt)
    assert row.tolist() == logits, "the row itself is left as it was"
    assert got.tolist() == pytest.approx(plainly(logits, prefix, p, n_prompt), abs=1e-12)


def test_the_defaults_change_nothing_and_the_type_is_kept() -> None:
    row = np.array([1.5, -2.0, 0.0], dtype=np.float32)
    got = penalised(row, [0, 1, 2, 2], Penalties())
    assert got.tolist() == row.tolist()
    assert got is not row
    assert penalised(row, [0], Penalties(repeat=1.3)).dtype == np.float32


def test_a_wrong_draft_outside_the_vocabulary_has_no_logit() -> None:
    row = np.array([1.0, 2.0, 3.0])
    for stranger in (3, 100, -1):
        assert penalised(row, [stranger, 1], Penalties(presence=1.0)).tolist() == [1.0, 1.0, 3.0]


@pytest.mark.parametrize("name", PENALTIES)
def test_every_row_is_judged_with_the_tokens_before_it(name: str) -> None:
    """One pass over many rows answers as many passes over one row do, whatever is in the cache."""
    rows = (2, 2, 2, 0, 1, 1, 2, 0)
    toys = [ToyLogits(3, 1, 5, penalties=PENALTIES[name], n_prompt=2) for _ in range(2)]
    at_once = toys[0](Pass(0, rows, len(rows)))
    one_by_one = [toys[1](Pass(i, (row,), 1))[0] for i, row in enumerate(rows)]
    assert at_once == one_by_one


def test_penalties_change_the_text() -> None:
    """So the battery's penalty worlds are worlds of their own."""
    texts = [
        str([ToyLogits(5, 2, seed, penalties=p).greedy([1, 2], 30) for seed in range(8)]) for p in PENALTIES.values()
    ]
    assert len(set(texts)) == len(PENALTIES)


def test_no_stop_before_n() -> None:
    p = Penalties(stops=frozenset({0}), min_tokens=9, bias={0: 50.0})
    text = ToyLogits(3, 1, penalties=p, n_prompt=2).greedy([1, 2], 12)
    assert 0 not in text[2:11]
    assert text[11] == 0


def test_facts() -> None:
    penalty_facts()


def test_what_counts_tokens_and_what_it_is_called() -> None:
    assert not NONE.counts_tokens
    assert not Penalties(bias={1: 2.0}, min_tokens=3).counts_tokens
    for name in ("repeat", "frequency", "presence"):
        one = Penalties(**{name: 1.5})
        assert one.counts_tokens
        assert not Penalties(**{name: 1.5}, last_n=0).counts_tokens
        assert Penalties(**{name: 1.5}, last_n=-1).counts_tokens
        assert str(one) == f"{name}=1.5"
    assert (str(NONE), str(Penalties(repeat=1.1, last_n=32))) == ("none", "repeat=1.1 last_n=32")


def test_without_a_prompt_all_tokens_count_for_the_least_number() -> None:
    for n in range(4):
        row = np.zeros(5)
        penalise(row, [0] * n, Penalties(stops=frozenset({3}), min_tokens=2))
        assert (row[3] == -inf) == (n < 2)


def test_what_is_allowed() -> None:
    Penalties(repeat=0.01, last_n=-1, min_tokens=0, bias={0: -inf, 1: -3.0})
    Penalties(last_n=0, frequency=-2.0, presence=-2.0)


def test_outside_the_vocabulary() -> None:
    row = np.zeros(3)
    with pytest.raises(ValueError, match="token 3 is outside the vocabulary of 3 tokens"):
        penalised(row, [0], Penalties(bias={3: 1.0}))
    with pytest.raises(ValueError, match="token 3 is outside the vocabulary of 3 tokens"):
        penalised(row, [0], Penalties(stops=frozenset({3}), min_tokens=2))
    with pytest.raises(ValueError, match="token 9 is outside the vocabulary of 9 tokens"):
        ToyLogits(9, penalties=Penalties(stops=frozenset({9})))
    with pytest.raises(ValueError, match="token -1 is outside"):
        inside(-1, 3)
    assert inside(0, 3) == 0
    assert inside(2, 3) == 2
