"""How long 10,000 settings over 6 texts of 2,000 tokens take, with 1 and 2 processes: `python -m benchmarks.sweep`."""

from __future__ import annotations

import random
import resource
import time

from benchmarks.drafters import edited, free, locked
from benchmarks.replay import listed
from costmodel.passcost import Table
from sim.grid import grid
from sim.replay import warm_up
from sim.summary import frame, with_baselines
from sim.sweep import HELD, Work, processes, sweep, tasks
from sim.trace import Text

LOOPS = ("gated", "fused", "fused-partial", "gated-held", "carry", "decode-then-speculate", "padded", "dummy")
PATTERNS = [
    "ngram n_max=1..5 n_min=1..5 pick=latest,earliest run_on=true,false",
    "ngram n_max=2..6 n_draft=4,8 whole=true",
]
GRID = tuple(tuple(1e-2 + 1e-3 * n + 1e-6 * past for n in range(1, 22)) for past in (0, 2500))
COST = Table(tuple(range(1, 22)), (0, 2500), GRID, change_seconds=4e-4)


def main() -> None:
    """Seconds and settings a second; the tables must be equal."""
    makers = (locked, listed, edited, free, edited, free)
    texts = tuple(
        Text(name=str(i), n_prompt=100, tokens=tuple(make(random.Random(i), 2_000))) for i, make in enumerate(makers)
    )
    made = grid(LOOPS, range(2, 20), PATTERNS)
    settings = made.settings[:10_000]
    work = Work(with_baselines(settings, "greedy"), texts, (COST,))
    warm_up()
    print(f"{len(settings):,} settings, {len(texts)} texts, {len(tasks(work))} tasks")
    tables = []
    for n in (1, 2):
        start = time.perf_counter()
        if n == 1:
            result = sweep(work)
        else:
            with processes(work, n) as executor:
                result = sweep(work, executor, HELD)
        swept = time.perf_counter() - start
        tables.append(frame(result, settings, "greedy", ["p"]))
        seconds = time.perf_counter() - start
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(
            f"{n} processes: {seconds:.1f} s ({swept:.1f} s without the intervals),"
            f" {len(settings) / seconds:,.0f} settings/s, peak memory {peak:.0f} MB"
            + (" (asked: at most 60 s)" if n == 2 else ""),
            flush=True,
        )
    assert tables[0].equals(tables[1])


if __name__ == "__main__":
    main()
