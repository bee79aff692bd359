"""`python -m tests.prove`: check transitions until ten million have been, and say so in docs/exactness.md.

Every transition of random worlds (`tests.worlds.explore`: the model's own greedy text, a maximal cache, the
passes of the second telling), and one in five of runs on answers that follow no model
(`tests.judge.babble`). A seed names a block of worlds, so a failure can be had again: it is printed with
its world.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from itertools import count
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from sim.loops import LOOPS
from tests.quick import Counts, block
from tests.worlds import FEATURES

PAGE = Path(__file__).parents[1] / "docs" / "exactness.md"


def blocks(seed: int, jobs: int) -> Iterator[Counts]:
    """Blocks from a seed on, without end, in this process or in several."""
    if jobs == 1:
        yield from map(block, count(seed))
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from _ahead(pool, seed, 2 * jobs)


def _ahead(pool: Executor, seed: int, depth: int) -> Iterator[Counts]:
    """What the pool has done, with `depth` blocks always under way."""
    seeds = count(seed)
    todo: set[Future[Counts]] = {pool.submit(block, next(seeds)) for _ in range(depth)}
    try:
        while True:
            done, todo = wait(todo, return_when=FIRST_COMPLETED)
            for future in done:
                todo.add(pool.submit(block, next(seeds)))
                yield future.result()
    finally:
        for future in todo:
            future.cancel()


def prove(n_transitions: int, seed: int, jobs: int) -> tuple[Counts, float]:
    """Check at least `n_transitions`; what was counted, and the seconds it took."""
    total: Counts = Counter()
    start = time.perf_counter()
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]:,.0f}/s"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    )
    with bar:
        task = bar.add_task("transitions", total=n_transitions, rate=0.0)
        for counts in blocks(seed, jobs):
            total += counts
            n = transitions(total)
            bar.update(task, completed=n, rate=n / (time.perf_counter() - start))
            if n >= n_transitions:
                return total, time.perf_counter() - start
    raise AssertionError("blocks never end")


def transitions(counts: Counts) -> int:
    """All transitions, of worlds and of babble."""
    return sum(n for (what, _), n in counts.items() if what in ("transitions", "babbled"))


def report(counts: Counts, seconds: float, jobs: int) -> str:
    """The section of docs/exactness.md."""
    worlds = sum(n for (what, _), n in counts.items() if what == "worlds")
    lines = [
        f"{transitions(counts):,} transitions checked in {worlds:,} worlds and in runs on arbitrary answers, "
        f"without a difference, in {seconds / 60:.0f} minutes on {jobs} core{'s' * (jobs > 1)}.",
        "",
        "| loop | worlds | transitions in them | transitions on arbitrary answers |",
        "|---|--:|--:|--:|",
    ]
    for loop in LOOPS:
        n = [counts[what, loop] for what in ("worlds", "transitions", "babbled")]
        lines.append(f"| `{loop}` | " + " | ".join(f"{value:,}" for value in n) + " |")
    lines += ["", "| case | worlds that reached it |", "|---|--:|"]
    lines += [f"| {feature} | {counts['met', feature]:,} |" for feature in sorted(FEATURES)]
    return "\n".join(lines)


def write_section(page: Path, name: str, text: str) -> None:
    """Replace what stands between the page's marks `begin name` and `end name`; nothing else is touched."""
    begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
    before, found, rest = page.read_text().partition(begin)
    _, found_too, after = rest.partition(end)
    if not (found and found_too):
        raise ValueError(f"{page} has no {begin} ... {end}")
    page.write_text(f"{before}{begin}\n{text}\n{end}{after}")


def main() -> None:
    """Parse, prove, print, write."""
    parser = argparse.ArgumentParser(description="Check transitions of the state machine.")
    parser.add_argument("--transitions", type=int, default=10_000_000)
    parser.add_argument("--seed", type=int, default=1, help="the first block's")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--dry", action="store_true", help="leave docs/exactness.md as it is")
    given = parser.parse_args()
    counts, seconds = prove(given.transitions, given.seed, given.jobs)
    unmet = sorted(feature for feature in FEATURES if not counts["met", feature])
    print(f"{transitions(counts):,} transitions checked in {seconds:.0f} s, no difference")
    if unmet:
        raise SystemExit(f"but these cases were never met: {', '.join(unmet)}")
    if not given.dry:
        write_section(PAGE, "prove", report(counts, seconds, given.jobs))


if __name__ == "__main__":
    main()
