"""The questions of the command line: their answers against the functions they stand on."""

from __future__ import annotations

from fractions import Fraction

import pytest

from costmodel.acceptance import parse
from costmodel.ask import cap, described_cost, predict
from costmodel.chain import PLANS
from costmodel.passcost import Affine, Flat, Table
from costmodel.throughput import steady

BENCH = Table(tuple(range(1, 9)), (0,), ((10.0, 12.0, 14.5, 16.0, 19.0, 21.0, 24.0, 23.0),))


def test_the_cap_on_nothing_on_a_ratio_and_on_a_table() -> None:
    assert (cap(6).flat, cap(6).fused, cap(6).rows_gain, cap(6).best) == (Fraction(12, 7), Fraction(12, 7), 6, None)
    assert cap(6, ratio=Fraction(3, 2)).fused == Fraction(10, 7)
    answer = cap(6, cost=BENCH)
    assert answer.fused == pytest.approx(6 / 7 * 31 / 21)
    assert answer.break_even == 6
    assert answer.best == (8, pytest.approx(80 / 23))
    assert answer.notes == ()
    wide = Table(BENCH.n_rows, BENCH.n_past, BENCH.all_rows_seconds, extrapolate=True)
    assert "passes of 12 rows were not measured" in cap(12, cost=wide).notes[0]
    assert cap(6, cost=Affine(1.0, 0.0)).best == (16, 16)
    with pytest.raises(ValueError, match="no passes of 16 rows"):
        cap(16, cost=BENCH)
    with pytest.raises(ValueError, match="at least 2 rows"):
        cap(1)


def test_predictions_are_ratios_of_total_time() -> None:
    answers = predict(parse("ge 0.95 0.8 0.97 0.3 none 0.1"), BENCH, [4, 6], n_tokens=100)
    assert [(answer.loop, answer.n_rows) for answer in answers] == [(loop, n) for n in (4, 6) for loop in PLANS]
    by = {(answer.loop, answer.n_rows): answer for answer in answers}
    for (_, n_rows), answer in by.items():
        assert answer.over_greedy == pytest.approx(by["greedy", n_rows].seconds / answer.seconds)
        assert answer.over_gated == pytest.approx(by["gated", n_rows].seconds / answer.seconds)
        assert answer.low <= answer.seconds <= answer.high
    assert by["greedy", 6].seconds == pytest.approx(1000)
    assert by["greedy", 6].low == pytest.approx(1000)


def test_a_gate_looks_one_draft_further_than_carry() -> None:
    law = parse("survival 0.81 0.74 0.70 0.68 0.66 none 0.45")
    [carried] = predict(law, Flat(1.0), [6], ["carry"], n_tokens=50)
    assert carried.over_gated is None
    assert carried.over_greedy > 1
    with pytest.raises(ValueError, match="use fewer rows"):
        predict(law, Flat(1.0), [6], ["fused"], n_tokens=50)


def test_a_long_prediction_is_the_long_run() -> None:
    law = parse("iid 0.8")
    [answer] = predict(law, Flat(1.0), [6], ["fused"], n_tokens=2000)
    assert answer.tokens_per_pass == pytest.approx(steady("fused", law, 6).tokens_per_pass, rel=2e-3)


def test_described_costs_come_from_the_lists() -> None:
    slow, fast = (described_cost("Llama-3.2-3B", device, "Q4_0") for device in ("Raspberry Pi 5", "NVIDIA H200"))
    assert slow.seconds(0, 1, 1) > 100 * fast.seconds(0, 1, 1)
    with pytest.raises(ValueError, match="unknown model"):
        described_cost("nothing", "NVIDIA H200")
    with pytest.raises(ValueError, match="cannot be read"):
        described_cost("nothing.gguf", "NVIDIA H200")
    with pytest.raises(ValueError, match="n_tokens must be at least 1"):
        predict(parse("iid 0.5"), Flat(1.0), [4], n_tokens=0)
