"""The chains against the real machine over every string of agreements, and against themselves in the long run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest

from costmodel.acceptance import Law, empirical, gilbert_elliott, iid
from costmodel.caps import full_acceptance_cycle, full_acceptance_speedup
from costmodel.chain import PLANS, Place, moves
from costmodel.passcost import Affine, Flat, Table
from costmodel.throughput import acceptance_where, finite, speedup, steady
from sim.answers import recorded
from sim.loops import LOOPS
from sim.machine import State
from sim.run import run

PROMPT = 1  # tokens; the pass that feeds them gives one token more, and the chains start behind it
WRONG = 7
Passes = tuple[tuple[int, int], ...]  # (cached length, rows) of each pass behind the prompt's


def text_of(n_tokens: int) -> list[int]:
    return [1000 + i for i in range(PROMPT + 1 + n_tokens + 12)]


def passes_of(loop: str, n_rows: int, n_tokens: int, drafts: Any) -> Passes:
    """The passes of the real machine; `drafts(L)` says for each draft behind L tokens whether it is right."""
    text = text_of(n_tokens)

    def propose(tokens: Sequence[int]) -> list[int]:
        at = len(tokens)
        return [text[at + i] if right else WRONG for i, right in enumerate(drafts(at))]

    answers = recorded(text)
    state = State.start(text[:PROMPT], n_tokens=n_tokens + 1)
    _, records = run(LOOPS[loop](propose, n_rows), state, lambda pass_: (answers(pass_), 0.0))
    return tuple((record.n_past, record.n_rows) for record in records[1:])


@cache
def positional(loop: str, n_rows: int, agrees: tuple[int, ...], finds: tuple[int, ...]) -> Passes:
    """The machine's passes when drafts agree, and look-ups find something, by position of the text."""
    n_tokens = len(agrees)
    padded = (*agrees, *[0] * (n_rows + 1))

    def drafts(at: int) -> tuple[int, ...]:
        position = at - PROMPT
        return padded[position : position + n_rows] if position < len(finds) and finds[position] else ()

    return passes_of(loop, n_rows, n_tokens, drafts)


@cache
def probability(law: Law, agrees: tuple[int, ...], finds: tuple[int, ...]) -> Fraction:
    """Of a string of agreements and finds, regime by regime."""
    weights = [Fraction(share) for share in law.stationary]
    for i, agree in enumerate(agrees):
        if i:
            weights = [
                sum(
                    (weight * line[to] for weight, line in zip(weights, law.transition, strict=True)),
                    Fraction(0),
                )
                for to in range(law.n_regimes)
            ]
        rights = [law.agrees(0, regime) for regime in range(law.n_regimes)]
        weights = [w * (right if agree else 1 - right) for w, right in zip(weights, rights, strict=True)]
    total = sum(weights, Fraction(0))
    for found in finds:
        total *= 1 - law.no_draft if found else Fraction(law.no_draft)
    return total


@dataclass
class Exact:
    """A cost in whole numbers, with a change term and a length term, so that a pass in the wrong place shows."""

    def seconds(self, n_past: int, n_rows: int, n_out: int, n_rows_before: int | None = None) -> Any:
        change = n_rows_before is not None and n_rows_before != n_rows
        return 1001 + 143 * n_rows * n_rows + 91 * n_past + 77 * change


EXACT = Exact()


def totals(
    weighted: Iterator[tuple[Fraction, Passes]],
) -> tuple[Fraction, dict[int, Fraction], Fraction, Fraction]:
    """Expected passes, passes of each row count, mean and variance of the seconds."""
    rows: Counter[int] = Counter()
    mean = second = mass = Fraction(0)
    for weight, passes in weighted:
        befores = (None, *(n for _, n in passes))
        paid = sum(EXACT.seconds(past, n, n, before) for (past, n), before in zip(passes, befores, strict=False))
        mass, mean, second = mass + weight, mean + weight * paid, second + weight * paid * paid
        for _, n in passes:
            rows[n] += weight  # type: ignore[assignment]
    assert mass == 1
    return Fraction(sum(rows.values())), {n: Fraction(rows[n]) for n in sorted(rows)}, mean, second - mean**2


LAWS = [
    iid(Fraction(2, 3)),
    gilbert_elliott(Fraction(9, 10), Fraction(3, 4), Fraction(19, 20), Fraction(1, 5)),
]


def test_every_loop_has_a_plan() -> None:
    assert set(PLANS) == set(LOOPS)


@pytest.mark.parametrize("loop", PLANS)
@pytest.mark.parametrize("n_rows", [2, 3, 4])
def test_chain_is_the_machine_over_all_agreement_strings(loop: str, n_rows: int) -> None:
    for law in LAWS:
        for n_tokens in range(1, 9):
            finds = (1,) * n_tokens
            runs = [(agrees, positional(loop, n_rows, agrees, finds)) for agrees in product((0, 1), repeat=n_tokens)]
            told = totals((probability(law, agrees, finds), passes) for agrees, passes in runs)
            chain = finite(loop, law, n_rows, n_tokens, EXACT, n_past=PROMPT)
            assert told == (chain.n_passes, chain.passes_of_rows, chain.seconds, chain.variance)


@pytest.mark.parametrize("loop", PLANS)
@pytest.mark.parametrize("n_rows", [2, 3, 4])
def test_chain_is_the_machine_when_look_ups_find_nothing(loop: str, n_rows: int) -> None:
    law = gilbert_elliott(Fraction(9, 10), Fraction(3, 4), Fraction(19, 20), Fraction(1, 5), Fraction(2, 7))
    strings = list(product((0, 1), repeat=4))
    runs = ((agrees, finds, positional(loop, n_rows, agrees, finds)) for agrees in strings for finds in strings)
    told = totals((probability(law, agrees, finds), passes) for agrees, finds, passes in runs)
    chain = finite(loop, law, n_rows, 4, EXACT, n_past=PROMPT)
    assert told == (chain.n_passes, chain.passes_of_rows, chain.seconds, chain.variance)


@pytest.mark.parametrize("loop", PLANS)
@pytest.mark.parametrize("n_rows", [2, 3])
def test_chain_is_the_machine_under_a_renewal_law(loop: str, n_rows: int) -> None:
    law = empirical([Fraction(3, 4), Fraction(1, 2), Fraction(9, 10)], Fraction(1, 5))
    n_tokens = 4
    lengths: list[int | None] = [
        None,
        *range(n_rows + 1),
    ]  # right drafts of each look-up; None: nothing found
    share: dict[int | None, Fraction] = {None: Fraction(1, 5)}
    alive = Fraction(4, 5)
    for n in range(n_rows):
        share[n] = alive * (1 - law.agreement[n][0])
        alive *= law.agreement[n][0]
    share[n_rows] = alive

    def weighted() -> Iterator[tuple[Fraction, Passes]]:
        for counts in product(lengths, repeat=n_tokens):

            def drafts(at: int, counts: tuple[int | None, ...] = counts) -> list[int]:
                right = counts[at - PROMPT] if at - PROMPT < n_tokens else 0
                return [] if right is None else [1] * right + [0] * (n_rows - right)

            weight = Fraction(1)
            for count in counts:
                weight *= share[count]
            yield weight, passes_of(loop, n_rows, n_tokens, drafts)

    chain = finite(loop, law, n_rows, n_tokens, EXACT, n_past=PROMPT)
    assert totals(weighted()) == (chain.n_passes, chain.passes_of_rows, chain.seconds, chain.variance)


def test_every_way_a_pass_can_end_is_reached() -> None:
    law = iid(Fraction(1, 2), no_draft=Fraction(1, 4))
    seen = Counter()
    for loop in PLANS:
        for mode in ("fresh", "shut", "partial", "full"):
            for move in moves(loop, law, 3, Place(mode, 0, 3)):
                seen[move.after.mode] += 1
                seen["no token"] += move.n_tokens == 0
    assert set(seen) == {"fresh", "shut", "partial", "full", "no token"}
    assert all(seen.values())


@pytest.mark.parametrize("loop", PLANS)
def test_ends_of_a_pass_sum_to_one(loop: str) -> None:
    for law in (*LAWS, iid(Fraction(1, 3), Fraction(1, 5))):
        for mode in ("fresh", "shut", "partial", "full"):
            for room in (None, 1, 2, 3, 9):
                for regime in range(law.n_regimes):
                    assert sum(move.probability for move in moves(loop, law, 4, Place(mode, regime, 1), room)) == 1


def test_short_outputs_are_not_the_long_run() -> None:
    law = iid(0.7)
    assert finite("carry", law, 5, 10).n_passes == pytest.approx(4.07, abs=0.005)
    assert 10 / steady("carry", law, 5).tokens_per_pass == pytest.approx(3.61, abs=0.005)


@pytest.mark.parametrize("loop", PLANS)
def test_the_long_run_is_the_limit_of_finite_length(loop: str) -> None:
    """The differences between 300 and 200 tokens: the start and the cut end fall out."""
    law = gilbert_elliott(0.9, 0.7, 0.95, 0.3, no_draft=0.1)
    cost = Table((1, 2, 3, 4), (0,), ((1.0, 1.5, 1.7, 2.2),), change_seconds=0.1, extrapolate=True)
    fixed = Table((1, 2, 3, 4), (0, 1000), ((1.0, 1.5, 1.7, 2.2),) * 2, change_seconds=0.1, padding=None)
    long, short = (finite(loop, law, 4, n, fixed) for n in (300, 200))
    run = steady(loop, law, 4, cost)
    assert float(long.seconds - short.seconds) / 100 == pytest.approx(1 / run.tokens_per_second, rel=1e-6)
    assert float(long.variance - short.variance) / 100 == pytest.approx(run.variance_per_token, rel=1e-4, abs=1e-9)


@pytest.mark.parametrize("loop", PLANS)
@pytest.mark.parametrize("n_rows", [2, 6, 11])
def test_full_acceptance_is_the_cap(loop: str, n_rows: int) -> None:
    cost = Affine(1.0, 0.25)
    cycle = full_acceptance_cycle(loop, n_rows)
    run = steady(loop, iid(1), n_rows, cost)
    assert run.tokens_per_pass == pytest.approx(cycle.n_tokens / len(cycle.n_rows))
    ratio = cost.seconds(0, n_rows, n_rows) / cost.seconds(0, 1, 1)
    cap = full_acceptance_speedup(loop, "gated", n_rows, ratio=ratio)
    assert speedup(loop, "gated", iid(1), n_rows, cost) == pytest.approx(float(cap))
    assert run.variance_per_token == pytest.approx(0, abs=1e-12)


def test_carry_is_leviathans_expectation() -> None:
    """(1 - a^(g+1)) / (1 - a) tokens per pass: Leviathan et al. 2023, equation 1."""
    for a in (0.1, 0.5, 0.9):
        for g in (1, 4, 10):
            assert steady("carry", iid(a), g + 1).tokens_per_pass == pytest.approx((1 - a ** (g + 1)) / (1 - a))


def test_iid_is_a_gilbert_elliott_chain_with_equal_regimes() -> None:
    for loop in PLANS:
        same = gilbert_elliott(Fraction(4, 5), Fraction(1, 3), Fraction(3, 5), Fraction(3, 5))
        one, two = (finite(loop, law, 4, 12) for law in (iid(Fraction(3, 5)), same))
        assert (one.n_passes, one.variance) == (two.n_passes, two.variance)


def test_chaining_after_partial_acceptance_loses_below_the_root() -> None:
    for ratio in (1.5, 2.0, 3.0, 5.0):
        (root,) = acceptance_where("fused-partial", "fused", 6, ratio)
        cost = Table((1, 6), (0,), ((1.0, ratio),))
        assert speedup("fused-partial", "fused", iid(root), 6, cost) == pytest.approx(1, abs=1e-9)
        assert speedup("fused-partial", "fused", iid(root - 0.05), 6, cost) < 1
        assert speedup("fused-partial", "fused", iid(root + 0.05), 6, cost) > 1


def test_an_interval_holds_the_share_of_runs_it_claims() -> None:
    law, cost = iid(0.6), Affine(1.0, 0.1)
    run = steady("carry", law, 5, cost)
    generator = np.random.default_rng(5)
    accepted = np.minimum(generator.geometric(0.4, size=(4000, 400)) - 1, 4)
    tokens = np.cumsum(accepted + 1, axis=1)
    passes = (tokens < 500).sum(axis=1) + 1
    _, low, high = run.seconds(500, level=0.9)
    inside = np.mean((passes * 1.5 >= low) & (passes * 1.5 <= high))
    assert inside == pytest.approx(0.9, abs=0.03)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match=r"unknown loop 'turbo'; known are greedy"):
        steady("turbo", iid(0.5), 4)
    with pytest.raises(ValueError, match="at least 2 rows"):
        finite("carry", iid(0.5), 1, 10)
    with pytest.raises(ValueError, match="at least 0"):
        finite("carry", iid(0.5), 4, -1)
    with pytest.raises(ValueError, match="the long run depends on the start"):
        steady("carry", gilbert_elliott(1, 1, 0.9, 0.1), 4)
    with pytest.raises(ValueError, match="say in which one it starts"):
        finite("carry", gilbert_elliott(1, 1, 0.9, 0.1), 4, 10)
    with pytest.raises(ValueError, match="knows the first 2 drafts only"):
        steady("carry", empirical([0.9, 0.8]), 4)


def test_a_change_of_rows_is_paid_where_rows_change() -> None:
    """gated alternates 6 and 1 rows at full acceptance, fused never changes."""
    table = Table((1, 6), (0,), ((1.0, 2.0),), change_seconds=0.25)
    assert steady("gated", iid(1), 6, table).seconds_per_pass == pytest.approx(1.75)
    assert steady("fused", iid(1), 6, table).seconds_per_pass == pytest.approx(2.0)
    assert steady("gated", iid(1), 6, Flat(1.0)).seconds_per_pass == 1
