"""Thousands of settings over recorded texts, on any `concurrent.futures.Executor`.

A task is some settings over one text; what it finds depends on nothing else, so the table is the same for any
number of workers, any order of finishing, and after any kill. A drafter is asked once for all its loops and R.
Finished tasks are handed over one by one, to be kept, and what was kept is not done again.
"""

from __future__ import annotations

import hashlib
import os
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from itertools import groupby, pairwise
from multiprocessing import get_context
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from costmodel.passcost import PassCost
from sim.bounds import oracle, perfect
from sim.replay import Counts, counted, drafts, price, replay
from sim.setting import Setting, is_pure
from sim.trace import Text

TASK_TOKENS = 2_000_000
"""Settings x tokens from which a task is large enough: about a second of one core."""
PRICED_TOKENS = 400_000
"""Settings x tokens whose passes are priced together: few calls, and little to hold."""
EXACT = 1
"""Bins of one token: a sweep's seconds are those of `predict`."""


@dataclass(frozen=True, slots=True)
class Work:
    """What a worker needs to know, once: settings (those of one drafter together), texts, and pass costs.

    replays     the texts are of a model whose memory cannot be cut back
    """

    settings: tuple[Setting, ...]
    texts: tuple[Text, ...]
    costs: tuple[PassCost, ...]
    with_bounds: bool = True
    replays: bool = False

    @property
    def fingerprint(self) -> str:
        """What names this work: another for any other setting, text or cost."""
        given = (self.settings, self.costs, self.with_bounds, self.replays)
        parts = [repr(given).encode(), msgspec.json.encode(self.texts)]
        return hashlib.sha256(b"".join(parts)).hexdigest()


class Task(msgspec.Struct, frozen=True, order=True):
    """The settings from `first` up to `stop` over one text."""

    text: int
    first: int
    stop: int


class Done(msgspec.Struct, frozen=True):
    """What a task found: `sums` of the passes by setting; seconds and bounds by cost and setting.

    Bounds are null where a drafter's drafts depend on the loop.
    """

    task: Task
    sums: list[list[int]]
    seconds: list[list[float]]
    oracle: list[list[float | None]]
    perfect: list[list[float | None]]


@dataclass(frozen=True, slots=True)
class Result:
    """All of it, in arrays: sums [setting, text, total], seconds and bounds [cost, setting, text].

    Totals are those of `sim.walk.Sums`; a bound is NaN where there is none.
    """

    work: Work
    sums: NDArray[np.int64]
    seconds: NDArray[np.float64]
    oracle: NDArray[np.float64]
    perfect: NDArray[np.float64]


def together(settings: Iterable[Setting]) -> tuple[Setting, ...]:
    """The settings, each once, those of one drafter together in the order of its first: it is asked once for them."""
    every = dict.fromkeys(settings)
    order = {drafter: i for i, drafter in enumerate(dict.fromkeys(s.drafter for s in every))}
    return tuple(sorted(every, key=lambda s: order[s.drafter]))


def tasks(work: Work) -> list[Task]:
    """The whole of the work, in pieces that depend on it alone and never part the settings of a pure drafter."""
    made: list[Task] = []
    for i, text in enumerate(work.texts):
        first = 0
        for stop in _ends(work.settings):
            if (stop - first) * len(text.tokens) >= TASK_TOKENS or stop == len(work.settings):
                made.append(Task(i, first, stop))
                first = stop
    return made


def _ends(settings: Sequence[Setting]) -> Iterator[int]:
    """Where a task may end: behind the last setting of a drafter that is asked once for all of them."""
    for i, (one, other) in enumerate(pairwise([*settings, None]), 1):
        assert one is not None
        if other is None or one.drafter != other.drafter or not is_pure(one.drafter):
            yield i


_held: list[Work] = []


def _hold(work: Work) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's affair
    _held[:] = [work]


def do(work: Work | None, task: Task) -> Done:
    """One task; without work, that which this process was started with."""
    work = _held[0] if work is None else work
    text = work.texts[task.text]
    n = len(work.costs)
    done = Done(task, [], [[] for _ in range(n)], [[] for _ in range(n)], [[] for _ in range(n)])
    for drafter, group in groupby(work.settings[task.first : task.stop], lambda setting: setting.drafter):
        settings = list(group)
        index = drafts(text, drafter) if is_pure(drafter) else None
        for some in _batches(settings, max(1, PRICED_TOKENS // len(text.tokens))):
            counts = [
                replay(index, s.loop, s.rows, recurrent=work.replays, bin_tokens=EXACT)
                if index
                else _walked(text, s, work.replays)
                for s in some
            ]
            done.sums.extend([list(c.sums) for c in counts])
            for seconds, cost in zip(done.seconds, work.costs, strict=True):
                seconds += price(counts, cost).tolist()
        rows = sorted({s.rows for s in settings}) if index and work.with_bounds else []
        for least, ideal, cost in zip(done.oracle, done.perfect, work.costs, strict=True):
            for into, bound in ((least, oracle), (ideal, perfect)):
                found = dict(zip(rows, bound(index, cost, rows).tolist(), strict=True)) if index else {}
                into += [found.get(s.rows) for s in settings]
    return done


def _batches(settings: Sequence[Setting], size: int) -> Iterator[Sequence[Setting]]:
    return (settings[first : first + size] for first in range(0, len(settings), size))


def _walked(text: Text, setting: Setting, replays: bool) -> Counts:
    """The counts of a drafter that learns, by the Python machine."""
    from sim.predict import walk

    return counted(walk(text, setting, replays=replays), EXACT)


def run_tasks(work: Work, todo: Iterable[Task], executor: Executor | None = None, sent: Any = None) -> Iterator[Done]:
    """What each task found, as they finish; here and one by one without an executor.

    sent    what goes to the executor with every task in the work's place: a reference that it resolves (Dask's
            scattered data), or HELD for processes that were started with it (`processes`)

    Raises ValueError when a worker process died and cannot be replaced.
    """
    if executor is None:
        yield from (do(work, task) for task in todo)
        return
    given = work if sent is None else None if sent is HELD else sent
    futures = {executor.submit(do, given, task) for task in todo}
    try:
        for future in as_completed(tuple(futures)):
            futures.discard(future)
            yield future.result()
    except BrokenProcessPool as error:
        raise ValueError(
            "a worker process died, for lack of memory perhaps: what was finished is kept, the same command goes on"
        ) from error
    finally:
        for future in futures:
            future.cancel()


HELD = object()


def processes(work: Work, n_workers: int | None = None) -> Executor:
    """Processes on this machine, started afresh with the work in hand; as many as there are cores unless told."""
    return ProcessPoolExecutor(
        n_workers or n_cores(), mp_context=get_context("spawn"), initializer=_hold, initargs=(work,)
    )


def n_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def sweep(
    work: Work,
    executor: Executor | None = None,
    sent: Any = None,
    done: Iterable[Done] = (),
    keep: Callable[[Done], None] = lambda _: None,
) -> Result:
    """The result of the whole work; `done` was found before, `keep` is told of everything else.

    Raises ValueError when a cost does not cover a pass.
    """
    found = {piece.task: piece for piece in done}
    for piece in run_tasks(work, [task for task in tasks(work) if task not in found], executor, sent):
        found[piece.task] = piece
        keep(piece)
    return _assembled(work, found.values())


def _assembled(work: Work, pieces: Iterable[Done]) -> Result:
    shape = len(work.costs), len(work.settings), len(work.texts)
    sums = np.zeros((*shape[1:], 6), dtype=np.int64)
    seconds, least, ideal = (np.full(shape, np.nan) for _ in range(3))
    for piece in pieces:
        where = slice(piece.task.first, piece.task.stop)
        sums[where, piece.task.text] = piece.sums
        for array, values in ((seconds, piece.seconds), (least, piece.oracle), (ideal, piece.perfect)):
            array[:, where, piece.task.text] = _floats(values)
    return Result(work, sums, seconds, least, ideal)


def _floats(values: Sequence[Sequence[float | None]]) -> NDArray[np.float64]:
    return np.array(values, dtype=np.float64)
