"""llama.cpp's weights and vocabulary: a model of a file, its tokenizer and chat template, and the quantiser.

Weights are mapped, not copied (llama.cpp's own default); only tensors that it packs anew for the CPU take memory.
"""

from __future__ import annotations

import ctypes
import os
import re
from pathlib import Path
from types import TracebackType
from typing import Any, Self

try:
    import llama_cpp as llama_cpp
except ImportError as error:  # pragma: no cover - depends on the installation
    raise ValueError(
        "llama-cpp-python is not installed: pip install 'sweepcap[llama]' (it is compiled from source, about 5 minutes;"
        " needs gcc and g++)"
    ) from error

errors: list[str] = []
"""What llama.cpp complained about; cleared before each attempt."""


def _log(level: int, text: bytes, _: object) -> None:
    """Keep what llama.cpp complains about; its chatter would drown the one sentence a user needs."""
    if level == 4:  # GGML_LOG_LEVEL_ERROR in ggml.h; the numbering in llama_cpp._logger is an older one
        errors.append(text.decode("utf-8", "replace").strip())


_callback = llama_cpp.llama_log_callback(_log)  # kept: llama.cpp holds on to it
llama_cpp.llama_log_set(_callback, ctypes.c_void_p(0))
llama_cpp.llama_backend_init()


def reason() -> str:
    """The first thing that llama.cpp complained about, without the name of its function."""
    return re.sub(r"^\w+: ", "", next((e for e in errors if e), "no reason given"))


def build() -> str:
    """The library's version and the CPU features it was compiled for."""
    return f"llama-cpp-python {llama_cpp.__version__}; {llama_cpp.llama_print_system_info().decode()}"


def quantise(source: Path, target: Path, file_type: int) -> None:
    """Write a model's GGUF with its matrices in another tensor type (llama.h, `enum llama_ftype`)."""
    params = llama_cpp.llama_model_quantize_default_params()
    params.ftype = file_type
    params.allow_requantize = True
    errors.clear()
    status = llama_cpp.llama_model_quantize(os.fsencode(source), os.fsencode(target), ctypes.byref(params))
    if status:
        raise ValueError(f"{source} cannot be quantised: {reason()}")


class Model:
    """Weights and vocabulary of a GGUF, mapped into memory; close it, or use it in a `with`.

    Raises ValueError naming the file and llama.cpp's reason when it cannot be loaded.
    """

    def __init__(self, path: Path, *, n_gpu_layers: int = 0) -> None:
        params = llama_cpp.llama_model_default_params()
        params.n_gpu_layers = n_gpu_layers
        params.load_mode = llama_cpp.LLAMA_LOAD_MODE_MMAP
        errors.clear()
        self._model: Any = llama_cpp.llama_model_load_from_file(os.fsencode(path), params)
        if not self._model:
            raise ValueError(f"{path} cannot be loaded: {reason()}")
        self.path = path
        self.can_cut: bool | None = None  # found out by the first context, see LlamaEngine
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

    @property
    def writes_text(self) -> bool:
        """Whether there is a decoder that goes on with a text from its tokens alone."""
        return bool(
            llama_cpp.llama_model_has_decoder(self._model) and not llama_cpp.llama_model_has_encoder(self._model)
        )

    def chat(self, messages: list[dict[str, str]]) -> str:
        """The prompt of a conversation by the model's own template, open for the assistant's turn.

        Raises ValueError when there is no template, or when it refuses the conversation.
        """
        template = llama_cpp.llama_model_chat_template(self._model, None)
        if template is None:
            raise ValueError(f"{self.path} has no chat template: give plain prompts instead of messages")
        from jinja2 import TemplateError
        from llama_cpp.llama_chat_format import Jinja2ChatFormatter

        begin, end = (
            self.text((token,)) if token >= 0 else ""
            for token in (llama_cpp.llama_vocab_bos(self._vocab), llama_cpp.llama_vocab_eos(self._vocab))
        )
        turns: Any = messages
        try:
            formatted: str = Jinja2ChatFormatter(template.decode(), end, begin)(messages=turns).prompt
        except (TemplateError, ValueError, TypeError, KeyError) as error:
            raise ValueError(f"{self.path}: its chat template refuses these messages: {error}") from error
        # The tokenizer puts a start token first where the model wants one; twice would be another prompt.
        adds = llama_cpp.llama_vocab_get_add_bos(self._vocab)
        return formatted.removeprefix(begin) if begin and adds else formatted
