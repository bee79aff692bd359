"""Discrete events: the one-sequence identity, queueing theory, conservation, and every bad input."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise, repeat
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.acceptance import iid, parse
from costmodel.batched import SlotCost
from costmodel.passcost import Affine, Flat, PassCost, Table, WithChange
from costmodel.throughput import steady
from sim.answers import ToyModel, recorded
from sim.arrivals import Closed, Listed, Patience, Poisson
from sim.arrivals import parse as parse_arrivals
from sim.device import Device, Exponential, Lognormal, Stalls
from sim.drafters import DRAFTERS
from sim.drift import Constant, OrnsteinUhlenbeck, Recorded, Windows
from sim.events import simulate
from sim.history import History
from sim.loops import LOOPS
from sim.machine import Pass, State
from sim.policies import Backoff, Quiet, Shared, fixed
from sim.policies import parse as parse_policy
from sim.replications import interval
from sim.requests import LawTexts, Texts
from sim.run import Record, run
from sim.scenario import Scenario
from sim.setting import Setting
from sim.trace import Text
from tests.worlds import SMALL

GRID = tuple(tuple(0.01 + 0.001 * n + 1e-6 * past for n in range(1, 49)) for past in (0, 300))
TABLE = Table(tuple(range(1, 49)), (0, 300), GRID, change_seconds=4e-4)
COSTS: dict[str, PassCost] = {
    "flat": Flat(0.02),
    "affine": Affine(0.01, 0.001, 1e-6, 1e-4),
    "change": WithChange(Affine(0.01, 0.001), 5e-4),
    "table": TABLE,
}


def toy_text(seed: int, n_prompt: int, n_tokens: int, n_vocab: int = 3) -> Text:
    """A text of a toy model that repeats itself, so that drafters find something."""
    model = ToyModel(n_vocab, 2, seed)
    prompt = [seed % n_vocab] * n_prompt
    return Text(name=f"toy {seed} {n_tokens}", n_prompt=n_prompt, tokens=tuple(model.greedy(prompt, n_tokens)))


def alone(text: Text, setting: Setting, cost: PassCost) -> tuple[State, list[Record]]:
    """What `run` does with a text at a price."""
    answers, before = recorded(text.tokens), None

    def engine(pass_: Pass) -> tuple[Sequence[int], float]:
        nonlocal before
        seconds = cost.seconds(pass_.keep, len(pass_.rows), pass_.want, before)
        before = len(pass_.rows)
        return answers(pass_), seconds

    return run(setting.make(), State.start(text.tokens[: text.n_prompt], text.n_tokens, text.stop), engine)


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


# --- arrivals, policies, drafting, and what noise does ---------------------------------------------------------------

FOUR = Texts(tuple(toy_text(seed, 6, 40) for seed in range(4)))
PLAIN = Device(SlotCost(COSTS["affine"], view="mean"))
BASE = Scenario(PLAIN, FOUR, Setting("carry", 6), 3, 12)
NOISY = Device(SlotCost(COSTS["affine"]), OrnsteinUhlenbeck(0.1, 1.0), Lognormal(0.1), Stalls(1.0, 0.2))


def test_same_seed_same_bytes_and_another_seed_others() -> None:
    scenario = replace(BASE, device=NOISY, arrivals=Poisson(5.0), patience=Patience(3.0))
    first, again, other = (msgspec.json.encode(simulate(scenario, seed)) for seed in (7, 7, 8))
    assert first == again != other
    seed = np.random.SeedSequence(7)
    assert simulate(scenario, seed) == simulate(scenario, seed), "a seed is not used up"


@pytest.mark.parametrize("source", [FOUR, LawTexts(parse("ge 0.9 0.8 0.9 0.3"), 3, 20)], ids=["texts", "law"])
def test_loops_meet_the_same_requests(source: Any) -> None:
    """Common random numbers: names and arrivals do not depend on the loop, and histories do."""
    base = replace(BASE, source=source, arrivals=Poisson(2.0), device=NOISY)
    seen = [simulate(replace(base, setting=Setting(loop, 6)), 3) for loop in ("greedy", "gated", "carry")]
    n = min(len(history.requests) for history in seen)
    facts = [[(r.name, r.arrived, r.n_asked) for r in history.requests[:n]] for history in seen]
    assert facts[0] == facts[1] == facts[2]
    assert len({history.seconds for history in seen}) == 3


def test_closed_arrivals_keep_all_slots_busy() -> None:
    for users, busy in ((None, 3), (2, 2), (7, 3)):
        history = simulate(replace(BASE, arrivals=Closed(users)), 1)
        assert {len(p.slots) for p in history.passes} == {busy}
        assert all(a.at + a.seconds == pytest.approx(b.at) for a, b in pairwise(history.passes))


def test_poisson_arrivals_are_poisson() -> None:
    """Gaps of mean 1 / rate and as much spread; numbers in equal times with a variance of their mean."""
    times = list(islice(Poisson(4.0).times(np.random.default_rng(1)), 20_000))
    gaps = np.diff(times)
    assert gaps.mean() == pytest.approx(0.25, rel=0.03)
    assert gaps.std() == pytest.approx(0.25, rel=0.03)
    counts = np.bincount(np.array(times[:-1], dtype=int))
    assert counts.var() / counts.mean() == pytest.approx(1, abs=0.1)


def test_drafting_waits_for_the_device_or_goes_beside_it() -> None:
    """One slot: both are the same, and each decoding pass has its own; two slots: beside is quicker."""
    one = replace(BASE, slots=1, requests=3, draft_seconds=0.05)
    waiting, beside = simulate(one), simulate(replace(one, draft_overlaps=True))
    drafted = [p for p in waiting.passes if p.records[0].kind != "prefill"]
    assert all(p.drafting == 0.05 for p in drafted)
    assert waiting.seconds == pytest.approx(simulate(replace(one, draft_seconds=0.0)).seconds + 0.05 * len(drafted))
    assert beside.seconds == pytest.approx(waiting.seconds)
    two = replace(one, slots=2, arrivals=Listed((0.0,) * 4), requests=4)
    assert simulate(replace(two, draft_overlaps=True)).seconds < simulate(two).seconds
    assert simulate(replace(one, setting=Setting("greedy", 6))).seconds == pytest.approx(
        simulate(replace(one, setting=Setting("greedy", 6), draft_seconds=0.0)).seconds
    )


def test_policies_choose_the_rows() -> None:
    history = simulate(replace(BASE, policy=Quiet(2)), 1)
    assert {r.n_rows for p in history.passes for r in p.records if r.kind != "prefill"} == {1}
    history = simulate(replace(BASE, policy=Shared(9)), 1)
    assert max(r.n_rows for p in history.passes for r in p.records if r.kind != "prefill") == 3
    with pytest.raises(ValueError, match="the policy chose 7 rows: 1 to 6 are allowed"):
        simulate(replace(BASE, policy=lambda moment: 7))


def test_backoff_rests_after_failures() -> None:
    """Where nothing is ever right, two guesses and three single rows take turns."""
    source = LawTexts(parse("iid 0"), 1, 30)
    history = simulate(Scenario(PLAIN, source, Setting("carry", 4), 1, 1, policy=Backoff(2, 3)))
    guessed = [p.records[0].guessed > 0 for p in history.passes[1:-3]]
    assert guessed[:12] == [True, True, False, False, False, True, False, False, False, True, False, False]


def test_stalls_and_drift_lengthen_passes() -> None:
    """A constant factor multiplies; stalls add the time in which they overlap; busy is the sum of both."""
    once = replace(BASE, slots=1, requests=2)
    plain = simulate(once)
    slow = simulate(replace(once, device=replace(PLAIN, drift=Constant(3.0))))
    assert [p.seconds for p in slow.passes] == pytest.approx([3 * p.seconds for p in plain.passes])
    stalled = replace(PLAIN, stalls=Stalls(0.2, 0.1))
    assert simulate(replace(once, device=stalled), 1).seconds > plain.seconds
    clock = stalled.clock(*(np.random.default_rng(i) for i in range(3)))
    windows = list(islice(stalled.stalls.windows(np.random.default_rng(2)), 50))  # type: ignore[union-attr]
    at, worked = 0.0, 0.0
    for _ in range(40):
        taken = clock(at, 0.05)
        inside = sum(max(0.0, min(at + taken, end) - max(at, start)) for start, end in windows)
        assert taken == pytest.approx(0.05 + inside)
        at, worked = at + taken, worked + inside
    assert worked > 0.1


def test_jitter_has_mean_one() -> None:
    for jitter, sd in ((Lognormal(0.3), np.sqrt(np.exp(0.09) - 1)), (Exponential(), 1.0)):
        draws = np.array(list(islice(jitter.draws(np.random.default_rng(0)), 50_000)))
        assert draws.mean() == pytest.approx(1, abs=0.02)
        assert draws.std() == pytest.approx(sd, rel=0.04)


def test_law_texts_accept_as_their_chain_says() -> None:
    """Mean tokens of a pass against the exact law, for positional and renewal laws alike."""
    for words in ("iid 0.7", "ge 0.9 0.8 0.95 0.2 none 0.2", "survival 0.8 0.6 0.5 0.2 none 0.1"):
        law = parse(words)
        history = simulate(Scenario(PLAIN, LawTexts(law, 1, 1500), Setting("carry", 5), 4, 8), 2)
        records = [r for p in history.passes for r in p.records if r.kind != "prefill"]
        found = sum(r.n_tokens for r in records) / len(records)
        assert found == pytest.approx(steady("carry", law, 5).tokens_per_pass, rel=0.03)


# --- what is wrong ---------------------------------------------------------------------------------------------------

NARROW = Device(SlotCost(Table(tuple(range(1, 9)), (0,), ((0.01,) * 8,))))
WRONG: list[tuple[str, Callable[[], Any]]] = [
    ("slots must be at least 1, not 0", lambda: replace(BASE, slots=0)),
    ("requests must be at least 1, not 0", lambda: replace(BASE, requests=0)),
    ("warmup must be at least 0, not -1", lambda: replace(BASE, warmup=-1)),
    ("prefill must be one of shared, alone, not 'first'", lambda: replace(BASE, prefill="first")),  # type: ignore[arg-type]
    ("draft_seconds must be zero or positive", lambda: replace(BASE, draft_seconds=-0.1)),
    ("3 slots of up to 6 rows make passes of up to 18 rows, but the cost table has only 1, 2, 3",
     lambda: replace(BASE, device=NARROW)),
    ("3 slots of up to 6 rows are 18, more than the 8 rows", lambda: replace(BASE, most_rows=8)),
    ("12 requests are to be served, but the list has 2 arrivals", lambda: replace(BASE, arrivals=Listed((0.0, 1.0)))),
    ("rate of arrivals must be positive and finite, not -1", lambda: Poisson(-1.0)),
    ("rate of arrivals must be positive and finite, not 0", lambda: Poisson(0.0)),
    ("arrivals must be ascending, but 1.0 comes after 2.0", lambda: Listed((2.0, 1.0))),
    ("the list of arrivals is empty", lambda: Listed(())),
    ("zero or positive, and finite", lambda: Listed((math.nan,))),
    ("closed arrivals need at least 1 user, not 0", lambda: Closed(0)),
    ("patience must be positive and finite, not 0", lambda: Patience(0.0)),
    ("jitter must be zero or positive and finite, not -0.1", lambda: Lognormal(-0.1)),
    ("seconds of stalls must be positive and finite, not inf", lambda: Stalls(1.0, math.inf)),
    ("factor of the drift constant must be positive", lambda: Constant(0.0)),
    ("recorded drift ends early", lambda: simulate(
        replace(BASE, device=replace(PLAIN, drift=Recorded((0.0, 0.5), (1.0, 2.0)))))),
    ("total of the policy must be at least 1, not 0", lambda: Shared(0)),
    ("there is no text to serve", lambda: Texts(())),
    ("n_tokens must be at least 1, not 0", lambda: LawTexts(iid(0.5), 1, 0)),
    ("knows the first 2 drafts only, not number 3: use fewer rows",
     lambda: simulate(replace(BASE, source=LawTexts(parse("survival 0.8 0.6"), 1, 9)))),
    ("no passes of 9 rows", lambda: simulate(
        Scenario(NARROW, Texts((toy_text(1, 9, 4),)), Setting("carry", 6), 1, 1))),
]  # fmt: skip


@pytest.mark.parametrize(("words", "call"), WRONG, ids=[words for words, _ in WRONG])
def test_what_is_wrong_is_named(words: str, call: Callable[[], Any]) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        call()


@pytest.mark.parametrize(
    ("parser", "words"),
    [
        *((parse_arrivals, words) for words in ("", "poisson", "poisson x", "poisson 1 2", "closed x", "no such file")),
        *((parse_policy, words) for words in ("", "fixed 1", "shared", "shared -1", "backoff 2", "quiet x")),
    ],
)
def test_words_that_say_nothing_are_refused(parser: Callable[[str], Any], words: str) -> None:
    with pytest.raises(ValueError, match="none of"):
        parser(words)


def test_arrivals_come_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "arrivals.jsonl"
    file.write_text("0.5\n\n1\n2.25\n")
    assert parse_arrivals(str(file)) == Listed((0.5, 1.0, 2.25))
    file.write_text("0.5\nsoon\n")
    with pytest.raises(ValueError, match="line 2: 'soon' is no number of seconds"):
        parse_arrivals(str(file))
    file.write_text("2\n1\n")
    with pytest.raises(ValueError, match=r"arrivals.jsonl: arrivals must be ascending"):
        parse_arrivals(str(file))
