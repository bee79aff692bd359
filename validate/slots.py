"""Several sequences on real llama.cpp, timed: all rows of all slots in one `llama_decode` a pass.

For each number of slots, all settings over all workloads go side by side, each in a context of its own, and take turns
pass by pass (`validate.design`). Rounds of a calibration are strewn among them: passes of as many rows in all, over as
many sequences, on as many cached tokens in all, as the loops were seen to take over the recorded texts. So what total
rows over several sequences cost is learned in the very minutes in which it is used.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from time import monotonic
from typing import Any

import msgspec
import numpy as np

from sim.machine import Pass
from sim.setting import Setting
from sim.trace import Header as TextsHeader
from sim.trace import Text
from validate import environment, watch
from validate.closed import SlotLane, begins, check_long_enough, walked
from validate.design import block_order, next_turn
from validate.files import append, check_writable, cut_half_line, write
from validate.knots import Grid, Strewn, calibration_round
from validate.llama import LlamaEngine, Model, SlotsEngine, Snapshot, build, opened, padded
from validate.parity import first_difference, margin_noise, triage
from validate.progress import Advance, Say, quiet
from validate.record import check_recorded_with
from validate.runs import Header
from validate.slotruns import FORMAT, VERSION, Served, SlotBlock, SlotRun
from validate.slotruns import load as load_blocks

WORKLOADS = {"locked": ("locked repetition", "list"), "free": ("story", "code edit")}
"""Which of the suite's texts the slots serve: those that repeat themselves, and those that hardly do."""
N_COUNTS = 16
"""Row counts that a calibration visits, besides the fewest and the most: those that part the passes into equal shares.
Between two of them the cost is a straight line, which it leaves by several per cent from one count to the next (odd
ones are dear). So there are enough to average over that, and not so many that each is hardly visited: a machine's
speed wanders from one moment to the next."""


@dataclass(frozen=True, slots=True)
class SlotPlan:
    """What is timed: settings in slots over workloads (names of texts by a name of their own), in blocks.

    `n_rounds` calibration rounds go with a block of the most slots, twice as many with half the slots: they are short.

    Raises ValueError for no slots at all, for the same number twice, and for a workload without texts.
    """

    settings: tuple[Setting, ...]
    slots: tuple[int, ...]
    workloads: Mapping[str, tuple[str, ...]]
    n_blocks: int
    n_rounds: int = 4
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.slots or min(self.slots) < 1 or len(set(self.slots)) < len(self.slots):
            given = ",".join(map(str, self.slots))
            raise ValueError(f"slots must be different whole numbers from 1 on, as in 1,2,4,8, not {given!r}")
        if not self.workloads or not all(self.workloads.values()):
            raise ValueError("there is no text to serve: name some for every workload")

    def served(self, texts: Sequence[Text], workload: str, n_slots: int) -> list[Text]:
        """The text of each slot: those of a workload in turn. ValueError for one that was not recorded, or is short."""
        by_name = {text.name: text for text in texts}
        for name in self.workloads[workload]:
            if name not in by_name:
                raise ValueError(f"the texts hold no {name!r} for the workload {workload!r}: record it")
            check_long_enough(by_name[name])
        return [by_name[name] for name in islice(cycle(self.workloads[workload]), n_slots)]

    def rounds(self, n_slots: int) -> int:
        """How many calibration rounds go with one block of so many slots."""
        return self.n_rounds * (max(self.slots) // n_slots)

    @property
    def most_rows(self) -> int:
        """Rows of the widest pass."""
        return max(setting.rows for setting in self.settings) * max(self.slots)

    def lanes(self) -> list[tuple[str, Setting]]:
        """What goes side by side."""
        return [(workload, setting) for workload in self.workloads for setting in self.settings]

    def facts(self, header: TextsHeader, texts: Sequence[Text]) -> dict[str, Any]:
        """What a later call must agree with; blocks and numbers of slots may grow."""
        return {
            "settings": [str(setting) for setting in self.settings],
            "workloads": {name: list(names) for name, names in self.workloads.items()},
            "lengths": {text.name: len(text.tokens) for text in texts},
            "seed": self.seed,
            "model_hash": header.model_hash,
        }


def visited(plan: SlotPlan, texts: Sequence[Text], n_slots: int) -> Grid:
    """The calibration grid of so many slots: what the loops take over the recorded texts.

    Sums of cached lengths near both ends of those seen, and the row counts that are seen most, the fewest and the most
    that can be among them.
    """
    rows: Counter[int] = Counter()
    past: list[int] = []
    for workload, setting in plan.lanes():
        passes = walked(setting, workload, plan.served(texts, workload, n_slots)).passes
        rows.update(sum(p.n_rows) for p in passes)
        past += [sum(p.n_past) for p in passes]
    seen = sorted(rows.elements())
    shares = np.linspace(0, len(seen) - 1, N_COUNTS).round().astype(int).tolist()
    kept = {n_slots, n_slots * max(setting.rows for setting in plan.settings), *(seen[i] for i in shares)}
    low, high = np.quantile(past, (0.1, 0.9)).astype(int).tolist()
    # Whole tokens for each slot, as near as can be.
    return Grid(n_past=(low // n_slots * n_slots, (high // n_slots + 1) * n_slots), n_rows=tuple(sorted(kept)))


@dataclass(slots=True)
class SlotKnot:
    """A context whose slots hold a text each up to one cached length, and the total rows of the pass it fed last."""

    engine: SlotsEngine
    past: int
    n_rows: int

    def feed(self, tokens: Sequence[int], n_rows: int, n_out: int) -> float:
        """Seconds of a pass of `n_rows` rows in all, shared out as evenly as can be; all answers are wanted."""
        self.n_rows, n = n_rows, self.engine.n_slots
        shares = [(n_rows * (i + 1)) // n - (n_rows * i) // n for i in range(n)]
        return self.engine([Pass(self.past, tuple(tokens[self.past : self.past + r]), r) for r in shares])[1]


@contextmanager
def slot_knots(
    model: Model, visit: Grid, n_slots: int, tokens: Sequence[int], n_ctx: int, n_threads: int
) -> Iterator[list[SlotKnot]]:
    """A context for each sum of cached lengths, filled once; every row count is fed once, which does not count."""
    with ExitStack() as stack:
        made = []
        for total in visit.n_past:
            past = total // n_slots
            engine = stack.enter_context(SlotsEngine(model, n_slots, n_ctx=n_ctx, n_threads=n_threads))
            for slot in range(n_slots):
                engine([Pass(0, tuple(tokens[:past]), 1) if i == slot else None for i in range(n_slots)])
            knot = SlotKnot(engine, past, 0)
            for n in visit.n_rows:
                knot.feed(tokens, n, n)
            made.append(knot)
        yield made


def side_by_side(lanes: Sequence[SlotLane], strewn: Strewn, rng: np.random.Generator) -> list[SlotRun]:
    """All lanes to their ends, pass by pass in turn, the calibration's cells evenly among them."""
    gc.collect()
    gc.disable()
    try:
        going = list(lanes)
        while going:
            shares = [int(1000 * lane.share) for lane in going]
            strewn.until(min(shares) / 1000)
            i = next_turn(shares, rng)
            if not going[i].turn():
                del going[i]
    finally:
        gc.enable()
    strewn.finish()
    return [lane.result(place) for place, lane in enumerate(lanes)]


class _Session:
    """A model's contexts for one number of slots, and the caches of the places where the slots begin."""

    def __init__(self, model: Model, plan: SlotPlan, texts: Sequence[Text], n_slots: int, n_threads: int) -> None:
        self.plan, self.n_slots, self._stack = plan, n_slots, ExitStack()
        self.served = {w: plan.served(texts, w, n_slots) for w in plan.workloads}
        self.visit = visited(plan, texts, n_slots)
        most = max(s.rows for s in plan.settings)
        n_ctx = padded(max(sum(len(t.tokens) + most for t in served) for served in self.served.values()))
        n_ctx = max(n_ctx, padded(self.visit.n_past[-1] + n_slots * most))
        longest = max(len(text.tokens) for text in texts)
        self.tokens = (max(texts, key=lambda t: len(t.tokens)).tokens * 2)[: longest + most]
        with LlamaEngine(model, n_ctx=padded(longest), n_threads=n_threads) as one:
            self.places = {w: _begun(one, served) for w, served in self.served.items()}
        self.engines = [
            self._stack.enter_context(SlotsEngine(model, n_slots, n_ctx=n_ctx, n_threads=n_threads))
            for _ in plan.lanes()
        ]
        for engine in self.engines:  # weights paged in, threads awake: does not count
            engine([Pass(0, self.tokens[:most], most)] * n_slots)
        self.knots = self._stack.enter_context(
            slot_knots(
                model, self.visit, n_slots, self.tokens, padded(self.visit.n_past[-1] + n_slots * most), n_threads
            )
        )

    def close(self) -> None:
        self._stack.close()

    def block(self, block: int, judge: LlamaEngine) -> SlotBlock:
        """One block, timed; `judge` holds one sequence at a time and says what the company of the others changes."""
        plan, lanes = self.plan, []
        order = block_order(plan.lanes(), block, plan.seed + self.n_slots)
        for engine, (workload, setting) in zip(self.engines, order, strict=True):
            for slot, snapshot in enumerate(self.places[workload]):
                engine.restore(slot, snapshot)
            lanes.append(SlotLane(engine, setting, workload, self.served[workload]))
        rng, n_rounds = np.random.default_rng((plan.seed, block, self.n_slots)), plan.rounds(self.n_slots)
        rounds = [calibration_round(self.knots, self.tokens, self.visit, rng) for _ in range(n_rounds)]
        strewn = Strewn(rounds, n_rounds * self.visit.n_passes)
        runs = side_by_side(lanes, strewn, rng)
        return SlotBlock(
            block=block,
            n_slots=self.n_slots,
            visit=self.visit,
            rounds=tuple(strewn.rounds),
            runs=tuple(runs),
            noise=max(_noise(engine, lane, judge) for engine, lane in zip(self.engines, lanes, strict=True)),
        )


def _noise(engine: SlotsEngine, lane: SlotLane, judge: LlamaEngine) -> float:
    """The most by which company changed a lead between two tokens, for the lane's longest text as it stands now.

    What slots have given back to the cache others have taken, so a sequence's rows lie scattered in it and are summed
    in another order than where it is alone.
    """
    slot, known = max(enumerate(lane.known()), key=lambda each: len(each[1]))
    passes = [Pass(len(k) - 1, k[-1:] * lane.setting.rows, lane.setting.rows) for k in lane.known()]
    among = engine.logits(passes)[slot * lane.setting.rows]
    judge(Pass(0, known[:-1], 1))
    return float(np.ptp(among - judge.logits(Pass(len(known) - 1, known[-1:], 1))[0]))


def _begun(engine: LlamaEngine, texts: Sequence[Text]) -> list[Snapshot]:
    """The cache of each slot at the place where it begins."""
    made: dict[int, Snapshot] = {}
    places = sorted((text.name, n - 1, i) for i, (text, n) in enumerate(zip(texts, begins(texts), strict=True)))
    before = ""
    for name, past, i in places:
        cached = min(engine.n_cached, past) if name == before else 0
        if past > cached:
            engine(Pass(cached, texts[i].tokens[cached:past], 1))
        made[i], before = engine.snapshot(), name
    return [made[i] for i in range(len(texts))]


def measure_slots(
    path: Path,
    file: Path,
    header: TextsHeader,
    texts: Sequence[Text],
    plan: SlotPlan,
    n_threads: int,
    *,
    limit_seconds: float | None = None,
    advance: Advance = quiet,
    say: Say = quiet,
) -> None:
    """Time the plan on the model in a file, going on from what `file` already holds.

    Raises ValueError when the runs there are of another plan, model or thread count.
    """
    check_writable(file)
    cut_half_line(file)
    for workload in plan.workloads:
        plan.served(texts, workload, 1)
    begin = monotonic()
    with opened(path, n_threads) as model, ExitStack() as stack:
        check_recorded_with(path, header)
        longest = padded(max(len(text.tokens) for text in texts) + plan.most_rows)
        judge = stack.enter_context(LlamaEngine(model, n_ctx=longest, n_threads=n_threads))
        watcher = watch.Watch()
        noise, done = _go_on(file, header, texts, plan, judge)
        for warning in watch.before(watcher.look(), n_threads):
            say(warning)
        steps = [(block, n) for block in range(plan.n_blocks) for n in plan.slots]
        sessions: dict[int, _Session] = {}
        took = dict.fromkeys(plan.slots, 0.0)
        for i, (block, n) in enumerate(steps):
            if (block, n) in done:
                continue
            advance(f"block {block + 1} of {plan.n_blocks}: {n} slots", i, len(steps))
            if (
                limit_seconds is not None
                and monotonic() - begin + sum(took.values()) > limit_seconds
                and n == plan.slots[0]
            ):
                say(f"stopped after {block} of {plan.n_blocks} blocks: the next would not fit the time limit")
                break
            started = monotonic()
            if n not in sessions:
                sessions[n] = _Session(model, plan, texts, n, n_threads)
                stack.callback(sessions[n].close)
            made = sessions[n].block(block, judge)
            took[n] = monotonic() - started
            append(file, msgspec.json.encode(_judged(made, texts, judge, max(noise, made.noise))))
        advance("measured", len(steps), len(steps))


def _judged(block: SlotBlock, texts: Sequence[Text], engine: LlamaEngine, noise: float) -> SlotBlock:
    """The block with a verdict on every request whose ids are not the recorded ones."""
    by_name = {text.name: text for text in texts}

    def judged(request: Served) -> Served:
        text = by_name[request.text]
        ours = (*text.tokens[text.n_prompt : request.n_known], *request.tokens)
        recorded = text.tokens[: text.n_prompt + len(ours)]
        if first_difference(recorded[text.n_prompt :], ours) is None:
            return request
        text = msgspec.structs.replace(text, tokens=recorded)
        return msgspec.structs.replace(request, parity=triage(engine, text, ours, noise))

    runs = (msgspec.structs.replace(r, requests=tuple(map(judged, r.requests))) for r in block.runs)
    return msgspec.structs.replace(block, runs=tuple(runs))


def _widths(most: int) -> list[int]:
    """Some widths of passes up to the widest, each twice the one before: 2, 4, 8, ..."""
    return sorted({most, *(2**i for i in range(1, most.bit_length()))})


def _go_on(
    file: Path, header: TextsHeader, texts: Sequence[Text], plan: SlotPlan, engine: LlamaEngine
) -> tuple[float, set[tuple[int, int]]]:
    """The model's noise, and the blocks that are already there; writes the header of a new file."""
    facts = plan.facts(header, texts)
    if file.exists() and file.stat().st_size:
        there, blocks = load_blocks(file)
        environment.must_go_on(
            file,
            ("plan", facts, there.plan),
            ("run", {"n_threads": engine.n_threads}, {"n_threads": there.n_threads}),
        )
        return there.noise, {(block.block, block.n_slots) for block in blocks}
    most = plan.most_rows
    head = Header(
        model=header.model,
        model_hash=header.model_hash,
        n_threads=engine.n_threads,
        n_ctx=engine.n_ctx,
        n_blocks=plan.n_blocks,
        noise=max(margin_noise(engine, text, most, widths=_widths(most), n_places=2) for text in texts),
        plan=facts,
        environment=environment.describe() | {"llama": build(), "model": engine.model.description},
        format=FORMAT,
        version=VERSION,
    )
    write(file, msgspec.json.encode(head) + b"\n")
    return head.noise, set()
