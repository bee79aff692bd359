"""Everything of llama.cpp by one name: models of files, engines that execute passes, and what is checked before."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from validate.engine import LlamaEngine, Snapshot
from validate.environment import check_threads
from validate.memory import check_context, check_weights
from validate.models import PADDING, check_gguf
from validate.slotengine import SlotsEngine
from validate.sound import check_sound
from validate.weights import Model, build, quantise

__all__ = ["LlamaEngine", "Model", "SlotsEngine", "Snapshot", "build", "opened", "padded", "quantise"]


@contextmanager
def opened(path: Path, n_threads: int, *, n_ctx: int | None = None, n_gpu_layers: int = 0) -> Iterator[Model]:
    """A model of a file, once file, threads and memory, for a context of `n_ctx` too, are found sound."""
    check_gguf(path)
    check_threads(n_threads)
    check_weights(path)
    check_context(path, n_ctx or 0)
    check_sound(path)
    with Model(path, n_gpu_layers=n_gpu_layers) as model:
        yield model


def padded(n_tokens: int) -> int:
    """A context for so many tokens, in whole blocks of the KV view.

    >>> padded(300)
    512
    """
    return -(-n_tokens // PADDING) * PADDING
