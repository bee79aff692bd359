"""Slots simulated against measured: the same, pass by pass, on a machine that costs what its calibration says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import numpy as np
import pytest

from costmodel.rounds import Round
from sim.machine import Pass
from sim.setting import Setting
from sim.trace import Header as TextsHeader
from sim.trace import Text, dumps
from tests.conftest import Outcome
from validate.closed import SlotLane, replayed
from validate.knots import Grid
from validate.runs import Header
from validate.slotcheck import StopsPaying, check, from_slots, simulated, slot_cost, stops_paying
from validate.slotruns import FORMAT, SlotBlock, SlotRun

LOCKED = Text(name="locked", n_prompt=12, tokens=(3, 1, 4, 1, 5, 9) * 10)
FREE = Text(name="free", n_prompt=5, tokens=tuple(range(100, 150)))
WORKLOADS = {"locked": (LOCKED, LOCKED), "free": (FREE, FREE)}
SETTINGS = tuple(Setting(loop, 6) for loop in ("greedy", "gated", "fused", "carry"))
CHANGE = 0.0004


def price(n_rows: int, past: int) -> float:
    """The shape of a small model on two cores: the first rows are dear, many together are cheaper each."""
    return (0.006 + 0.002 * n_rows - 0.0003 * (n_rows // 4)) * (1 + 1e-4 * past)


def timed(setting: Setting, workload: str, n_slots: int, speed: float = 1.0) -> SlotRun:
    """A run that takes exactly what `price` says, and a change of rows."""
    texts = [WORKLOADS[workload][i % 2] for i in range(n_slots)]
    answers, before = replayed(texts), 0

    def engine(passes: Sequence[Pass]) -> tuple[Sequence[Sequence[int]], float]:
        nonlocal before
        n, past = sum(len(p.rows) for p in passes), sum(p.keep for p in passes)
        seconds = price(n, past) + CHANGE * (before not in (0, n))
        before = n
        return answers(passes)[0], speed * seconds

    lane = SlotLane(engine, setting, workload, texts)
    while lane.turn():
        pass
    return lane.result(0)


def session(n_blocks: int = 2, slots: Sequence[int] = (1, 3), noise: float = 0.0) -> list[SlotBlock]:
    rng = np.random.default_rng(0)
    blocks = []
    for n in slots:
        visit = Grid(n_past=(0, 100 * n), n_rows=tuple(range(n, 6 * n + 1)))
        same = np.array([[price(rows, past) for rows in visit.n_rows] for past in visit.n_past])
        for block in range(n_blocks):
            speed = float(np.exp(rng.normal(0, noise)))
            grids = [tuple(map(tuple, (speed * grid).tolist())) for grid in (same, same + CHANGE)]
            blocks.append(
                SlotBlock(
                    block=block, n_slots=n, visit=visit, rounds=(Round(same=grids[0], changed=grids[1]),) * 2,
                    runs=tuple(timed(s, w, n, speed) for w in WORKLOADS for s in SETTINGS),
                )
            )  # fmt: skip
    return blocks


@pytest.mark.parametrize("n_slots", [1, 2, 5])
@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_the_simulator_takes_the_very_passes_that_were_timed(setting: Setting, n_slots: int) -> None:
    (block,) = session(1, (n_slots,))
    for run in block.runs:
        if run.loop == setting.loop:
            told = simulated(run, (LOCKED, FREE), slot_cost([block]))
            shapes = [[(p.n_past, p.n_rows, p.n_tokens) for p in r.passes] for r in (told, run)]
            assert shapes[0] == shapes[1]
            assert [p.seconds for p in told.passes] == pytest.approx([p.seconds for p in run.passes])


def test_a_machine_that_costs_what_its_rounds_say_is_simulated_exactly() -> None:
    cells = check(session(), (LOCKED, FREE))
    assert len(cells) == 2 * 2 * 4
    for cell in cells:
        assert cell.error == pytest.approx(0, abs=1e-9)
        assert cell.tpot_error == pytest.approx(0, abs=1e-9)
        assert (cell.gain is None) == (cell.loop == "greedy")
    assert all(stop.same and stop.within for stop in stops_paying(cells))
    gain = {(c.workload, c.loop, c.n_slots): c.gain for c in cells}
    assert (gain["locked", "fused", 1] or 0) > (gain["locked", "fused", 3] or 0) > 1
    assert (gain["free", "fused", 1] or 0) <= 1


def test_a_speed_that_differs_between_blocks_moves_both_sides_alike() -> None:
    for cell in check(session(6, noise=0.2), (LOCKED, FREE)):
        assert abs(cell.error) < 0.03
        assert cell.low < cell.measured < cell.high
        if cell.gain is not None:  # a speed that both share leaves the gain alone
            assert cell.gain_low == pytest.approx(cell.gain)
            assert cell.gain_high == pytest.approx(cell.gain)


def test_a_text_that_left_the_recorded_one_is_simulated_as_it_was_written() -> None:
    own = Text(name="locked", n_prompt=12, tokens=LOCKED.tokens[:40] + tuple(range(200, 220)))
    lane = SlotLane(
        lambda passes: (replayed([own])(passes)[0], price(sum(len(p.rows) for p in passes), 0)),
        SETTINGS[3],
        "locked",
        [own],
    )
    while lane.turn():
        pass
    run = lane.result(0)
    told = simulated(run, (LOCKED, FREE), slot_cost(session(1, (1,))))
    assert [p.n_rows for p in told.passes] == [p.n_rows for p in run.passes]


def test_what_the_intervals_allow() -> None:
    def stop(simulated: int | None, earliest: int | None, latest: int | None) -> StopsPaying:
        return StopsPaying("w", "carry", 6, simulated, earliest, earliest, latest)

    assert stop(4, 2, 8).within
    assert stop(None, 4, None).within
    assert not stop(1, 2, 8).within
    assert not stop(None, 2, 8).within


def test_where_a_loop_stops_paying() -> None:
    assert from_slots([(1, 2.0), (2, 1.5), (4, 1.0), (8, 0.5)]) == 4
    assert from_slots([(1, 0.9), (2, 0.8)]) == 1
    assert from_slots([(1, 0.9), (2, 1.2)]) is None
    assert from_slots([(8, 0.5), (1, 1.5), (4, 0.9), (2, 0.99)]) == 2


def stored(folder: Path) -> Path:
    head = Header(model="m", model_hash="h", n_threads=1, n_ctx=256, format=FORMAT)
    items = [head, *session()]
    (folder / "slots.jsonl").write_bytes(b"".join(msgspec.json.encode(item) + b"\n" for item in items))
    (folder / "texts.jsonl").write_bytes(dumps(TextsHeader(), [LOCKED, FREE]))
    return folder


def test_what_was_kept_is_compared_again_without_the_machine(sweepcap: Callable[..., Outcome], tmp_path: Path) -> None:
    page = tmp_path / "slots.md"
    done = sweepcap("slots", "--offline", "--out", stored(tmp_path), "--page", page)
    assert done.status == 0, done.err
    assert "misses measured by 0.0% on average" in done.out
    assert page.read_text().count("| locked |") == 8
    answer = msgspec.json.decode(sweepcap("slots", "--offline", "--out", tmp_path, "--json").out)
    assert len(answer["cells"]) == 16
    assert len(answer["stops_paying"]) == 6


def test_the_command_measures_and_goes_on(
    sweepcap: Callable[..., Outcome], tmp_path: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("validate.slots", exc_type=ValueError)
    monkeypatch.setattr("validate.slots.WORKLOADS", {"free": ("story",)})
    monkeypatch.setattr("validate.record.suite", lambda: _story(tmp_path))
    words = ("slots", "--model", tiny, "--out", tmp_path, "--slots", "1,2", "--tokens", 16, "--threads", 1, "--rows", 3)
    assert sweepcap(*words, "--blocks", 1).status == 0
    done = sweepcap(*words, "--blocks", 2, "--json")
    assert done.status == 0, done.err
    assert {cell["n_blocks"] for cell in msgspec.json.decode(done.out)["cells"]} == {2}


def _story(folder: Path) -> Path:
    path = folder / "prompts.jsonl"
    path.write_text('{"name": "story", "prompt": "ba be bi bo bu ba be bi"}\n')
    return path


def test_simulate_measures_too_when_asked(sweepcap: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, object]] = []
    monkeypatch.setattr("sweepcap._slots", lambda **words: asked.append(words))
    assert sweepcap("simulate", "--check", "--slots", "1,2", "--loop", "carry", "--rows", 4, "--json").status == 0
    assert asked == [{"slots": "1,2", "loop": ["carry"], "rows": [4], "table": None, "as_json": True}]
    refused = sweepcap("simulate", "--check", "--arrivals", "poisson 1")
    assert (refused.status, len(asked)) == (2, 1)
    assert "closed arrivals" in refused.err


@pytest.mark.parametrize("words", [
    ("--slots", "0"), ("--slots", "two"), ("--slots", ""), ("--slots", "2,2"), ("--slots", "-1"),
    ("--loop", "fog"), ("--rows", "1"), ("--offline", "--out", "nowhere"), ("--model", "nowhere.gguf"),
    ("--threads", "0"), ("--table", "t.xls"),
])  # fmt: skip
def test_bad_words_are_one_sentence(sweepcap: Callable[..., Outcome], tmp_path: Path, words: tuple[str, ...]) -> None:
    done = sweepcap("slots", *(() if "--out" in words else ("--out", tmp_path)), *words)
    assert done.status == 2
    assert done.out == ""
    assert len(done.err.strip().splitlines()) == 1


def test_texts_that_were_not_served_are_named() -> None:
    with pytest.raises(ValueError, match="do not hold 'free'"):
        check(session(1, (1,)), (LOCKED,))
    with pytest.raises(ValueError, match="no slots were timed yet"):
        check([], (LOCKED,))
