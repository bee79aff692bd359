"""How fast discrete events are: `python -m benchmarks.events`. Best of several rounds, processor time.

`run` alone and one slot take the same passes at the same price, turn by turn; then the same with more slots, per pass
of the device, beside bare SimPy timeouts on the same machine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from time import process_time

import simpy

from costmodel.batched import SlotCost
from costmodel.passcost import Table
from sim.answers import recorded
from sim.device import Device
from sim.events import Events, simulate
from sim.machine import Pass, State
from sim.requests import Texts
from sim.run import run
from sim.scenario import Scenario
from sim.setting import Setting
from sim.trace import Text

N_TOKENS, N_ROUNDS, MOST_SLOTS, ROWS = 2000, 15, 8, 6
LENGTHS = (0, N_TOKENS // 2, N_TOKENS)
COUNTS = tuple(range(1, MOST_SLOTS * ROWS + 1))
GRID = tuple(tuple(1e-2 + 1e-3 * n + 1e-6 * past for n in COUNTS) for past in LENGTHS)
COST = SlotCost(Table(COUNTS, LENGTHS, GRID, change_seconds=4e-4), view="mean")
DICE = Random(1)
TEXTS = {
    "locked": [i % 24 for i in range(N_TOKENS + 1)],
    "free": [DICE.randrange(5000) for _ in range(N_TOKENS + 1)],
}


def timeouts_per_second(n: int = 200_000) -> float:
    """Bare timeouts of one SimPy process."""

    def ticking(env: simpy.Environment) -> Events:
        for _ in range(n):
            yield env.timeout(1.0)

    env = simpy.Environment()
    env.process(ticking(env))
    return n / seconds(env.run)


def seconds(call: Callable[[], object]) -> float:
    """Processor time of one call."""
    start = process_time()
    call()
    return process_time() - start


def alone(text: Text, setting: Setting) -> Callable[[], int]:
    """`run` with the price as its engine's seconds; how many passes."""
    answers, start = recorded(text.tokens), State.start(text.tokens[: text.n_prompt], text.n_tokens)

    def call() -> int:
        before: int | None = None

        def engine(pass_: Pass) -> tuple[Sequence[int], float]:
            nonlocal before
            n_rows = len(pass_.rows)
            price = COST.seconds((pass_.keep,), n_rows, pass_.want, before)
            before = n_rows
            return answers(pass_), price

        return len(run(setting.make(), start, engine)[1])

    return call


def slots(text: Text, setting: Setting, n: int) -> Callable[[], int]:
    """So many sequences of the same text, always busy; how many passes of the device."""
    scenario = Scenario(Device(COST), Texts((text,)), setting, n, n)
    return lambda: len(simulate(scenario).passes)


def main() -> None:
    """Microseconds a pass, and what it is in times of `run` alone, and of one slot for each slot."""
    print(f"bare SimPy timeouts: {max(timeouts_per_second() for _ in range(5)):,.0f} a second")
    counts = (1, 2, 4, MOST_SLOTS)
    print(f"{'us a pass':24}{'run':>8}" + "".join(f"{n:>4} slot{'s' if n > 1 else ' '}" for n in counts), end="")
    print(f"{'1 slot/run':>12}{f'{MOST_SLOTS} slots/1':>12}")
    for loop in ("greedy", "gated", "fused", "carry"):
        for name, tokens in TEXTS.items():
            text, setting = Text(name=name, n_prompt=1, tokens=tuple(tokens)), Setting(loop, ROWS)
            calls = [alone(text, setting), *(slots(text, setting, n) for n in counts)]
            passes = [call() for call in calls]
            rounds = [[seconds(call) for call in calls] for _ in range(N_ROUNDS)]
            best = [1e6 * min(column) / n for column, n in zip(zip(*rounds, strict=True), passes, strict=True)]
            shown = "".join(f"{value:10.1f}" for value in best[1:])
            print(f"{loop + ', ' + name:24}{best[0]:8.1f}{shown}{best[1] / best[0]:12.2f}{best[-1] / best[1]:12.2f}")


if __name__ == "__main__":
    main()
