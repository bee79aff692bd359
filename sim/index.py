"""All drafts of one drafter over one text, found once for every loop and every R.

Prompt lookup, the drafters of `sim.drafters.ngram`, is compiled. An n-gram is named by where it first ends; that
of n tokens is found by the name of its first n - 1 and its last token, so a name is exact and costs one look-up,
whatever n. A gram whose last n - 1 tokens occur once in the text needs none. Any other pure drafter is asked at
every length of the text, once.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TypeGuard

import numpy as np

from sim.compiled import compiled, prefetch
from sim.drafters import Drafter, NGram
from sim.drafters.ngram import HuggingFace, OriginalPromptLookup
from sim.loops import DUMMY, PADDING, Propose
from sim.tokens import Tokens
from sim.walk import DUMMIES, FREE, FREE_BEHIND, LENGTH, N_LOOKS, RIGHT, ZEROS, Index, Ints, Longs, Shorts

LONGEST = 32_767
AHEAD = 32
"""Lengths of the text by which memory is asked for before it is needed; a small text has all of it at hand."""


def index(
    tokens: Sequence[int] | Ints,
    n_prompt: int,
    propose: Drafter | Propose,
    *,
    goal: int | None = None,
    stops: Collection[int] = (),
    overrun: bool = False,
) -> Index:
    """The index of a text, prompt first, for a run to `goal` (its length) or a stop token behind the prompt.

    Raises ValueError when the prompt is empty or longer than the goal, or the goal longer than the text.
    """
    text: Ints = np.ascontiguousarray(tokens, dtype=np.int32)
    goal = len(text) if goal is None else goal
    if not 1 <= n_prompt <= goal <= len(text):
        raise ValueError(f"1 <= prompt {n_prompt} <= goal {goal} <= length {len(text)} of the text must hold")
    at_stops = np.flatnonzero(np.isin(text, list(stops))) if stops else np.zeros(0, dtype=np.intp)
    stop = int(next(iter(at_stops[np.searchsorted(at_stops, n_prompt) :]), len(text))) + 1
    end = min(goal + overrun, stop)
    limit = len(text) if overrun else end
    if _is_lookup(propose):
        lags = np.array([[n, lag] for n, lag in propose._lags.items()], dtype=np.int32)  # longest key first
        n_draft = propose._n_draft
        if n_draft > LONGEST:
            raise ValueError(f"n_draft must be at most {LONGEST}, not {n_draft}")
        places = find_places(text[:limit], int(text.max()) + 1, lags[::-1], propose._latest, *_room(limit))
        stop_at = next_stops(at_stops.astype(np.int32), limit) if len(at_stops) else np.zeros(0, dtype=np.int32)
        looks = judge_places(text, places, n_draft, propose._run_on, n_prompt, limit, stop_at)
        if isinstance(propose, OriginalPromptLookup):
            looks[: propose._n_max, LENGTH] = -1  # it refuses a text shorter than its longest key
    else:
        looks = _ask(text, n_prompt, limit, propose, frozenset(stops))
    count_runs(text, looks)
    return Index(looks, n_prompt, goal, end, limit, overrun)


def _is_lookup(propose: Drafter | Propose) -> TypeGuard[NGram]:
    if isinstance(propose, HuggingFace) and (propose._stops or propose._forbidden):
        return False
    return isinstance(propose, NGram) and getattr(propose, "_max_length", None) is None


def _room(length: int) -> tuple[Longs, Ints]:
    """Room for `find_places`: of numpy's, since it asks for huge pages, which halves the time of a long text."""
    return np.empty((length + 1, 2), dtype=np.int64), np.empty(1 << (2 * length + 15).bit_length(), dtype=np.int32)


def _ask(text: Ints, n_prompt: int, limit: int, propose: Propose, stops: frozenset[int]) -> Shorts:
    """What `propose` drafts behind every length of the text, judged."""
    looks = np.zeros((limit + 1, N_LOOKS), dtype=np.int16)
    known = Tokens(text.tolist())
    items = known.items
    for n in range(n_prompt, limit + 1):
        try:
            draft = list(propose(known[:n]))[:LONGEST]
        except ValueError:
            looks[n, LENGTH] = -1
            continue
        n_right = 0
        for token, actual in zip(draft, items[n:limit], strict=False):
            if token != actual:
                break
            n_right += 1
        at = [i for i, token in enumerate(draft) if token in stops] if stops else []
        behind = next((i for i in at if i), len(draft)) - 1
        looks[n, : FREE_BEHIND + 1] = len(draft), n_right, at[0] if at else len(draft), behind
    return looks


@compiled
def find_places(tokens: Ints, n_vocab: int, lags: Ints, latest: bool, grams: Longs, table: Ints) -> Ints:
    """For every length of the text, where the chosen occurrence of its longest known key goes on; 0 for nowhere.

    n_vocab    one more than the largest token id
    lags       key lengths, ascending, each with how many tokens must follow an occurrence
    grams      room: by name, a gram's key, the name of its first n - 1 tokens and its last token; and where it ended
               last, 0 if nowhere else. By any other end, where the same gram ended before, if that is asked for
    table      room for an open table from keys to names
    """
    length = len(tokens)
    places = np.zeros(length + 1, dtype=np.int32)
    names = np.zeros(length + 1, dtype=np.int32)
    level, n_asked = 0, min(length, n_vocab)
    for n in range(1, lags[-1, 0] + 1):
        bits = 4
        while 1 << bits < 2 * n_asked:
            bits += 1
        slots = table[: 1 << bits]
        slots[:] = 0
        shift = 64 - bits if n > 1 else 0
        mask = (1 << bits) - 1
        n_asked = 0  # at the next level: grams whose end occurs more than once
        here = n == lags[level, 0]
        lag = lags[level, 1] if here else 1
        chained = here and latest and lag > 1  # an occurrence may be too near: the one before it is looked at then
        name_before = names[n - 1]
        for end in range(n, length + 1):
            if end + AHEAD <= length:
                prefetch(slots, slot_of(names[end + AHEAD - 1], tokens[end + AHEAD - 1], shift, mask))
                near = end + AHEAD // 2
                prefetch(grams, np.intp(slots[slot_of(names[near - 1], tokens[near - 1], shift, mask)]))
            key = np.int64(name_before) << 32 | np.int64(tokens[end - 1])
            slot = slot_of(name_before, tokens[end - 1], shift, mask)
            name_before = names[end]
            if n > 1 and name_before == end and grams[end, 1] == 0:
                continue  # its last n - 1 tokens occur only here
            while slots[slot] != 0 and grams[slots[slot], 0] != key:
                slot = (slot + 1) & mask
            name = slots[slot]
            if name == 0:
                slots[slot] = end
                names[end] = end
                grams[end, 0] = key
                grams[end, 1] = 0
                continue
            names[end] = name
            last = grams[name, 1]
            n_asked += 1 + (last == 0)
            place = last if last > 0 else name
            grams[name, 1] = end
            if chained:
                grams[end, 1] = place
            if here:
                while chained and place > end - lag and place > name:
                    place = grams[place, 1]
                if not latest:
                    place = name
                if place <= end - lag:
                    places[end] = place
        level += here
    return places


@compiled
def slot_of(name: int | np.int32, token: np.int32, shift: int, mask: int) -> np.int64:
    """Where a key is looked for in the table: token ids are dense, names are not."""
    key = np.int64(name) << 32 | np.int64(token)
    if shift == 0:
        return key & mask
    return np.int64(np.uint64((key ^ key >> 29) * -0x61C8864680B583EB) >> np.uint64(shift))


@compiled
def next_stops(at: Ints, length: int) -> Ints:
    """For every position, where the next stop token is, from there on; far away when there is none."""
    places = np.full(length + 2, 2 * length + 70_000, dtype=np.int32)
    for stop in at:
        if stop < length:
            places[stop] = stop
    for i in range(length - 1, -1, -1):
        places[i] = min(places[i], places[i + 1])
    return places


@compiled
def judge_places(
    tokens: Ints, places: Ints, n_draft: int, run_on: bool, first: int, limit: int, stop_at: Ints
) -> Shorts:
    """The index of drafts copied from each place: length, right tokens, tokens before a stop token."""
    looks = np.zeros((limit + 1, N_LOOKS), dtype=np.int16)
    has_stops = len(stop_at) > 0
    period, equal_to = 0, 0  # tokens up to `equal_to` repeat those one period before
    for n in range(first, limit + 1):
        place = places[n]
        if n + AHEAD <= limit:
            prefetch(tokens, np.intp(places[n + AHEAD]))
        if place == 0:
            looks[n, FREE_BEHIND] = -1
            continue
        if period != n - place:
            period, equal_to = n - place, n
        copied = min(n_draft, period)
        most = n_draft if run_on else copied
        equal_to = max(equal_to, n)
        while equal_to < min(limit, n + most) and tokens[equal_to] == tokens[equal_to - period]:
            equal_to += 1
        looks[n, LENGTH] = most
        looks[n, RIGHT] = min(equal_to - n, most)
        looks[n, FREE] = most
        looks[n, FREE_BEHIND] = most - 1
        if has_stops:
            ahead, behind = stop_at[place] - place, stop_at[place + 1] - place
            if ahead < copied:
                looks[n, FREE] = ahead
            if behind < copied:
                looks[n, FREE_BEHIND] = behind - 1
            elif ahead == 0 and period < most:
                looks[n, FREE_BEHIND] = period - 1
    return looks


@compiled
def count_runs(tokens: Ints, looks: Shorts) -> None:
    """How often the padding and the dummy token come in a row from each length of the text on."""
    zeros, dummies = 0, 0
    for n in range(len(looks) - 2, -1, -1):
        zeros = min(zeros + 1, LONGEST) if tokens[n] == PADDING else 0
        dummies = min(dummies + 1, LONGEST) if tokens[n] == DUMMY else 0
        looks[n, ZEROS] = zeros
        looks[n, DUMMIES] = dummies
