"""Loops against the number of slots: throughput, TTFT and TPOT, and from where on a loop no longer pays.

A pass over many sequences has many rows already, so the rows that a loop guesses cost more than alone: a gain for one
user can be a loss with eight. A loop pays as long as it is better than `greedy` in as many slots, on the same requests:
by throughput where all slots are always busy, by mean latency where requests come on their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace

from sim.arrivals import Closed
from sim.replications import Interval, capacity, interval, ratio, replicated, until_precise
from sim.scenario import Scenario
from sim.served import Served, Targets
from sim.setting import Setting


@dataclass(frozen=True, slots=True)
class Line:
    """A setting in so many slots: means over replications with 95 % intervals; seconds.

    gain  over `greedy` in as many slots: of throughput (closed arrivals), or of mean latency; None for itself
    load  arrivals in shares of what the slots serve when they are always busy; above 1 the queue has no end
    """

    loop: str
    rows: int
    drafter: str
    slots: int
    tokens_per_second: Interval
    goodput_per_second: float
    ttft: Interval
    ttft_p95: float
    tpot: Interval
    tpot_p95: float
    queue: float
    latency: Interval
    busy: float
    rows_per_pass: float
    wasted: float
    cancelled: float
    load: float | None
    gain: Interval | None


def study(
    base: Scenario,
    settings: Sequence[Setting],
    slots: Sequence[int],
    replications: int = 5,
    seed: int = 0,
    targets: Targets | None = None,
    precision: float | None = None,
    advance: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> list[Line]:
    """A line for each number of slots and setting; every setting meets the same requests.

    `base` says everything but the setting and the number of slots; with a `precision` its horizon is open. Raises
    ValueError for no slots or no `greedy` to compare with, and for what a scenario refuses.
    """
    greedy = next((setting for setting in settings if setting.loop == "greedy"), None)
    if greedy is None:
        raise ValueError("greedy must be among the loops: it is what they are compared with")
    if not slots or len(set(slots)) < len(slots):
        raise ValueError(f"slots must be different whole numbers from 1 on, as in 1,2,4,8, not {list(slots)}")
    scenarios = {(n, s): replace(base, slots=n, setting=s) for n in sorted(slots) for s in settings}  # all are checked
    runs: dict[tuple[int, Setting], tuple[Served, ...]] = {}
    for number, ((n, setting), scenario) in enumerate(scenarios.items()):
        advance(f"{setting} in {n} {'slot' if n == 1 else 'slots'}", number, len(scenarios))
        if precision is None:
            runs[n, setting] = replicated(scenario, replications, seed, targets)
        else:
            runs[n, setting] = until_precise(scenario, precision, replications, seed, targets)
    return [
        _line(scenario, runs[n, setting], None if setting == greedy else runs[n, greedy], seed)
        for (n, setting), scenario in scenarios.items()
    ]


def _line(scenario: Scenario, runs: Sequence[Served], greedy: Sequence[Served] | None, seed: int) -> Line:
    def over(name: str) -> Interval:
        return interval([getattr(run, name) for run in runs])

    gain = None
    if greedy is not None:
        if isinstance(scenario.arrivals, Closed):
            gain = ratio(greedy, runs, lambda run: run.tokens_per_second)
        else:
            gain = ratio(runs, greedy, lambda run: run.latency)
    rate = getattr(scenario.arrivals, "per_second", None)
    return Line(
        loop=scenario.setting.loop,
        rows=scenario.rows,
        drafter=scenario.setting.drafter,
        slots=scenario.slots,
        tokens_per_second=over("tokens_per_second"),
        goodput_per_second=over("goodput_per_second").mean,
        ttft=over("ttft"),
        ttft_p95=over("ttft_p95").mean,
        tpot=over("tpot"),
        tpot_p95=over("tpot_p95").mean,
        queue=over("queue").mean,
        latency=over("latency"),
        busy=over("busy").mean,
        rows_per_pass=over("rows_per_pass").mean,
        wasted=over("wasted").mean,
        cancelled=over("cancelled").mean,
        load=None if rate is None else rate / capacity(scenario, seed),
        gain=gain,
    )


@dataclass(frozen=True, slots=True)
class Limit:
    """From how many of the simulated slots on a loop is no better than `greedy`; None: it still is with the most."""

    loop: str
    rows: int
    stops_paying: int | None


def limits(lines: Sequence[Line]) -> list[Limit]:
    """For each setting but `greedy`: the fewest slots from which on its gain is at most 1, all above included."""
    found = []
    for loop, rows, drafter in dict.fromkeys((x.loop, x.rows, x.drafter) for x in lines if x.gain is not None):
        mine = [x for x in lines if (x.loop, x.rows, x.drafter) == (loop, rows, drafter)]
        stops = None
        for line in sorted(mine, key=lambda line: -line.slots):
            if line.gain is None or line.gain.mean > 1:
                break
            stops = line.slots
        found.append(Limit(loop, rows, stops))
    return found


def flat(line: Line) -> dict[str, object]:
    """A line in one level, for a table: an interval `x` is `x`, `x_low` and `x_high`."""
    cells: dict[str, object] = {}
    for field in fields(line):
        value = getattr(line, field.name)
        if field.name == "gain" or isinstance(value, Interval):
            ends = (None, None, None) if value is None else (value.mean, value.low, value.high)
            cells |= dict(zip((field.name, f"{field.name}_low", f"{field.name}_high"), ends, strict=True))
        else:
            cells[field.name] = value
    return cells
