"""The walk of every loop over a recorded text, compiled: what `run` does, in whole numbers.

All that a loop can ask of a drafter, at every length n of the text, is known beforehand (`sim.index`):

    length[n]        tokens drafted behind the first n
    right[n]         how many of them, from the first on, are the text
    free[n]          how many come before a stop token;  free_behind[n] the same without the first

so a pass takes no look-up and no comparison of tokens, whatever the loop and R. A loop is three words: what it
does after a pass that guessed nothing, after one whose guesses were all right, and after one with a wrong
guess. Past the prompt one token is due, except at the end. The rule is that of `sim.machine`, and is held to it
pass by pass in tests.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sim.compiled import compiled, inlined
from sim.loops import DUMMY, PADDING

Ints = NDArray[np.int32]
Shorts = NDArray[np.int16]
Longs = NDArray[np.int64]

FEED, GATE, AHEAD, PADDED, AT_LEAST_ONE, ANCHOR = range(6)
"""Feed what is due; with a guess that passed the gate; with one behind all that is known; filled up to R rows; with
token 100 where there is none; with a guess that is not gated."""

LOOP_WORDS: dict[str, tuple[int, int, int]] = {
    "greedy": (FEED, FEED, FEED),
    "gated": (GATE, FEED, FEED),
    "fused": (GATE, AHEAD, FEED),
    "fused-partial": (GATE, AHEAD, AHEAD),
    "gated-held": (GATE, GATE, GATE),
    "carry": (AHEAD, AHEAD, AHEAD),
    "decode-then-speculate": (AHEAD, FEED, FEED),
    "padded": (PADDED, PADDED, PADDED),
    "dummy": (AT_LEAST_ONE, AT_LEAST_ONE, AT_LEAST_ONE),
    "re-anchor": (ANCHOR, FEED, FEED),
}
KINDS = ("prefill", "decode", "verify", "chained", "correction", "replay")
PREFILL, DECODE, VERIFY, CHAINED, CORRECTION, REPLAY = range(6)
ALONE, TOGETHER, LAST_APART = range(3)
COLUMNS = ("kind", "n_past", "n_rows", "n_out", "guessed", "accepted", "n_tokens")


class Index(NamedTuple):
    """A text and all drafts of one drafter over it; arrays are by the number of tokens known.

    goal, n_prompt  lengths; the text may be known beyond the goal
    end             the length at which the text has ended: the goal, or a stop token before it
    limit           the length up to which drafts are judged, and `overrun`, whether it may lie behind the end
    """

    tokens: Ints
    length: Shorts
    right: Shorts
    free: Shorts
    free_behind: Shorts
    n_prompt: int
    goal: int
    end: int
    limit: int
    overrun: bool


class Rules(NamedTuple):
    """A loop: its three words, R, how it clips, how the prompt goes in, whether its memory can be cut."""

    plain: int
    full: int
    partial: int
    n_rows: int
    before_goal: bool
    before_stop: bool
    prompt: int
    recurrent: bool


class Pass(NamedTuple):
    """A pass and what it yielded; `due_wrong` where row 0 is not what is due; guessed < 0: the drafter refused."""

    kind: int
    n_past: int
    n_rows: int
    n_out: int
    guessed: int
    accepted: int
    n_tokens: int


class Sums(NamedTuple):
    """Totals behind the prefill; `guessing` passes are those that guessed."""

    n_passes: int
    n_rows: int
    n_tokens: int
    guessed: int
    accepted: int
    guessing: int


@inlined
def guess(index: Index, rules: Rules, word: int, n: int, cached: int) -> tuple[int, int, bool]:
    """Rows guessed behind the due ones, how many of them are right, and whether the due one is guessed wrong."""
    most, n_right, free = rules.n_rows - 1, 0, 0
    if word == FEED or (cached == 0 and (word == GATE or word == ANCHOR)):
        return 0, 0, False
    if word == GATE or word == ANCHOR:  # the draft was made before the due token was known
        if index.length[n - 1] < 0:
            return -1, 0, False
        n_guess = min(int(index.length[n - 1]) - 1, most)
        n_right = index.right[n - 1] - 1
        if n_guess < 0 or (n_right < 0 and word == GATE):
            return 0, 0, False
        free = index.free_behind[n - 1]
    else:
        if index.length[n] < 0:
            return -1, 0, False
        n_guess = min(int(index.length[n]), most)
        n_right = index.right[n]
        free = index.free[n]
    if word == PADDED:
        n_right = min(n_right, n_guess)
        while n_right >= n_guess and n_guess < most:
            if n + n_guess < index.limit and index.tokens[n + n_guess] == PADDING:
                n_right += 1
            n_guess += 1
        return most, n_right, False
    left = index.goal - n
    if rules.before_goal:
        n_guess = min(n_guess, max(left - 1, 0))
    if rules.before_stop:
        n_guess = min(n_guess, free) if left > 1 else 0
    if word == AT_LEAST_ONE and n_guess == 0:
        return 1, int(n < index.limit and index.tokens[n] == DUMMY), False
    return n_guess, max(min(n_right, n_guess), 0), n_right < 0


@inlined
def first_passes(index: Index, rules: Rules) -> tuple[Pass, Pass]:
    """The passes that bring the prompt in; the first of them may be empty."""
    n, n_guess, n_right = index.n_prompt, 0, 0
    begun = n - 1 if rules.prompt == LAST_APART else 0
    if rules.prompt == TOGETHER:
        n_guess, n_right, _ = guess(index, rules, rules.plain, n, 0)
    n_tokens = n_right + 1 if n + n_right < index.limit or index.overrun else n_right
    return (
        Pass(PREFILL, 0, begun, 0, 0, 0, 0),
        Pass(PREFILL, begun, n - begun + n_guess, 1 + n_guess, n_guess, n_right, n_tokens),
    )


@inlined
def next_pass(index: Index, rules: Rules, n: int, last: Pass) -> Pass:
    """The pass behind the prompt with n tokens known, after the last one."""
    if rules.recurrent and last.accepted < last.guessed:
        keep = last.n_past
        kind = REPLAY if last.n_tokens > 0 else CORRECTION
        return Pass(kind, keep, n - keep, 1, 0, 0, int(n < index.limit or index.overrun))
    word = rules.plain
    if last.guessed > 0:
        word = rules.full if last.accepted == last.guessed else rules.partial
    n_guess, n_right, due_wrong = guess(index, rules, word, n, n - 1)
    if due_wrong:
        return Pass(VERIFY, n - 1, 1 + n_guess, 1 + n_guess, 1 + n_guess, 0, 0)
    if last.guessed > 0:
        kind = CHAINED if n_guess > 0 else CORRECTION
    else:
        kind = VERIFY if n_guess > 0 else DECODE
    n_tokens = n_right + 1 if n + n_right < index.limit or index.overrun else n_right
    return Pass(kind, n - 1, 1 + n_guess, 1 + n_guess, n_guess, n_right, n_tokens)


@compiled
def list_passes(index: Index, rules: Rules) -> Ints:
    """All passes, one a line, the prefill first; a line with guessed -1 where the drafter refused, and nothing after."""
    lines = np.empty((2 * (index.limit - index.n_prompt) + 5, 7), dtype=np.int32)
    count = 0
    if index.goal == index.n_prompt:
        return lines[:0]
    begun, last = first_passes(index, rules)
    if begun.n_rows > 0:
        lines[count] = begun
        count += 1
    lines[count] = last
    count += 1
    n = index.n_prompt + last.n_tokens
    while last.guessed >= 0 and n < index.end:
        last = next_pass(index, rules, n, last)
        lines[count] = last
        count += 1
        n += last.n_tokens
    return lines[:count]


@compiled
def count_passes(index: Index, rules: Rules, bin_tokens: int) -> tuple[Ints, Sums]:
    """Counts of the passes behind the prefill that are alike, and totals; guessed -1 where the drafter refused.

    A line is: kind, rows, rows of the pass before, count, mean cached length. Alike are those whose last row's
    position falls into the same bin, since what a pass costs jumps there; more rows than R + 1 before count as R + 2.
    """
    width = rules.n_rows + 3
    table = np.zeros((6 * width * width, 2), dtype=np.int64)
    touched = np.empty(6 * width * width, dtype=np.int32)
    lines = np.empty((1024, 5), dtype=np.int32)
    n_lines, n_touched, low, high = 0, 0, 0, 0  # of the bin
    n_passes, n_rows, n_tokens, guessed, accepted, guessing = 0, 0, 0, 0, 0, 0
    if index.goal == index.n_prompt:
        return lines[:0], Sums(0, 0, 0, 0, 0, 0)
    _, last = first_passes(index, rules)
    n = index.n_prompt + last.n_tokens
    while last.guessed >= 0 and n < index.end:
        before = min(last.n_rows, width - 1)
        last = next_pass(index, rules, n, last)
        n += last.n_tokens
        n_passes += 1
        n_rows += last.n_rows
        n_tokens += last.n_tokens
        guessed += last.guessed
        accepted += last.accepted
        guessing += int(last.guessed > 0)
        place = last.n_past + last.n_rows - 1
        if not low <= place < high or last.n_rows >= width:
            lines, n_lines = flushed(table, touched, n_touched, width, lines, n_lines)
            low, n_touched = place // bin_tokens * bin_tokens, 0
            high = low + bin_tokens
        if last.n_rows >= width:
            for column, number in enumerate((last.kind, last.n_rows, before, 1, last.n_past)):
                lines[n_lines, column] = number
            n_lines += 1
            continue
        cell = (last.kind * width + last.n_rows) * width + before
        if table[cell, 0] == 0:
            touched[n_touched] = cell
            n_touched += 1
        table[cell, 0] += 1
        table[cell, 1] += last.n_past
    lines, n_lines = flushed(table, touched, n_touched, width, lines, n_lines)
    if last.guessed < 0:
        guessed = -1
    return lines[:n_lines], Sums(n_passes, n_rows, n_tokens, guessed, accepted, guessing)


@inlined
def flushed(
    table: Longs, touched: Ints, n_touched: int, width: int, lines: Ints, n_lines: int
) -> tuple[Ints, int]:
    """The lines with a bin's counts behind them, and room for one more; the table is empty again."""
    if n_lines + n_touched >= len(lines):
        longer = np.empty((2 * (n_lines + n_touched) + 1, 5), dtype=np.int32)
        longer[:n_lines] = lines[:n_lines]
        lines = longer
    for i in range(n_touched):
        cell = touched[i]
        count = table[cell, 0]
        lines[n_lines, 0] = cell // (width * width)
        lines[n_lines, 1] = cell // width % width
        lines[n_lines, 2] = cell % width
        lines[n_lines, 3] = count
        lines[n_lines, 4] = table[cell, 1] // count
        n_lines += 1
        table[cell, 0] = 0
        table[cell, 1] = 0
    return lines, n_lines
