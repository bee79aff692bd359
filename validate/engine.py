"""Executes passes on llama.cpp through its C API.

One `llama_decode` a pass, logits only for the rows whose answer is wanted, argmax on a view of llama.cpp's own
buffer. `n_threads` serves 1-row passes and `n_threads_batch` wider ones (llama-context.cpp, `graph_compute`); their
defaults differ, which would falsify c(6)/c(1), so both are set to the same number.

Memory that cannot be cut back (recurrent and hybrid models; found out by trying) is put back instead: what it held
before a pass with guesses is kept, as llama.cpp's own speculative programs do, and fed again where it was not kept.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sim.machine import Pass
from sim.penalties import NONE, Penalties, penalise
from validate.memory import check_context
from validate.weights import Model, errors, llama_cpp, reason


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The memory of one sequence: llama.cpp's own bytes, and the tokens that it is of."""

    data: ctypes.Array[ctypes.c_uint8]
    tokens: tuple[int, ...]

    @property
    def n_cached(self) -> int:
        """The cached length."""
        return len(self.tokens)


class LlamaEngine:
    """A context of one sequence that executes passes; every answer comes with the seconds it took.

    With `penalties` each row is judged with the tokens before it, drafts of the same pass included. With `n_sequences`,
    one cache of `n_ctx` cells for all of them (see `SlotsEngine`).

    Raises ValueError when the context cannot be made or does not fit the memory, when the model writes no text
    (embedding models, encoders), and when a pass keeps rows that are not cached or does not fit.
    """

    def __init__(
        self, model: Model, *, n_ctx: int, n_threads: int, penalties: Penalties = NONE, n_sequences: int = 1
    ) -> None:
        if n_threads < 1:
            raise ValueError(f"threads must be at least 1, not {n_threads}")
        if penalties.min_tokens:
            raise ValueError("min_tokens counts from the prompt's end, which passes do not tell: leave it 0")
        if not model.writes_text:
            raise ValueError(f"{model.path} writes no text ({model.description}): give a model that generates")
        check_context(model.path, n_ctx)
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = n_ctx
        params.n_batch = n_ctx
        params.n_threads = params.n_threads_batch = n_threads
        params.n_seq_max = n_sequences
        params.kv_unified = n_sequences > 1  # or rows of different sequences would go in different sweeps
        params.no_perf = True
        params.embeddings = False
        params.pooling_type = llama_cpp.LLAMA_POOLING_TYPE_NONE
        errors.clear()
        self._context: Any = llama_cpp.llama_init_from_model(model.handle, params)
        if not self._context:
            raise ValueError(f"{model.path}: no context of {n_ctx} tokens: {reason()}; ask for fewer tokens")
        self.model = model
        self.n_ctx = n_ctx
        self.n_threads = n_threads
        self.penalties = penalties
        self._penalises = penalties != NONE
        self._cached: list[int] = []
        self._memory = llama_cpp.llama_get_memory(self._context)
        self._batch = llama_cpp.llama_batch_init(n_ctx, 0, 1)

        def view(pointer: Any) -> NDArray[Any]:
            return np.ctypeslib.as_array(pointer, shape=(n_ctx,))

        self._token, self._pos, self._logits = map(view, (self._batch.token, self._batch.pos, self._batch.logits))
        view(self._batch.n_seq_id)[:] = 1
        for i in range(n_ctx):
            self._batch.seq_id[i][0] = 0
        self._kept: Snapshot | None = None
        self.can_cut = True
        self.can_cut = self._try_cut() if model.can_cut is None else model.can_cut
        model.can_cut = self.can_cut

    def _try_cut(self) -> bool:
        """Whether the memory can be cut back within a text: asked of the memory itself, once for a model."""
        try:
            if self._memory is None or not llama_cpp.llama_memory_seq_rm(self._memory, 0, -1, -1):
                raise ValueError(f"{self.model.path} keeps no memory of a text: give a model that generates")
            self._decode(Pass(0, (0, 0, 0), 1))
            can_cut = bool(llama_cpp.llama_memory_seq_rm(self._memory, 0, 2, -1))
        except ValueError:
            self.close()
            raise
        self._forget()
        return can_cut

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Give the memory back."""
        if self._context:
            llama_cpp.llama_batch_free(self._batch)
            llama_cpp.llama_free(self._context)
            self._context = None

    @property
    def n_cached(self) -> int:
        """How many tokens have a KV row."""
        return len(self._cached)

    def adopt(self, other: LlamaEngine) -> None:
        """Take over the memory of another engine of the same model, so that a prompt is read once for all."""
        snapshot = other.snapshot()
        self.put(snapshot)
        self._cached, self._kept = list(snapshot.tokens), None

    def snapshot(self) -> Snapshot:
        """The memory as it is now."""
        size = llama_cpp.llama_state_seq_get_size(self._context, 0)
        data = (ctypes.c_uint8 * size)()
        if llama_cpp.llama_state_seq_get_data(self._context, data, size, 0) != size:
            raise ValueError(f"{self.model.path}: llama.cpp cannot copy a memory of {size} bytes; ask for fewer tokens")
        return Snapshot(data, tuple(self._cached))

    def put(self, snapshot: Snapshot, sequence: int = 0) -> None:
        """Put a memory into a sequence of this context; ValueError when there is no room for it."""
        size = len(snapshot.data)
        llama_cpp.llama_memory_seq_rm(self._memory, sequence, -1, -1)
        if not llama_cpp.llama_state_seq_set_data(self._context, snapshot.data, size, sequence):
            raise ValueError(f"{self.model.path}: llama.cpp cannot put back a memory of {size} bytes")

    def __call__(self, pass_: Pass) -> tuple[list[int], float]:
        """The argmax after each of the last `want` rows, and the seconds from the cut of the cache to the argmax."""
        begin = perf_counter()
        logits = self._decode(pass_)
        answer: list[int] = logits.argmax(axis=1).tolist() if pass_.want else []
        return answer, perf_counter() - begin

    def logits(self, pass_: Pass) -> NDArray[np.float32]:
        """The logits after each of the last `want` rows, penalised and copied; shape (want, n_vocab)."""
        return self._decode(pass_).copy()

    def _decode(self, pass_: Pass) -> NDArray[np.float32]:
        keep, n, want = pass_.keep, len(pass_.rows), pass_.want
        if keep > self.n_cached:
            raise ValueError(f"{keep} rows are to be kept, {self.n_cached} are cached")
        if keep + n > self.n_ctx:
            raise ValueError(f"{keep + n} tokens do not fit the context of {self.n_ctx}")
        if keep < self.n_cached:
            self._cut(keep)
        if not self.can_cut and want > 1:
            self._keep()
        self._feed(pass_.rows, want)
        if not want:
            llama_cpp.llama_synchronize(self._context)
            return np.empty((0, self.model.n_vocab), np.float32)
        # Rows of one sequence lie one after another in the output buffer (llama-context.cpp, output_reserve).
        first = llama_cpp.llama_get_logits_ith(self._context, n - want)
        if not first:
            raise ValueError(
                f"{self.model.path} gives no logits ({self.model.description}): give a model that generates"
            )
        logits: NDArray[np.float32] = np.ctypeslib.as_array(first, shape=(want, self.model.n_vocab))
        if self._penalises:
            for i, row in enumerate(logits):
                penalise(row, self._cached[: keep + n - want + i + 1], self.penalties)
        return logits

    def _feed(self, rows: Sequence[int], want: int) -> None:
        """Decode some rows behind the cached ones, with logits of the last `want`."""
        n, past = len(rows), self.n_cached
        self._token[:n] = rows
        self._pos[:n] = np.arange(past, past + n)
        self._logits[: n - want] = 0
        self._logits[n - want : n] = 1
        self._batch.n_tokens = n
        errors.clear()
        status = llama_cpp.llama_decode(self._context, self._batch)
        if status:
            raise ValueError(f"{self.model.path}: llama_decode failed with status {status}: {reason()}")
        self._cached += rows

    def _cut(self, keep: int) -> None:
        """Cut the memory back to `keep` tokens, put back what was kept of it there, or read them again."""
        if self.can_cut and not llama_cpp.llama_memory_seq_rm(self._memory, 0, keep, -1):
            raise ValueError(f"{self.model.path}: its memory cannot be cut back to {keep} of {self.n_cached} tokens")
        if self.can_cut:
            del self._cached[keep:]
            return
        known = self._cached[:keep]
        self._forget()
        if self._kept and self._kept.tokens == tuple(known):
            self.put(self._kept)
            self._cached = known
        elif known:
            self._feed(known, 0)

    def _keep(self) -> None:
        """Keep the memory as it is now: the pass that follows may have to be undone."""
        if self._cached and (self._kept is None or self._kept.tokens != tuple(self._cached)):
            self._kept = self.snapshot()

    def _forget(self) -> None:
        llama_cpp.llama_memory_clear(self._memory, True)
        self._cached = []
