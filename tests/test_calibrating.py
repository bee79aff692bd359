"""Calibration: what a round visits, when it stops, and where two texts parted."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from sim.setting import Setting
from sim.trace import Text
from validate.calibrate import MIN_ROUNDS, widest
from validate.knots import Grid, Strewn, calibration_round

llama = pytest.importorskip("validate.llama", exc_type=ValueError)


class Fed:
    """A context that costs what its passes are: 1 ms a row, 0.5 ms when the row count changed; all feeds are listed."""

    def __init__(self, past: int, feeds: list[tuple[int, int, int, int]]) -> None:
        self.past, self.feeds, self.n_rows = past, feeds, 0

    def feed(self, tokens: object, n_rows: int, n_out: int) -> float:
        before, self.n_rows = self.n_rows, n_rows
        self.feeds.append((self.past, n_rows, n_out, before))
        return 0.001 * n_rows * (1 + self.past / 1000) * (0.7 if n_out < n_rows else 1) + 0.0005 * (before != n_rows)


@pytest.mark.parametrize("last_row", [False, True])
@pytest.mark.parametrize("pasts", [(10,), (10, 250), (10, 250, 256)])
def test_a_round_feeds_every_cell_behind_other_rows_and_behind_its_like(pasts: tuple[int, ...], last_row: bool) -> None:
    visit, feeds = Grid(n_past=pasts, n_rows=tuple(range(1, 7))), list[tuple[int, int, int, int]]()
    at = [Fed(past, feeds) for past in pasts]
    orders = set()
    for seed in range(6):
        del feeds[:]
        strewn = Strewn([calibration_round(at, (), visit, np.random.default_rng(seed), last_row=last_row)], 0)  # type: ignore[arg-type]
        strewn.finish()
        (round_,) = strewn.rounds
        for i, past in enumerate(pasts):
            for j, n in enumerate(visit.n_rows):
                cost = 0.001 * n * (1 + past / 1000)
                assert round_.same[i][j] == pytest.approx(cost)
                assert round_.changed[i][j] == pytest.approx(cost + 0.0005)
                if last_row and n > 1:
                    assert round_.last_row is not None
                    assert round_.last_row[i][j] == pytest.approx(0.7 * cost)
        orders.add(tuple(n for _, n, _, _ in feeds))
        at_once = [a == b for (a, *_), (b, *_) in itertools.pairwise(feeds)]
        if len(pasts) > 2:
            assert sum(at_once) < len(at_once) / 3, "other contexts come between the passes of one"
    assert len(orders) == 6, "the order is another one in every round"


def test_strewn_passes_keep_step_with_the_share_that_is_done() -> None:
    visit, feeds = Grid(n_past=(1, 200), n_rows=(1, 2, 3)), list[tuple[int, int, int, int]]()
    at = [Fed(past, feeds) for past in visit.n_past]
    strewn = Strewn(
        [calibration_round(at, (), visit, np.random.default_rng(i)) for i in range(2)],  # type: ignore[arg-type]
        2 * visit.n_passes,
    )
    strewn.until(0.5)
    assert visit.n_passes - 2 <= len(feeds) <= visit.n_passes + 2
    strewn.finish()
    assert len(strewn.rounds) == 2


def test_calibration_stops_when_every_interval_is_narrow_or_the_time_is_over(tiny: Path) -> None:
    from validate.calibrate import calibrate

    narrow = calibrate(tiny, [], 1, context=64, max_rows=3, half_width=9.0)
    assert len(narrow.rounds) == MIN_ROUNDS
    assert not [c for c in narrow.caveats if "asked for" in c]
    assert narrow.cost.last_row_seconds is not None
    wide = calibrate(tiny, [], 1, context=64, max_rows=3, half_width=1e-6, n_rounds=7)
    assert len(wide.rounds) == 7
    assert wide.caveats[-1].startswith(
        f"after 7 calibration rounds the widest interval of a pass cost is +-{widest(wide.cost):.1%}"
    )
    hasty = calibrate(tiny, [], 1, context=64, max_rows=3, limit_seconds=0.0)
    assert len(hasty.rounds) == 1
    assert "--limit" in hasty.caveats[-1]


def test_where_two_texts_parted_is_told_with_both_tokens_leads_and_widths(tiny: Path) -> None:
    from validate.lanes import timed_block
    from validate.parity import margin_noise, triage
    from validate.record import record

    with llama.Model(tiny) as model, llama.LlamaEngine(model, n_ctx=256, n_threads=1) as engine:
        true = record(engine, "again", "", model.tokenize("ba be bi bo " * 5), 40)
        noise = margin_noise(engine, true, 6)
        widths = set()
        for place in (3, 11, 25):
            # A record that differs from what the model writes: the loop parts from it there.
            at = true.n_prompt + place
            other = (true.tokens[at] + 1) % model.n_vocab
            wrong = Text(
                name="again", n_prompt=true.n_prompt, tokens=(*true.tokens[:at], other, *true.tokens[at + 1 :])
            )
            (run,) = timed_block([engine], [Setting("carry", 6)], true, 40)
            found = triage(engine, wrong, run.tokens, noise, run.passes)
            assert found.first_difference == place
            assert found.tokens == (model.text([other]), model.text([true.tokens[at]]))
            assert found.margin is not None
            assert found.own_margin is not None
            assert found.margin < 0 < found.own_margin, "the model prefers what the loop wrote"
            assert found.own_margin == pytest.approx(-found.margin, abs=2 * noise + 1e-3)
            assert found.verdict == "tie", "the record is at fault, not the loop"
            assert found.widths is not None
            widths.add(found.widths[1])
        assert max(widths) > 1, "some of these tokens came from wide passes"


def test_each_thread_has_a_core_of_its_own_when_pinned() -> None:
    import os
    import subprocess
    import sys

    if not hasattr(os, "sched_setaffinity"):
        pytest.skip("no pinning on this system")
    code = (
        "import os; from validate.environment import pin; pin(1);"
        "print(len(os.sched_getaffinity(0)), os.environ['OMP_PROC_BIND'], os.environ['OMP_PLACES'])"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert told[:2] == ["1", "true"]
    assert told[2].strip("{}").isdigit()
