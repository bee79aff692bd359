"""One-row decode through `LlamaEngine` against llama-bench's own tokens a second, in turn, on the same file.

llama-bench feeds random tokens one by one from an empty cache with `-n`, and looks at no answer. Ours are fed the same
way by `LlamaEngine`, argmax and all. Exit status 1 when ours is more than 2 % away.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from time import perf_counter

import numpy as np

from sim.machine import Pass
from validate.design import interval
from validate.environment import physical_cores
from validate.llama import LlamaEngine, Model, build
from validate.models import default_model
from validate.watch import Watch, before

N_TOKENS, N_TURNS, TOLERANCE = 128, 12, 0.02


def theirs(program: str, path: Path, n_threads: int) -> float:
    """Seconds a token of one repetition of llama-bench, its own warm-up left out."""
    words = ["-m", path, "-p", 0, "-n", N_TOKENS, "-r", 1, "-t", n_threads, "-ngl", 0, "-o", "json"]
    done = subprocess.run([program, *map(str, words)], capture_output=True, text=True, check=True)
    (test,) = json.loads(done.stdout)
    return float(test["samples_ns"][0]) / 1e9 / N_TOKENS


def ours(engine: LlamaEngine, rows: list[int]) -> float:
    """Seconds a token of the same work, everything between the passes included; some passes before do not count."""
    for _ in range(4):
        engine(Pass(0, (rows[0],), 1))
    begin = perf_counter()
    for i, row in enumerate(rows):
        engine(Pass(i, (row,), 1))
    return (perf_counter() - begin) / len(rows)


def main() -> None:
    """Print both rates and their ratio; llama-bench is the first word."""
    program, path, n_threads = sys.argv[1], default_model(), physical_cores()
    rng, pairs = np.random.default_rng(0), list[tuple[float, float]]()
    with Model(path) as model, LlamaEngine(model, n_ctx=256, n_threads=n_threads) as engine:
        watch = Watch()
        ours(engine, rng.integers(model.n_vocab, size=N_TOKENS).tolist())
        for warning in before(watch.look(), n_threads):
            print(warning, file=sys.stderr)
        for turn in range(N_TURNS):
            rows = rng.integers(model.n_vocab, size=N_TOKENS).tolist()
            if turn % 2:
                mine = ours(engine, rows)
                pairs.append((mine, theirs(program, path, n_threads)))
            else:
                other = theirs(program, path, n_threads)
                pairs.append((ours(engine, rows), other))
    ratio, low, high = interval([float(np.log(other / mine)) for mine, other in pairs])
    mine, other = (float(np.median([1 / pair[side] for pair in pairs])) for side in (0, 1))
    print(f"{path.name}, {n_threads} threads, {N_TOKENS} tokens one row at a time, {N_TURNS} turns; {build()}")
    print(f"LlamaEngine {mine:.2f} tokens/s, llama-bench {other:.2f}; ratio {ratio:.4f} ({low:.4f} to {high:.4f})")
    if not 1 / (1 + TOLERANCE) <= ratio <= 1 + TOLERANCE:
        print(f"they differ by more than {TOLERANCE:.0%}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
