"""Discrete events: many sequences in slots on one device, which runs one pass at a time.

Whenever the device is free, the next pass takes the rows of every sequence that is ready (llama-server's slots,
continuous batching: Yu et al. 2022, "Orca"). What the rows are, and what becomes of them, is `sim.machine`'s one rule,
sequence by sequence. The event kernel is SimPy's; here are only the processes: the device, the arrivals, users who give
up, and drafting beside the device.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator
from dataclasses import replace
from heapq import heappop, heappush
from itertools import groupby
from typing import Any, TypeAlias

import numpy as np
import simpy

from sim.arrivals import Closed
from sim.history import DevicePass, History, Outcome, Request
from sim.inflight import Batch, InFlight, with_prompts
from sim.machine import Loop, next_pass, step
from sim.policies import Moment, fixed
from sim.run import Record, record_of
from sim.scenario import Scenario

Seed: TypeAlias = "int | np.random.SeedSequence"
Events: TypeAlias = "Generator[simpy.Event, Any, None]"
STREAMS = ("texts", "arrivals", "patience", "drift", "jitter", "stalls")


def simulate(scenario: Scenario, seed: Seed = 0) -> History:
    """One history of a scenario; the same for the same seed.

    Every kind of chance has a stream of its own, so that loops with the same seed meet the same requests. Raises
    ValueError when the cost does not reach as far as a pass, when a recorded speed ends early, or when a policy
    chooses more rows than the setting has.
    """
    given = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
    # Not `spawn`, which counts: a second run from the same seed would have other streams.
    seeds = [np.random.SeedSequence(given.entropy, spawn_key=(*given.spawn_key, i)) for i in range(len(STREAMS))]
    streams = dict(zip(STREAMS, map(np.random.default_rng, seeds), strict=True))
    return _Server(scenario, streams).history()


class _Server:
    """The slots, the queue before them, and the device."""

    def __init__(self, scenario: Scenario, streams: dict[str, np.random.Generator]) -> None:
        self.scenario, self.streams = scenario, streams
        self.env = simpy.Environment()
        self.jobs = scenario.source.jobs(scenario.setting, streams["texts"])
        self.patience = scenario.patience.draws(streams["patience"]) if scenario.patience else None
        self.queue: deque[InFlight] = deque()
        self.seats: list[InFlight | None] = [None] * scenario.slots
        self.free = list(range(scenario.slots))
        self.on_device: Batch = []
        self.idle: simpy.Event | None = None
        self.n_arrived = self.n_drafts = 0
        self.waited_for = set(range(scenario.warmup, scenario.warmup + scenario.requests))
        self.requests: dict[int, Request] = {}
        self.passes: list[DevicePass] = []

    def history(self) -> History:
        """Everything up to the moment in which the last counted request has ended."""
        scenario, arrivals = self.scenario, self.scenario.arrivals
        if isinstance(arrivals, Closed):
            for _ in range(arrivals.users or scenario.slots):
                self._arrive()
            self._seat()
        else:
            self.env.process(self._arrivals(arrivals.times(self.streams["arrivals"])))
        self.env.run(until=self.env.process(self._device()))
        now: float = self.env.now
        for sequence in (*self.queue, *filter(None, self.seats)):
            self.requests[sequence.number] = sequence.record("open", now)
        in_order = tuple(self.requests[number] for number in range(self.n_arrived))
        return History(scenario.slots, scenario.warmup, scenario.requests, now, tuple(self.passes), in_order)

    # --- requests come, wait, and go ---------------------------------------------------------------------------------

    def _arrivals(self, times: Iterator[float]) -> Events:
        for at, together in groupby(times):  # who comes at the same time is there for the same pass
            yield self.env.timeout(max(at - self.env.now, 0.0))
            for _ in together:
                self._arrive()
            self._seat()

    def _arrive(self) -> None:
        sequence = InFlight(self.n_arrived, next(self.jobs), self.env.now)
        self.n_arrived += 1
        if self.patience is not None:
            self.env.process(self._give_up(sequence, next(self.patience)))
        self.queue.append(sequence)

    def _seat(self) -> None:
        """Those who wait longest take the free slots; a device without work looks again."""
        while self.free and self.queue:
            sequence = self.queue.popleft()
            sequence.slot, sequence.started = heappop(self.free), self.env.now
            self.seats[sequence.slot] = sequence
            if sequence.state.ended:  # nothing was asked for
                self._leave(sequence, "done")
        self._wake()

    def _leave(self, sequence: InFlight, outcome: Outcome) -> None:
        """Free the slot and keep the record; a closed user asks again."""
        if sequence.slot is None:
            self.queue.remove(sequence)
        else:
            self.seats[sequence.slot] = None
            heappush(self.free, sequence.slot)
        self.requests[sequence.number] = sequence.record(outcome, self.env.now)
        self.waited_for.discard(sequence.number)
        if isinstance(self.scenario.arrivals, Closed) and self.waited_for:
            self._arrive()

    def _give_up(self, sequence: InFlight, seconds: float) -> Events:
        yield self.env.timeout(seconds)
        if sequence.number in self.requests:
            return
        if sequence in self.on_device:
            sequence.cancelled = True  # a pass cannot be stopped: its rows are lost when it ends
        else:
            self._leave(sequence, "cancelled")
            self._seat()

    def _wake(self) -> None:
        if self.idle is not None:
            self.idle.succeed()
            self.idle = None

    # --- the device --------------------------------------------------------------------------------------------------

    def _device(self) -> Events:
        env, device, streams = self.env, self.scenario.device, self.streams
        price, draft_seconds = device.cost.seconds, self.scenario.draft_seconds
        clock = None if device.is_plain else device.clock(streams["drift"], streams["jitter"], streams["stalls"])
        keep = self.passes.append
        before: int | None = None
        drafting = 0.0
        last: Batch = []
        slots: tuple[int, ...] = ()
        numbers: tuple[int, ...] = ()
        while self.waited_for:
            batch = self._batch()
            if not batch:
                self.idle = env.event()
                yield self.idle
                continue
            self.on_device = batch
            if self.n_drafts:
                drafting, self.n_drafts = self.n_drafts * draft_seconds, 0
                yield simpy.Timeout(env, drafting)
            n_past = []
            n_rows = n_out = 0
            for sequence in batch:
                pass_ = sequence.pass_
                n_past.append(pass_.keep)
                n_rows += len(pass_.rows)
                n_out += pass_.want
            seconds = price(n_past, n_rows, n_out, before)
            before, at = n_rows, env.now
            if clock is not None:
                seconds = clock(at, seconds)
            yield simpy.Timeout(env, seconds)
            self.on_device = []
            if batch != last:
                last = batch
                slots, numbers = tuple([s.slot for s in batch]), tuple([s.number for s in batch])
            keep(DevicePass(at, seconds, drafting, n_rows, slots, numbers, tuple(self._finish(batch, seconds))))
            drafting = 0.0

    def _batch(self) -> Batch:
        """Every ready sequence with its next pass, by slot; prompts as far as there is room."""
        batch: Batch = []
        prompts = False
        for sequence in self.seats:
            if sequence is None or sequence.drafting:
                continue
            state = sequence.state
            if sequence.pass_ is None:
                if sequence.loop is not None:
                    sequence.pass_ = next_pass(sequence.loop, state)
                else:
                    self._choose(sequence)
                    if sequence.drafting:
                        continue
            if state.cached < state.prompt:
                prompts = True
            batch.append(sequence)
        return with_prompts(batch, self.scenario.most_rows, self.scenario.prefill) if prompts else batch

    def _choose(self, sequence: InFlight) -> None:
        """The sequence's next pass; where drafting takes time beside the device, it is not ready before that."""
        sequence.pass_ = next_pass(self._loop(sequence), sequence.state)
        if sequence.calls:
            scenario = self.scenario
            if scenario.draft_overlaps:
                sequence.drafting = True
                self.env.process(self._draft(sequence, sequence.calls * scenario.draft_seconds))
            else:
                self.n_drafts += sequence.calls
            sequence.calls = 0

    def _loop(self, sequence: InFlight) -> Loop:
        """The loop at as many rows as the policy wants; where that never changes it need not be asked again."""
        scenario, most, n_slots = self.scenario, self.scenario.setting.rows, self.scenario.slots
        moment = Moment(most, n_slots, n_slots - len(self.free), sequence.failed, sequence.rested)
        rows = scenario.policy(moment)
        if not 1 <= rows <= most:
            raise ValueError(f"the policy chose {rows} rows: 1 to {most} are allowed")
        counting = scenario.draft_seconds > 0
        loop = sequence.loops.get(rows) or sequence.make(scenario.setting.loop, rows, counting)
        if scenario.policy is fixed and not counting:
            sequence.loop = loop
        return loop

    def _draft(self, sequence: InFlight, seconds: float) -> Events:
        yield self.env.timeout(seconds)
        sequence.drafting = False
        self._wake()

    def _finish(self, batch: Batch, seconds: float) -> list[Record]:
        """What the pass was for each of its sequences; those who are through leave, and others take their slots."""
        records: list[Record] = []
        now: float = self.env.now
        gone = False
        for sequence in batch:
            state, pass_ = sequence.state, sequence.pass_
            after = step(state, pass_, sequence.answers(pass_))
            record = record_of(state, pass_, after, seconds)
            if sequence.cancelled:
                record = replace(record, accepted=0, n_tokens=0)
                after = state
            records.append(record)
            sequence.state, sequence.pass_ = after, None
            sequence.n_passes += 1
            sequence.n_rows += record.n_rows
            if sequence.loop is None:  # a policy wants to know
                sequence.judge(record)
            if sequence.first is None and record.n_tokens:
                sequence.first = now
            if sequence.cancelled or after.ended:
                self._leave(sequence, "cancelled" if sequence.cancelled else "done")
                gone = True
        if gone:
            self._seat()
        return records
