"""Timed runs of slots on a tiny model: every pass kept, texts those of one sequence alone, gone on with."""

from __future__ import annotations

from pathlib import Path

import pytest

from sim.setting import Setting
from sim.trace import Header, Text
from validate.closed import SlotLane, begins, replayed, walked
from validate.slotruns import SlotBlock, load

slots = pytest.importorskip("validate.slots", exc_type=ValueError)

SETTINGS = tuple(Setting(loop, 4) for loop in ("greedy", "gated", "carry"))
CYCLE = Text(name="cycle", n_prompt=12, tokens=(3, 1, 4, 1, 5, 9) * 8)
LINE = Text(name="line", n_prompt=5, tokens=tuple(range(100, 140)))


@pytest.mark.parametrize("setting", [Setting(loop, 6) for loop in ("greedy", "gated", "fused", "carry")], ids=str)
@pytest.mark.parametrize("n", [1, 2, 5])
def test_a_closed_system_serves_every_slot_its_text_and_loses_no_token(setting: Setting, n: int) -> None:
    texts = ([CYCLE, LINE] * n)[:n]
    run = walked(setting, "both", texts)
    assert all(len(p.n_rows) == n for p in run.passes), "every slot is in every pass"
    assert run.n_tokens == sum(len(request.tokens) for request in run.requests)
    goal = sum(text.n_tokens - 1 for text in texts)
    assert goal <= run.n_tokens < goal + n * setting.rows
    for slot, (text, known) in enumerate(zip(texts, begins(texts), strict=True)):
        mine = [request for request in run.requests if request.slot == slot]
        assert [request.n_known for request in mine] == [known] + [text.n_prompt + 1] * (len(mine) - 1)
        for request in mine:
            whole = text.tokens[request.n_known :]
            assert request.tokens == (whole if request.last is not None else whole[: len(request.tokens)])
        assert [request.first for request in mine[1:]] == [(request.last or 0) + 1 for request in mine[:-1]]
    if n == 1 and setting.loop == "greedy":
        assert [p.n_rows for p in run.passes] == [(1,)] * goal
    assert any(request.last is not None for request in run.requests)


def test_a_slot_alone_takes_the_passes_of_a_run_alone() -> None:
    from sim.predict import walk

    for text in (CYCLE, LINE):
        for setting in SETTINGS:
            run = walked(setting, "one", [text])
            alone = [(r.n_past, r.n_rows, r.n_tokens) for r in walk(text, setting) if r.kind != "prefill"]
            assert [(p.n_past[0], p.n_rows[0], p.n_tokens[0]) for p in run.passes] == alone


def test_tpot_and_throughput_of_passes_that_take_a_second_each() -> None:
    answers = replayed([CYCLE, CYCLE])
    lane = SlotLane(lambda passes: (answers(passes)[0], 1.0), Setting("greedy", 2), "both", [CYCLE, CYCLE])
    while lane.turn():
        pass
    run = lane.result(0)
    assert (run.throughput, run.tpot) == (2.0, 1.0)


@pytest.fixture(scope="module")
def recorded(tiny: Path) -> tuple[Header, list[Text]]:
    from validate.record import Prompt, record_texts

    prompts = [Prompt(name="again", prompt="ba be bi bo bu " * 4), Prompt(name="once", prompt="ca de fi go hu")]
    return record_texts(tiny, prompts, 24, 1)


def plan(n_blocks: int, slots_: tuple[int, ...] = (1, 3), settings: tuple[Setting, ...] = SETTINGS) -> object:
    return slots.SlotPlan(settings, slots_, {"locked": ("again",), "free": ("once",)}, n_blocks, n_rounds=1)


def test_runs_are_kept_and_gone_on_with(tiny: Path, tmp_path: Path, recorded: tuple[Header, list[Text]]) -> None:
    file, (header, texts) = tmp_path / "slots.jsonl", recorded
    slots.measure_slots(tiny, file, header, texts, plan(1), 1)
    first = file.read_bytes()
    file.write_bytes(first[:-40])  # killed in the middle of a line: that block is measured again
    slots.measure_slots(tiny, file, header, texts, plan(2), 1)
    head, blocks = load(file)
    assert head.model == tiny.name
    assert sorted((b.block, b.n_slots) for b in blocks) == [(0, 1), (0, 3), (1, 1), (1, 3)]
    for block in blocks:
        _check_block(block, {text.name: text for text in texts})
    with pytest.raises(ValueError, match="runs of another setting"):
        slots.measure_slots(tiny, file, header, texts, plan(1, settings=SETTINGS[:2]), 1)


def _check_block(block: SlotBlock, texts: dict[str, Text]) -> None:
    assert len(block.runs) == 6
    assert len(block.rounds) == (3 if block.n_slots == 1 else 1)
    # Another slot's row, or one token more, would change leads by whole logits.
    assert 0 < block.noise < (1e-3 if block.n_slots == 1 else 0.1)
    assert len(block.rounds[0].same) == 2
    assert len(block.rounds[0].same[0]) == len(block.visit.n_rows)
    for run in block.runs:
        assert all(p.seconds > 0 for p in run.passes)
        assert run.wall_seconds > run.seconds
        for request in run.requests:
            text = texts[request.text]
            assert request.parity is None, "F32, one thread: the text is that of one sequence alone"
            assert request.tokens == text.tokens[request.n_known : request.n_known + len(request.tokens)]


def test_the_calibration_visits_what_the_loops_take(recorded: tuple[Header, list[Text]]) -> None:
    visit = slots.visited(plan(1), recorded[1], 3)
    assert {visit.n_rows[0], visit.n_rows[-1]} == {3, 12}
    assert all(past % 3 == 0 for past in visit.n_past)
    assert 0 < visit.n_past[0] < visit.n_past[1]


@pytest.mark.parametrize("given", [(), (0,), (2, 2), (-1, 2)])
def test_impossible_numbers_of_slots_are_refused(given: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="slots must be different whole numbers from 1 on"):
        plan(1, given)


def test_texts_that_are_missing_or_short_are_named(tiny: Path, tmp_path: Path) -> None:
    short = Text(name="again", n_prompt=5, tokens=tuple(range(10)))
    for texts, message in (([LINE], "hold no 'again'"), ([short], "5 tokens behind its prompt")):
        with pytest.raises(ValueError, match=message):
            slots.measure_slots(tiny, tmp_path / "s.jsonl", Header(), texts, plan(1), 1)
