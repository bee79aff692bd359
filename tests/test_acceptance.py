"""Acceptance laws: exact against enumeration of all strings, and fits that find what they were made from."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from costmodel.acceptance import (
    Law,
    accepted_lengths,
    empirical,
    from_survival,
    gilbert_elliott,
    iid,
    mean_accepted,
    parse,
    survival,
    variance_accepted,
)
from costmodel.fitlaw import Seen, drafts_seen, fit_empirical, fit_gilbert_elliott, fit_iid

relaxed = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
probabilities = st.fractions(min_value=0, max_value=1, max_denominator=20)
inner = st.fractions(min_value=Fraction(1, 20), max_value=Fraction(19, 20), max_denominator=20)


def enumerated(law: Law, n_drafts: int) -> list[Fraction]:
    """Accepted-length probabilities from every path of regimes and every string of agreements."""
    lengths = [Fraction(0)] * (n_drafts + 1)
    for path in product((0, 1), repeat=n_drafts):
        weight = Fraction(law.stationary[path[0]])
        for a, b in pairwise(path):
            weight *= law.transition[a][b]
        for bits in product((0, 1), repeat=n_drafts):
            share = weight
            for regime, bit in zip(path, bits, strict=True):
                share *= law.agrees(0, regime) if bit else 1 - law.agrees(0, regime)
            lengths[[*bits, 0].index(0)] += share
    return lengths


@relaxed
@given(inner, inner, probabilities, probabilities, st.integers(1, 4))
def test_gilbert_elliott_is_its_enumeration(a: Fraction, b: Fraction, p: Fraction, q: Fraction, n: int) -> None:
    law = gilbert_elliott(a, b, p, q)
    lengths = accepted_lengths(law, n)
    assert list(lengths) == enumerated(law, n)
    assert all(isinstance(share, (int, Fraction)) for share in lengths)


@relaxed
@given(probabilities, st.integers(1, 8))
def test_iid_is_the_cut_geometric_law(p: Fraction, n: int) -> None:
    assert survival(iid(p), n) == tuple(p**i for i in range(1, n + 1))
    lengths = accepted_lengths(iid(p), n)
    assert sum(lengths) == 1
    assert mean_accepted(iid(p), n) == sum(i * share for i, share in enumerate(lengths))
    second = sum(i * i * share for i, share in enumerate(lengths))
    assert variance_accepted(iid(p), n) == second - mean_accepted(iid(p), n) ** 2


@relaxed
@given(inner, inner, probabilities, st.integers(1, 6))
def test_equal_regimes_are_iid(a: Fraction, b: Fraction, p: Fraction, n: int) -> None:
    assert accepted_lengths(gilbert_elliott(a, b, p, p), n) == accepted_lengths(iid(p), n)


@relaxed
@given(st.lists(inner, min_size=1, max_size=6))
def test_empirical_survival_comes_back(conditional: list[Fraction]) -> None:
    law = empirical(conditional)
    assert from_survival(survival(law, len(conditional))).agreement == law.agreement


def test_the_words_say_the_same() -> None:
    assert parse("iid 0.8") == iid(Fraction(4, 5))
    ge = gilbert_elliott(Fraction(9, 10), Fraction(7, 10), Fraction(95, 100), Fraction(3, 10), Fraction(1, 4))
    words = parse("ge 0.9 0.7 0.95 0.3 none 0.25")
    assert (words.transition, words.agreement, words.no_draft) == (ge.transition, ge.agreement, ge.no_draft)
    assert survival(parse("survival 0.81 0.74 0.70"), 3) == (Fraction("0.81"), Fraction("0.74"), Fraction("0.7"))


@pytest.mark.parametrize("text", ["", "iid", "iid x", "iid 0.5 0.5", "ge 0.9", "none 0.5", "iid 0.8 none", "markov 1"])
def test_words_that_say_nothing_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match='is none of "iid P"'):
        parse(text)


@pytest.mark.parametrize("text", ["iid 1.2", "ge 1.1 0.5 0.5 0.5", "iid 0.5 none -0.1", "survival 0.5 0.6"])
def test_what_is_no_probability_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"between 0 and 1, not|must fall from 1"):
        parse(text)


def test_laws_check_their_lines() -> None:
    with pytest.raises(ValueError, match="sum to 1"):
        Law("bad", ((0.5, 0.4), (0.5, 0.5)), ((1, 1),))
    with pytest.raises(ValueError, match="one number per regime"):
        Law("bad", ((1,),), ((0.5, 0.5),))
    with pytest.raises(ValueError, match="start must have 2 numbers"):
        survival(gilbert_elliott(0.9, 0.8, 0.9, 0.1), 3, (1.0,))


def drawn(law: Law, n: int, seed: int) -> tuple[int, ...]:
    generator = np.random.default_rng(seed)
    regime, bits = 0, []
    for _ in range(n):
        bits.append(int(generator.random() < law.agrees(0, regime)))
        regime = int(generator.random() < law.transition[regime][1])
    return tuple(bits)


def test_em_finds_the_chain_a_text_was_drawn_from() -> None:
    law = gilbert_elliott(0.95, 0.85, 0.97, 0.25)
    seen = [Seen(drawn(law, 600, seed)) for seed in range(4)]
    fit = fit_gilbert_elliott(seen, most_rounds=60)
    truth = {"stay_locked": 0.95, "stay_free": 0.85, "agree_locked": 0.97, "agree_free": 0.25}
    for name, value in truth.items():
        low, high = fit.intervals[name]
        assert low < value < high
        assert high - low < 0.2
    assert fit.aic < fit_iid(seen).aic - 50


def test_em_does_not_see_regimes_where_there_are_none() -> None:
    seen = [Seen(drawn(gilbert_elliott(0.5, 0.5, 0.7, 0.7), 400, seed)) for seed in range(3)]
    assert fit_iid(seen).aic < fit_gilbert_elliott(seen, most_rounds=60).aic
    low, high = fit_iid(seen).intervals["agree"]
    assert low < 0.7 < high


def test_fits_of_a_published_table() -> None:
    """vLLM PR 24344: survival 0.81, 0.74, 0.70, 0.68, 0.66 of 993 drafts."""
    table = [0.81, 0.74, 0.70, 0.68, 0.66]
    seen = drafts_seen(table, 993)
    assert sum(item.times for item in seen) == pytest.approx(993)
    exact, chain, plain = fit_empirical(seen), fit_gilbert_elliott(seen), fit_iid(seen)
    assert survival(exact.law, 5) == pytest.approx(table)
    assert survival(chain.law, 5, chain.start) == pytest.approx(table, abs=0.01)
    assert plain.log_likelihood < chain.log_likelihood <= exact.log_likelihood + 1e-6
    wrong = 993 * (1 - 0.66)
    right = 993 * sum(table)
    assert plain.law.agrees(0, 0) == pytest.approx(right / (right + wrong))


def test_intervals_hold_the_truth_as_often_as_they_claim() -> None:
    generator = np.random.default_rng(7)
    inside = 0
    for _ in range(300):
        right = int(generator.binomial(80, 0.8))
        low, high = fit_iid([Seen((1,), right), Seen((0,), 80 - right)]).intervals["agree"]
        inside += low <= 0.8 <= high
    assert inside / 300 >= 0.93  # Clopper-Pearson is never short in the mean


def test_impossible_counts_are_refused() -> None:
    with pytest.raises(ValueError, match="0 or 1"):
        Seen((1, 2))
    with pytest.raises(ValueError, match="must fall"):
        drafts_seen([0.5, 0.6], 10)
    with pytest.raises(ValueError, match="at least two agreements"):
        fit_gilbert_elliott([Seen((1,))])
    with pytest.raises(ValueError, match="end at their first wrong token"):
        fit_empirical([Seen((0, 1))])
