"""Independent replications of scenarios, what they differ by, and whether they end.

Replication i is the same for every scenario of a seed (numpy `SeedSequence`): loops that are compared meet the same
requests, and differences and ratios are taken pair by pair (common random numbers; Law 2015, "Simulation Modeling and
Analysis", section 11.2), with Student intervals.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sim.arrivals import Closed
from sim.events import simulate
from sim.history import History
from sim.intervals import student
from sim.scenario import Scenario
from sim.served import Served, Targets, served
from sim.setting import Setting

MOST_REQUESTS = 100_000


def replicated(scenario: Scenario, n: int, seed: int = 0, targets: Targets | None = None) -> tuple[Served, ...]:
    """So many independent replications of a scenario; number i is the same for every scenario with this seed.

    Raises ValueError for fewer than one.
    """
    if n < 1:
        raise ValueError(f"replications must be at least 1, not {n}")
    seeds = np.random.SeedSequence(seed).spawn(n)
    return tuple(served(simulate(scenario, one), targets) for one in seeds)


def first_history(base: Scenario, setting: Setting, slots: int, seed: int = 0) -> History:
    """The first replication of a setting in so many slots, to look at."""
    return simulate(replace(base, setting=setting, slots=slots), np.random.SeedSequence(seed).spawn(1)[0])


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean over replications and its 95 % interval; infinitely wide for a single one."""

    mean: float
    low: float
    high: float


def interval(values: Sequence[float], level: float = 0.95) -> Interval:
    """The mean of independent values and its Student interval.

    >>> round(interval([1.0, 2.0, 3.0]).high, 3)  # 2 + 4.303 / sqrt(3)
    4.484
    """
    if not len(values):
        return Interval(math.nan, -math.inf, math.inf)
    middle, half = (float(x) for x in student(np.array(values, dtype=float), level))
    half = math.inf if math.isnan(half) else half
    return Interval(middle, middle - half, middle + half)


def difference(
    first: Sequence[Served], second: Sequence[Served], what: Callable[[Served], float], level: float = 0.95
) -> Interval:
    """How much more the second has, paired by replication."""
    return interval([what(b) - what(a) for a, b in zip(first, second, strict=True)], level)


def ratio(
    first: Sequence[Served], second: Sequence[Served], what: Callable[[Served], float], level: float = 0.95
) -> Interval:
    """How many times more the second has, paired by replication: the geometric mean of the ratios."""
    logs = interval([math.log(what(b) / what(a)) for a, b in zip(first, second, strict=True)], level)
    return Interval(*(math.exp(min(value, 700.0)) for value in (logs.mean, logs.low, logs.high)))


def capacity(scenario: Scenario, seed: int = 0, rounds: int = 6) -> float:
    """Requests a second when all slots are always busy: faster arrivals make a queue without end."""
    full = replace(
        scenario,
        arrivals=Closed(),
        patience=None,
        requests=max(rounds * scenario.slots, 4 * rounds),
        warmup=scenario.slots,
    )
    return served(simulate(full, seed)).requests_per_second


def until_precise(
    scenario: Scenario,
    precision: float,
    n: int,
    seed: int = 0,
    targets: Targets | None = None,
    most_requests: int = MOST_REQUESTS,
) -> tuple[Served, ...]:
    """Replications of an open horizon: twice as many requests until the mean latency is known to +- `precision`.

    Raises ValueError for a scenario without an end: arrivals faster than service, or a load so near to it that
    `most_requests` of each replication do not suffice.
    """
    if not 0 < precision < 1:
        raise ValueError(f"precision must be between 0 and 1, as in 0.05, not {precision}")
    if n < 2:
        raise ValueError("an open horizon needs at least 2 replications to know its precision")
    check_ends(scenario, seed)
    while scenario.warmup + scenario.requests <= most_requests:
        runs = replicated(scenario, n, seed, targets)
        latency = interval([run.latency for run in runs])
        if latency.high - latency.mean <= precision * latency.mean:
            return runs
        scenario = replace(scenario, requests=2 * scenario.requests, warmup=2 * scenario.warmup)
    raise ValueError(
        f"after {most_requests} requests the mean latency is still not known to +-{precision:.0%}: the arrivals are too"
        " near to what the device can serve; bound the number of requests, or take fewer arrivals"
    )


def check_ends(scenario: Scenario, seed: int = 0) -> None:
    """Raise ValueError when arrivals at a rate are faster than service: an open horizon would never end."""
    rate = getattr(scenario.arrivals, "per_second", None)
    if rate is not None and scenario.patience is None and rate >= (most := capacity(scenario, seed)):
        raise ValueError(
            f"{scenario.setting}: requests arrive at {rate:g} a second, but the slots ({scenario.slots}) serve at most"
            f" {most:.3g}: the queue has no end; bound the number of requests, or take fewer arrivals or more slots"
        )
