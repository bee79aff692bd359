"""How fast texts are indexed and walked: `python -m benchmarks.replay [TEXTS.jsonl]`, one core.

On four kinds of text of 1e4, 1e5 and 1e6 tokens: tokens a second indexed, passes and tokens a second walked (`carry`,
R = 6, n-gram look-up), against this project's Python machine and against a straight-line loop written here; and
bytes held. With a file of recorded texts it compares every pass of every loop and pure drafter with the machine.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.drafters import edited, free, locked
from sim.drafters import DRAFTERS, NGram
from sim.index import index
from sim.loops import LOOPS
from sim.predict import walk
from sim.replay import drafts, passes, replay, warm_up
from sim.setting import IMPURE, Setting
from sim.trace import Text, load
from sim.walk import Ints

LENGTHS = (10_000, 100_000, 1_000_000)
N_PROMPT, N_ROWS = 100, 6


def listed(rng: random.Random, length: int) -> list[int]:
    """A list of 300 entries, each of its own words in a common frame, said again and again."""
    entries = [[11, 12, *(rng.randrange(5_000) for _ in range(6)), 13] for _ in range(300)]
    text: list[int] = []
    while len(text) < length:
        text += [token for entry in entries for token in entry]
    return text[:length]


TEXTS: dict[str, Callable[[random.Random, int], list[int]]] = {
    "locked": locked,
    "list": listed,
    "code edit": edited,
    "free": free,
}


def best_seconds(call: Callable[[], object], at_least: float = 0.5) -> float:
    """Seconds of one core that the quickest of several calls takes."""
    taken: list[float] = []
    while len(taken) < 3 or sum(taken) < at_least:
        start = time.process_time()
        call()
        taken.append(time.process_time() - start)
    return min(taken)


def straight_line(text: list[int], n_prompt: int, n_rows: int) -> int:
    """`carry` with n-gram look-up (3 to 1 tokens, latest, run on), written straight down; its passes."""
    places: list[dict[tuple[int, ...], int]] = [{}, {}, {}]
    known, entered, n_passes = n_prompt + 1, 1, 0
    while known < len(text):
        for i in range(entered, known):
            for n in (1, 2, 3):
                if i >= n:
                    places[n - 1][tuple(text[i - n : i])] = i
        entered = known
        start = 0
        for n in (3, 2, 1):
            start = places[n - 1].get(tuple(text[known - n : known]), 0)
            if start:
                break
        right = 0
        if start:
            most = min(n_rows - 1, len(text) - known - 1)
            while right < most and text[start + right] == text[known + right]:
                right += 1
        known += right + 1
        n_passes += 1
    return n_passes


class Rates(NamedTuple):
    """Seconds of one core, by what is done with a text, and the passes of its walk."""

    length: int
    indexing: float
    walking: float
    n_passes: int


def rates(tokens: Ints) -> Rates:
    """How long a text takes to be indexed, and then to be walked."""
    indexed = index(tokens, N_PROMPT, NGram())
    indexing = best_seconds(lambda: index(tokens, N_PROMPT, NGram()))
    walking = best_seconds(lambda: replay(indexed, "carry", N_ROWS))
    return Rates(len(tokens), indexing, walking, replay(indexed, "carry", N_ROWS).sums.n_passes)


def gains(tokens: Ints, walked: Rates) -> str:
    """How much quicker the compiled walk is than the Python machine, and than the loop written straight down."""
    text = Text(name="", n_prompt=N_PROMPT, tokens=tuple(tokens.tolist()))
    plain = list(text.tokens)
    assert straight_line(plain, N_PROMPT, N_ROWS) == walked.n_passes
    machine = best_seconds(lambda: walk(text, Setting("carry", N_ROWS)), 0)
    straight = best_seconds(lambda: straight_line(plain, N_PROMPT, N_ROWS), 0)
    return f"{machine / walked.walking:,.0f}x the machine's, {straight / walked.walking:,.0f}x a straight line's"


def table() -> None:
    """The rates, and each target beside the worst of them."""
    print(f"{'':20}{'indexed':^22}{'walked (carry, R = 6)':^32}{'both':>8}")
    names = (
        ("tokens", 9),
        ("M tokens/s", 12),
        ("ns/token", 10),
        ("M passes/s", 12),
        ("M tokens/s", 12),
        ("ns/token", 10),
    )
    print(f"{'text':11}" + "".join(f"{name:>{width}}" for name, width in (*names, ("ns/token", 10))))
    ratios, memory = [], []
    found: list[Rates] = []
    for name, make in TEXTS.items():
        own = []
        for length in LENGTHS:
            tokens = np.array(make(random.Random(1), length), dtype=np.int32)
            r = rates(tokens)
            own.append(r)
            line = f"{name:11}{length:9}{length / r.indexing / 1e6:12.1f}{r.indexing / length * 1e9:10.1f}"
            line += (
                f"{r.n_passes / r.walking / 1e6:12.1f}{length / r.walking / 1e6:12.1f}{r.walking / length * 1e9:10.1f}"
            )
            line += f"{(r.indexing + r.walking) / length * 1e9:10.1f}"
            print(line + (f"   {gains(tokens, r)}" if length == LENGTHS[0] else ""), flush=True)
        found += own
        ratios.append([_each(own[-1], what) / _each(own[0], what) for what in ("indexing", "walking")])
        memory.append(bytes_per_token(tokens))
    slowest = min(r.n_passes / r.walking for r in found) / 1e6, min(r.length / r.indexing for r in found) / 1e6
    print(f"\nM passes/s walked, the least of all      {slowest[0]:8.1f}   (asked: at least 20)")
    print(f"M tokens/s indexed, the least of all     {slowest[1]:8.1f}   (asked: at least 5)")
    for i, what in enumerate(("indexing", "walking")):
        each = ", ".join(f"{name} {ratio[i]:.2f}" for name, ratio in zip(TEXTS, ratios, strict=True))
        print(
            f"seconds a token, 1e6 over 1e4, {what:10}{max(r[i] for r in ratios):8.2f}   (asked: at most 1.3; {each})"
        )
    print(f"bytes a token, the most                  {max(memory):8.1f}   (asked: at most 64)")


def _each(r: Rates, what: str) -> float:
    return float(getattr(r, what)) / r.length


def bytes_per_token(tokens: Ints) -> float:
    """By how much indexing and one walk raise the most memory that a fresh process holds, the text's own included."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as executor:
        return executor.submit(_growth, tokens).result() / len(tokens)


def _growth(tokens: Ints) -> int:
    warm_up()
    Path("/proc/self/clear_refs").write_text("5")  # Linux: the peak is counted from here on
    before = _peak_bytes()
    replay(index(tokens.copy(), N_PROMPT, NGram()), "carry", N_ROWS)
    return _peak_bytes() - before


def _peak_bytes() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def check(path: Path) -> None:
    """Every pass of every loop and pure drafter over some recorded texts, against the machine."""
    n = 0
    for text in load(path)[1]:
        for name in DRAFTERS.keys() - IMPURE:
            indexed = drafts(text, name)
            for loop in LOOPS:
                for n_rows in (2, 4, 6, 11):
                    mine, theirs = passes(indexed, loop, n_rows), walk(text, Setting(loop, n_rows, name))
                    assert mine == theirs, (text.name, name, loop, n_rows)
                    n += len(mine)
    print(f"{n:,} passes over the texts of {path} are those of the machine")


def main() -> None:
    """The table, or the check of the files given."""
    warm_up()
    for name in sys.argv[1:]:
        check(Path(name))
    if len(sys.argv) == 1:
        table()


if __name__ == "__main__":
    main()
