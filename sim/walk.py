"""The walk of every loop over a recorded text, compiled: what `run` does, in whole numbers.

All that a loop can ask of a drafter, at every length n of the text, is known beforehand (`sim.index`):

    LENGTH       tokens drafted behind the first n, -1 where the drafter refuses
    RIGHT        how many of them, from the first on, are the text
    FREE         how many come before a stop token;  FREE_BEHIND the same without the first
    ZEROS        how many tokens of the text from n on are the padding token;  DUMMIES the dummy token

so a pass takes no look-up and no comparison of tokens, whatever the loop and R. A loop is three words: what it
does after a pass that guessed nothing, after one whose guesses were all right, and after one with a wrong
guess. Past the prompt one token is due, except at the end. The rule is that of `sim.machine`, and is held to it
pass by pass in tests.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sim.compiled import compiled
from sim.run import Kind

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
N_LOOKS = 6
LENGTH, RIGHT, FREE, FREE_BEHIND, ZEROS, DUMMIES = range(N_LOOKS)
KINDS: tuple[Kind, ...] = ("prefill", "decode", "verify", "chained", "correction", "replay")
PREFILL, DECODE, VERIFY, CHAINED, CORRECTION, REPLAY = range(6)
ALONE, TOGETHER, LAST_APART = range(3)


class Index(NamedTuple):
    """A text and all drafts of one drafter over it.

    looks           the numbers above, by the number of tokens known (16 bits each)
    goal, n_prompt  lengths; the text may be known beyond the goal
    end             the length at which the text has ended: the goal, or a stop token before it
    limit           the length up to which drafts are judged, and `overrun`, whether it may lie behind the end
    """

    looks: Shorts
    n_prompt: int
    goal: int
    end: int
    limit: int
    overrun: bool


class Rules(NamedTuple):
    """A loop: its three words, R, how it clips, how the prompt goes in, whether its memory cannot be cut."""

    plain: int
    full: int
    partial: int
    n_rows: int
    before_goal: bool
    before_stop: bool
    prompt: int
    recurrent: bool


class Look(NamedTuple):
    """What is known of the drafts at one length of the text (`_behind`: one token less), and the tokens left."""

    length: int
    right: int
    free: int
    length_behind: int
    right_behind: int
    free_behind: int
    zeros: int
    dummies: int
    left: int


class Pass(NamedTuple):
    """A pass and what it yielded; guessed -1 where the drafter refused."""

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


@compiled
def guess(look: Look, rules: Rules, word: int, cached: bool) -> tuple[int, int]:
    """Rows guessed behind the due one and how many of them are right: -1 where the due one is guessed wrong."""
    most = rules.n_rows - 1
    if word == FEED or (not cached and word in (GATE, ANCHOR)):
        return 0, 0
    if word in (GATE, ANCHOR):  # the draft was made before the due token was known
        n_guess, n_right, free = min(look.length_behind - 1, most), look.right_behind - 1, look.free_behind
        if look.length_behind <= 0 or (n_right < 0 and word == GATE):
            return (0, 0) if look.length_behind >= 0 else (-1, 0)
    else:
        n_guess, n_right, free = min(look.length, most), look.right, look.free
        if look.length < 0:
            return -1, 0
    if word == PADDED:
        return most, min(n_right if n_right < n_guess else n_guess + look.zeros, most)
    if rules.before_goal:
        n_guess = min(n_guess, max(look.left - 1, 0))
    if rules.before_stop:
        n_guess = min(n_guess, free) if look.left > 1 else 0
    if word == AT_LEAST_ONE and n_guess == 0:
        return 1, min(look.dummies, 1)
    return n_guess, min(n_right, n_guess)


@compiled
def gained(n_right: int, reach: int, overrun: bool) -> int:
    """Tokens of a pass: one more than it accepts, unless the text ends with those."""
    return n_right + 1 if overrun or n_right < reach else n_right


@compiled
def prompt_pass(look: Look, rules: Rules, begun: int, n_prompt: int, reach: int, overrun: bool) -> Pass:
    """The pass that brings in the prompt from `begun` on, with a guess if it goes in together with one."""
    n_guess, n_right = guess(look, rules, rules.plain if rules.prompt == TOGETHER else FEED, False)
    n_tokens = gained(n_right, reach, overrun)
    return Pass(PREFILL, begun, n_prompt - begun + n_guess, 1 + n_guess, n_guess, n_right, n_tokens)


@compiled
def next_pass(look: Look, rules: Rules, n: int, reach: int, overrun: bool, last: Pass) -> Pass:
    """The pass behind the prompt with n tokens known, `reach` more to be judged by, after the last pass."""
    if rules.recurrent and last.accepted < last.guessed:
        kind = REPLAY if last.n_tokens > 0 else CORRECTION
        return Pass(kind, last.n_past, n - last.n_past, 1, 0, 0, gained(0, reach, overrun))
    word = rules.plain
    if last.guessed > 0:
        word = rules.full if last.accepted == last.guessed else rules.partial
    n_guess, n_right = guess(look, rules, word, True)
    if n_right < 0:
        return Pass(VERIFY, n - 1, 1 + n_guess, 1 + n_guess, 1 + n_guess, 0, 0)
    guessing, plain = (CHAINED, CORRECTION) if last.guessed > 0 else (VERIFY, DECODE)
    kind = guessing if n_guess > 0 else plain
    return Pass(kind, n - 1, 1 + n_guess, 1 + n_guess, n_guess, n_right, gained(n_right, reach, overrun))


@compiled
def look_at(looks: Shorts, n: int, most: int, goal: int, limit: int) -> Look:
    """What the index tells of length n."""
    length = looks[n, LENGTH]
    behind = min(n + max(min(length, most), 0), limit)  # where padding begins
    return Look(
        length,
        looks[n, RIGHT],
        looks[n, FREE],
        looks[n - 1, LENGTH],
        looks[n - 1, RIGHT],
        looks[n - 1, FREE_BEHIND],
        looks[behind, ZEROS],
        looks[n, DUMMIES],
        goal - n,
    )


@compiled
def list_passes(index: Index, rules: Rules) -> Ints:
    """All passes, one a line, the prefill first; where the drafter refused, guessed is -1 and nothing follows."""
    looks, n, limit, overrun = index.looks, index.n_prompt, index.limit, index.overrun
    lines = np.empty((2 * (limit - n) + 5, 7), dtype=np.int32)
    count = 0
    if index.goal == n:
        return lines[:0]
    begun = n - 1 if rules.prompt == LAST_APART else 0
    if begun > 0:
        count = list_pass(lines, count, Pass(PREFILL, 0, begun, 0, 0, 0, 0))
    look = look_at(looks, n, rules.n_rows - 1, index.goal, limit)
    last = prompt_pass(look, rules, begun, n, limit - n, overrun)
    count = list_pass(lines, count, last)
    n += last.n_tokens
    while last.guessed >= 0 and n < index.end:
        look = look_at(looks, n, rules.n_rows - 1, index.goal, limit)
        last = next_pass(look, rules, n, limit - n, overrun, last)
        count = list_pass(lines, count, last)
        n += last.n_tokens
    return lines[:count]


@compiled
def list_pass(lines: Ints, count: int, pass_: Pass) -> int:
    """Write a pass behind the lines there are; how many there are now. (By number: whole rows compile for seconds.)"""
    lines[count, 0] = pass_.kind
    lines[count, 1] = pass_.n_past
    lines[count, 2] = pass_.n_rows
    lines[count, 3] = pass_.n_out
    lines[count, 4] = pass_.guessed
    lines[count, 5] = pass_.accepted
    lines[count, 6] = pass_.n_tokens
    return count + 1


@compiled
def count_passes(index: Index, rules: Rules, bin_tokens: int) -> tuple[Ints, Sums]:
    """Counts of the passes behind the prefill that are alike, and totals; guessed -1 where the drafter refused.

    A line is: kind, rows, rows of the pass before, count, mean cached length. Alike are those whose last row's
    position falls into the same bin, since what a pass costs jumps there. More rows than R + 1 before count as R + 2,
    but not before a pass that has as many itself: a whole prompt, fed again.
    """
    looks, n, limit, overrun = index.looks, index.n_prompt, index.limit, index.overrun
    width = rules.n_rows + 3
    table = np.zeros((6 * width * width, 2), dtype=np.int64)
    touched = np.empty(6 * width * width, dtype=np.int32)
    lines = np.empty((1024, 5), dtype=np.int32)
    n_lines, n_touched, low, high = 0, 0, 0, 0  # low, high: of the bin
    n_passes, n_rows, n_tokens, guessed, accepted, guessing = 0, 0, 0, 0, 0, 0
    if index.goal == n:
        return lines[:0], Sums(0, 0, 0, 0, 0, 0)
    begun = n - 1 if rules.prompt == LAST_APART else 0
    look = look_at(looks, n, rules.n_rows - 1, index.goal, limit)
    last = prompt_pass(look, rules, begun, n, limit - n, overrun)
    n += last.n_tokens
    while last.guessed >= 0 and n < index.end:
        n_before = last.n_rows
        look = look_at(looks, n, rules.n_rows - 1, index.goal, limit)
        last = next_pass(look, rules, n, limit - n, overrun, last)
        n += last.n_tokens
        n_passes += 1
        n_rows += last.n_rows
        n_tokens += last.n_tokens
        guessed += last.guessed
        accepted += last.accepted
        guessing += last.guessed > 0
        place = last.n_past + last.n_rows - 1
        if not low <= place < high:
            lines = with_room(lines, n_lines, n_touched + 1)
            n_lines = flush(table, touched, n_touched, width, lines, n_lines)
            low, n_touched = place // bin_tokens * bin_tokens, 0
            high = low + bin_tokens
        if last.n_rows >= width - 1:  # a whole prompt fed again: alone in its bin, for which there is room
            n_lines = list_count(lines, n_lines, last.kind, last.n_rows, n_before, 1, last.n_past)
            high = low
            continue
        cell = (last.kind * width + last.n_rows) * width + min(n_before, width - 1)
        if table[cell, 0] == 0:
            touched[n_touched] = cell
            n_touched += 1
        table[cell, 0] += 1
        table[cell, 1] += last.n_past
    lines = with_room(lines, n_lines, n_touched)
    n_lines = flush(table, touched, n_touched, width, lines, n_lines)
    if last.guessed < 0:
        guessed = -1
    return lines[:n_lines], Sums(n_passes, n_rows, n_tokens, guessed, accepted, guessing)


@compiled
def flush(table: Longs, touched: Ints, n_touched: int, width: int, lines: Ints, n_lines: int) -> int:
    """Write a bin's counts behind the lines there are, and empty the table; how many lines there are now."""
    for i in range(n_touched):
        cell = touched[i]
        count, past = table[cell, 0], table[cell, 1]
        kind, rows, before = cell // (width * width), cell // width % width, cell % width
        n_lines = list_count(lines, n_lines, kind, rows, before, count, (past + count // 2) // count)
        table[cell, 0] = 0
        table[cell, 1] = 0
    return n_lines


@compiled
def list_count(lines: Ints, n_lines: int, kind: int, rows: int, before: int, count: int, past: int) -> int:
    """Write a count behind the lines there are; how many there are now."""
    lines[n_lines, 0] = kind
    lines[n_lines, 1] = rows
    lines[n_lines, 2] = before
    lines[n_lines, 3] = count
    lines[n_lines, 4] = past
    return n_lines + 1


@compiled
def with_room(lines: Ints, n_lines: int, n_more: int) -> Ints:
    """The lines, with room for more behind the first `n_lines`."""
    if n_lines + n_more <= len(lines):
        return lines
    longer = np.empty((2 * (n_lines + n_more), 5), dtype=np.int32)
    for i in range(n_lines):
        for j in range(5):
            longer[i, j] = lines[i, j]
    return longer
