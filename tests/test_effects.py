"""Each effect of the cost model switched off: what is missed, and that a table is left that prices."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from costmodel.ablate import EFFECTS
from tests.test_measuring import COST, FREE, LOCKED, profile, session
from validate.compare import compare
from validate.effects import HOST, TEXT, host_seconds, judged
from validate.session import Session
from validate.verdict import ablations, errors


def test_an_effect_that_is_real_is_missed_when_it_is_switched_off_and_no_other() -> None:
    header, runs = session(3)
    runs = [msgspec.structs.replace(run, wall_seconds=run.seconds + 0.0008 * len(run.decode)) for run in runs]
    comparison = compare(profile(), [LOCKED, FREE], header, runs)
    whole = Session(profile(), comparison, header, tuple(runs), (LOCKED, FREE))
    cells = judged(whole, "v", {"free": "prompt"}, host_seconds(runs))
    assert len(cells) == len(comparison.cells)
    assert {cell.held_out for cell in cells if cell.cell.prompt == "free"} == {"prompt"}
    assert errors(cells).worst < 1e-9
    found = ablations(cells)
    assert set(found) == {*EFFECTS, TEXT, HOST}
    for name in ("rows table", "change of rows"):
        assert found[name].worst > 0.005, f"COST has {name}, so a model without it misses"
    assert found[TEXT].worst < 1e-9, "every loop wrote the recorded text"
    assert 0.005 < found[HOST].worst < 0.1
    assert errors(cells, wall=True).worst < 1e-9
    assert errors([]).n == 0


def test_every_ablation_leaves_a_table_that_prices_the_same_passes() -> None:
    for name, without in EFFECTS.items():
        table = without(COST)
        assert table.n_rows == COST.n_rows, name
        for n in COST.n_rows:
            assert 0.5 < table.seconds(100, n, n) / COST.seconds(100, n, n) < 2, name
    straight = EFFECTS["rows table"](COST)
    steps = np.diff(straight.all_rows_seconds, axis=1)
    assert np.allclose(steps, steps[:, :1])
    flat = EFFECTS["cached length"](COST)
    assert flat.seconds(0, 4, 4) == pytest.approx(flat.seconds(248, 4, 4))
