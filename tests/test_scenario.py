"""Scenarios: arrivals, policies, drafting, what noise does, and every bad input."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from costmodel.acceptance import iid, parse
from costmodel.batched import SlotCost
from costmodel.passcost import Table
from costmodel.throughput import steady
from sim.arrivals import Closed, Listed, Patience, Poisson
from sim.arrivals import parse as parse_arrivals
from sim.device import Device, Exponential, Lognormal, Stalls
from sim.drift import Constant, Recorded
from sim.events import simulate
from sim.policies import Backoff, Quiet, Shared
from sim.policies import parse as parse_policy
from sim.requests import LawTexts, Texts
from sim.scenario import Scenario
from sim.setting import Setting
from tests.scenarios import BASE, FOUR, NOISY, PLAIN, toy_text


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
