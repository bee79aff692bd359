"""All drafts of one drafter over one text, found once for every loop and every R.

Prompt lookup, the drafters of `sim.drafters.ngram`, is compiled. An n-gram is named by where it first ends; that
of n tokens is found by the name of its first n - 1 and its last token, so a name is exact and costs one look-up,
whatever n. A gram whose last n - 1 tokens occur once in the text needs none. Any other pure drafter is asked at
every length of the text, once.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from sim.compiled import compiled
from sim.drafters import DRAFTERS, Drafter, NGram
from sim.drafters.ngram import HuggingFace, OriginalPromptLookup
from sim.loops import DUMMY, PADDING, Propose
from sim.tokens import Tokens
from sim.walk import DUMMIES, FREE, FREE_BEHIND, LENGTH, N_LOOKS, RIGHT, ZEROS, Index, Ints, Shorts

IMPURE = frozenset({"ngram-map-k", "ngram-map-k4v", "ngram-mod", "ngram-cache"})
"""Drafters that learn from what became of their drafts, so that each loop has drafts of its own."""
LONGEST = 32_767


def is_pure(drafter: str) -> bool:
    """Whether the drafter of this name is a function of the text alone; ValueError when there is none."""
    if drafter not in DRAFTERS:
        raise ValueError(f"unknown drafter {drafter!r}: the drafters are {', '.join(DRAFTERS)}")
    return drafter not in IMPURE


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
    stopping = np.flatnonzero(np.isin(text[n_prompt:], list(stops)))
    stop = n_prompt + int(stopping[0]) + 1 if len(stopping) else len(text) + 1
    end = min(goal + overrun, stop)
    limit = len(text) if overrun else end
    # The index of where the next stop token is; no array at all where there is none.
    at_stops = np.flatnonzero(np.isin(text, list(stops))) if stops else np.zeros(0, dtype=np.intp)
    if _is_lookup(propose):
        lags = np.array([[n, lag] for n, lag in propose._lags.items()], dtype=np.int32)  # longest key first
        n_draft = propose._n_draft
        if n_draft > LONGEST:
            raise ValueError(f"n_draft must be at most {LONGEST}, not {n_draft}")
        places = find_places(text[:limit], lags[::-1], propose._latest)
        stop_at = next_stops(at_stops.astype(np.int32), limit) if len(at_stops) else np.zeros(0, dtype=np.int32)
        looks = judge_places(text, places, n_draft, propose._run_on, n_prompt, limit, stop_at)
        if isinstance(propose, OriginalPromptLookup):
            looks[: propose._n_max, LENGTH] = -1  # it refuses a text shorter than its longest key
    else:
        looks = _ask(text, n_prompt, limit, propose, frozenset(stops))
    count_runs(text, looks, PADDING, ZEROS)
    count_runs(text, looks, DUMMY, DUMMIES)
    return Index(looks, n_prompt, goal, end, limit, overrun)


def _is_lookup(propose: object) -> bool:
    if isinstance(propose, HuggingFace) and (propose._stops or propose._forbidden):
        return False
    return isinstance(propose, NGram) and getattr(propose, "_max_length", None) is None


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
def find_places(tokens: Ints, lags: Ints, latest: bool) -> Ints:
    """For every length of the text, where the chosen occurrence of its longest known key goes on; 0 for nowhere.

    `lags`: key lengths, ascending, each with how many tokens must follow an occurrence.
    """
    length = len(tokens)
    places = np.zeros(length + 1, dtype=np.int32)
    names = np.zeros(length + 1, dtype=np.int32)
    last = np.zeros(length + 1, dtype=np.int32)  # where the gram of a name, or the same gram, ended last before
    once = np.zeros(length + 1, dtype=np.bool_)  # whether the gram named by its own end occurs only there
    keys = np.zeros(length + 1, dtype=np.uint64)  # the name of a gram's first n - 1 tokens, and its last token
    level, n_again = 0, length // 2 + 1
    for n in range(1, lags[-1, 0] + 1):
        bits = 4
        while 1 << bits < 4 * n_again:  # a gram is asked for if its end occurs again: twice that at most
            bits += 1
        slots = np.zeros(1 << bits, dtype=np.int32)
        mask, shift = (1 << bits) - 1, np.uint64(64 - bits)
        n_again = 0
        here = n == lags[level, 0]
        lag = lags[level, 1] if here else 1
        name_before = names[n - 1]
        for end in range(n, length + 1):
            key = np.uint64(name_before) << np.uint64(32) | np.uint64(tokens[end - 1])
            name_before = names[end]
            if n > 1 and name_before == end and once[end]:
                once[end] = True
                last[end] = 0
                continue  # its last n - 1 tokens occur only here
            keys[end] = key
            once[end] = True
            slot = np.int64((key ^ key >> np.uint64(29)) * np.uint64(0x9E3779B97F4A7C15) >> shift)
            while slots[slot] != 0 and keys[slots[slot]] != key:
                slot = (slot + 1) & mask
            name = slots[slot]
            if name == 0:
                slots[slot] = end
                names[end] = end
                last[end] = 0
                continue
            names[end] = name
            once[name] = False
            n_again += 1
            if latest:
                # The chain of a gram's ends starts at its name, and each knows the one before.
                last[end] = last[name] if last[name] > 0 else name
                last[name] = end
            if here:
                place = last[end] if latest else name
                while latest and place > end - lag and place > name:
                    place = last[place]
                if place <= end - lag:
                    places[end] = place
        level += here
    return places


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
def count_runs(tokens: Ints, looks: Shorts, token: int, column: int) -> None:
    """How often a token comes in a row from each length of the text on."""
    run = 0
    for n in range(len(looks) - 2, -1, -1):
        run = min(run + 1, LONGEST) if tokens[n] == token else 0
        looks[n, column] = run
