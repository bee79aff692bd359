"""What is measured next: planned blocks, what came out odd or too wide, and the time limit."""

from __future__ import annotations

from dataclasses import replace
from math import exp

import numpy as np
import pytest

from tests.test_measuring import FREE, LOCKED, SETTINGS, session, timed
from tests.test_quality import BUSY, slowed, spoiled
from validate.agenda import MOST_BLOCKS, N_AGAIN, Agenda, Plan
from validate.blocks import bad_blocks, widest

PLAN = Plan(SETTINGS, n_tokens=64, n_blocks=3, twins=SETTINGS[:1])


def drive(agenda: Agenda, noise: float = 0.0, seconds: float = 1.0, spoil: int | None = None) -> list[tuple[int, int]]:
    """Do what the agenda says with runs of COST, and `noise` on each; the steps."""
    rng, steps, now = np.random.default_rng(0), [], 0.0
    while (step := agenda.next(now)) is not None:
        block, place = step
        text = (LOCKED, FREE)[place]
        runs = [timed(text, s, block, i, exp(rng.normal(0, noise))) for i, s in enumerate(SETTINGS)]
        agenda.add([slowed(r, 1.5, BUSY) for r in runs] if block == spoil else runs, seconds)
        steps.append(step)
        now += seconds
        assert len(steps) < 500
    return steps


NAMES = ("locked", "free")
PLANNED = [(block, place) for block in range(3) for place in range(2)]


def test_the_planned_blocks_come_in_order_and_only_those_that_lack() -> None:
    assert drive(Agenda(PLAN, NAMES, [], None, 0.0)) == PLANNED
    there = [run for run in session(3)[1] if (run.block, run.prompt) != (1, "free")]
    assert drive(Agenda(PLAN, NAMES, there, None, 0.0)) == [(1, 1)]


def test_a_disturbed_block_is_measured_again() -> None:
    steps = drive(Agenda(PLAN, NAMES, [], None, 0.0), spoil=1)
    assert sorted(steps[:6]) == PLANNED
    assert sorted(steps[6:]) == [(3, 0), (3, 1)], "once for each prompt: there the machine was quiet"
    always = drive(Agenda(replace(PLAN, n_blocks=1), NAMES, [], None, 0.0), spoil=0)
    assert len(always) == 2 + 2
    assert bad_blocks(spoiled(6, 2, None)[:]) == {2}
    assert N_AGAIN == 2


def test_blocks_go_on_until_every_interval_is_narrow_enough() -> None:
    wide = drive(Agenda(replace(PLAN, half_width=0.02), NAMES, [], None, 0.0), noise=0.02)
    narrow = drive(Agenda(replace(PLAN, half_width=0.4), NAMES, [], None, 0.0), noise=0.02)
    assert narrow == PLANNED
    assert 10 < len(wide) < 2 * MOST_BLOCKS
    with pytest.raises(ValueError, match="--half-width"):
        replace(PLAN, half_width=1.5)


def test_the_time_limit_is_kept_and_said() -> None:
    agenda = Agenda(PLAN, NAMES, [], 5.0, 0.0)
    assert drive(agenda) == PLANNED[:4], "the third block would end after six seconds"
    assert "2 of 3 blocks" in agenda.reason
    first = Agenda(PLAN, NAMES, [], 0.1, 0.0)
    assert drive(first) == PLANNED[:2], "the first block is always done"
    agenda = Agenda(replace(PLAN, half_width=0.001), NAMES, [], 20.0, 0.0)
    assert len(drive(agenda, noise=0.05)) == 20
    assert "+-0.1% asked for" in agenda.reason


def test_a_single_block_has_no_half_width() -> None:
    assert widest(session(1)[1][:4]) == float("inf")
    assert widest(session(4)[1][:1]) == 0
