"""What histories come to, replications and their differences, the study over slots, its pictures and its command."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from matplotlib.text import Text as Label

from costmodel.acceptance import parse
from costmodel.batched import SlotCost
from costmodel.passcost import Affine, Flat, Table
from costmodel.profile import Profile
from figures import slotline
from figures import slots as pictures
from figures.chrometrace import dumps
from sim.arrivals import Patience, Poisson
from sim.device import Device, Lognormal
from sim.events import simulate
from sim.replications import Interval, capacity, check_ends, difference, interval, ratio, replicated, until_precise
from sim.requests import LawTexts, Texts
from sim.scenario import Scenario
from sim.served import Targets, served
from sim.setting import Setting
from sim.slots import Limit, Line, limits, study
from sim.trace import Header, Text
from sim.trace import dumps as dump_texts
from tests.conftest import Outcome
from tests.scenarios import toy_text

DEVICE = Device(SlotCost(Affine(0.01, 0.002), view="mean"), jitter=Lognormal(0.05))
BASE = Scenario(DEVICE, LawTexts(parse("ge 0.95 0.9 0.95 0.2"), 8, 24), Setting("carry", 4), 2, 10, warmup=2)
GREEDY, CARRY = Setting("greedy", 4), Setting("carry", 4)


def test_numbers_of_a_history_by_hand() -> None:
    """Two requests of 3 tokens, one after the other, at 1 second a pass, the second arriving at 1 (flat, greedy)."""
    from sim.arrivals import Listed

    text = Text(name="abc", n_prompt=1, tokens=(9, 1, 2, 3))
    scenario = Scenario(Device(SlotCost(Flat(1.0))), Texts((text,)), GREEDY, 1, 2, Listed((0.0, 1.0)))
    history = simulate(scenario)
    numbers = served(history, Targets(ttft_seconds=2.0))
    assert [(r.queue, r.ttft, r.tpot, r.latency) for r in history.requests] == [(0, 1, 1, 3), (2, 3, 1, 5)]
    assert (numbers.tokens_per_second, numbers.requests_per_second, numbers.goodput_per_second) == (1, 1 / 3, 1 / 6)
    assert (numbers.ttft, numbers.tpot, numbers.queue, numbers.latency) == (2, 1, 1, 4)
    assert (numbers.busy, numbers.rows_per_pass, numbers.wasted, numbers.cancelled) == (1, 1, 0, 0)
    late = served(simulate(replace(scenario, requests=1, warmup=1)))
    assert (late.tokens_per_second, late.ttft, late.busy) == (1, 3, 1)


def test_replications_are_independent_and_the_same_for_a_seed() -> None:
    first, again = replicated(BASE, 4, seed=1), replicated(BASE, 4, seed=1)
    assert first == again
    assert len({run.tokens_per_second for run in first}) == 4
    assert replicated(BASE, 2, seed=1) == first[:2], "more replications do not change those there were"
    with pytest.raises(ValueError, match="replications must be at least 1"):
        replicated(BASE, 0)


def test_pairs_know_differences_better_than_means_do() -> None:
    """Common random numbers: the interval of the ratio is narrower than that of independent runs."""
    greedy, carry = (replicated(replace(BASE, setting=s, requests=20), 12, seed=2) for s in (GREEDY, CARRY))
    strangers = replicated(replace(BASE, setting=CARRY, requests=20), 12, seed=3)

    def what(run: Any) -> float:
        return run.tokens_per_second  # type: ignore[no-any-return]

    paired, unpaired = ratio(greedy, carry, what), ratio(greedy, strangers, what)
    assert paired.high - paired.low < unpaired.high - unpaired.low
    more = difference(greedy, carry, what)
    assert more.low < more.mean < more.high
    assert more.mean == pytest.approx(np.mean([what(b) - what(a) for a, b in zip(greedy, carry, strict=True)]))


def test_an_interval_covers_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    found = [interval(rng.normal(5.0, 2.0, 6).tolist()) for _ in range(2000)]
    assert np.mean([x.low < 5.0 < x.high for x in found]) == pytest.approx(0.95, abs=0.015)
    assert interval([1.0]) == Interval(1.0, -math.inf, math.inf)
    assert math.isnan(interval([]).mean)


def test_an_open_horizon_ends_when_it_is_precise_and_only_if_it_can() -> None:
    most = capacity(BASE)
    calm = replace(BASE, arrivals=Poisson(0.3 * most))
    runs = until_precise(calm, 0.1, 4)
    latency = interval([run.latency for run in runs])
    assert latency.high - latency.mean <= 0.1 * latency.mean
    flooded = replace(BASE, arrivals=Poisson(1.2 * most))
    with pytest.raises(ValueError, match="the queue has no end"):
        until_precise(flooded, 0.1, 4)
    check_ends(replace(flooded, patience=Patience(1.0)))  # who gives up ends every queue
    with pytest.raises(ValueError, match="too near to what the device can serve"):
        until_precise(replace(BASE, arrivals=Poisson(0.9 * most)), 0.001, 2, most_requests=40)
    for precision, n in ((0.0, 4), (1.0, 4), (0.1, 1)):
        with pytest.raises(ValueError, match=r"precision must be|at least 2 replications"):
            until_precise(calm, precision, n)


def test_a_loop_stops_paying_where_rows_cost() -> None:
    """Rows are free up to 8 and dear above: a loop of 4 rows pays with one slot, not with eight."""
    counts = tuple(range(1, 33))
    steep = Table(counts, (0, 400), (tuple(0.01 if n <= 8 else 0.002 * n for n in counts),) * 2, extrapolate=True)
    base = replace(BASE, device=Device(SlotCost(steep, view="mean")), source=LawTexts(parse("iid 0.8"), 8, 24))
    lines = study(base, (GREEDY, CARRY), (8, 1, 2), replications=2)
    assert [(line.slots, line.loop) for line in lines] == [(n, loop) for n in (1, 2, 8) for loop in ("greedy", "carry")]
    gains = {line.slots: line.gain.mean for line in lines if line.gain is not None}
    assert gains[1] > 1.5 > 1 > gains[8]
    assert limits(lines) == [Limit("carry", 4, 8)]
    assert all(line.load is None for line in lines)


def test_a_loop_that_loses_and_wins_again_pays_with_the_most() -> None:
    def line(slots: int, gain: float) -> Line:
        there = Interval(1.0, 0.9, 1.1)
        numbers = (there, 1.0, there, 1.0, there, 1.0, 0.0, there, 1.0, 6.0, 0.0, 0.0, None)
        return Line("carry", 6, "ngram", slots, *numbers, Interval(gain, gain, gain))

    assert limits([line(1, 1.2), line(2, 0.9), line(4, 1.1)]) == [Limit("carry", 6, None)]
    assert limits([line(1, 1.2), line(2, 0.9), line(4, 0.8)]) == [Limit("carry", 6, 2)]
    assert limits([line(1, 0.9)]) == [Limit("carry", 6, 1)]


def test_the_study_refuses_what_cannot_be_compared() -> None:
    with pytest.raises(ValueError, match="greedy must be among the loops"):
        study(base=BASE, settings=(CARRY,), slots=(1,))
    for slots in ((), (1, 1)):
        with pytest.raises(ValueError, match="slots must be different whole numbers"):
            study(BASE, (GREEDY, CARRY), slots)


def test_arrivals_are_a_share_of_what_the_slots_serve() -> None:
    scenario = replace(BASE, arrivals=Poisson(0.5 * capacity(replace(BASE, setting=GREEDY, slots=1))))
    lines = study(scenario, (GREEDY, CARRY), (1,), replications=2)
    assert lines[0].load == pytest.approx(0.5)
    assert lines[1].load is not None
    assert lines[1].load < 0.5
    assert lines[1].gain is not None
    assert lines[1].gain.mean > 1


# --- pictures and traces ---------------------------------------------------------------------------------------------


def test_the_picture_tells_the_finding_and_shows_every_line() -> None:
    lines = study(BASE, (GREEDY, CARRY), (1, 2), replications=2)
    figure = pictures.draw(lines)
    drawn = [a for axes in figure.axes for a in axes.containers]
    assert len(drawn) == 2 * 3
    title = figure.get_suptitle().replace("\n", " ")
    assert title == pictures.finding(lines, "throughput")
    assert "carry" in title
    assert pictures.draw([]).get_suptitle() == "Nothing was simulated"


def test_the_timeline_shows_every_pass_in_its_lane() -> None:
    history = simulate(BASE)
    n = 20
    figure = slotline.draw(history, "carry", n_passes=n)
    boxes = {c.get_gid(): len(c.get_paths()) for c in figure.axes[0].collections}
    records = [r for p in history.passes[:n] for r in p.records]
    assert boxes["device"] == n
    assert sum(count for gid, count in boxes.items() if gid != "device" and "wrong" not in str(gid)) == len(records)
    wrong = sum(r.accepted < r.guessed for r in records)
    assert sum(count for gid, count in boxes.items() if "wrong" in str(gid)) == wrong > 0
    labels = [label.get_text() for label in figure.findobj(Label)]
    assert {"slot 0", "slot 1", "device, rows"} <= set(labels)


def test_the_trace_holds_every_pass_once_a_track() -> None:
    """Chrome trace events: complete events nest or follow on each track, and their times are those of the history."""
    base = replace(BASE, arrivals=Poisson(12.0), draft_seconds=0.002)
    history = simulate(base)
    events = msgspec.json.decode(dumps({"carry": history, "again": history}))["traceEvents"]
    mine = [e for e in events if e["pid"] == 1]
    assert [e | {"pid": 1} for e in events if e["pid"] == 2][1:] == mine[1:]
    named = {e["args"]["name"] for e in mine if e["name"] == "thread_name"}
    assert named == {"device", "slot 0", "slot 0: requests", "slot 1", "slot 1: requests"}
    complete = [e for e in mine if e["ph"] == "X"]
    device = [e for e in complete if e["tid"] == 0 and e["name"] != "drafting"]
    assert [e["ts"] for e in device] == pytest.approx([1e6 * p.at for p in history.passes])
    assert sum(e["dur"] for e in device) == pytest.approx(1e6 * sum(p.seconds for p in history.passes))
    assert sum(e["tid"] in (2, 4) for e in complete) == sum(len(p.records) for p in history.passes)
    for track in range(5):
        spans = sorted((e["ts"], e["ts"] + e["dur"]) for e in complete if e["tid"] == track)
        assert all(a[1] <= b[0] + 1e-3 for a, b in pairwise(spans)), track
    waiting = [e["args"]["waiting"] for e in mine if e["ph"] == "C"]
    assert min(waiting) == 0 < max(waiting)
    few = msgspec.json.decode(dumps({"carry": history}, most_passes=5))["traceEvents"]
    assert sum(e["ph"] == "X" and e["tid"] == 0 and e["name"] != "drafting" for e in few) == 5


# --- the command -----------------------------------------------------------------------------------------------------

Program = Callable[..., Outcome]


@pytest.fixture
def given(tmp_path: Path) -> tuple[str, ...]:
    """A profile up to 24 rows and recorded texts, as words of the command."""
    counts = tuple(range(1, 25))
    cost = Table(counts, (0, 256), (tuple(0.01 + 0.001 * n for n in counts),) * 2, change_seconds=4e-4)
    profile, texts = tmp_path / "profile.json", tmp_path / "texts.jsonl"
    profile.write_bytes(msgspec.json.encode(Profile(source="calibrated", model="toy", cost=cost)))
    texts.write_bytes(dump_texts(Header(model="toy"), [toy_text(seed, 5, 20) for seed in range(3)]))
    return ("--profile", str(profile), "--texts", str(texts), "--requests", "6", "--replications", "2")


def test_the_command_says_where_a_loop_stops_paying(sweepcap: Program, given: tuple[str, ...], tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("slots.svg", "line.png", "trace.json", "lines.csv")]
    options = [
        w for pair in zip(("--figure", "--timeline", "--trace", "--table"), map(str, files), strict=True) for w in pair
    ]
    words = ("simulate", "--slots", "1,4", "--loop", "carry", "--rows", 6, *given)
    told = sweepcap(*words, *options)
    assert told.status == 0, told
    assert "carry R=6 " in told.out
    assert all(path.stat().st_size for path in files)
    answer = json.loads(sweepcap(*words, "--json").out)
    assert [(x["slots"], x["loop"]) for x in answer["lines"]] == [(n, s) for n in (1, 4) for s in ("greedy", "carry")]
    assert answer["limits"][0]["loop"] == "carry"
    assert sweepcap(*words, "--json").out == sweepcap(*words, "--json").out
    assert sweepcap(*words, "--json", "--seed", 1).out != sweepcap(*words, "--json").out


def test_the_command_needs_no_text(sweepcap: Program) -> None:
    words = ("--acceptance", "iid 0.8", "--model-spec", "Llama-3.2-3B", "--device", "EPYC 9654", "--tokens", 16)
    more = (
        "--arrivals",
        "poisson 2",
        "--policy",
        "backoff 2 4",
        "--requests",
        5,
        "--replications",
        2,
        "--prefill",
        "alone",
    )
    drift = (
        "--drift",
        "ou sd=0.1 seconds=1",
        "--jitter",
        0.1,
        "--stalls",
        1,
        0.1,
        "--patience",
        5,
        "--prefill",
        "alone",
        "--chunk",
        64,
    )
    told = sweepcap("simulate", "--slots", 2, "--loop", "fused", *words, *more, *drift, "--json")
    assert told.status == 0, told
    answer = json.loads(told.out)
    assert answer["gain_of"] == "latency"
    assert answer["lines"][0]["load"] > 0


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (("--slots", "0"), ("slots must be at least 1",)),
        (("--slots", "two"), ("--slots takes whole numbers", "'two'")),
        (("--slots", "8"), ("8 slots of up to 6 rows", "48 rows", "ask for extrapolation")),
        (("--arrivals", "poisson -1"), ("rate of arrivals must be positive",)),
        (("--arrivals", "often"), ("'often'", "none of")),
        (("--arrivals", "poisson 1000", "--precision", "0.1"), ("the queue has no end",)),
        (("--drift", "constant factor=0"), ("factor", "positive")),
        (("--policy", "never"), ("'never'", "fixed")),
        (("--jitter", "-1"), ("jitter must be zero or positive",)),
        (("--ttft", "0"), ("ttft_seconds must be positive",)),
        (("--prefill", "first"), ("prefill must be one of",)),
        (("--view", "max"), ("view must be one of",)),
        (("--acceptance", "iid 0.5"), ("say what is decoded",)),
        (("--chunk", "6"), ("more than the 6 rows that a pass may have",)),
        (("--replications", "0"), ("replications must be at least 1",)),
    ],
    ids=lambda words: " ".join(words),
)
def test_what_is_wrong_is_one_sentence(
    sweepcap: Program, given: tuple[str, ...], words: tuple[str, ...], parts: tuple[str, ...]
) -> None:
    base = () if words[0] == "--slots" else ("--slots", "2")
    outcome = sweepcap("simulate", "--loop", "carry", *given, *base, *words)
    assert outcome.status == 2, outcome
    assert outcome.out == ""
    assert "Traceback" not in outcome.err
    for part in parts:
        assert part in outcome.err.splitlines()[-1]
