"""A second telling of every loop: many texts at once, walked by plain rules on arrays of agreements.

Each lane is a text; `right[lane, p]` says whether a draft for position p is the text, `found[lane, n]`
whether a look-up behind n tokens finds anything. No chain, no plan, no machine: only what each loop's page
says.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Bits = NDArray[np.bool_]
Price = Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.float64]]


def regimes_to_bits(
    generator: np.random.Generator,
    shape: tuple[int, int],
    transition: NDArray[np.float64],
    agree: NDArray[np.float64],
) -> Bits:
    """Agreements of many Gilbert-Elliott texts, each from the long-run share of regimes."""
    lanes, length = shape
    leave, back = transition[0, 1], transition[1, 0]
    locked = generator.random(lanes) < back / (leave + back)
    right = np.empty((length, lanes), dtype=bool)
    agrees, changes = (generator.random((length, lanes), dtype=np.float32) for _ in range(2))
    for p in range(length):
        np.less(agrees[p], np.where(locked, agree[0], agree[1]), out=right[p])
        locked = np.where(locked, changes[p] >= leave, changes[p] < back)
    return right.T


def walk(
    loop: str, n_rows: int, right: Bits, found: Bits, start: int, stop: int
) -> tuple[list[NDArray[np.int64]], ...]:
    """Rows, rows before and start of every pass from position `start` until all lanes are past `stop`, step by step."""
    lanes, length = right.shape
    most = n_rows - 1
    # By position and lane, in one byte that each pass looks at once: drafts right in a row behind what is due,
    # whether a look-up behind it, or behind the cache, finds something, and whether the first draft is right.
    streak = np.zeros((length + 1, lanes), dtype=np.uint8)
    for p in range(length - 1, -1, -1):
        np.multiply(np.minimum(streak[p + 1] + 1, most, dtype=np.uint8), right[:, p], out=streak[p], casting="unsafe")
    seen = streak[1:]
    seen[:-1] |= found.T[1:].astype(np.uint8) << 4
    seen |= found.T.astype(np.uint8) << 5
    seen |= right.T.astype(np.uint8) << 6
    flat, lane = seen.ravel(), np.arange(lanes)
    due = np.full(lanes, start)
    guessed = np.zeros(lanes, dtype=bool)
    all_right = np.zeros(lanes, dtype=bool)
    before = np.zeros(lanes, dtype=np.int64)
    passes: tuple[list[NDArray[np.int64]], ...] = ([], [], [])
    while (due < stop).any():
        here = flat.take(due * lanes + lane)
        accepted = (here & 15).astype(np.int64)
        look_ahead = (here & 16) > 0  # behind what is due
        look_behind = (here & 32) > 0  # behind the cache: its first draft is for what is due
        first_right = (here & 64) > 0
        gate = look_behind & first_right
        if loop == "greedy":
            guess = np.zeros(lanes, dtype=bool)
        elif loop == "gated":
            guess = ~guessed & gate
        elif loop == "fused":
            guess = np.where(guessed, all_right & look_ahead, gate)
        elif loop == "fused-partial":
            guess = np.where(guessed, look_ahead, gate)
        elif loop == "gated-held":
            guess = gate
        elif loop == "decode-then-speculate":
            guess = ~guessed & look_ahead
        elif loop == "re-anchor":
            guess = ~guessed & look_behind
        else:  # carry, padded, dummy
            guess = look_ahead
        least = {"padded": n_rows, "dummy": 2}.get(loop, 1)
        rows = np.where(guess, n_rows, least)
        tokens = np.where(guess, accepted + 1, 1)
        if loop == "re-anchor":
            tokens[guess & ~first_right] = 0
        for kept, values in zip(passes, (rows, before, due), strict=True):
            kept.append(values)
        all_right = guess & (tokens == n_rows)
        guessed = rows > 1
        due, before = np.minimum(due + tokens, length - n_rows - 2), rows
    return passes


def seconds_per_token(
    loop: str, n_rows: int, right: Bits, found: Bits, price: Price, burn_in: int, n_tokens: int
) -> tuple[float, float]:
    """Mean over the lanes, and its standard error: passes that start in the window, over the window's length."""
    rows, before, due = (np.array(x) for x in walk(loop, n_rows, right, found, 0, burn_in + n_tokens))
    inside = (due >= burn_in) & (due < burn_in + n_tokens)
    each = (price(rows, before) * inside).sum(axis=0) / n_tokens
    return float(each.mean()), float(each.std(ddof=1) / np.sqrt(each.size))
