"""What turns raw seconds into ratios: the design of blocks, the intervals, the comparison, the files."""

from __future__ import annotations

from collections import Counter
from math import exp, log, pi, sin
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from costmodel.fitlaw import fit_iid
from costmodel.profile import Profile
from costmodel.rounds import Round, table
from costmodel.table import Table
from sim.answers import recorded
from sim.machine import Pass
from sim.predict import drafts_of, predict, price, walk
from sim.run import Record
from sim.setting import Setting
from sim.trace import Text
from validate.blocks import block_log_ratios
from validate.compare import compare
from validate.design import block_order, interval, next_turn
from validate.files import append, cut_half_line, write
from validate.knots import grid
from validate.lanes import timed_block
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
def test_odd_blocks_mirror_the_even_ones_and_places_are_shared_out(n: int) -> None:
    places: Counter[tuple[int, int]] = Counter()
    for block in range(2 * n):
        order = block_order(range(n), block, seed=3)
        assert sorted(order) == list(range(n))
        if block % 2:
            assert order == block_order(range(n), block - 1, seed=3)[::-1]
        places.update((item, place) for place, item in enumerate(order))
    assert set(places.values()) == {2}, "over 2 n blocks every setting takes every place equally often"


class Drifting:
    """An engine on a recorded text that costs COST, on a machine whose speed wanders with a clock that all share."""

    can_cut = True

    def __init__(self, text: Text, clock: list[float], period: float) -> None:
        self.model = SimpleNamespace(stops=frozenset())
        self.answers, self.clock, self.period, self.before = recorded(text.tokens), clock, period, 0

    def adopt(self, other: Drifting) -> None:
        """The text is the cache."""

    def __call__(self, pass_: Pass) -> tuple[list[int], float]:
        n = len(pass_.rows)
        if n > 8:
            return list(self.answers(pass_)), 0.1
        slow = 1 + 0.3 * sin(2 * pi * self.clock[0] / self.period) + 0.1 * self.clock[0]
        seconds = slow * COST.seconds(pass_.keep, n, pass_.want, self.before or n)
        self.before = n
        self.clock[0] += seconds
        return list(self.answers(pass_)), seconds


@pytest.mark.parametrize("period", [0.4, 1.0, 3.0])
def test_turns_cancel_a_speed_that_wanders_and_whole_runs_do_not(period: float) -> None:
    def worst(side_by_side: bool) -> float:
        errors = []
        for block in range(6):
            clock = [0.37 * block]
            order = block_order(SETTINGS, block)
            engines = [Drifting(LOCKED, clock, period) for _ in order]
            if side_by_side:
                runs = timed_block(engines, order, LOCKED, LOCKED.n_tokens, block)
            else:
                runs = [timed_block([e], [s], LOCKED, LOCKED.n_tokens)[0] for e, s in zip(engines, order, strict=True)]
            by = {run.loop: run for run in runs}
            for loop in ("gated", "fused", "carry"):
                true = predict(LOCKED, SETTINGS[0], COST).seconds / predict(LOCKED, Setting(loop, 6), COST).seconds
                (ratio,) = block_log_ratios([by["greedy"]], [by[loop]])
                errors.append(abs(ratio - log(true)))
        return max(errors)

    assert worst(side_by_side=True) < 0.06
    assert worst(side_by_side=False) > 2 * worst(side_by_side=True)


def test_the_one_with_the_fewest_tokens_goes_next_and_ties_are_drawn_by_lot() -> None:
    rng = np.random.default_rng(0)
    assert {next_turn([9, 4, 6], rng) for _ in range(9)} == {1}
    lots = Counter(next_turn([4, 4, 9, 4], rng) for _ in range(600))
    assert set(lots) == {0, 1, 3}
    assert min(lots.values()) > 150, "each of three about 200 times: none is favoured"


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
    assert 98 <= hits <= 120  # a bootstrap over 12 blocks is a little short of 95 %: about 0.9 of 120 = 108


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
    cost = Table(n_rows=COST.n_rows, n_past=COST.n_past, all_rows_seconds=((0.01,) * 8,) * 2)
    flatter = Profile(source="flat", model="m", model_hash="h", n_threads=1, cost=cost)
    wrong = compare(flatter, [LOCKED, FREE], header, runs)
    assert max(abs(cell.error) for cell in wrong.cells) > 0.5


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


def test_an_acceptance_law_is_fitted_to_recorded_texts() -> None:
    carry = Setting("carry", 6)
    seen, none = drafts_of([LOCKED, FREE], carry)
    decode = [r for text in (LOCKED, FREE) for r in walk(text, carry) if r.kind != "prefill"]
    assert sum(s.times for s in seen) == sum(r.guessed > 0 for r in decode)
    assert sum(s.times * sum(s.agreements) for s in seen) == sum(r.accepted for r in decode)
    assert none == pytest.approx(sum(not r.guessed for r in decode) / len(decode))
    assert fit_iid(seen, none).law.agrees(0, 0) == 1
    rng = np.random.default_rng(4)
    # The phrase again and again, each token of it spoiled with 0.3.
    spoiled = [t if rng.random() < 0.7 else 1000 + i for i, t in enumerate(PHRASE * 400)]
    rates = [fit_iid(drafts_of([Text(name="s", n_prompt=8, tokens=tuple(spoiled[:n]))], carry)[0]) for n in (400, 3200)]
    low, high = rates[1].intervals["agree"]
    assert low < rates[1].law.agrees(0, 0) < high
    assert high - low < rates[0].intervals["agree"][1] - rates[0].intervals["agree"][0]
    with pytest.raises(ValueError, match="drafted nothing"):
        drafts_of([FREE], carry)


# --- calibration -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("longest", "shortest"), [(60, 1), (256, 20), (300, 20), (520, 100), (2000, 50)])
def test_the_grid_has_a_knot_in_every_block_of_the_padded_view(longest: int, shortest: int) -> None:
    visit = grid(longest, 8, shortest)
    blocks = {(past + n - 1) // 256 for past in visit.n_past for n in visit.n_rows}
    reached = {(past + 7) // 256 for past in range(shortest, longest - 7)}
    assert blocks >= reached
    for past in visit.n_past:
        assert len({(past + n - 1) // 256 for n in visit.n_rows}) == 1, "a knot lies in one block for every width"


def test_the_table_of_rounds_survives_busy_moments_and_knows_the_price_of_a_change() -> None:
    rng = np.random.default_rng(0)
    truth = np.array(COST.all_rows_seconds)
    rounds = []
    for _ in range(25):
        noise = np.exp(rng.normal(0, 0.02, truth.shape))
        noise[0, 0] *= 30 if rng.random() < 0.2 else 1  # a busy moment must not move the cell
        same = truth * noise
        changed = same + 0.0004
        rounds.append(Round(same=tuple(map(tuple, same.tolist())), changed=tuple(map(tuple, changed.tolist()))))
    made = table(COST.n_past, COST.n_rows, rounds)
    assert np.allclose(made.all_rows_seconds, truth, rtol=0.02)
    assert made.change_seconds == pytest.approx(0.0004)
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
