"""How much any cleverer choice of rows could still win: two bounds, each an exact shortest path over positions.

    oracle    knows how many drafted tokens will be right, and feeds 1 to R rows as is cheapest
    perfect   the same where every drafted token is right

From n known tokens a pass of r rows leads to n + min(r - 1, b(n)) + 1, where b(n) is the longest right guess that a
loop could feed there: the draft behind all that is known, or that behind the cache; the zeros behind the first
and the one junk token that `padded` and `dummy` feed count too. Rows past b(n) are junk, which a cost that falls
with rows can make worth feeding. A pass may cost more when the one before had another row count, so the path
is over (position, rows of the pass before). No loop of `LOOPS` on memory that can be cut beats `oracle`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from costmodel.passcost import PassCost
from sim.compiled import compiled
from sim.walk import DUMMIES, RIGHT, ZEROS, Index, Ints, Shorts

Floats = NDArray[np.float64]

AT_ONCE = 16_384
"""Lengths that are priced at once."""


def oracle(index: Index, cost: PassCost, n_rows: Sequence[int]) -> Floats:
    """The least seconds behind the prefill, with this drafter, for each R; ValueError where no pass has a price."""
    reach = longest_right(index.looks, index.n_prompt, index.end)
    return _least(index, cost, n_rows, reach)


def perfect(index: Index, cost: PassCost, n_rows: Sequence[int]) -> Floats:
    """The same if all that is drafted were right."""
    return _least(index, cost, n_rows, np.full(index.end + 1, index.end, dtype=np.int32))


def _least(index: Index, cost: PassCost, n_rows: Sequence[int], reach: Ints) -> Floats:
    first, end = index.n_prompt + 1, index.end  # the prefill yields one token
    if end <= first or not len(n_rows):
        return np.zeros(len(n_rows))
    rests = [np.zeros((r + 1, r + 1)) for r in n_rows]
    for stop in range(end, first, -AT_ONCE):
        start = max(first, stop - AT_ONCE)
        same, changed = _prices(cost, np.arange(start - 1, stop - 1), max(n_rows))
        for rest, r in zip(rests, n_rows, strict=True):
            shorten(reach, start, stop, end, same[:, :r], changed[:, :r], rest)
    place = first % np.array([r + 1 for r in n_rows])
    before = [index.n_prompt if index.n_prompt <= r else 0 for r in n_rows]
    return np.array([rest[p, b] for rest, p, b in zip(rests, place, before, strict=True)])


def _prices(cost: PassCost, n_past: NDArray[np.int64], n_rows: int) -> tuple[Floats, Floats]:
    """Seconds by cached length and rows, after a pass of as many rows and after another; infinite without a price."""
    same, changed = (np.full((len(n_past), n_rows), np.inf) for _ in range(2))
    refused = ""
    for rows in range(1, n_rows + 1):
        wide = np.full(len(n_past), rows)
        try:
            same[:, rows - 1] = cost.seconds(n_past, wide, wide, wide)
            changed[:, rows - 1] = cost.seconds(n_past, wide, wide, wide + 1)
        except ValueError as error:
            refused = refused or str(error)
    if not np.isfinite(same[:, 0]).all():
        raise ValueError(refused)
    return same, changed


@compiled
def longest_right(looks: Shorts, n_prompt: int, end: int) -> Ints:
    """The most guessed rows that are right behind each length: see the module."""
    reach = np.zeros(end + 1, dtype=np.int32)
    for n in range(n_prompt + 1, end):
        right = looks[n, RIGHT]
        padded = right + looks[min(n + right, end), ZEROS]
        reach[n] = max(padded, looks[n - 1, RIGHT] - 1, min(looks[n, DUMMIES], 1))
    return reach


@compiled
def shorten(reach: Ints, start: int, stop: int, end: int, same: Floats, changed: Floats, rest: Floats) -> None:
    """Take the cheapest paths to `end` from the lengths from `stop` on back to those from `start` on.

    same, changed   seconds by length from `start` on, and rows
    rest            seconds to the end by length and by rows of the pass before, of which 0 stands for a number that no
                    pass here has; a ring, since no pass reaches further than R tokens
    """
    n_rows = same.shape[1]
    ring = n_rows + 1
    paths = np.empty(n_rows + 1)
    for n in range(stop - 1, start - 1, -1):
        here = n - start
        least, second, which = np.inf, np.inf, 0
        for rows in range(1, n_rows + 1):
            then = min(n + min(rows - 1, reach[n]) + 1, end) % ring
            paths[rows] = rest[then, rows]
            seconds = changed[here, rows - 1] + paths[rows]
            if seconds < least:
                least, second, which = seconds, least, rows
            elif seconds < second:
                second = seconds
        rest[n % ring, 0] = least
        for rows in range(1, n_rows + 1):
            other = second if which == rows else least
            rest[n % ring, rows] = min(other, same[here, rows - 1] + paths[rows])
