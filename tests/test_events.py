"""Discrete events: the one-sequence identity, queueing theory, and conservation."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise, repeat
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.acceptance import parse
from costmodel.batched import SlotCost
from costmodel.passcost import Flat
from sim.arrivals import Closed, Listed, Patience, Poisson
from sim.device import Device, Exponential, Lognormal, Stalls
from sim.drafters import DRAFTERS
from sim.drift import Constant, OrnsteinUhlenbeck, Windows
from sim.events import simulate
from sim.history import History
from sim.loops import LOOPS
from sim.policies import Backoff, Quiet, Shared, fixed
from sim.replications import interval
from sim.requests import LawTexts, Texts
from sim.scenario import Scenario
from sim.setting import Setting
from sim.trace import Text
from tests.scenarios import COSTS, alone, toy_text
from tests.worlds import SMALL

# --- one sequence is `run` -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loop", LOOPS)
@given(st.data())
@settings(max_examples=25, deadline=None)
def test_one_sequence_without_noise_is_run(loop: str, data: st.DataObject) -> None:
    """Seconds and passes of every loop, exactly."""
    drafter = data.draw(st.sampled_from(sorted(DRAFTERS)))
    words = " ".join([drafter, *(f"{key}={value}" for key, value in SMALL.get(drafter, {}).items())])
    setting = Setting(loop, data.draw(st.integers(2, 8)), words)
    text = toy_text(data.draw(st.integers(0, 99)), data.draw(st.integers(1, 5)), data.draw(st.integers(0, 60)))
    text = replace_stop(text, data.draw(st.sampled_from([(), (), (1,)])))
    cost = COSTS[data.draw(st.sampled_from(sorted(COSTS)))]
    state, records = alone(text, setting, cost)
    history = simulate(Scenario(Device(SlotCost(cost)), Texts((text,)), setting, 1, 1))
    assert [record for p in history.passes for record in p.records] == records
    assert [p.seconds for p in history.passes] == [record.seconds for record in records]
    assert history.seconds == sum(record.seconds for record in records)
    [request] = history.requests
    assert (request.n_tokens, request.n_passes) == (len(state.tokens) - text.n_prompt, len(records))
    assert (request.n_rows - request.n_wasted) == state.cached


def replace_stop(text: Text, stop: tuple[int, ...]) -> Text:
    """The text as it ends at a stop token: what is behind it was never generated."""
    end = next((i + 1 for i in range(text.n_prompt, len(text.tokens)) if text.tokens[i] in stop), len(text.tokens))
    return Text(name=text.name, n_prompt=text.n_prompt, tokens=text.tokens[:end], stop=stop)


def test_equal_sequences_go_in_step() -> None:
    """n equal texts in n slots take the passes of one, with n times the rows, and the seconds of that price."""
    text, setting, cost = toy_text(7, 4, 50), Setting("carry", 6), COSTS["change"]
    one = alone(text, setting, cost)[1]
    history = simulate(
        Scenario(Device(SlotCost(cost, view="mean")), Texts((text,)), setting, 4, 4, arrivals=Listed((0.0,) * 4))
    )
    assert [p.n_rows for p in history.passes] == [4 * record.n_rows for record in one]
    before = [None, *(4 * record.n_rows for record in one)]
    assert [p.seconds for p in history.passes] == [
        cost.seconds(r.n_past, 4 * r.n_rows, 4 * r.n_out, b) for r, b in zip(one, before, strict=False)
    ]


# --- queueing theory -------------------------------------------------------------------------------------------------

UNIT = Text(name="unit", n_prompt=1, tokens=(1, 2))


@dataclass(frozen=True)
class Begun:
    """Services of mean 1 behind a first one that is what an arrival finds in the middle of a long history.

    That is the highest point of the random walk of services less gaps, backwards in time (Loynes 1962).
    """

    load: float
    exponential: bool

    def draws(self, rng: np.random.Generator) -> Iterator[float]:
        n = int(40 / (1 - self.load) ** 2)
        services = rng.exponential(1.0, n) if self.exponential else np.ones(n)
        yield max(float(np.cumsum(services - rng.exponential(1 / self.load, n)).max()), 1e-12)
        yield from Exponential().draws(rng) if self.exponential else repeat(1.0)


def waits(load: float, exponential: bool, n: int, rng: np.random.Generator) -> list[float]:
    """Waits of n arrivals at a server in its stationary state: unit rows, no speculation, one pass a request."""
    arrivals = Listed((0.0, 0.0, *np.cumsum(rng.exponential(1 / load, n - 1)).tolist()))
    device = Device(SlotCost(Flat(1.0)), jitter=Begun(load, exponential))  # type: ignore[arg-type]
    seed = int(rng.integers(2**32))
    history = simulate(Scenario(device, Texts((UNIT,)), Setting("greedy", 2), 1, n, arrivals, warmup=1), seed)
    found = [request.queue for request in history.counted]
    served = [p.seconds for p in history.passes]
    gaps = np.diff([request.arrived for request in history.counted])
    lindley = [max(0.0, w + s - gap) for w, s, gap in zip(found, served[1:], gaps, strict=False)]
    np.testing.assert_allclose(found[1:], lindley, atol=1e-7)
    assert found[0] == pytest.approx(served[0])
    return found


@pytest.mark.parametrize(("load", "n_runs", "n"), [(0.5, 40, 150), (0.8, 60, 200), (0.95, 100, 300)])
@pytest.mark.parametrize("exponential", [False, True], ids=["M/D/1", "M/M/1"])
def test_mean_wait_is_that_of_theory(load: float, n_runs: int, n: int, exponential: bool) -> None:
    """Pollaczek-Khinchine: load (1 + cv^2) / 2 (1 - load) services, cv 0 or 1; each wait follows Lindley's recursion.

    The interval is Student's over independent runs, 99 %, and narrow enough to tell the two queues apart.
    """
    rng = np.random.default_rng(2)
    found = interval([float(np.mean(waits(load, exponential, n, rng))) for _ in range(n_runs)], level=0.99)
    theory = load / (1 - load) * (1.0 if exponential else 0.5)
    other = load / (1 - load) * (0.5 if exponential else 1.0)
    assert found.low < theory < found.high
    assert not found.low < other < found.high


# --- conservation ----------------------------------------------------------------------------------------------------


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    slots = draw(st.integers(1, 5))
    setting = Setting(draw(st.sampled_from(sorted(LOOPS))), draw(st.integers(2, 6)))
    texts = tuple(
        toy_text(10 * i + draw(st.integers(0, 9)), draw(st.integers(1, 9)), draw(st.integers(0, 30)))
        for i in range(draw(st.integers(1, 4)))
    )
    n = draw(st.integers(1, 12))
    warmup = draw(st.integers(0, 3))
    gaps = draw(st.lists(st.sampled_from([0.0, 0.01, 0.3]), min_size=n + warmup, max_size=n + warmup))
    arrivals = draw(
        st.sampled_from(
            [Closed(), Closed(2), Poisson(0.5), Poisson(20.0), Listed(tuple(float(t) for t in np.cumsum(gaps)))]
        )
    )
    law = LawTexts(parse("ge 0.9 0.8 0.9 0.3 none 0.2"), 3, 20)
    return Scenario(
        Device(
            SlotCost(COSTS[draw(st.sampled_from(["affine", "change", "table"]))], view="mean"),
            draw(st.sampled_from([Constant(1.0), Windows(3.0, 0.1, 0.3), OrnsteinUhlenbeck(0.2, 0.5)])),
            draw(st.sampled_from([None, Lognormal(0.2), Exponential()])),
            draw(st.sampled_from([None, Stalls(0.3, 0.5), Stalls(0.01, 0.02)])),
        ),
        draw(st.sampled_from([Texts(texts), Texts(texts, shuffled=False), law])),
        setting,
        slots,
        n,
        arrivals,
        warmup,
        draw(st.sampled_from([fixed, Shared(8), Quiet(2), Backoff(1, 3)])),
        draw(st.sampled_from([48, max(slots * setting.rows, 1)])),
        draw(st.sampled_from(["shared", "alone"])),
        draw(st.sampled_from([0.0, 0.004])),
        draw(st.booleans()),
        draw(st.sampled_from([None, Patience(0.2), Patience(0.15, exact=True), Patience(5.0)])),
    )


@given(scenarios(), st.integers(0, 2**32))
@settings(max_examples=150, deadline=None)
def test_conservation(scenario: Scenario, seed: int) -> None:
    conserved(scenario, simulate(scenario, seed))


def conserved(scenario: Scenario, history: History) -> set[str]:
    """Tokens out are tokens asked, nothing is lost or served twice, one pass at a time; what was met on the way."""
    met: set[str] = set()
    requests, passes = history.requests, history.passes
    assert [request.number for request in requests] == list(range(len(requests)))
    assert len(history.counted) == scenario.requests
    assert all(request.outcome != "open" for request in history.counted)
    gained = dict.fromkeys(range(len(requests)), 0)
    rows, n_passes = dict(gained), dict(gained)
    end, rows_before = 0.0, None
    for p in passes:
        assert p.at >= end + p.drafting - 1e-9, "one pass at a time"
        end = p.at + p.seconds
        assert len(set(p.slots)) == len(p.slots) <= scenario.slots
        assert list(p.slots) == sorted(p.slots)
        assert all(0 <= slot < scenario.slots for slot in p.slots)
        assert len(p.slots) == len(p.requests) == len(p.records) == len(set(p.requests)) > 0
        assert p.n_rows == sum(record.n_rows for record in p.records) <= (scenario.most_rows or math.inf)
        if scenario.device.is_plain:
            lengths, n_out = [r.n_past for r in p.records], sum(r.n_out for r in p.records)
            assert p.seconds == scenario.device.cost.seconds(lengths, p.n_rows, n_out, rows_before)
        rows_before = p.n_rows
        if scenario.prefill == "alone":
            assert len({record.kind == "prefill" for record in p.records}) == 1
        for slot, number, record in zip(p.slots, p.requests, p.records, strict=True):
            request = requests[number]
            assert request.slot == slot
            assert request.started is not None
            assert request.started <= p.at - p.drafting + 1e-9
            assert end <= request.ended + 1e-9
            assert record.kind == "prefill" or record.n_rows <= scenario.rows
            gained[number] += record.n_tokens
            rows[number] += record.n_rows
            n_passes[number] += 1
    assert end <= history.seconds + 1e-9
    for request in requests:
        assert (request.n_tokens, request.n_rows) == (gained[request.number], rows[request.number])
        assert request.n_tokens == request.n_asked or request.outcome != "done"
        assert request.n_tokens < request.n_asked or request.outcome == "done" or not request.n_asked
        assert 0 <= request.n_wasted <= request.n_rows
        assert request.n_passes == n_passes[request.number]
        assert request.n_rows - request.n_wasted <= request.n_prompt + request.n_tokens
        assert 0 <= request.queue <= request.latency + 1e-12
        assert request.first is None or request.arrived < request.first <= request.ended
        met.add(request.outcome if request.started is None else f"{request.outcome} in a slot")
    for slot in range(scenario.slots):  # nobody sits on somebody
        here = sorted((r.started, r.ended) for r in requests if r.slot == slot and r.started is not None)
        assert all(a[1] <= b[0] for a, b in pairwise(here))
    first_come = [r.started for r in requests if r.started is not None]
    assert first_come == sorted(first_come), "first come, first served"
    for p in passes:
        kinds = {record.kind == "prefill" for record in p.records}
        met |= {"chunk"} if any(r.kind == "prefill" and not r.n_out for r in p.records) else set()
        met |= {"prompt beside decoding"} if len(kinds) == 2 else set()
        met |= {"lost in a pass"} if any(r.n_out and not r.n_tokens for r in p.records) else set()
    return met


@pytest.mark.parametrize("prefill", ["shared", "alone"])
def test_the_interesting_cases_are_reached(prefill: Any) -> None:
    """Cancelled while waiting, between passes and in the middle of one; chunks; what is left at the end."""
    source = Texts(tuple(toy_text(seed, 30, 30) for seed in range(5)))
    device = Device(SlotCost(COSTS["affine"]), jitter=Lognormal(0.1), stalls=Stalls(0.5, 0.1))
    scenario = Scenario(
        device,
        source,
        Setting("carry", 6),
        3,
        60,
        Poisson(9.0),
        5,
        Backoff(1, 2),
        20,
        prefill,
        0.01,
        True,
        Patience(1.0),
    )
    met = conserved(scenario, simulate(scenario, 3))
    assert met >= {"done in a slot", "cancelled", "cancelled in a slot", "open", "chunk", "lost in a pass"}
    assert ("prompt beside decoding" in met) == (prefill == "shared")
