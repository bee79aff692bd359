"""How fast costs and chains are: `python -m benchmarks.costmodel`. Best of several, in milliseconds."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

import numpy as np

from costmodel.acceptance import gilbert_elliott
from costmodel.chain import PLANS
from costmodel.passcost import Affine, Flat, PassCost, Roofline, Table
from costmodel.specs import DeviceSpec, ModelSpec
from costmodel.throughput import finite, steady

TRIPLES = 1_000_000
DEVICE = DeviceSpec.named("EPYC 9654")
GRID = tuple(tuple(1e-2 + 1e-3 * n + 1e-6 * past for n in range(1, 9)) for past in (0, 200, 300, 700, 1500, 2000))
LAST = tuple(tuple(0.8 * seconds for seconds in line) for line in GRID)
COSTS: dict[str, PassCost] = {
    "flat": Flat(0.01),
    "affine": Affine(0.01, 0.001, 1e-6, 1e-4),
    "roofline, dense": Roofline(ModelSpec.named("Llama-3.2-3B"), DEVICE),
    "roofline, experts and window": Roofline(ModelSpec.named("gpt-oss-20b"), DEVICE),
    "table": Table(
        tuple(range(1, 9)), (0, 200, 300, 700, 1500, 2000), GRID, last_row_seconds=LAST, change_seconds=4e-4
    ),
}


def best(call: Callable[[], object], times: int) -> float:
    """Milliseconds of the quickest of several calls."""
    taken = []
    for _ in range(times):
        start = perf_counter()
        call()
        taken.append(perf_counter() - start)
    return min(taken) * 1e3


def main() -> None:
    """Costs on a million triples and on one, then chains in the long run and at 1,000 tokens."""
    generator = np.random.default_rng(0)
    rows = generator.integers(1, 9, TRIPLES)
    past, out = generator.integers(0, 2000, TRIPLES), generator.integers(1, rows + 1)
    before = generator.integers(1, 9, TRIPLES)
    print(f"{'cost':32}{'1e6 triples, ms':>18}{'one pass, us':>16}")
    for name, cost in COSTS.items():
        many = best(lambda cost=cost: cost.seconds(past, rows, out, before), 9)  # type: ignore[misc]
        one = best(lambda cost=cost: [cost.seconds(n, 6, 6, 1) for n in range(1000)], 9)  # type: ignore[misc]
        print(f"{name:32}{many:18.1f}{one:16.2f}")
    law = gilbert_elliott(0.95, 0.8, 0.95, 0.3, 0.1)
    print(f"\n{'chain, R = 8':32}{'long run, ms':>18}{'1000 tokens, ms':>16}")
    for loop in PLANS:
        long_run = best(lambda loop=loop: steady(loop, law, 8, COSTS["table"]), 9)  # type: ignore[misc]
        exact = best(lambda loop=loop: finite(loop, law, 8, 1000, COSTS["table"]), 2)  # type: ignore[misc]
        print(f"{loop:32}{long_run:18.2f}{exact:16.0f}")


if __name__ == "__main__":
    main()
