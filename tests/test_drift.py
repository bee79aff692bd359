"""Drifts: their theory (means, correlations, exact at any times asked for), one history or many, and bad words."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sim.drift import Constant, Drift, Linear, OrnsteinUhlenbeck, Product, Recorded, Windows, parse

FAMILY: tuple[Drift, ...] = (
    Constant(1.3),
    Linear(0.01),
    Windows(1.5, 2.0, 6.0),
    OrnsteinUhlenbeck(0.1, 0.4),
    Recorded((0.0, 5.0, 100.0), (1.0, 2.0, 0.5)),
    Product((OrnsteinUhlenbeck(0.05, 1.0), Windows(2.0, 1.0, 1.0))),
)
N = 20_000


@pytest.mark.parametrize("drift", FAMILY, ids=lambda drift: type(drift).__name__)
def test_one_history_is_one_of_many_and_a_seed_is_a_history(drift: Drift) -> None:
    times = (0.0, 0.1, 0.1, 3.0, 50.0)
    one, same = (drift.path(np.random.default_rng(1)) for _ in range(2))
    many = drift.path(np.random.default_rng(1), N)
    factors, ensemble = [one.factor(t) for t in times], np.array([many.factor(np.full(N, t)) for t in times])
    assert all(isinstance(f, float) and f > 0 for f in factors)
    assert factors == [same.factor(t) for t in times]
    assert ensemble.shape == (len(times), N)
    assert (ensemble > 0).all()
    # The scalar histories and the many are the same process: mean at each time, over seeds.
    means = np.array([[p.factor(t) for t in times] for p in (drift.path(np.random.default_rng(s)) for s in range(400))])
    assert (np.ptp(means[:, 0]) > 0) == (np.ptp(ensemble[0]) > 0), "random in both or in none"
    error = ensemble.std(axis=1) / 20 + 1e-9
    assert (np.abs(means.mean(axis=0) - ensemble.mean(axis=1)) < 4.5 * error).all()


@pytest.mark.parametrize("gaps", [(0.2,), (0.05, 0.15), (0.01,) * 20])
def test_an_ornstein_uhlenbeck_history_does_not_depend_on_how_often_it_is_looked_at(gaps: tuple[float, ...]) -> None:
    path = OrnsteinUhlenbeck(0.3, 0.4).path(np.random.default_rng(3), N)
    at = np.full(N, 7.0)
    first = np.log(path.factor(at))
    for gap in gaps:
        last = np.log(path.factor(at := at + gap))
    for x in (first, last):
        assert abs(x.mean()) < 4.5 * 0.3 / np.sqrt(N)
        assert x.std() == pytest.approx(0.3, rel=4.5 / np.sqrt(2 * N))
    assert np.corrcoef(first, last)[0, 1] == pytest.approx(np.exp(-0.2 / 0.4), abs=4.5 / np.sqrt(N))


@pytest.mark.parametrize("n_looks", [1, 7])
def test_windows_are_slow_for_their_share_and_last_as_long_as_they_say(n_looks: int) -> None:
    drift = Windows(2.0, 3.0, 9.0)
    path = drift.path(np.random.default_rng(4), N)
    at = np.zeros(N)
    first = path.factor(at) == 2.0
    for _ in range(n_looks):
        last = path.factor(at := at + 1.0 / n_looks) == 2.0
    assert first.mean() == pytest.approx(0.25, abs=4.5 * np.sqrt(0.25 * 0.75 / N))
    assert last.mean() == pytest.approx(0.25, abs=4.5 * np.sqrt(0.25 * 0.75 / N))
    # Two-state chain: P(still slow after t) = share + (1 - share) exp(-t (1/3 + 1/9)).
    still = 0.25 + 0.75 * np.exp(-(1 / 3 + 1 / 9))
    assert last[first].mean() == pytest.approx(still, abs=4.5 * np.sqrt(still * (1 - still) / first.sum()))


def test_a_product_multiplies() -> None:
    path = Product((Constant(2.0), Linear(0.5))).path(np.random.default_rng(0))
    assert [path.factor(t) for t in (0.0, 2.0)] == [2.0, 4.0]


@pytest.mark.parametrize("make", [
    lambda: Constant(0.0), lambda: Constant(-1.0), lambda: Constant(float("nan")), lambda: Constant(float("inf")),
    lambda: Windows(0.0, 1.0, 1.0), lambda: Windows(2.0, 0.0, 1.0), lambda: Windows(2.0, 1.0, -1.0),
    lambda: OrnsteinUhlenbeck(-0.1, 1.0), lambda: OrnsteinUhlenbeck(0.1, 0.0), lambda: Linear(float("inf")),
    lambda: Recorded((0.0, 1.0), (1.0, 0.0)), lambda: Recorded((0.0, 1.0), (1.0,)), lambda: Recorded((), ()),
    lambda: Recorded((0.5, 1.0), (1.0, 1.0)), lambda: Recorded((0.0, 0.0), (1.0, 1.0)),
])  # fmt: skip
def test_what_cannot_be_a_drift_is_named(make: object) -> None:
    with pytest.raises(ValueError, match="drift"):
        make()  # type: ignore[operator]


def test_a_recorded_series_that_ends_early_and_a_line_below_zero_are_named() -> None:
    rng = np.random.default_rng(0)
    path = Recorded((0.0, 1.0), (1.0, 2.0)).path(rng)
    assert path.factor(1.0) == 2.0
    with pytest.raises(ValueError, match=r"ends early, at 1 seconds, before 1.5"):
        path.factor(1.5)
    with pytest.raises(ValueError, match="after 10 seconds"):
        Linear(-0.1).path(rng).factor(10.0)


@pytest.mark.parametrize("words", [
    "", "fog", "ou", "ou sd=0.1", "ou sd=x seconds=1", "ou sd=0.1 seconds=1 more=2", "ou 0.1 0.4", "constant factor=-1",
    "ou sd=0.1 seconds=0.4 + ", "recorded", "recorded nowhere.csv", "windows factor=0 seconds=1 quiet_seconds=1",
])  # fmt: skip
def test_words_that_are_no_drift_are_refused_in_one_sentence(words: str) -> None:
    with pytest.raises(ValueError, match="drift") as caught:
        parse(words)
    assert "\n" not in str(caught.value)


def test_words_name_every_drift(tmp_path: Path) -> None:
    assert parse("constant factor=1.3") == FAMILY[0]
    assert parse("linear per_second=0.01") == FAMILY[1]
    assert parse("windows quiet_seconds=6 factor=1.5 seconds=2") == FAMILY[2]
    assert parse("ou sd=0.05 seconds=1 + windows factor=2 seconds=1 quiet_seconds=1") == FAMILY[5]
    file = tmp_path / "speed.csv"
    file.write_text("# seconds,factor\n0,1\n5,2\n100,0.5\n")
    assert parse(f"recorded {file}") == FAMILY[4]
    for bad in ("", "0,1,2\n", "0,0\n", "a,b\n", "1,1\n"):
        file.write_text(bad)
        with pytest.raises(ValueError, match=r"speed\.csv holds no recorded drift"):
            parse(f"recorded {file}")
