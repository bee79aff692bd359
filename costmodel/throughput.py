"""The throughput of any loop under any acceptance law and any pass cost, without running anything.

In the long run (renewal reward, Ross 1996, "Stochastic Processes", theorem 3.6.1) a chain of passes yields

    tokens per second = E[tokens of a pass] / E[seconds of a pass]

under its stationary distribution, and the seconds of N tokens vary by N sigma^2 / E[tokens of a pass], where
sigma^2 is the long-run variance per pass of (seconds - tokens / rate), from the chain's Poisson equation. A
short text is not the long run: `finite` walks it to its end, pass by pass, with the rows that the end cuts
off; exact in Fractions.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from statistics import NormalDist
from typing import TypeAlias

import numpy as np

from costmodel.acceptance import Law, Number
from costmodel.chain import Mode, Move, Place, moves, plan_of
from costmodel.passcost import PassCost

Price: TypeAlias = Callable[[int, int, int | None], float]


@dataclass(frozen=True, slots=True)
class Steady:
    """The long run of a loop, per pass, and how much a run of N tokens scatters around it.

    share_of_rows         share of passes with each row count
    variance_per_token    seconds^2 that each token adds to the variance of a run's total time
    """

    tokens_per_pass: float
    seconds_per_pass: float
    share_of_rows: dict[int, float]
    variance_per_token: float

    @property
    def tokens_per_second(self) -> float:
        """The throughput."""
        return self.tokens_per_pass / self.seconds_per_pass

    def seconds(self, n_tokens: int, level: float = 0.95) -> tuple[float, float, float]:
        """Expected seconds of a run of so many tokens, and the interval that holds this share of runs."""
        mean = n_tokens / self.tokens_per_second
        half = NormalDist().inv_cdf(0.5 + level / 2) * math.sqrt(n_tokens * self.variance_per_token)
        return mean, max(mean - half, 0.0), mean + half


def steady(loop: str, law: Law, n_rows: int, cost: PassCost | None = None, n_past: int = 0) -> Steady:
    """The long run of a loop at R = `n_rows` on `n_past` cached tokens; without a cost a pass counts 1 second.

    Raises ValueError for an unknown loop, and for a law that has no single long run.

    >>> from costmodel.acceptance import iid
    >>> round(steady("carry", iid(0.7), 5).tokens_per_pass, 4)  # (1 - 0.7^5) / (1 - 0.7)
    2.7731
    """
    price = _price(cost)
    start = [Place("fresh", regime, 0) for regime in range(law.n_regimes)]
    ways = _reachable(loop, law, n_rows, start)
    number = {place: i for i, place in enumerate(ways)}
    size = len(number)
    chain = np.zeros((size, size))
    gains = []
    for place, ends in ways.items():
        for move in ends:
            paid = price(n_past, move.n_rows, place.n_rows or None)
            gains.append((number[place], number[move.after], float(move.probability), move, paid))
    for i, j, probability, _, _ in gains:
        chain[i, j] += probability
    balance = np.vstack([chain.T - np.eye(size), np.ones(size)])
    share, _, rank, _ = np.linalg.lstsq(balance, np.append(np.zeros(size), 1.0), rcond=None)
    if rank < size:
        raise ValueError(f"{law.name}: the long run depends on the start, because a regime is never left")
    tokens = sum(share[i] * p * move.n_tokens for i, _, p, move, _ in gains)
    seconds = sum(share[i] * p * paid for i, _, p, _, paid in gains)
    excess = seconds / tokens
    drift = np.zeros(size)
    of_rows: defaultdict[int, float] = defaultdict(float)
    for i, _, p, move, paid in gains:
        drift[i] += p * (paid - excess * move.n_tokens)
        of_rows[move.n_rows] += float(share[i] * p)
    ahead = np.linalg.solve(np.eye(size) - chain + share, drift)
    variance = sum(
        share[i] * p * (paid - excess * move.n_tokens + ahead[j] - ahead[i]) ** 2 for i, j, p, move, paid in gains
    )
    shares = {rows: value for rows, value in sorted(of_rows.items()) if value > 1e-12}
    return Steady(float(tokens), float(seconds), shares, float(variance / tokens))


def speedup(loop: str, baseline: str, law: Law, n_rows: int, cost: PassCost | None = None, n_past: int = 0) -> float:
    """How much faster `loop` is than `baseline` in the long run, at equal R (`total_time`).

    >>> from costmodel.acceptance import iid
    >>> round(speedup("fused", "gated", iid(1.0), 6), 4)
    1.7143
    """
    ours, theirs = (steady(name, law, n_rows, cost, n_past) for name in (loop, baseline))
    return ours.tokens_per_second / theirs.tokens_per_second


@dataclass(frozen=True, slots=True)
class Finite:
    """A run of a given length: expected passes, by row count too, mean and variance of its seconds."""

    n_passes: Number
    passes_of_rows: dict[int, Number]
    seconds: Number
    variance: Number


def finite(
    loop: str,
    law: Law,
    n_rows: int,
    n_tokens: int,
    cost: PassCost | None = None,
    n_past: int = 0,
) -> Finite:
    """`n_tokens` tokens after the one that the prompt's pass gives, each pass priced at its own cached length.

    `n_past` is the cached length before the first of these passes: the prompt's. Without a cost a pass counts
    1. Raises ValueError for an unknown loop or a negative length.

    >>> from fractions import Fraction
    >>> from costmodel.acceptance import iid
    >>> round(float(finite("carry", iid(Fraction(7, 10)), 5, 10).n_passes), 2)
    4.07
    """
    if n_tokens < 0:
        raise ValueError(f"n_tokens must be at least 0, not {n_tokens}")
    plan_of(loop, n_rows)
    price = _price(cost)

    @cache  # with R tokens or more to come the end is out of sight
    def ends(mode: Mode, regime: int, room: int) -> list[Move]:
        return list(moves(loop, law, n_rows, Place(mode, regime, 0), room))

    # Of each place: its probability, and the seconds so far and their squares, weighted with it.
    rooms: list[dict[Place, list[Number]]] = [{} for _ in range(n_tokens + 1)]
    rooms[n_tokens] = {Place("fresh", r, 0): [w, 0, 0] for r, w in enumerate(law.stationary) if w}
    passes: defaultdict[int, Number] = defaultdict(int)
    for room in range(n_tokens, 0, -1):
        waiting = rooms[room]
        while waiting:
            place, (weight, sum_, square) = waiting.popitem()
            for probability, rows, tokens, after in ends(place.mode, place.regime, min(room, n_rows)):
                paid = price(n_past + n_tokens - room, rows, place.n_rows or None)
                passes[rows] += weight * probability
                there = rooms[room - tokens].setdefault(after, [0, 0, 0])
                there[0] += weight * probability
                there[1] += (sum_ + paid * weight) * probability
                there[2] += (square + 2 * paid * sum_ + paid * paid * weight) * probability
    mean: Number = sum(sums[1] for sums in rooms[0].values())
    second: Number = sum(sums[2] for sums in rooms[0].values())
    return Finite(sum(passes.values()), dict(sorted(passes.items())), mean, second - mean * mean)


def acceptance_where(
    loop: str,
    baseline: str,
    n_rows: int,
    ratio: float,
    target: float = 1.0,
    law: Callable[[float], Law] | None = None,
) -> tuple[float, ...]:
    """All acceptances (iid, or another law of one number) at which `loop` is `target` times as fast as `baseline`.

    `ratio` is c_R/c_1. Solved, not tabulated; an empty tuple when no acceptance gives that speed-up.

    >>> [round(p, 3) for p in acceptance_where("fused-partial", "fused", 6, 3.0)]
    [0.709]
    """
    from scipy.optimize import brentq

    from costmodel.acceptance import iid
    from costmodel.passcost import Table

    cost = Table((1, n_rows), (0,), ((1.0, float(ratio)),))
    make = law or iid

    def excess(p: float) -> float:
        return speedup(loop, baseline, make(p), n_rows, cost) - target

    # At 0 and 1 several loops are the same loop: those ties are no crossing.
    grid = [(p, excess(p)) for p in np.linspace(1e-4, 1 - 1e-4, 65).tolist()]
    roots = [p for p, value in grid if value == 0]
    for (low, left), (high, right) in pairwise(grid):
        if left * right < 0:
            roots.append(float(brentq(excess, low, high, xtol=1e-12)))
    return tuple(sorted(roots))


def _price(cost: PassCost | None) -> Price:
    """Seconds of a pass that wants the logits of all its rows, asked for once for each kind."""
    if cost is None:
        return lambda n_past, n_rows, before: 1
    known: dict[tuple[int, int, int | None], float] = {}

    def price(n_past: int, n_rows: int, before: int | None) -> float:
        key = (n_past, n_rows, before)
        if key not in known:
            known[key] = cost.seconds(n_past, n_rows, n_rows, before)
        return known[key]

    return price


def _reachable(loop: str, law: Law, n_rows: int, start: list[Place]) -> dict[Place, list[Move]]:
    ways: dict[Place, list[Move]] = {}
    waiting = list(start)
    while waiting:
        place = waiting.pop()
        if place not in ways:
            ways[place] = list(moves(loop, law, n_rows, place))
            waiting += [move.after for move in ways[place]]
    return ways
