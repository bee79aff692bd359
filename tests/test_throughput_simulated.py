"""Chains against simulation: 200 random settings, a million tokens each, and the simulation against the machine."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from costmodel.acceptance import gilbert_elliott
from costmodel.chain import PLANS
from costmodel.passcost import Table
from costmodel.throughput import steady
from tests.lanes import regimes_to_bits, seconds_per_token, walk
from tests.test_throughput import PROMPT, passes_of

LANES, TOKENS, BURN_IN = 2000, 500, 40
GUESSING = [loop for loop in PLANS if loop != "greedy"]


@pytest.mark.parametrize("loop", PLANS)
def test_the_simulation_is_the_machine(loop: str) -> None:
    generator = np.random.default_rng(3)
    for n_rows in (2, 3, 5):
        right, found = generator.random((2, 4, 80)) < np.array([0.75, 0.8])[:, None, None]
        rows, _, due = (np.array(x) for x in walk(loop, n_rows, right, found, 0, 40))
        for lane in range(4):
            agrees, finds = right[lane].astype(int).tolist(), found[lane].tolist()

            def drafts(
                at: int, agrees: list[int] = agrees, finds: list[bool] = finds, n_rows: int = n_rows
            ) -> list[int]:
                p = at - PROMPT
                return agrees[p : p + n_rows] if finds[p] else []

            told = [(int(d), int(n)) for d, n in zip(due[:, lane], rows[:, lane], strict=True) if d < 40]
            machine = [(past - PROMPT, n) for past, n in passes_of(loop, n_rows, 60, drafts) if past - PROMPT < 40]
            assert told == machine


def test_chain_lies_in_the_simulations_interval() -> None:
    """Inside the 99 % interval for at least 98 % of 200 settings, every guessing loop among them."""
    generator = np.random.Generator(np.random.SFC64(2))
    misses = []
    for number in range(200):
        loop = GUESSING[number % len(GUESSING)]
        n_rows = int(generator.integers(2, 9))
        stay_locked, stay_free = generator.uniform(0.5, 0.98, size=2)
        agree_locked, agree_free = generator.uniform(0.7, 1.0), generator.uniform(0.0, 0.7)
        none = generator.choice([0.0, 0.3])
        law = gilbert_elliott(stay_locked, stay_free, agree_locked, agree_free, none)
        measured = np.unique([1, 2, n_rows])
        seconds, change = generator.uniform(0.5, 3.0, size=measured.size), float(generator.uniform(0, 0.2))
        cost = Table(tuple(measured), (0,), (tuple(seconds),), change_seconds=change)

        def price(
            rows: NDArray[np.int64],
            before: NDArray[np.int64],
            measured: NDArray[np.int64] = measured,
            seconds: NDArray[np.float64] = seconds,
            change: float = change,
        ) -> NDArray[np.float64]:
            return seconds[np.searchsorted(measured, rows)] + change * (rows != before)

        shape = (LANES, BURN_IN + TOKENS + 2 * n_rows + 4)
        transition = np.array(law.transition, dtype=float)
        right = regimes_to_bits(generator, shape, transition, np.array(law.agreement[0], dtype=float))
        found = (generator.random(shape[::-1], dtype=np.float32) >= none).T
        mean, error = seconds_per_token(loop, n_rows, right, found, price, BURN_IN, TOKENS)
        run = steady(loop, law, n_rows, cost)
        misses.append((1 / run.tokens_per_second - mean) / error)
    outside = np.abs(misses) > 2.5758
    assert outside.mean() <= 0.02
    assert np.std(misses) == pytest.approx(1, abs=0.2)  # neither biased nor hidden in too wide an interval
    assert np.mean(misses) == pytest.approx(0, abs=0.25)
