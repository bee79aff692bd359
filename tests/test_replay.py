"""The compiled walk is the machine's: pass by pass over the whole battery, index by index, second by second."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.passcost import Affine, Flat, Table, WithChange
from sim.answers import recorded
from sim.bounds import oracle, perfect
from sim.drafters import DRAFTERS, NGram
from sim.index import _ask, index
from sim.loops import LOOPS
from sim.machine import Pass
from sim.predict import price as exact_price
from sim.predict import walk
from sim.replay import BIN, Counts, counted, drafts, passes, price, ready, replay, setting_counts
from sim.run import Record, run
from sim.setting import IMPURE, Setting
from sim.trace import Text, load
from sim.walk import LOOP_WORDS, ZEROS, Index
from tests.test_battery import worlds
from tests.worlds import CLIPS, PROMPTS, World, drafter, greedy_text, random_worlds

TABLE = Table(
    tuple(range(1, 10)),
    (1, 120, 250, 256, 500),
    tuple(
        tuple(1e-2 + 2e-3 * n + 1e-3 * (n == 4) + 2e-6 * past for n in range(1, 10)) for past in (1, 120, 250, 256, 500)
    ),
    change_seconds=4e-4,
)
COUNTING = WithChange(Affine(0.01, 0.001, 1e-6, 1e-4), 3e-4)
RECORDED = Path(__file__).parent / "recorded.jsonl"


def by_machine(world: World, truth: list[int]) -> list[Record]:
    answers = recorded(truth)

    def engine(pass_: Pass) -> tuple[Sequence[int], float]:
        return answers(pass_), 0.0

    return run(world.make(truth), world.start(), engine)[1]


def indexed(world: World, truth: list[int]) -> Index:
    return index(
        truth,
        len(world.prompt),
        drafter(world.drafter, truth, world.seed),
        goal=len(world.prompt) + world.n_tokens,
        stops=world.stops,
        overrun=world.overrun,
    )


def by_walk(world: World, truth: list[int]) -> list[Record]:
    clip, prompt = CLIPS[world.clip], PROMPTS[world.prompt_style]
    return passes(indexed(world, truth), world.loop, world.n_rows, clip=clip, prompt=prompt, recurrent=world.recurrent)


def test_every_loop_has_words() -> None:
    assert set(LOOP_WORDS) == set(LOOPS)


@pytest.mark.parametrize("loop", LOOPS)
@given(st.data())
@settings(max_examples=60, deadline=None)
def test_every_pass_of_every_world(loop: str, data: st.DataObject) -> None:
    """Every loop, pure drafter, clipping, prompt style, stop set, memory; texts of a model with penalties too."""
    world = data.draw(worlds(loop).filter(lambda world: world.drafter not in IMPURE))
    truth, _ = greedy_text(world, world.model())
    records = by_machine(world, truth)
    assert by_walk(world, truth) == records, world
    size = data.draw(st.sampled_from([1, 3, 16, 64]))
    clip, prompt = CLIPS[world.clip], PROMPTS[world.prompt_style]
    ours = replay(
        indexed(world, truth),
        loop,
        world.n_rows,
        clip=clip,
        prompt=prompt,
        recurrent=world.recurrent,
        bin_tokens=size,
    )
    theirs = counted(records, size)
    assert ours.sums == theirs.sums, world
    assert by_bin(ours, size, world.n_rows) == by_bin(theirs, size, world.n_rows), world
    # Means are rounded, so larger bins may be off by half a cached token's price a pass.
    off = 1e-12 if size == 1 else 0.5e-6 * ours.sums.n_passes + 1e-12
    assert ours.seconds(COUNTING) == pytest.approx(exact_price(records, COUNTING).sum(), rel=0, abs=off), world


def test_the_interesting_cases_are_reached() -> None:
    """A battery that never meets a kind of pass in a loop proves nothing about it."""
    met: dict[str, Counter[str]] = {loop: Counter() for loop in LOOPS}
    for _, world in zip(range(2000), random_worlds(seed=5), strict=False):
        if world.drafter in IMPURE:
            continue
        truth, _ = greedy_text(world, world.model())
        records = by_walk(world, truth)
        assert records == by_machine(world, truth), world
        met[world.loop].update(record.kind for record in records)
        met[world.loop].update("wasted" for r in records if r.kind == "verify" and not r.n_tokens)
    usual = {"prefill", "decode", "verify", "correction", "replay"}
    for loop in set(LOOPS) - {"greedy", "padded", "dummy"}:
        assert usual <= set(met[loop]) | ({"correction"} if loop == "carry" else set()), (loop, met[loop])
    assert met["fused"]["chained"] > 50 < met["padded"]["chained"]
    assert met["re-anchor"]["wasted"] > 50


def test_every_pass_of_the_texts_of_a_real_run() -> None:
    """What `sweepcap run` recorded of the default model; `python -m benchmarks.replay TEXTS.jsonl` does it for any."""
    n = 0
    for text in load(RECORDED)[1]:
        for name in DRAFTERS.keys() - IMPURE:
            found = drafts(text, name)
            for loop in LOOPS:
                mine = passes(found, loop, 6)
                assert mine == walk(text, Setting(loop, 6, name)), (text.name, name, loop)
                n += len(mine)
    assert n > 30_000


@given(
    text=st.lists(st.integers(0, 3), min_size=2, max_size=90),
    period=st.integers(1, 9),
    n_max=st.integers(1, 5),
    n_min=st.integers(1, 5),
    n_draft=st.integers(1, 12),
    pick=st.sampled_from(["latest", "earliest"]),
    whole=st.booleans(),
    run_on=st.booleans(),
    stops=st.frozensets(st.integers(0, 3), max_size=2),
    data=st.data(),
)
@settings(max_examples=250, deadline=None)
def test_compiled_lookup_is_the_drafter(
    text: list[int], period: int, n_max: int, n_min: int, n_draft: int, pick: str, whole: bool, run_on: bool,
    stops: frozenset[int], data: st.DataObject,
) -> None:  # fmt: skip
    """Every number of the index, against the drafter asked at every length."""
    text = text + [text[i % period % len(text)] for i in range(3 * period)]
    n_prompt = data.draw(st.integers(1, len(text)))
    parameters = {"n_max": max(n_max, n_min), "n_min": n_min, "n_draft": n_draft}
    made = NGram(**parameters, pick=pick, whole=whole, run_on=run_on)
    found = index(text, n_prompt, made, stops=stops)
    known = np.array(text, dtype=np.int32)
    asked = _ask(known, n_prompt, found.limit, NGram(**parameters, pick=pick, whole=whole, run_on=run_on), stops)
    assert found.looks[n_prompt:, :ZEROS].tolist() == asked[n_prompt:, :ZEROS].tolist()


@pytest.mark.parametrize("name", ["hf-prompt-lookup", "vllm-ngram", "llama-cpp-python", "pld-original"])
def test_presets_are_compiled_with_their_own_rules(name: str) -> None:
    text = [int(x) for x in np.random.default_rng(3).integers(0, 4, 400)]
    found = index(text, 20, DRAFTERS[name](), stops={3})
    asked = _ask(np.array(text, dtype=np.int32), 20, found.limit, DRAFTERS[name](), frozenset({3}))
    assert found.looks[20:, :ZEROS].tolist() == asked[20:, :ZEROS].tolist()


def test_a_text_that_the_drafter_refuses_is_refused() -> None:
    indexed = index([1, 2, 1, 2, 1, 2], 1, DRAFTERS["pld-original"]())
    with pytest.raises(ValueError, match="refuses a text as short"):
        passes(indexed, "carry", 4)
    with pytest.raises(ValueError, match="refuses a text as short"):
        replay(indexed, "gated", 4)
    assert passes(indexed, "greedy", 4)  # which never asks


def long_text(seed: int = 0, length: int = 600) -> Text:
    rng = np.random.default_rng(seed)
    source = rng.integers(0, 50, 80).tolist()
    tokens: list[int] = []
    while len(tokens) < length:
        start = int(rng.integers(80))
        tokens += source[start : start + int(rng.integers(3, 30))] + rng.integers(0, 101, 2).tolist()
    return Text(name=f"text {seed}", n_prompt=40, tokens=tuple(tokens[:length]))


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("cost", [Flat(0.01), Affine(0.01, 0.001, 1e-6, 1e-4), TABLE], ids=["flat", "affine", "table"])
def test_seconds_are_those_of_the_passes(loop: str, cost: Flat | Affine | Table) -> None:
    """Exact for bins of one token; within the price of half a cached token for larger ones."""
    text = Text(name="a", n_prompt=40, tokens=long_text().tokens[:480])
    setting = Setting(loop, 7, "ngram n_max=2")
    records = walk(text, setting)
    exact = exact_price(records, cost).sum()
    found = drafts(text, setting.drafter)
    assert replay(found, loop, 7, bin_tokens=1).seconds(cost) == pytest.approx(exact, rel=1e-12)
    assert replay(found, loop, 7).seconds(cost) == pytest.approx(exact, rel=1e-4)
    ours, theirs = replay(found, loop, 7), counted(records)
    assert ours.sums == theirs.sums
    assert by_bin(ours, BIN, 7) == by_bin(theirs, BIN, 7)


def by_bin(counts: Counts, size: int, n_rows: int) -> Counter[tuple[int, ...]]:
    """How many passes are alike; more rows before than a loop feeds are told as R + 2."""
    made: Counter[tuple[int, ...]] = Counter()
    numbers = (counts.kind, counts.n_past, counts.n_rows, np.minimum(counts.n_rows_before, n_rows + 2), counts.count)
    for kind, past, rows, before, count in zip(*(array.tolist() for array in numbers), strict=True):
        made[kind, rows, before, (past + rows - 1) // size] += count
    return made


def test_one_walk_is_priced_many_times() -> None:
    counts = [replay(drafts(long_text(seed), "ngram"), "carry", 5) for seed in range(3)]
    for cost in (Flat(0.02), Affine(0.01, 0.002)):
        assert price(counts, cost).tolist() == pytest.approx([c.seconds(cost) for c in counts])
    assert price([], Flat(1.0)).tolist() == []


def test_drafters_that_learn_are_walked_by_the_machine() -> None:
    setting = Setting("carry", 5, "ngram-map-k n_key=2 n_draft=4")
    text = long_text()
    assert setting_counts(text, setting).sums.n_tokens == text.n_tokens - 1
    with pytest.raises(ValueError, match="each loop has drafts of its own"):
        drafts(text, setting.drafter)


@given(
    loop=st.sampled_from(list(LOOPS)),
    tokens=st.lists(st.integers(1, 3), min_size=3, max_size=30),
    n_rows=st.integers(2, 6),
    replays=st.booleans(),
)
def test_no_draft_is_cut_to_a_stop_token_that_nobody_knew_of(
    loop: str, tokens: list[int], n_rows: int, replays: bool
) -> None:
    text = Text(name="a", n_prompt=2, tokens=(*tokens, 7), stop=(7,))
    setting = Setting(loop, n_rows, "ngram")
    made = passes(drafts(text, "ngram"), setting.loop, setting.rows, recurrent=replays)
    assert made == walk(text, setting, replays=replays)


def test_a_text_of_one_token_has_no_pass_to_count() -> None:
    for n_tokens in (0, 1):
        text = Text(name="a", n_prompt=3, tokens=(1, 2, 1, 2)[: 3 + n_tokens])
        counts = replay(drafts(text, "ngram"), "carry", 4)
        assert counts.sums == (0, 0, 0, 0, 0, 0)
        assert counts.seconds(TABLE) == 0
        assert oracle(drafts(text, "ngram"), TABLE, [4]).tolist() == [0.0]


def test_a_long_text_is_walked_by_the_compiled_loop_and_a_short_one_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    text, setting = long_text(), Setting("fused", 6)
    plain = walk(text, setting)
    monkeypatch.setattr("sim.predict.LONG", 100)
    monkeypatch.setattr("sim.predict.run", None)
    assert walk(text, setting) == plain


def test_predicting_a_short_text_loads_no_compiler() -> None:
    code = (
        "import sys; from sim.predict import predict; from sim.setting import Setting; from sim.trace import Text;"
        "from costmodel.passcost import Flat;"
        "predict(Text(name='a', n_prompt=2, tokens=(1, 2) * 50), Setting('carry', 4), Flat(1.0));"
        "sys.exit('numba' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_what_cannot_be_is_refused() -> None:
    indexed = drafts(long_text(), "ngram")
    with pytest.raises(ValueError, match="unknown loop 'carri': the loops are"):
        replay(indexed, "carri", 4)
    with pytest.raises(ValueError, match="n_rows must be at least 2"):
        replay(indexed, "carry", 1)
    with pytest.raises(ValueError, match="a bin holds"):
        replay(indexed, "carry", 4, bin_tokens=0)
    with pytest.raises(ValueError, match="must hold"):
        index([1, 2, 3], 2, NGram(), goal=9)
    assert ready()


# --- bounds ----------------------------------------------------------------------------------------------------------

costs = st.one_of(
    st.builds(Flat, st.floats(0.01, 1)),
    st.builds(Affine, st.floats(0.01, 1), st.floats(0, 1), st.floats(0, 1e-2)),
    st.builds(
        lambda seconds, change: Table((1, 2, 3, 4, 5, 6), (0, 300), (tuple(seconds),) * 2, change_seconds=change),
        st.lists(st.floats(0.5, 3), min_size=6, max_size=6),
        st.sampled_from([0.0, 0.3]),
    ),
)


@given(
    st.lists(st.sampled_from([0, 1, 2, 100]), min_size=4, max_size=60),
    st.integers(1, 3),
    st.integers(2, 6),
    costs,
    st.sampled_from(["ngram", "ngram n_max=1 run_on=false", "hf-prompt-lookup"]),
    st.frozensets(st.integers(0, 2), max_size=1),
)
@settings(max_examples=150, deadline=None)
def test_no_loop_beats_oracle_and_oracle_never_beats_perfect(
    tokens: list[int], n_prompt: int, n_rows: int, cost: Flat | Affine | Table, spec: str, stops: frozenset[int]
) -> None:
    text = Text(name="a", n_prompt=n_prompt, tokens=tuple(tokens), stop=tuple(stops))
    indexed = drafts(text, spec)
    least, ideal = oracle(indexed, cost, [n_rows])[0], perfect(indexed, cost, [n_rows])[0]
    assert ideal <= least * (1 + 1e-12)
    for loop in LOOPS:
        assert least <= replay(indexed, loop, n_rows, bin_tokens=1).seconds(cost) * (1 + 1e-12) + 1e-15, loop


def cheapest(text: Text, cost: Table, n_rows: int, right: dict[int, int], n: int, before: int) -> float:
    """The same bound told as it is defined: try every number of rows, everywhere."""
    if n >= len(text.tokens):
        return 0.0
    return min(
        cost.seconds(n - 1, r, r, before)
        + cheapest(text, cost, n_rows, right, min(n + min(r - 1, right[n]) + 1, len(text.tokens)), r)
        for r in range(1, n_rows + 1)
    )


@given(st.lists(st.integers(1, 3), min_size=3, max_size=9), st.lists(st.floats(0.5, 3), min_size=3, max_size=3))
@settings(max_examples=60, deadline=None)
def test_bounds_are_the_cheapest_of_all_choices(tokens: list[int], seconds: list[float]) -> None:
    text = Text(name="a", n_prompt=2, tokens=tuple(tokens))
    cost = Table((1, 2, 3), (0, 300), (tuple(seconds),) * 2, change_seconds=0.2)
    propose = NGram()
    right = {}
    for n in range(3, len(tokens)):
        ahead = propose(tokens[:n])
        behind = NGram()(tokens[: n - 1])
        reach = [0]
        for draft, start in ((ahead, n), (behind, n - 1)):
            same = next(
                (i for i, t in enumerate(draft) if start + i >= len(tokens) or t != tokens[start + i]), len(draft)
            )
            reach.append(same - (n - start))
        right[n] = max(reach)
    indexed = drafts(text, "ngram")
    told = cheapest(text, cost, 3, right, 3, 2)
    assert oracle(indexed, cost, [3])[0] == pytest.approx(told)
    endless = dict.fromkeys(right, 99)
    assert perfect(indexed, cost, [3])[0] == pytest.approx(cheapest(text, cost, 3, endless, 3, 2))


def test_perfect_on_a_flat_cost_needs_no_more_passes_than_its_tokens_fill() -> None:
    text = long_text()
    assert perfect(drafts(text, "ngram"), Flat(1.0), [6])[0] == -(-(text.n_tokens - 1) // 6)


def test_a_cost_without_some_row_counts_bounds_what_is_left_of_them() -> None:
    sparse = Table((1, 2, 4), (0, 700), ((1.0, 1.1, 1.2),) * 2)
    dense = Table((1, 2, 3, 4), (0, 700), ((1.0, 1.1, 9.0, 1.2),) * 2)
    indexed = drafts(long_text(), "ngram")
    assert oracle(indexed, sparse, [4])[0] == pytest.approx(oracle(indexed, dense, [4])[0])
    with pytest.raises(ValueError, match="too far"):
        oracle(indexed, Table((1, 2), (0,), ((1.0, 1.0),)), [2])
