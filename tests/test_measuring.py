"""What turns raw seconds into ratios: the design of blocks, the intervals, the comparison, the files."""

from __future__ import annotations

from collections import Counter
from math import exp, log
from pathlib import Path

import numpy as np
import pytest

from costmodel.profile import Profile
from costmodel.rounds import Round, table
from costmodel.table import Table
from sim.predict import predict, price, walk
from sim.run import Record
from sim.setting import Setting
from sim.trace import Text
from validate.calibrate import grid
from validate.compare import block_log_ratios, compare
from validate.design import block_order, interval
from validate.files import append, cut_half_line, write
from validate.runs import Header, Run

PHRASE = (3, 1, 4, 1, 5, 9, 2, 6)
LOCKED = Text(name="locked", n_prompt=16, tokens=PHRASE * 10)
FREE = Text(name="free", n_prompt=4, tokens=tuple(range(100, 160)))
CURVE = (0.010, 0.014, 0.017, 0.019, 0.022, 0.024, 0.027, 0.026)
COST = Table(
    n_rows=tuple(range(1, 9)),
    n_past=(0, 248),
    all_rows_seconds=(CURVE, tuple(1.05 * s for s in CURVE)),
    change_seconds=0.0005,
)
SETTINGS = tuple(Setting(loop, 6) for loop in ("greedy", "gated", "fused", "carry"))


def timed(text: Text, setting: Setting, block: int, place: int, speed: float = 1.0) -> Run:
    """A run that takes exactly what COST says, times `speed`."""
    records = walk(text, setting)
    seconds = iter(price(records, COST) * speed)
    passes = tuple(
        Record(r.kind, r.n_past, r.n_rows, r.n_out, r.guessed, r.accepted, r.n_tokens, 0.2)
        if r.kind == "prefill"
        else Record(r.kind, r.n_past, r.n_rows, r.n_out, r.guessed, r.accepted, r.n_tokens, float(next(seconds)))
        for r in records
    )
    return Run(
        block=block, place=place, prompt=text.name, loop=setting.loop, rows=setting.rows, drafter=setting.drafter,
        tokens=text.tokens[text.n_prompt :], wall_seconds=sum(r.seconds for r in passes[1:]) * 1.005, passes=passes,
    )  # fmt: skip


# --- blocks ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 3, 6, 7])
def test_blocks_mirror_themselves_and_share_out_the_places(n: int) -> None:
    places: Counter[tuple[int, int]] = Counter()
    for block in range(2 * n):
        order = block_order(range(n), block, seed=3)
        assert order == order[::-1]
        assert Counter(order) == dict.fromkeys(range(n), 2)
        places.update((item, place) for place, item in enumerate(order[:n]))
    assert set(places.values()) == {2}, "over 2 n blocks every setting takes every place equally often"


@pytest.mark.parametrize("drift", [-0.004, 0.0, 0.01])
def test_a_straight_drift_through_a_block_cancels(drift: float) -> None:
    order = block_order(SETTINGS, 0)
    runs = [timed(LOCKED, s, 0, i, 1 + drift * i) for i, s in enumerate(order)]
    by = {s.loop: [r for r in runs if r.loop == s.loop] for s in SETTINGS}
    for loop in ("gated", "fused", "carry"):
        (ratio,) = block_log_ratios(by["greedy"], by[loop])
        true = predict(LOCKED, Setting("greedy", 6), COST).seconds / predict(LOCKED, Setting(loop, 6), COST).seconds
        assert ratio == pytest.approx(log(true), abs=1e-12)
        # Runs of equal length would cancel exactly; unpaired first runs do not.
        naive = log(by["greedy"][0].seconds / by[loop][0].seconds)
        assert drift == 0 or abs(naive - log(true)) > abs(ratio - log(true))


def test_only_blocks_that_hold_both_settings_count() -> None:
    a = [timed(LOCKED, SETTINGS[0], b, 0) for b in (0, 1, 2)]
    b = [timed(LOCKED, SETTINGS[3], b, 1) for b in (1, 2, 3)]
    assert len(block_log_ratios(a, b)) == 2


def test_intervals_cover_the_mean_about_as_often_as_they_say() -> None:
    rng = np.random.default_rng(1)
    hits = 0
    for _ in range(120):
        _, low, high = interval(rng.normal(0.3, 0.02, 12).tolist())
        hits += low <= exp(0.3) <= high
    assert 100 <= hits <= 120  # a bootstrap over 12 blocks is a little short of 95 %: 0.91 of 120 = 109


def test_one_block_or_equal_blocks_have_no_interval() -> None:
    assert interval([0.5]) == pytest.approx((exp(0.5),) * 3)
    assert interval([0.5, 0.5, 0.5]) == pytest.approx((exp(0.5),) * 3)
    estimate, low, high = interval([0.4, 0.6])
    assert low < estimate < high


# --- the comparison --------------------------------------------------------------------------------------------------


def session(n_blocks: int = 4, speed: float = 1.0) -> tuple[Header, list[Run]]:
    runs = []
    for block in range(n_blocks):
        for text in (LOCKED, FREE):
            runs += [timed(text, s, block, i, speed) for i, s in enumerate(block_order(SETTINGS, block))]
    plan = {"settings": [str(s) for s in SETTINGS], "prompts": ["locked", "free"]}
    return Header(model="m", model_hash="h", n_threads=1, n_ctx=256, n_blocks=n_blocks, plan=plan), runs


def profile(scale: float = 1.0) -> Profile:
    same = tuple(tuple(scale * s for s in row) for row in COST.all_rows_seconds)
    changed = tuple(tuple(s + 0.0005 for s in row) for row in same)
    rounds = tuple(Round(same=same, changed=changed) for _ in range(3))
    cost = table(COST.n_past, COST.n_rows, rounds)
    return Profile(source="calibrated", model="m", model_hash="h", n_threads=1, cost=cost, rounds=rounds)


def test_a_machine_that_costs_what_the_table_says_is_predicted_exactly() -> None:
    header, runs = session()
    comparison = compare(profile(), [LOCKED, FREE], header, runs)
    assert len(comparison.cells) == 2 * (3 + 2)
    for cell in comparison.cells:
        assert cell.error == pytest.approx(0, abs=1e-9)
        assert cell.low == pytest.approx(cell.measured)
    assert comparison.host_share == pytest.approx(0.005 / 1.005)
    assert comparison.complete
    gain = {(c.prompt, c.loop): c.measured for c in comparison.cells if c.baseline == "gated"}
    assert gain["locked", "fused"] > 1.1
    assert gain["free", "fused"] == pytest.approx(1)


def test_a_uniform_slowness_changes_no_speedup_and_a_wrong_curve_does() -> None:
    header, runs = session(speed=3.0)
    comparison = compare(profile(scale=0.5), [LOCKED, FREE], header, runs)
    # 0.5 ms of graph change weigh differently against other seconds; everything else cancels.
    assert max(abs(cell.error) for cell in comparison.cells) < 0.04
    flat = profile()
    cost = Table(n_rows=COST.n_rows, n_past=COST.n_past, all_rows_seconds=((0.01,) * 8,) * 2)
    wrong = compare(
        Profile(source="flat", model="m", model_hash="h", n_threads=1, cost=cost, rounds=()), [LOCKED, FREE], header, runs
    )
    assert max(abs(cell.error) for cell in wrong.cells) > 0.5
    assert flat.cost.seconds(0, 6, 6) == pytest.approx(CURVE[5])


def test_an_unfinished_run_says_so() -> None:
    header, runs = session()
    comparison = compare(profile(), [LOCKED, FREE], header, runs[:-1])
    assert not comparison.complete
    assert "unfinished" in comparison.warnings[0]


def test_a_text_that_left_the_greedy_one_is_replayed_as_it_was_written() -> None:
    header, runs = session(1)
    own = Text(name="locked", n_prompt=16, tokens=LOCKED.tokens[:40] + tuple(range(200, 240)))
    runs = [r if (r.prompt, r.loop) != ("locked", "carry") else timed(own, SETTINGS[3], 0, r.place) for r in runs]
    cells = compare(profile(), [LOCKED, FREE], header, runs).cells
    (cell,) = [c for c in cells if (c.prompt, c.loop, c.baseline) == ("locked", "carry", "greedy")]
    assert cell.n_passes == len(walk(own, SETTINGS[3])) - 1
    assert cell.error == pytest.approx(0, abs=1e-9)


# --- calibration -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("longest", "shortest"), [(60, 1), (256, 20), (300, 20), (520, 100), (2000, 50)])
def test_the_grid_has_a_knot_in_every_block_of_the_padded_view(longest: int, shortest: int) -> None:
    visit = grid(longest, 8, shortest)
    blocks = {(past + n - 1) // 256 for past in visit.n_past for n in visit.n_rows}
    reached = {(past + 7) // 256 for past in range(shortest, longest - 7)}
    assert blocks >= reached
    for past in visit.n_past:
        assert len({(past + n - 1) // 256 for n in visit.n_rows}) == 1, "a knot lies in one block for every width"


def test_the_table_of_rounds_is_their_median_and_knows_the_price_of_a_change() -> None:
    rng = np.random.default_rng(0)
    truth = np.array(COST.all_rows_seconds)
    rounds = []
    for _ in range(25):
        noise = np.exp(rng.normal(0, 0.02, truth.shape))
        noise[0, 0] *= 30 if rng.random() < 0.2 else 1  # a busy moment must not move the median
        same = truth * noise
        changed = same + 0.0004
        rounds.append(Round(same=tuple(map(tuple, same.tolist())), changed=tuple(map(tuple, changed.tolist()))))
    made = table(COST.n_past, COST.n_rows, rounds)
    assert np.allclose(made.all_rows_seconds, truth, rtol=0.02)
    assert made.change_seconds == pytest.approx((0.0004,) * 8)
    assert made.low is not None
    assert made.high is not None
    inside = (np.array(made.low) <= truth) & (truth <= np.array(made.high))
    assert inside.mean() > 0.8


# --- files -----------------------------------------------------------------------------------------------------------


def test_a_file_is_there_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a" / "f.json"
    write(path, b"old")

    def fails(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("os.replace", fails)
    with pytest.raises(OSError, match="no space"):
        write(path, b"new")
    assert path.read_bytes() == b"old"
    assert [p.name for p in path.parent.iterdir()] == ["f.json"]


@pytest.mark.parametrize("half", [b"", b'{"half', b'{"a": 1}\n{"ha', b"x" * 200_000])
def test_a_line_follows_the_last_whole_one(tmp_path: Path, half: bytes) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"first\n" + half)
    append(path, b"second")
    whole = b"first\n" + half[: half.rfind(b"\n") + 1]
    assert path.read_bytes() == whole + b"second\n"
    path.write_bytes(b"first\n" + half)
    cut_half_line(path)
    assert path.read_bytes() == whole
