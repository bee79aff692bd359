"""What a run says about itself: drift, noise, odd and disturbed blocks, the noise floor, the machine."""

from __future__ import annotations

from dataclasses import replace
from math import exp, log
from pathlib import Path

import msgspec
import numpy as np
import pytest

from costmodel.drift import TILT_BOUND, drift, pass_noise, tilt_noise
from costmodel.rounds import Round, resampled
from sim.setting import Setting
from tests.test_measuring import COST, FREE, LOCKED, SETTINGS, profile, session, timed
from validate import environment, watch
from validate.blocks import clean, grouped, pass_medians, speeds
from validate.compare import compare
from validate.design import interval, odd, trend
from validate.runs import Key, Run
from validate.session import undisturbed
from validate.watch import Seen

BUSY = Seen(seconds=9.0, others=0.3)


# --- calibration -----------------------------------------------------------------------------------------------------


def rounds(n: int, tilt: float = 0.0, speed: float = 0.0, noise: float = 0.02) -> list[Round]:
    """Rounds of COST on a machine whose c(8)/c(1), or speed, rises by so much (log) from the first to the last."""
    rng = np.random.default_rng(3)
    truth = np.array(COST.all_rows_seconds)
    bent = np.log(COST.n_rows) / np.log(max(COST.n_rows))
    made = []
    for i in range(n):
        now = truth * np.exp(i / (n - 1) * (tilt * bent + speed))
        same, changed = (now * np.exp(rng.normal(0, noise, truth.shape)) for _ in range(2))
        made.append(Round(same=tuple(map(tuple, same.tolist())), changed=tuple(map(tuple, changed.tolist()))))
    return made


@pytest.mark.parametrize("speed", [0.0, 0.5, -0.5])
def test_brackets_disagree_when_the_curve_bends_and_not_when_the_speed_changes(speed: float) -> None:
    steady = drift(COST.n_rows, rounds(24, speed=speed))
    assert steady is not None
    assert not steady.disagree
    assert steady.warnings() == ()
    assert steady.speed[-1] / steady.speed[0] == pytest.approx(exp(speed * 2 / 3), rel=0.05)
    moved = drift(COST.n_rows, rounds(24, tilt=0.3, speed=speed))
    assert moved is not None
    assert moved.disagree
    assert moved.spread == pytest.approx(exp(0.3 * 2 / 3) - 1, rel=0.25)
    assert "machine changed" in moved.warnings()[0]
    assert f"{TILT_BOUND:.0%}" in moved.warnings()[0]


def test_too_few_rounds_say_nothing_of_drift() -> None:
    assert drift(COST.n_rows, rounds(5)) is None
    assert drift((1,), rounds(24)) is None


@pytest.mark.parametrize("noise", [0.01, 0.05, 0.1])
def test_the_noise_of_a_pass_is_told_apart_from_drift(noise: float) -> None:
    assert pass_noise(rounds(30, tilt=0.3, speed=0.5, noise=noise)) == pytest.approx(noise, rel=0.1)
    assert pass_noise([]) == 0


@pytest.mark.parametrize("wander", [0.03, 0.1])
def test_the_tilt_that_rounds_of_some_seconds_share_is_told_apart_from_their_noise(wander: float) -> None:
    bent = np.log(COST.n_rows) / np.log(max(COST.n_rows))
    tilts = np.repeat(np.random.default_rng(5).normal(0, wander, 200), 3)

    def leant(round_: Round, by: float) -> Round:
        factor = np.exp(by * bent)
        same, changed = (tuple(map(tuple, (np.array(g) * factor).tolist())) for g in (round_.same, round_.changed))
        return Round(same=same, changed=changed)

    found = tilt_noise(COST.n_rows, [leant(r, tilt) for r, tilt in zip(rounds(600), tilts, strict=True)])
    assert found == pytest.approx(wander * (2 / 3) ** 0.5, rel=0.15), "two of three neighbours are of one window"
    assert tilt_noise(COST.n_rows, rounds(600, noise=wander)) < 0.2 * wander
    assert tilt_noise(COST.n_rows, rounds(2)) == 0
    assert tilt_noise((1,), rounds(24)) == 0


def test_rounds_are_resampled_with_their_neighbours() -> None:
    rng = np.random.default_rng(0)
    assert resampled(1, rng).tolist() == [0]
    for n, length in ((2, 1), (7, 1), (8, 2), (27, 3), (64, 4), (108, 4)):
        picks = [resampled(n, rng) for _ in range(300)]
        assert all(len(pick) == n and set(pick) <= set(range(n)) for pick in picks)
        followed = np.mean([(np.diff(pick) % n == 1).sum() for pick in picks])
        n_joints = -(-n // length) - 1  # there the next round follows by chance alone
        assert followed == pytest.approx(n - 1 - n_joints + n_joints / n, rel=0.15)
        counts = np.bincount(np.concatenate(picks), minlength=n)
        assert counts.min() > 0.6 * counts.mean(), "every round is drawn as often as any other"


def test_a_wandering_tilt_widens_the_predictions_of_wide_passes_only(monkeypatch: pytest.MonkeyPatch) -> None:
    header, runs = session(4)
    of = msgspec.structs.replace(profile(), rounds=tuple(rounds(48)))

    def widths(tilt: float) -> dict[tuple[str, str], float]:
        monkeypatch.setattr("validate.compare.tilt_noise", lambda *_: tilt)
        cells = [c for c in compare(of, [LOCKED, FREE], header, runs).cells if c.baseline == "greedy"]
        return {(c.prompt, c.loop): log((c.predicted_high or 0) / (c.predicted_low or 1)) for c in cells}

    still, moved = widths(0.0), widths(0.1)
    told = 2 * 1.96 * 0.1 / 4**0.5 * log(6) / log(max(COST.n_rows))
    assert moved["locked", "carry"] == pytest.approx((told**2 + still["locked", "carry"] ** 2) ** 0.5, rel=0.3)
    assert moved["locked", "carry"] > 3 * still["locked", "carry"]
    assert moved["free", "carry"] == pytest.approx(still["free", "carry"], rel=0.01), "all passes are of one row there"


def test_a_run_whose_brackets_disagree_says_so_first() -> None:
    header, runs = session(2)
    bent = msgspec.structs.replace(profile(), rounds=tuple(rounds(24, tilt=0.3)), caveats=("a caveat",))
    warnings = compare(bent, [LOCKED, FREE], header, runs[:-1]).warnings
    assert "machine changed" in warnings[0]
    assert warnings[1] == "a caveat"


# --- blocks ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [3, 4, 5, 6, 9])
def test_intervals_of_few_blocks_cover_as_often_as_they_say(n: int) -> None:
    rng = np.random.default_rng(n)
    found = [interval((0.02 * rng.standard_t(5, n)).tolist()) for _ in range(60)]
    hits = sum(low <= 1 <= high for _, low, high in found)
    assert hits >= 53, "of 60 intervals at 95 % fewer than 53 would miss three standard errors"


def test_odd_values_and_trends() -> None:
    rng = np.random.default_rng(0)
    for n in (4, 6, 12):
        values = rng.normal(0.4, 0.005, n)
        values[1] += 0.2
        assert odd(values.tolist()) == [1]
        assert trend((np.arange(n) * 0.01).tolist()) <= 0.09
    assert odd([0.4, 0.401, 0.402, 0.404]) == [], "smaller than the floor is no oddity"
    assert sum(trend(rng.normal(size=8).tolist()) < 0.05 for _ in range(200)) < 24


def slowed(run: Run, factor: float, machine: Seen | None = None) -> Run:
    """The run on a machine slower by a factor, for wide passes only."""
    passes = tuple(replace(r, seconds=r.seconds * (factor if r.n_rows > 1 else 1)) for r in run.passes)
    return msgspec.structs.replace(run, passes=passes, machine=machine)


def spoiled(n_blocks: int, block: int, machine: Seen | None) -> list[Run]:
    """A session in which wide passes were dear in one block."""
    return [slowed(run, 1.5, machine) if run.block == block else run for run in session(n_blocks)[1]]


def test_an_odd_block_is_listed_and_kept_and_does_not_decide() -> None:
    header, _ = session(6)
    comparison = compare(profile(), [LOCKED, FREE], header, spoiled(6, 3, None))
    carry = next(c for c in comparison.cells if (c.prompt, c.loop, c.baseline) == ("locked", "carry", "greedy"))
    assert carry.odd_blocks == (3,)
    assert (carry.n_blocks, carry.disturbed_blocks) == (6, ())
    assert carry.error == pytest.approx(0, abs=1e-6)
    assert any("block 3 of 'locked'" in warning for warning in comparison.warnings)


def test_a_disturbed_block_is_left_out_openly() -> None:
    header, _ = session(3)
    comparison = compare(profile(), [LOCKED, FREE], header, spoiled(3, 1, BUSY))
    for cell in comparison.cells:
        assert cell.error == pytest.approx(0, abs=1e-6)
        assert (cell.n_blocks, cell.disturbed_blocks) == (2, (1,))
    (warning,) = [w for w in comparison.warnings if "disturbed" in w]
    assert "30% of the CPUs" in warning
    assert "stop the other work" in warning


def test_a_ratio_of_disturbed_blocks_alone_is_not_stated() -> None:
    header, _ = session(2)
    runs = [msgspec.structs.replace(run, machine=BUSY) for run in session(2)[1]]
    comparison = compare(profile(), [LOCKED, FREE], header, runs)
    assert comparison.cells == ()
    assert len(comparison.refused) == 2 * (3 + 2)
    assert "measure again on a quiet machine" in comparison.refused[0].reason
    assert any("10 speedups are not stated" in warning for warning in comparison.warnings)


def test_lanes_of_equal_passes_are_the_noise_floor() -> None:
    header, runs = session(6)
    rng = np.random.default_rng(1)
    noisy = [
        msgspec.structs.replace(
            run, passes=tuple(replace(r, seconds=r.seconds * exp(rng.normal(0, 0.1))) for r in run.passes)
        )
        for run in runs
    ]
    twin = [msgspec.structs.replace(run, twin=True) for run in noisy if run.loop == "greedy"]
    twins = compare(profile(), [LOCKED, FREE], header, [*noisy, *twin]).twins
    assert sum(t.loop == t.other.split()[0] for t in twins) == 2, "greedy against its twin, on each prompt"
    same = {(t.prompt, t.loop, t.other.split()[0]) for t in twins}
    assert ("free", "greedy", "carry") in same, "nothing repeats there, so every loop runs the passes of greedy"
    assert ("locked", "fused", "carry") in same
    assert not any(t.prompt == "locked" and {t.loop, t.other.split()[0]} == {"greedy", "carry"} for t in twins)
    exact = [t for t in twins if t.loop == t.other.split()[0]]
    assert all(t.ratio == pytest.approx(1) and t.covers for t in exact), "the twin is a copy here"


def test_a_twin_is_a_run_of_its_setting_like_any_other() -> None:
    header, runs = session(4)
    twin = [
        msgspec.structs.replace(run, twin=True, passes=tuple(replace(r, seconds=1.5 * r.seconds) for r in run.passes))
        for run in runs
        if run.loop == "greedy"
    ]
    alone, both = (compare(profile(), [LOCKED, FREE], header, timed_) for timed_ in (runs, [*runs, *twin]))
    for one, two in zip(alone.cells, both.cells, strict=True):
        factor = 1.25 if one.baseline == "greedy" else 1.0
        assert two.measured == pytest.approx(factor * one.measured), "the mean of both lanes"
    ratios = [t.ratio for t in both.twins if t.loop == t.other.split()[0]]
    assert ratios == pytest.approx([1 / 1.5] * 2), "and an A/A comparison by itself"


def test_medians_over_blocks_remove_what_befell_single_passes() -> None:
    _, runs = session(7)
    rng = np.random.default_rng(2)
    hit = [
        msgspec.structs.replace(
            run, passes=tuple(replace(r, seconds=r.seconds * (30 if rng.random() < 0.03 else 1)) for r in run.passes)
        )
        for run in runs
        if run.prompt == "locked"
    ]
    groups, truth = grouped(hit), grouped(runs)
    greedy, carry = (("locked", Key(s.loop, s.rows, s.drafter)) for s in (SETTINGS[0], SETTINGS[3]))
    even = dict.fromkeys(range(7), 1.0)
    exact = pass_medians(truth[greedy], truth[carry], even)
    assert pass_medians(groups[greedy], groups[carry], even) == pytest.approx(exact)
    assert set(speeds(hit)) == set(range(7))
    other = [slowed(run, 1) for run in groups[greedy]]
    other[0] = msgspec.structs.replace(other[0], passes=other[0].passes[:-1])
    assert pass_medians(other, groups[carry], even) is None


# --- the machine -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        ({"others": 0.5}, "other processes used 50%"),
        ({"steal": 0.2}, "hypervisor took 20%"),
        ({"throttled": 3}, "throttled 3 times"),
    ],
)
def test_each_warning_says_what_was_seen_why_it_matters_and_what_to_do(seen: dict[str, float], words: str) -> None:
    window = Seen(seconds=1.0, **seen)
    assert words in window.disturbed
    (told,) = watch.before(window, 2)
    assert words in told
    assert "wait for each other" in told
    assert "measure again" in told
    quiet = Seen(seconds=1.0)
    assert quiet.disturbed == ""
    assert watch.during([quiet, quiet]) == []
    (told,) = watch.during([quiet, window])
    assert "1 of 2 timed windows" in told
    (told,) = watch.during([Seen(seconds=1.0, megahertz=mhz) for mhz in (2000.0, 3000.0)])
    assert "2000 and 3000 MHz" in told


def test_the_watch_sees_what_others_use_and_not_what_we_use(monkeypatch: pytest.MonkeyPatch) -> None:
    # clock, everybody's seconds, ours, stolen, throttled
    looks = iter([(0.0, 100.0, 50.0, 0.0, 4.0), (10.0, 113.0, 59.0, 2.0, 4.0), (20.0, 123.0, 69.0, 2.0, 5.0)])
    monkeypatch.setattr(watch, "_counters", lambda: next(looks))
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    watcher = watch.Watch()
    first, second = watcher.look(), watcher.look()
    assert (first.others, first.steal, first.throttled) == (pytest.approx(0.2), pytest.approx(0.1), 0)
    assert (second.others, second.throttled) == (0, 1)


@pytest.mark.parametrize(
    ("files", "granted"),
    [
        ({"cpu.max": "max 100000"}, None),
        ({"cpu.max": "250000 100000"}, 2),
        ({"cpu.max": "max 100000", "job/cpu.max": "150000 100000"}, 1),
        ({"cpu.max": "100000 100000", "job/step/cpu.max": "400000 100000"}, 1),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None),
        ({"cpu/job/step/cpu.cfs_quota_us": "300000", "cpu/job/step/cpu.cfs_period_us": "100000"}, 3),
        ({"cpu.max": "nonsense"}, None),
        ({}, None),
    ],
)
def test_the_strictest_control_group_counts(tmp_path: Path, files: dict[str, str], granted: int | None) -> None:
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content + "\n")
    own = tmp_path / "own"
    own.write_text("0::/job/step\n")
    assert environment.quota(tmp_path, own) == granted


def test_more_threads_than_the_control_group_grants_are_refused_with_the_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "quota", lambda: 1)
    monkeypatch.setattr(environment, "allowed_cpus", lambda: 4)
    environment.check_threads(1)
    with pytest.raises(ValueError, match=r"--threads 2 must be between 1 and 1: .*grants 1 CPUs.*give --threads 1"):
        environment.check_threads(2)


def test_rounds_of_disturbed_windows_are_left_out_of_the_table() -> None:
    from validate.calibrate import Measured

    made = [Measured(run.block, run.prompt, ()) for run in session(4)[1] if run.loop == "greedy"]
    assert {m.block for m in undisturbed(made, spoiled(4, 1, BUSY))} == {0, 2, 3}
    assert len(undisturbed(made, [msgspec.structs.replace(run, machine=BUSY) for run in session(4)[1]])) == len(made)
    assert len(clean(spoiled(4, 1, BUSY))) == 3 * len(session(1)[1])


def test_a_setting_names_the_run() -> None:
    assert timed(FREE, Setting("carry", 4), 0, 0).setting == Setting("carry", 4)
