"""How fast texts are indexed and walked: `python -m benchmarks.replay [TEXTS.jsonl]`, one core.

On four kinds of text of 1e4, 1e5 and 1e6 tokens: tokens a second indexed, passes and tokens a second walked (`carry`,
R = 6, n-gram look-up), against this project's Python machine and against a straight-line loop written here; and
bytes held. With a file of recorded texts it also compares every pass of every loop and drafter with the machine.
"""

from __future__ import annotations

import random
import resource
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.drafters import edited, free, locked
from sim.drafters import DRAFTERS, NGram
from sim.index import IMPURE, index
from sim.loops import LOOPS
from sim.predict import walk
from sim.replay import drafts, passes, replay, warm_up
from sim.setting import Setting
from sim.trace import Text, load

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
    """The quickest of several calls."""
    taken: list[float] = []
    while len(taken) < 3 or sum(taken) < at_least:
        start = time.perf_counter()
        call()
        taken.append(time.perf_counter() - start)
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


def rates() -> None:
    """The table of rates."""
    print(f"{'text':10}{'tokens':>9}{'Mtok/s':>9}{'ns/tok':>8}{'passes':>9}{'Mpass/s':>9}{'Mtok/s':>8}{'ns/tok':>8}{'B/tok':>7}"
          f"{'machine':>10}{'straight':>10}{'gain':>7}{'gain':>7}")  # fmt: skip
    print(f"{'':19}{'indexed':>17}{'':>9}{'walked':>25}{'held':>7}{'Mpass/s':>10}{'Mpass/s':>10}")
    for name, make in TEXTS.items():
        for length in LENGTHS:
            tokens = np.array(make(random.Random(1), length), dtype=np.int32)
            indexed = index(tokens, N_PROMPT, NGram())
            index_seconds = best_seconds(lambda tokens=tokens: index(tokens, N_PROMPT, NGram()))  # type: ignore[misc]
            walk_seconds = best_seconds(lambda indexed=indexed: replay(indexed, "carry", N_ROWS))  # type: ignore[misc]
            n_passes = replay(indexed, "carry", N_ROWS).sums.n_passes
            line = (
                f"{name:10}{length:9}{length / index_seconds / 1e6:9.1f}{index_seconds / length * 1e9:8.0f}{n_passes:9}"
                f"{n_passes / walk_seconds / 1e6:9.1f}{length / walk_seconds / 1e6:8.0f}{walk_seconds / length * 1e9:8.1f}"
                f"{bytes_per_token(tokens):7.0f}"
            )
            if length == LENGTHS[0]:
                text = Text(name=name, n_prompt=N_PROMPT, tokens=tuple(tokens.tolist()))
                machine = n_passes / best_seconds(lambda text=text: walk(text, Setting("carry", N_ROWS)), 0)  # type: ignore[misc]
                assert straight_line(list(text.tokens), N_PROMPT, N_ROWS) == n_passes
                straight = n_passes / best_seconds(lambda text=text: straight_line(list(text.tokens), N_PROMPT, N_ROWS), 0)  # type: ignore[misc]
                rate = n_passes / walk_seconds
                line += f"{machine / 1e6:10.3f}{straight / 1e6:10.3f}{rate / machine:6.0f}x{rate / straight:6.0f}x"
            print(line, flush=True)


def bytes_per_token(tokens: np.ndarray) -> float:  # type: ignore[type-arg]
    """The most memory that indexing and one walk hold at a time, the text included; numpy's and numba's arrays."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    tracemalloc.start()
    indexed = index(tokens, N_PROMPT, NGram())
    replay(indexed, "carry", N_ROWS)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return float(max(peak, (after - before) * 1024) / len(tokens))


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
    """The rates, and the check of the files given."""
    warm_up()
    for name in sys.argv[1:]:
        check(Path(name))
    if len(sys.argv) == 1:
        rates()


if __name__ == "__main__":
    main()
