"""Histories as Chrome trace events: a file that Perfetto (ui.perfetto.dev) and chrome://tracing open.

One process for each history; in it one track for the device and one for each slot, a complete event ("X") for each pass
and request, and the length of the queue as a counter. Times are microseconds (Trace Event Format, Google 2016).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from sim.history import History

MOST_PASSES = 4000
"""Of each history: a trace is looked at, and a browser holds some hundred thousand events."""

Event = dict[str, Any]


def dumps(histories: Mapping[str, History], most_passes: int = MOST_PASSES) -> bytes:
    """The file's bytes: each history by its name, up to its first so many passes."""
    events = [
        event
        for number, (name, history) in enumerate(histories.items(), 1)
        for event in _events(number, name, history, most_passes)
    ]
    return msgspec.json.encode({"displayTimeUnit": "ms", "traceEvents": events})


def _events(process: int, name: str, history: History, most_passes: int) -> Iterator[Event]:
    """Track 0 is the device, track 2 i + 1 the requests of slot i, track 2 i + 2 its passes."""
    shown = history.passes[:most_passes]
    end = shown[-1].at + shown[-1].seconds if len(shown) < len(history.passes) else history.seconds
    tracks = {0: "device"}
    for slot in range(history.slots):
        tracks |= {2 * slot + 1: f"slot {slot}: requests", 2 * slot + 2: f"slot {slot}"}
    yield {"ph": "M", "pid": process, "tid": 0, "name": "process_name", "args": {"name": name}}
    for track, called in tracks.items():
        yield {"ph": "M", "pid": process, "tid": track, "name": "thread_name", "args": {"name": called}}
        yield {"ph": "M", "pid": process, "tid": track, "name": "thread_sort_index", "args": {"sort_index": track}}

    def during(track: int, called: str, begin: float, until: float, args: Event) -> Event:
        begin_us = 1e6 * begin
        return {"ph": "X", "pid": process, "tid": track, "name": called, "ts": begin_us,
                "dur": 1e6 * until - begin_us, "args": args}  # fmt: skip

    for p in shown:
        rows = {"rows": p.n_rows, "sequences": len(p.slots)}
        if p.drafting:
            yield during(0, "drafting", p.at - p.drafting, p.at, {})
        yield during(0, f"{p.n_rows} rows", p.at, p.at + p.seconds, rows)
        for slot, number, record in zip(p.slots, p.requests, p.records, strict=True):
            facts = msgspec.to_builtins(record) | {"request": number}
            yield during(2 * slot + 2, record.kind, p.at, p.at + p.seconds, facts)
    for request in history.requests:
        if request.slot is not None and request.started is not None and request.started < end:
            args = {"name": request.name, "outcome": request.outcome, "tokens": request.n_tokens,
                    "queue_seconds": request.queue, "ttft_seconds": request.ttft}  # fmt: skip
            called = f"request {request.number}"
            yield during(2 * request.slot + 1, called, request.started, min(request.ended, end), args)
    yield from _queue(process, history, end)


def _queue(process: int, history: History, end: float) -> Iterator[Event]:
    """How many wait, whenever that changes."""
    changes: dict[float, int] = {}
    for request in history.requests:
        for at, change in ((request.arrived, 1), (request.arrived + request.queue, -1)):
            changes[at] = changes.get(at, 0) + change
    waiting = 0
    for at in sorted(changes):
        waiting += changes[at]
        if at <= end and changes[at]:
            yield {"ph": "C", "pid": process, "tid": 0, "name": "queue", "ts": 1e6 * at, "args": {"waiting": waiting}}
