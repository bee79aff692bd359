"""Several sequences in one context: the rows of all that have a pass go in one `llama_decode`."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from sim.machine import Pass
from validate.engine import LlamaEngine, Snapshot
from validate.weights import Model, errors, llama_cpp, reason


class SlotsEngine:
    """A context of several sequences in one cache; the rows of all that have a pass go in one `llama_decode`.

    n_cached    cached length of each sequence

    Raises ValueError as `LlamaEngine` does; `n_ctx` cells are shared by all sequences.
    """

    def __init__(self, model: Model, n_slots: int, *, n_ctx: int, n_threads: int) -> None:
        if n_slots < 1:
            raise ValueError(f"slots must be at least 1, not {n_slots}")
        self._one = LlamaEngine(model, n_ctx=n_ctx, n_threads=n_threads, n_sequences=n_slots)
        self.model, self.n_slots = model, n_slots
        self.n_cached = [0] * n_slots

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._one.close()

    def __call__(self, passes: Sequence[Pass | None]) -> tuple[list[list[int]], float]:
        """The answers of each sequence's pass (none where it has none), and the seconds of the one pass over all."""
        begin = perf_counter()
        logits = self._decode(passes)
        answers: list[int] = logits.argmax(axis=1).tolist()
        seconds = perf_counter() - begin
        ends = np.cumsum([pass_.want if pass_ else 0 for pass_ in passes]).tolist()
        return [
            answers[end - pass_.want : end] if pass_ else [] for pass_, end in zip(passes, ends, strict=True)
        ], seconds

    def logits(self, passes: Sequence[Pass | None]) -> NDArray[np.float32]:
        """The logits of all answers wanted, one sequence after another, copied; shape (answers, n_vocab)."""
        return self._decode(passes).copy()

    def _decode(self, passes: Sequence[Pass | None]) -> NDArray[np.float32]:
        one, n, n_out = self._one, 0, 0
        kept = [c if p is None else min(p.keep, c) for p, c in zip(passes, self.n_cached, strict=True)]
        if sum(kept) + sum(len(p.rows) for p in passes if p) > one.n_ctx:
            raise ValueError(f"{self.n_slots} sequences do not fit the context of {one.n_ctx}")
        for slot, pass_ in enumerate(passes):
            if pass_ is None:
                continue
            if pass_.keep > self.n_cached[slot]:
                raise ValueError(f"{pass_.keep} rows are to be kept in slot {slot}, {self.n_cached[slot]} are cached")
            self._cut(slot, pass_.keep)
            end = n + len(pass_.rows)
            one._token[n:end] = pass_.rows
            one._pos[n:end] = np.arange(pass_.keep, pass_.keep + len(pass_.rows))
            one._logits[n:end] = np.arange(end - n) >= end - n - pass_.want
            for i in range(n, end):
                one._batch.seq_id[i][0] = slot
            n, n_out = end, n_out + pass_.want
            self.n_cached[slot] = pass_.keep + len(pass_.rows)
        if not n:
            raise ValueError("no sequence has a pass")
        one._batch.n_tokens = n
        errors.clear()
        status = llama_cpp.llama_decode(one._context, one._batch)
        if status:
            raise ValueError(f"{self.model.path}: llama_decode failed with status {status}: {reason()}")
        if not n_out:
            llama_cpp.llama_synchronize(one._context)
            return np.empty((0, self.model.n_vocab), np.float32)
        # All rows that were asked for, put into the order of the batch (llama-context.cpp, output_reorder).
        first = llama_cpp.llama_get_logits(one._context)
        return np.ctypeslib.as_array(first, shape=(n_out, self.model.n_vocab))

    def _cut(self, slot: int, keep: int) -> None:
        if keep < self.n_cached[slot]:
            if not llama_cpp.llama_memory_seq_rm(self._one._memory, slot, keep, -1):
                raise ValueError(f"{self.model.path}: this model's memory cannot be cut back to {keep} tokens")
            self.n_cached[slot] = keep

    def restore(self, slot: int, snapshot: Snapshot) -> None:
        """Take over the cache of an engine of one sequence into a slot, so that a prompt is read once for all."""
        self._one.put(snapshot, slot)
        self.n_cached[slot] = snapshot.n_cached
