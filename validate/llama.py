"""Executes passes on llama.cpp through its C API: the only file that imports `llama_cpp`.

One `llama_decode` a pass, logits only for the rows whose answer is wanted, argmax on a view of llama.cpp's own
buffer. `n_threads` serves 1-row passes and `n_threads_batch` wider ones (llama-context.cpp, `graph_compute`); their
defaults differ, which would falsify c(6)/c(1), so both are set to the same number.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sim.machine import Pass
from validate.environment import check_threads
from validate.models import PADDING, check_gguf

try:
    import llama_cpp
except ImportError as error:  # pragma: no cover - depends on the installation
    raise ValueError(
        "llama-cpp-python is not installed: pip install 'sweepcap[llama]' (it is compiled from source, about 5 minutes;"
        " needs gcc and g++)"
    ) from error

_errors: list[str] = []


def _log(level: int, text: bytes, _: object) -> None:
    """Keep what llama.cpp complains about; its chatter would drown the one sentence a user needs."""
    if level == 4:  # GGML_LOG_LEVEL_ERROR in ggml.h; the numbering in llama_cpp._logger is an older one
        _errors.append(text.decode("utf-8", "replace").strip())


_callback = llama_cpp.llama_log_callback(_log)  # kept: llama.cpp holds on to it
llama_cpp.llama_log_set(_callback, ctypes.c_void_p(0))
llama_cpp.llama_backend_init()


def build() -> str:
    """The library's version and the CPU features it was compiled for."""
    return f"llama-cpp-python {llama_cpp.__version__}; {llama_cpp.llama_print_system_info().decode()}"


class Model:
    """Weights and vocabulary of a GGUF, mapped into memory; close it, or use it in a `with`.

    Raises ValueError naming the file and llama.cpp's reason when it cannot be loaded.
    """

    def __init__(self, path: Path, *, n_gpu_layers: int = 0) -> None:
        params = llama_cpp.llama_model_default_params()
        params.n_gpu_layers = n_gpu_layers
        _errors.clear()
        self._model: Any = llama_cpp.llama_model_load_from_file(os.fsencode(path), params)
        if not self._model:
            reason = next((e for e in _errors if e), "no reason given")
            raise ValueError(f"{path} cannot be loaded: {reason.removeprefix('llama_model_load: ')}")
        self.path = path
        self._vocab = llama_cpp.llama_model_get_vocab(self._model)
        self.n_vocab = int(llama_cpp.llama_vocab_n_tokens(self._vocab))
        self.n_ctx_train = int(llama_cpp.llama_model_n_ctx_train(self._model))
        self.stops = frozenset(
            token for token in range(self.n_vocab) if llama_cpp.llama_vocab_is_eog(self._vocab, token)
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Give the memory back."""
        if self._model:
            llama_cpp.llama_model_free(self._model)
            self._model = None

    @property
    def handle(self) -> Any:
        """llama.cpp's own pointer."""
        return self._model

    @property
    def description(self) -> str:
        """llama.cpp's one line for the model: architecture, size, quantisation."""
        buffer = ctypes.create_string_buffer(256)
        llama_cpp.llama_model_desc(self._model, buffer, 256)
        return buffer.value.decode("utf-8", "replace")

    def tokenize(self, text: str, *, special: bool = False) -> list[int]:
        """Token ids of a text, with the model's start token where it wants one; `special` reads control tokens."""
        raw = text.encode()
        # A negative answer is the number of tokens that there is no room for: a byte may come to several.
        n_max = len(raw) + 8
        while True:
            buffer = (llama_cpp.llama_token * n_max)()
            n = llama_cpp.llama_tokenize(self._vocab, raw, len(raw), buffer, n_max, True, special)
            if n >= 0:
                return list(buffer[:n])
            n_max = -n

    def text(self, tokens: list[int] | tuple[int, ...]) -> str:
        """The text of token ids, control tokens included."""
        pieces = []
        buffer = ctypes.create_string_buffer(512)
        for token in tokens:
            n = llama_cpp.llama_token_to_piece(self._vocab, token, buffer, 512, 0, True)
            pieces.append(buffer.raw[: max(n, 0)])
        return b"".join(pieces).decode("utf-8", "replace")

    def chat(self, messages: list[dict[str, str]]) -> str:
        """The prompt of a conversation by the model's own template, open for the assistant's turn."""
        template = llama_cpp.llama_model_chat_template(self._model, None)
        if template is None:
            raise ValueError(f"{self.path} has no chat template: give plain prompts instead of messages")
        raw = [(m["role"].encode(), m["content"].encode()) for m in messages]
        message = llama_cpp.llama_chat_message
        chat = (message * len(raw))(*(message(*each) for each in raw))
        n_max = 2 * sum(len(role) + len(content) for role, content in raw) + 4096
        buffer = ctypes.create_string_buffer(n_max)
        n = llama_cpp.llama_chat_apply_template(template, chat, len(raw), True, buffer, n_max)
        if not 0 <= n <= n_max:
            raise ValueError(f"{self.path}: llama.cpp cannot apply its chat template; give plain prompts instead")
        return buffer.raw[:n].decode()


class LlamaEngine:
    """A context of one sequence that executes passes; every answer comes with the seconds it took.

    Raises ValueError when the context cannot be made, when a pass keeps rows that are not cached or does not fit, and
    when the model's memory cannot be cut back (recurrent models).
    """

    def __init__(self, model: Model, *, n_ctx: int, n_threads: int) -> None:
        if n_threads < 1:
            raise ValueError(f"threads must be at least 1, not {n_threads}")
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = n_ctx
        params.n_batch = n_ctx
        params.n_threads = params.n_threads_batch = n_threads
        params.no_perf = True
        _errors.clear()
        self._context: Any = llama_cpp.llama_init_from_model(model.handle, params)
        if not self._context:
            reason = next((e for e in _errors if e), "no reason given")
            raise ValueError(f"{model.path}: no context of {n_ctx} tokens: {reason}; ask for fewer tokens")
        self.model = model
        self.n_ctx = n_ctx
        self.n_threads = n_threads
        self.n_cached = 0
        self._memory = llama_cpp.llama_get_memory(self._context)
        self._batch = llama_cpp.llama_batch_init(n_ctx, 0, 1)

        def view(pointer: Any) -> NDArray[Any]:
            return np.ctypeslib.as_array(pointer, shape=(n_ctx,))

        self._token, self._pos, self._logits = map(view, (self._batch.token, self._batch.pos, self._batch.logits))
        view(self._batch.n_seq_id)[:] = 1
        for i in range(n_ctx):
            self._batch.seq_id[i][0] = 0

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

    def adopt(self, other: LlamaEngine) -> None:
        """Take over the cache of another engine of the same model, so that a prompt is read once for all."""
        size = llama_cpp.llama_state_seq_get_size(other._context, 0)
        data = (ctypes.c_uint8 * size)()
        copied = llama_cpp.llama_state_seq_get_data(other._context, data, size, 0)
        llama_cpp.llama_memory_seq_rm(self._memory, 0, -1, -1)
        if copied != size or not llama_cpp.llama_state_seq_set_data(self._context, data, size, 0):
            raise ValueError(f"{self.model.path}: llama.cpp cannot copy a cache of {size} bytes; ask for fewer tokens")
        self.n_cached = other.n_cached

    def __call__(self, pass_: Pass) -> tuple[list[int], float]:
        """The argmax after each of the last `want` rows, and the seconds from the cut of the cache to the argmax."""
        begin = perf_counter()
        logits = self._decode(pass_)
        answer: list[int] = logits.argmax(axis=1).tolist() if pass_.want else []
        return answer, perf_counter() - begin

    def logits(self, pass_: Pass) -> NDArray[np.float32]:
        """The logits after each of the last `want` rows, copied; shape (want, n_vocab)."""
        return self._decode(pass_).copy()

    def _decode(self, pass_: Pass) -> NDArray[np.float32]:
        keep, n, want = pass_.keep, len(pass_.rows), pass_.want
        if keep > self.n_cached:
            raise ValueError(f"{keep} rows are to be kept, {self.n_cached} are cached")
        if keep + n > self.n_ctx:
            raise ValueError(f"{keep + n} tokens do not fit the context of {self.n_ctx}")
        if keep < self.n_cached and not llama_cpp.llama_memory_seq_rm(self._memory, 0, keep, -1):
            raise ValueError(f"{self.model.path}: this model's memory cannot be cut back to {keep} tokens")
        self.n_cached = keep
        self._token[:n] = pass_.rows
        self._pos[:n] = np.arange(keep, keep + n)
        self._logits[: n - want] = 0
        self._logits[n - want : n] = 1
        self._batch.n_tokens = n
        status = llama_cpp.llama_decode(self._context, self._batch)
        if status:
            raise ValueError(f"{self.model.path}: llama_decode failed with status {status}: {_errors[-1:]}")
        self.n_cached = keep + n
        if not want:
            llama_cpp.llama_synchronize(self._context)
            return np.empty((0, self.model.n_vocab), np.float32)
        # Rows of one sequence lie one after another in the output buffer (llama-context.cpp, output_reserve).
        first = llama_cpp.llama_get_logits_ith(self._context, n - want)
        return np.ctypeslib.as_array(first, shape=(want, self.model.n_vocab))


@contextmanager
def opened(path: Path, n_threads: int, *, n_gpu_layers: int = 0) -> Iterator[Model]:
    """A model of a file, once file and threads are found sound."""
    check_gguf(path)
    check_threads(n_threads)
    with Model(path, n_gpu_layers=n_gpu_layers) as model:
        yield model


def padded(n_tokens: int) -> int:
    """A context for so many tokens, in whole blocks of the KV view.

    >>> padded(300)
    512
    """
    return -(-n_tokens // PADDING) * PADDING
