"""Prompt lookup: the continuation of another occurrence of the text's last n tokens (Saxena 2023).

The general rule, and the five programs that use it with one choice of its settings each. For every key length
there is one index from the n-gram to where it goes on, so a call costs one look-up per key length, and
reading a token one entry per key length, whatever the length of the text.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from sim.drafters.base import Draft, Drafter, at_least


class NGram(Drafter):
    """The continuation of another occurrence of the text's last tokens, longest key first.

    n_max, n_min    the longest and the shortest key
    n_draft         the most tokens drafted
    pick            the `latest` or the `earliest` other occurrence
    whole           only occurrences with a full-length continuation
    run_on          copy on into what is being copied, as LZ77 does, where the text ends before the draft is
                    full

    >>> NGram(n_max=2, n_draft=4)([1, 2, 3, 1, 2])
    (3, 1, 2, 3)
    >>> NGram(n_max=2, n_draft=4, run_on=False)([1, 2, 3, 1, 2])
    (3, 1, 2)
    """

    def __init__(
        self,
        *,
        n_max: int = 3,
        n_min: int = 1,
        n_draft: int = 16,
        pick: Literal["latest", "earliest"] = "latest",
        whole: bool = False,
        run_on: bool = True,
    ) -> None:
        at_least(1, n_min=n_min, n_max=n_max, n_draft=n_draft)
        if n_max < n_min:
            raise ValueError(f"n_max {n_max} must be at least n_min {n_min}: the longest key comes first")
        if pick not in ("latest", "earliest"):
            raise ValueError(f"pick must be 'latest' or 'earliest', not {pick!r}")
        self._n_draft, self._latest, self._run_on = n_draft, pick == "latest", run_on
        # How many tokens must follow an occurrence before it counts, for each key length.
        self._lags = dict.fromkeys(range(n_max, n_min - 1, -1), n_draft if whole else 1)
        super().__init__()

    def _restart(self) -> None:
        self._next = 1  # the least length of text whose occurrences are not indexed yet
        self._index: dict[int, dict[Draft, int]] = {n: {} for n in self._lags}

    def _draft(self, items: list[int], length: int) -> Draft:
        start = self._find(items, length)
        return self._copy(items, start, length) if start else ()

    def _find(self, items: list[int], length: int) -> int:
        """Where the chosen occurrence of the longest known key goes on; 0 when there is none."""
        found = 0
        for n, lag in self._lags.items():
            places = self._index[n]
            # An occurrence counts when `lag` tokens follow it: look back from `length` by as much.
            for i in range(max(self._next - lag, n), length - lag + 1):
                self._enter(places, tuple(items[i - n : i]), i, items[i])
            if not found and n <= length:
                found = places.get(tuple(items[length - n : length]), 0)
        self._next = length + 1
        return found

    def _enter(self, places: dict[Draft, int], key: Draft, place: int, follower: int) -> None:
        if self._latest:
            places[key] = place
        else:
            places.setdefault(key, place)

    def _copy(self, items: list[int], start: int, length: int) -> Draft:
        draft = items[start : min(start + self._n_draft, length)]
        if self._run_on:
            period = length - start
            for i in range(len(draft), self._n_draft):
                draft.append(draft[i - period])
        return tuple(draft)


class HuggingFace(NGram):
    """Transformers' prompt lookup (5.24.0, candidate_generator.py, PromptLookupCandidateGenerator).

    n_max       `max_matching_ngram_size`, 2 by default; keys go down to one token
    n_draft     `prompt_lookup_num_tokens`, 10 by default
    stops       a draft ends before the first of them, and no other match is tried when nothing is left
    forbidden   tokens the model may not say: a draft ends before them, a match that starts with one is passed
                over
    max_length  no draft is made one token before it, and none reaches behind it

    >>> HuggingFace()([1, 2, 3, 1, 2]), HuggingFace(stops={1})([1, 2, 3, 1, 2])
    ((3, 1, 2), (3,))
    """

    def __init__(
        self,
        *,
        n_max: int = 2,
        n_draft: int = 10,
        stops: Collection[int] = (),
        forbidden: Collection[int] = (),
        max_length: int | None = None,
    ) -> None:
        self._stops, self._forbidden, self._max_length = frozenset(stops), frozenset(forbidden), max_length
        super().__init__(n_max=n_max, n_draft=n_draft, pick="earliest", run_on=False)

    def _enter(self, places: dict[Draft, int], key: Draft, place: int, follower: int) -> None:
        # An earliest match that starts behind max_length has no token to give, nor has any later one.
        if follower not in self._forbidden and (self._max_length is None or place < self._max_length):
            places.setdefault(key, place)

    def _draft(self, items: list[int], length: int) -> Draft:
        draft = super()._draft(items, length)
        if self._max_length is not None:
            if length + 1 == self._max_length:
                return ()
            draft = draft[: self._max_length - self._found]  # what is found begins before max_length
        return _before(_before(draft, self._forbidden), self._stops)

    def _find(self, items: list[int], length: int) -> int:
        self._found = super()._find(items, length)
        return self._found


class VLLM(NGram):
    """vLLM's n-gram proposer (vllm/v1/spec_decode/ngram_proposer.py @adce4e9a, NgramProposer).

    n_max, n_min    `prompt_lookup_max` and `_min`: 5 and 5 when neither is set
    n_draft         `num_speculative_tokens`, which has no default there
    max_length      `max_model_len`: nothing is drafted behind it

    >>> VLLM(n_min=1)([1, 2, 3, 1, 2])
    (3, 1, 2)
    """

    def __init__(self, *, n_max: int = 5, n_min: int = 5, n_draft: int = 5, max_length: int | None = None) -> None:
        self._max_length = max_length
        super().__init__(n_max=n_max, n_min=n_min, n_draft=n_draft, pick="earliest", run_on=False)

    def _draft(self, items: list[int], length: int) -> Draft:
        draft = super()._draft(items, length)
        return draft if self._max_length is None else draft[: max(self._max_length - length, 0)]


class LlamaCppPython(NGram):
    """llama-cpp-python's prompt lookup (0.3.36, llama_speculative.py, LlamaPromptLookupDecoding).

    n_max       `max_ngram_size`, 2 by default; keys go down to one token, and the earliest occurrence is
                taken
    n_draft     `num_pred_tokens`, 10 by default (its README: 2 where there is only a CPU)
    """

    def __init__(self, *, n_max: int = 2, n_draft: int = 10) -> None:
        super().__init__(n_max=n_max, n_draft=n_draft, pick="earliest", run_on=False)


class OriginalPromptLookup(NGram):
    """The first prompt lookup (apoorvumang/prompt-lookup-decoding @cada4fe6, find_candidate_pred_tokens).

    n_max       `max_ngram_size`, 3 by default; keys go down to one token, and the earliest occurrence is
                taken
    n_draft     `num_pred_tokens`, 10 by default: all of them or nothing

    The occurrence may not touch the key. A text shorter than n_max raises ValueError, as it does there. Where
    nothing is found that program feeds one junk token (100): that is the loop's affair (`dummy`).
    """

    def __init__(self, *, n_max: int = 3, n_draft: int = 10) -> None:
        super().__init__(n_max=n_max, n_draft=n_draft, pick="earliest", whole=True, run_on=False)
        self._lags = {n: max(lag, n + 1) for n, lag in self._lags.items()}
        self._n_max = n_max

    def _find(self, items: list[int], length: int) -> int:
        if length < self._n_max:
            raise ValueError(
                f"a text of {length} tokens is shorter than n_max {self._n_max}, which this drafter refuses"
            )
        return super()._find(items, length)


def _before(draft: Draft, tokens: frozenset[int]) -> Draft:
    """The draft up to the first of the tokens."""
    if tokens:
        for i, token in enumerate(draft):
            if token in tokens:
                return draft[:i]
    return draft
