"""Caps: exact in Fractions, against the real machine at full acceptance, and on published curves."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from costmodel.caps import (
    CORRECTS,
    best_rows,
    break_even_ratio,
    cycle_cost,
    full_acceptance_cycle,
    full_acceptance_speedup,
    rows_gain,
    sweep_cap,
)
from costmodel.passcost import Affine, Flat, Table
from sim.answers import recorded
from sim.loops import LOOPS
from sim.machine import State
from sim.run import run

relaxed = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
M3_MAX = {1: 15.718, 2: 77.160, 3: 77.182, 4: 77.027, 5: 77.773, 6: 77.519, 7: 77.864, 8: 77.715}  # llama.cpp #4624
BENCH = {1: 10, 2: 12, 3: Fraction(29, 2), 4: 16, 5: 19, 6: 21, 7: 24, 8: 23}


@relaxed
@given(st.integers(1, 10**6))
def test_cap_is_exact_and_below_two(k: int) -> None:
    cap = sweep_cap(k)
    assert cap * (k + 1) == 2 * k
    assert 1 <= cap < 2


def test_every_loop_has_a_cycle() -> None:
    assert set(CORRECTS) == set(LOOPS)


@pytest.mark.parametrize("loop", CORRECTS)
@pytest.mark.parametrize("n_rows", range(2, 9))
def test_cycles_are_the_machines(loop: str, n_rows: int) -> None:
    """A drafter that is always right: after the first cycle the machine repeats the cycle, row for row."""
    text = list(range(1000, 1200))

    def propose(tokens: Sequence[int]) -> list[int]:
        return text[len(tokens) : len(tokens) + n_rows]

    answers = recorded(text)
    _, records = run(LOOPS[loop](propose, n_rows), State.start(text[:1], 100), lambda pass_: (answers(pass_), 0.0))
    cycle = full_acceptance_cycle(loop, n_rows)
    period = len(cycle.n_rows)
    steady = records[1 : 1 + 4 * period]
    assert sum(record.n_tokens for record in steady) == 4 * cycle.n_tokens
    assert [record.n_rows for record in steady] == [*cycle.n_rows] * 4


@relaxed
@given(st.integers(2, 64), st.fractions(min_value=Fraction(1, 8), max_value=100))
def test_fused_over_gated_is_the_formula_and_crosses_one_at_r(n_rows: int, ratio: Fraction) -> None:
    gain = full_acceptance_speedup("fused", "gated", n_rows, ratio=ratio)
    assert gain == Fraction(n_rows, n_rows + 1) * (1 + 1 / ratio)
    assert (gain > 1) == (ratio < n_rows)
    assert break_even_ratio("fused", "gated", n_rows) == n_rows
    assert full_acceptance_speedup("fused", "gated", n_rows, ratio=n_rows) == 1


@relaxed
@given(st.integers(2, 64))
def test_on_a_flat_cost_it_is_the_cap(n_rows: int) -> None:
    assert full_acceptance_speedup("fused", "gated", n_rows) == sweep_cap(n_rows)
    assert full_acceptance_speedup("fused", "gated", n_rows, Flat(0.02)) == pytest.approx(float(sweep_cap(n_rows)))
    assert full_acceptance_speedup("fused", "carry", n_rows) == 1


@relaxed
@given(st.sampled_from(sorted(CORRECTS)), st.sampled_from(sorted(CORRECTS)), st.integers(2, 32))
def test_loops_are_equally_fast_at_their_break_even(loop: str, baseline: str, n_rows: int) -> None:
    ratio = break_even_ratio(loop, baseline, n_rows)
    if ratio is not None:
        assert full_acceptance_speedup(loop, baseline, n_rows, ratio=ratio) == 1
        assert full_acceptance_speedup(baseline, loop, n_rows, ratio=ratio) == 1


def test_known_values() -> None:
    assert sweep_cap(6) == Fraction(12, 7)
    assert full_acceptance_speedup("fused", "gated", 6, ratio=Fraction(3, 2)) == Fraction(10, 7)
    assert full_acceptance_speedup("fused", "gated", 6, BENCH) == Fraction(6, 7) * Fraction(31, 21)
    assert full_acceptance_speedup("fused", "gated", 6, M3_MAX) == pytest.approx(1.0309, abs=5e-5)
    assert full_acceptance_speedup("fused", "gated", 6, {1: 90, 6: 280}) == pytest.approx(1.1327, abs=5e-5)


def test_the_best_row_count_sees_cliffs_and_falls() -> None:
    assert best_rows(BENCH) == (8, Fraction(80, 23))
    speeds = [34.67, 64.67, 92.92, 108.26, 135.18, 134.88, 150.72, 160.81, 80.38, 89.21, 97.64]  # llama.cpp PR 5625
    cliff = {n + 1: (n + 1) / speed for n, speed in enumerate(speeds)}
    assert best_rows(cliff)[0] == 8
    assert rows_gain(cliff, 9) < rows_gain(cliff, 8) / 1.9


def test_where_no_guess_can_pay_the_answer_is_one_row() -> None:
    gains = [rows_gain(M3_MAX, n) for n in range(1, 9)]
    assert gains == pytest.approx([1, 0.407, 0.611, 0.816, 1.011, 1.217, 1.413, 1.618], abs=1e-3)
    assert best_rows(M3_MAX, range(1, 5)) == (1, 1)
    assert best_rows(M3_MAX)[0] == 8


def test_passes_of_a_prompt_are_no_candidates() -> None:
    assert best_rows({1: 10, 8: 23, 512: 900}) == (8, Fraction(80, 23))
    assert best_rows({1: 10, 8: 23, 512: 900}, [8, 512])[0] == 512


def test_a_change_of_rows_is_part_of_the_cycle() -> None:
    table = Table((1, 6), (0,), ((1.0, 2.0),), change_seconds=(0.25, 0.5))
    assert cycle_cost(full_acceptance_cycle("gated", 6), table) == pytest.approx(3.75)
    assert cycle_cost(full_acceptance_cycle("fused", 6), table) == 2.0


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1 row"):
        sweep_cap(0)
    with pytest.raises(ValueError, match="unknown loop 'turbo'; known are greedy"):
        full_acceptance_speedup("turbo", "greedy", 6)
    with pytest.raises(ValueError, match="at least 2 rows"):
        full_acceptance_speedup("carry", "greedy", 1)
    with pytest.raises(ValueError, match="must be positive, not 0"):
        full_acceptance_speedup("carry", "greedy", 6, ratio=0)
    with pytest.raises(ValueError, match="not both"):
        full_acceptance_speedup("carry", "greedy", 6, Flat(1.0), ratio=1)
    with pytest.raises(ValueError, match="has no 6 rows, only 1, 8"):
        full_acceptance_speedup("carry", "greedy", 6, {1: 1, 8: 2})
    with pytest.raises(ValueError, match="say which row counts"):
        best_rows(Affine(1.0, 0.1))
