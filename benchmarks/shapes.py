"""Does a shape-only model cost what the real one costs? Pass by pass in turn, per tensor type.

The same rows on the same cached length, real and shape-only one behind the other in random order; the ratio of
seconds is the middle over rounds, with its interval. Where a file's pages happen to lie in memory decides up to 7 % of
a 1-row pass (the default model as installed against a copy of it), so all are timed as fresh copies. As a noise floor
the real model is timed against a second copy of itself. Exit status 1 where an interval leaves out 1 by more than the
floor is wide.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from math import log
from pathlib import Path
from shutil import copyfile
from tempfile import TemporaryDirectory

import numpy as np

from sim.machine import Pass
from validate.design import interval
from validate.environment import physical_cores
from validate.llama import LlamaEngine, Model
from validate.models import default_model, requantised
from validate.shapes import shape_only
from validate.watch import Seen, Watch, during

KINDS = ("Q4_1", "F32", "BF16", "Q8_0", "Q4_0", "Q4_K")
N_ROWS = (1, 2, 4, 6, 8)
N_PAST, N_ROUNDS = 200, 60


def ratios(kind: str, n_rounds: int) -> dict[tuple[int, str], list[float]]:
    """Log ratios of seconds to those of the real model, one a round, by rows and by what was compared."""
    real = default_model() if kind == "Q4_1" else requantised(default_model(), kind)
    files = {"real": real, "itself": real, "shape-only": shape_only("SmolLM2-135M", kind)}
    rng, found = np.random.default_rng(0), dict[tuple[int, str], list[float]]()
    with ExitStack() as stack:
        engines, folder = {}, Path(stack.enter_context(TemporaryDirectory()))
        for name, path in files.items():
            model = stack.enter_context(Model(Path(copyfile(path, folder / f"{name}.gguf"))))
            engines[name] = stack.enter_context(LlamaEngine(model, n_ctx=256, n_threads=physical_cores()))
            # Both are fed the same ids: small ones, which both know.
            engines[name](Pass(0, tuple(rng.integers(300, 2000, N_PAST).tolist()), 1))
        for _ in range(n_rounds):
            for n in rng.permutation(N_ROWS).tolist():
                rows = tuple(rng.integers(300, 2000, n).tolist())
                seconds = {}
                for name in rng.permutation(list(engines)).tolist():
                    engines[name](Pass(N_PAST, rows, n))  # behind its like: the graph is built
                    seconds[name] = engines[name](Pass(N_PAST, rows, n))[1]
                for name in ("itself", "shape-only"):
                    found.setdefault((n, name), []).append(log(seconds[name] / seconds["real"]))
    return found


def main() -> None:
    """Print, and write where a path is given, a table of ratios; exit 1 where shape-only is not like the real one."""
    n_rounds = int(sys.argv[2]) if len(sys.argv) > 2 else N_ROUNDS
    lines = ["| type | rows | shape-only / real | itself / real | |", "| --- | --- | --- | --- | --- |"]
    unlike, watch, seen = 0, Watch(), list[Seen]()
    for kind in KINDS:
        found = ratios(kind, n_rounds)
        seen.append(watch.look())
        for n in N_ROWS:
            own, low, high = interval(found[n, "itself"])
            ratio, below, above = interval(found[n, "shape-only"])
            alike = below / high <= 1 <= above / low
            unlike += not alike
            other, floor = f"{ratio:.3f} ({below:.3f}-{above:.3f})", f"{own:.3f} ({low:.3f}-{high:.3f})"
            lines.append(f"| {kind} | {n} | {other} | {floor} | {'' if alike else 'differs'} |")
        print(f"{kind} done", file=sys.stderr)
    text = "\n".join(
        [
            "# Shape-only against real weights",
            "",
            f"SmolLM2-135M, {physical_cores()} threads, {N_PAST} cached tokens, {n_rounds} rounds, seconds of passes in"
            " turn, all from fresh copies of the files; 95 % intervals. Written by `make shapes`. "
            + " ".join(during(seen)),
            "",
            *lines,
            "",
        ]
    )
    print(text)
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(text)
    sys.exit(unlike > 0)


if __name__ == "__main__":
    main()
