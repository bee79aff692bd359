"""What one call of a drafter costs behind 32,768 tokens of history, and what it remembers of each token.

Every call finds one new token, as in a loop whose drafts are never right: the dearest case per token. The
garbage collector is off meanwhile, as in `timeit`. Run it with `python -m benchmarks.drafters`; it prints
microseconds per call (mean over the calls, the best of three rounds) for four kinds of text, and bytes of memory
per token of history.
"""

from __future__ import annotations

import gc
import random
import time
import tracemalloc
from collections.abc import Callable

from sim.drafters import DRAFTERS
from sim.tokens import Tokens

N_HISTORY, N_CALLS, N_ROUNDS = 32_768, 4_096, 3


def locked(rng: random.Random, length: int) -> list[int]:
    """One sentence of 24 tokens, over and over."""
    return [i % 24 for i in range(length)]


def constant(rng: random.Random, length: int) -> list[int]:
    """One token, over and over."""
    return [7] * length


def edited(rng: random.Random, length: int) -> list[int]:
    """Pieces of 8 to 64 tokens of a 2,000-token text, as when a program is edited."""
    source, text = [rng.randrange(5_000) for _ in range(2_000)], list[int]()
    while len(text) < length:
        start = rng.randrange(len(source))
        text += source[start : start + rng.randint(8, 64)]
    return text[:length]


def free(rng: random.Random, length: int) -> list[int]:
    """Independent tokens, Zipf-like: frequent words and many rare ones."""
    return [int(rng.paretovariate(0.7)) % 32_000 for _ in range(length)]


TEXTS: dict[str, Callable[[random.Random, int], list[int]]] = {
    "locked": locked,
    "constant": constant,
    "edited": edited,
    "free": free,
}


def microseconds_per_call(name: str, text: Tokens) -> float:
    """The mean over the last calls, one token apart, after the history was read in one go."""
    best = float("inf")
    for _ in range(N_ROUNDS):
        propose = DRAFTERS[name]()
        propose(text[:N_HISTORY])
        heads = [text[: N_HISTORY + i] for i in range(1, N_CALLS + 1)]
        gc.collect()
        gc.disable()
        start = time.process_time()
        for head in heads:
            propose(head)
        best = min(best, (time.process_time() - start) / N_CALLS * 1e6)
        gc.enable()
    return best


def bytes_per_token(name: str, text: Tokens) -> float:
    """What the drafter holds after the history, per token of it."""
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    propose = DRAFTERS[name]()
    propose(text[:N_HISTORY])
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return (after - before) / N_HISTORY


def main() -> None:
    """Print the table."""
    texts = {kind: Tokens(make(random.Random(1), N_HISTORY + N_CALLS)) for kind, make in TEXTS.items()}
    print(f"us per call behind {N_HISTORY} tokens{'':6}" + "".join(f"{kind:>10}" for kind in texts) + "   bytes/token")
    for name in DRAFTERS:
        figures = "".join(f"{microseconds_per_call(name, text):10.1f}" for text in texts.values())
        print(f"{name:36}{figures}{bytes_per_token(name, texts['free']):14.0f}", flush=True)


if __name__ == "__main__":
    main()
