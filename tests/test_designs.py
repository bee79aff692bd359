"""Measurement designs under drift: what theory says of bias and coverage, the advice, and the drift fitted to runs."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from figures.designs import draw
from sim.designs import DESIGNS, PAIRS_IN_A_UNIT, Timing, against_drift, log_ratios, order, recommend, see
from sim.drift import Constant, Drift, Linear, OrnsteinUhlenbeck, Product, Recorded, Windows, parse
from sim.intervals import student
from sim.machine import Pass
from tests.conftest import Outcome
from tests.test_measuring import timed
from validate.design import block_order
from validate.driftfit import fit_drift, fit_series, in_order

TIMING = Timing(1.5, seconds=1.0, n_passes=10, jitter=0.1)
MACHINE = Product((OrnsteinUhlenbeck(0.08, 0.25), OrnsteinUhlenbeck(0.09, 10.0)))


@pytest.mark.parametrize("design", [d for d in DESIGNS if d != "turns"])
def test_every_design_times_both_sides_equally_often(design: str) -> None:
    runs = order(design, 6, np.random.default_rng(0), 50)
    assert (runs.sum(axis=0) == 6).all()
    if design in ("ABAB", "ABBA", "blocked"):
        assert (runs.reshape(6, 2, 50).sum(axis=1) == 1).all(), "a pair is one of each"
    varies = len({column.tobytes() for column in runs.T}) > 1
    assert varies == (design in ("random", "blocked"))


def test_linear_drift_biases_aabb_and_abab_as_theory_says_and_not_abba() -> None:
    """Factor 1 + st: the mean of log(A/B) is off by s times the distance of their midpoints, to first order."""
    slope, n_pairs, ratio = 1e-3, 8, 1.5
    seen = {d: see(d, n_pairs, TIMING, Linear(slope), n=4000) for d in DESIGNS}
    a, b = 1.0, 1 / ratio
    distance = {"AABB": n_pairs * (a + b) / 2, "ABAB": (a + b) / 2, "ABBA": 0.0, "blocked": 0.0, "turns": 0.0}
    for design, apart in distance.items():
        one = seen[design]
        assert one.bias == pytest.approx(-slope * apart, abs=one.bias_error + 0.1 * slope * apart), design
    assert abs(seen["ABBA"].bias) < seen["ABBA"].bias_error
    assert abs(seen["AABB"].bias) > 5 * seen["AABB"].bias_error


@pytest.mark.parametrize("design", DESIGNS)
def test_on_a_steady_machine_every_design_is_right(design: str) -> None:
    n_pairs = 8
    seen = see(design, n_pairs, TIMING, Constant(2.0), n=4000)
    assert seen.is_sound
    assert seen.coverage_low is not None
    assert seen.coverage_high is not None
    assert seen.coverage_low < 0.95 < seen.coverage_high
    # A run's log seconds have variance jitter^2 / passes (delta method), a ratio that of both.
    assert seen.spread == pytest.approx(math.sqrt(2 / n_pairs * TIMING.jitter**2 / TIMING.n_passes), rel=0.06)
    assert seen.p_above == pytest.approx(0.5, abs=0.04)
    assert seen.seconds == pytest.approx(2 * n_pairs * (1 + 1 / 1.5) * math.exp(0.005), rel=0.01)


def test_a_drift_that_all_passes_share_changes_no_ratio() -> None:
    slow = OrnsteinUhlenbeck(0.5, 1e9)
    for design in DESIGNS:
        units, _ = log_ratios(design, 4, Timing(1.5, n_passes=5), slow, 0, 200)
        assert units == pytest.approx(np.full_like(units, math.log(1.5)), abs=2e-3)
        assert len(units) == 4 // PAIRS_IN_A_UNIT[design]


@pytest.mark.parametrize("drift", [
    MACHINE, OrnsteinUhlenbeck(0.15, 3.0), Linear(0.02), Windows(1.5, 1.0, 5.0), Constant(1.0),
], ids=lambda drift: type(drift).__name__)  # fmt: skip
def test_the_recommended_design_holds_what_it_promises_on_other_machines_of_its_kind(drift: Drift) -> None:
    wanted = 0.08
    advice = recommend(TIMING, drift, wanted, seed=1, n=1500)
    assert advice.any is not None
    for seen in filter(None, (advice.any, advice.whole_runs)):
        again = see(seen.design, seen.n_pairs, TIMING, drift, seed=2, n=6000)
        assert again.coverage is not None
        assert 0.93 <= again.coverage <= 0.97
        assert abs(again.bias) < 0.1 * wanted
        assert again.half_width is not None
        assert again.half_width < 1.05 * wanted
    # One step fewer would not do (or would not be sound).
    seen = advice.any
    if seen.n_pairs > 4:
        fewer = see(seen.design, seen.n_pairs - 2, TIMING, drift, seed=1, n=1500)
        assert not fewer.is_sound or (fewer.half_width or 0) > 0.97 * wanted


def test_side_by_side_needs_fewer_pairs_than_whole_runs_where_the_speed_wanders() -> None:
    advice = recommend(TIMING, MACHINE, 0.08, n=1000)
    assert advice.any is not None
    assert advice.whole_runs is not None
    assert advice.any.design == "turns"
    assert advice.any.n_pairs < advice.whole_runs.n_pairs
    assert recommend(TIMING, MACHINE, 0.001, n=200).any is None


def test_a_single_pair_exceeds_the_cap_as_often_as_two_normal_runs_differ() -> None:
    """Speed constant within a run and independent between runs: P = 1 - Phi(log(above / ratio) / (sd sqrt 2))."""
    timing = Timing(1.7, seconds=1e6, n_passes=1)
    line = against_drift(1, timing, OrnsteinUhlenbeck(0.05, 1.0), 2.0, (1.0, 2.0, 4.0), only=("ABAB",), n=20_000)
    for strength, seen in zip((1.0, 2.0, 4.0), line["ABAB"], strict=True):
        z = math.log(2.0 / 1.7) / (0.05 * strength * math.sqrt(2))
        expected = 0.5 * math.erfc(z / math.sqrt(2))
        assert seen.p_above == pytest.approx(expected, abs=4.5 * math.sqrt(expected / 20_000) + 1e-3)


def test_a_recorded_drift_is_looked_at_from_any_moment_and_ends_early_if_it_must() -> None:
    wave = Recorded(tuple(np.arange(0.0, 100.1, 0.5).tolist()), tuple((1.2 + 0.2 * np.sin(np.arange(201))).tolist()))
    units, seconds = log_ratios("ABAB", 2, Timing(1.5), wave, 0, 300)
    assert np.ptp(units) > 0.05, "not always the same moment"
    assert (seconds < 2 * (1 + 1 / 1.5) * 1.4).all()
    with pytest.raises(ValueError, match="ends early"):
        see("ABAB", 100, Timing(1.5), wave, n=100)


def test_the_same_seed_sees_the_same() -> None:
    assert see("blocked", 4, TIMING, MACHINE, seed=5, n=200) == see("blocked", 4, TIMING, MACHINE, seed=5, n=200)
    assert see("blocked", 4, TIMING, MACHINE, seed=5, n=200) != see("blocked", 4, TIMING, MACHINE, seed=6, n=200)


def test_students_interval_covers_the_mean() -> None:
    mean, half = student(np.random.default_rng(0).normal(3.0, 2.0, (5, 20_000)))
    assert (abs(mean - 3.0) <= half).mean() == pytest.approx(0.95, abs=0.007)
    assert np.isnan(student(np.ones((1, 3))).half_width).all()
    with pytest.raises(ValueError, match="at least one unit"):
        student(np.ones((0, 3)))


@pytest.mark.parametrize(("call", "message"), [
    (lambda: see("BABA", 4, TIMING, MACHINE), "unknown design 'BABA'"),
    (lambda: see("ABBA", 3, TIMING, MACHINE), "ABBA needs an even number of pairs, not 3"),
    (lambda: see("ABAB", 0, TIMING, MACHINE), "at least 1 pair, not 0"),
    (lambda: see("ABAB", 2, TIMING, MACHINE, n=10), "100 repetitions"),
    (lambda: see("ABAB", 2, TIMING, MACHINE, above=0.0, n=100), "ratio to exceed"),
    (lambda: recommend(TIMING, MACHINE, 0.0), "half-width must be positive"),
    (lambda: Timing(0.0), "ratio of a timed run"), (lambda: Timing(1.0, seconds=-1), "seconds of a timed run"),
    (lambda: Timing(1.0, n_passes=0), "at least 1 pass"), (lambda: Timing(1.0, jitter=-1), "jitter must be"),
    (lambda: see("ABAB", 8, TIMING, parse("linear per_second=-20"), n=100), "factor <= 0 after 0.05 seconds"),
])  # fmt: skip
def test_bad_input_is_named(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


# --- the fit ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [
    "ou sd=0.12 seconds=0.4", "ou sd=0.1 seconds=0.2 + ou sd=0.1 seconds=3",
    "ou sd=0.08 seconds=0.5 + windows factor=4 seconds=0.5 quiet_seconds=20",
])  # fmt: skip
def test_a_drift_is_found_again_in_what_it_did(words: str) -> None:
    rng = np.random.default_rng(7)
    path, at, times, logs = parse(words).path(rng), 0.0, [], []
    for price in rng.choice([0.008, 0.013, 0.020], 40_000):
        factor = path.factor(at) * math.exp(0.08 * rng.standard_normal())
        times.append(at)
        logs.append(math.log(factor))
        at += price * factor
    fitted = fit_series(np.array(times), np.array(logs), at)
    true, found = _parts(parse(words)), _parts(parse(fitted.words))
    assert fitted.jitter == pytest.approx(0.08, abs=0.01)
    for lag in (0.02, 0.2, 0.6):  # the covariance matters, not how it is split into two
        assert _covariance(found, lag) == pytest.approx(_covariance(true, lag), rel=0.3, abs=5e-4)
    windows = [[part for part in parts if isinstance(part, Windows)] for parts in (true, found)]
    assert len(windows[0]) == len(windows[1])
    for a, b in zip(*windows, strict=True):
        assert b.factor == pytest.approx(a.factor, rel=0.15)
        assert b.share == pytest.approx(a.share, rel=0.7)


def _parts(drift: Drift) -> tuple[Drift, ...]:
    return drift.parts if isinstance(drift, Product) else (drift,)


def _covariance(parts: tuple[Drift, ...], lag: float) -> float:
    return sum(p.sd**2 * math.exp(-lag / p.seconds) for p in parts if isinstance(p, OrnsteinUhlenbeck))


def test_the_order_of_passes_that_went_in_turn_is_found_again() -> None:
    from tests.test_measuring import LOCKED, SETTINGS, Drifting
    from validate.measure import timed_block

    pytest.importorskip("llama_cpp")
    went: list[float] = []

    class Noted(Drifting):
        def __call__(self, pass_: Pass) -> tuple[list[int], float]:
            answer, seconds = super().__call__(pass_)
            went.extend([seconds] if len(pass_.rows) <= 8 else [])
            return answer, seconds

    clock, runs = [0.0], []
    for block in range(3):
        names = block_order(SETTINGS, block)
        runs += timed_block([Noted(LOCKED, clock, 1.0) for _ in names], names, LOCKED, LOCKED.n_tokens, block)
    assert [record.seconds for record in in_order(runs)] == went
    assert len(set(went)) > 100, "no two passes took equally long"


def test_too_few_passes_are_no_drift() -> None:
    from tests.test_measuring import LOCKED, SETTINGS

    with pytest.raises(ValueError, match="at least 500 are needed"):
        fit_drift([timed(LOCKED, setting, 0, i) for i, setting in enumerate(SETTINGS)])


# --- command and figure ----------------------------------------------------------------------------------------------


def test_the_command_recommends_and_draws(sweepcap: Callable[..., Outcome], tmp_path: Path) -> None:
    picture = tmp_path / "p.svg"
    words = ("design", "--pairs", 4, "--drift", "ou sd=0.1 seconds=0.4", "--repetitions", 200, "--half-width", 0.1)
    done = sweepcap(*words, "--figure", picture, "--table", tmp_path / "t.csv", "--json")
    assert done.status == 0, done.err
    answer = json.loads(done.out)
    assert [line["design"] for line in answer["designs"]] == list(DESIGNS)
    assert answer["recommended"]["half_width"] <= 0.1
    assert picture.read_text().count("<svg") == 1
    assert len((tmp_path / "t.csv").read_text().splitlines()) == 7
    plain = sweepcap(*words)
    assert "for a half-width of 0.1: " in plain.out
    assert "when the truth is 1.71x" in plain.out


def test_the_picture_says_how_likely_it_is() -> None:
    strengths = (1.0, 3.0)
    timing = Timing(12 / 7, n_passes=5)
    drawn = [
        against_drift(n, timing, OrnsteinUhlenbeck(0.2, 1.0), 2.03, strengths, only=only, n=200)
        for n, only in ((1, ("ABAB",)), (4, DESIGNS))
    ]
    figure = draw(strengths, drawn[0]["ABAB"], drawn[1], 12 / 7)
    assert figure._suptitle is not None
    assert "2.03x" in figure._suptitle.get_text()
    assert len(figure.axes[0].get_lines()) >= 7


@pytest.mark.parametrize("words", [
    (), ("--drift", "fog"), ("--drift", "ou sd=0.1 seconds=1", "--runs", "r.jsonl"), ("--runs", "nowhere.jsonl"),
    ("--drift", "ou sd=0.1 seconds=0"), ("--drift", "constant factor=1", "--pairs", "0"),
    ("--drift", "constant factor=1", "--half-width", "0"), ("--drift", "constant factor=1", "--ratio", "-1"),
    ("--drift", "constant factor=1", "--repetitions", "3"), ("--drift", "constant factor=1", "--figure", "p.gif"),
    ("--drift", "constant factor=1", "--passes", "0"), ("--drift", "linear per_second=-200"),
])  # fmt: skip
def test_bad_words_are_one_sentence(sweepcap: Callable[..., Outcome], words: tuple[str, ...]) -> None:
    done = sweepcap("design", *words)
    assert done.status == 2
    assert done.out == ""
    assert len(done.err.strip().splitlines()) == 1
