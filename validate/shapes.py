"""Shape-only models: a GGUF with the shapes and tensor types of a known model, and random weights.

What a pass costs depends on shapes and types, not on values (a dense model does the same work whatever the weights
are), so a model's passes can be timed without its weights. Which matrix gets which type is not told again here: a
skeleton with a few rows of each matrix goes through llama.cpp's own quantiser, and its rows are then repeated as often
as the shape wants.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from itertools import count, islice, product
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.specs import listed_shape
from validate.models import KINDS, cached, check_kind

VERSION = 1
"""Part of the cached file's name: raise it when the same shape would make another file."""
ARCHITECTURES = ("llama", "qwen2")
N_ROWS, N_EMBEDDINGS = 16, 2048
N_CTX_TRAIN = 32768


@dataclass(frozen=True, slots=True)
class Shape:
    """The numbers that fix every tensor of a dense llama or qwen2, as in costmodel/data/models.toml.

    Raises ValueError for an architecture that is not built here.
    """

    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_size: int
    ffn: int
    vocabulary: int
    tied: bool = True
    architecture: str = "llama"
    rope_freqs: bool = False

    def __post_init__(self) -> None:
        if self.architecture not in ARCHITECTURES:
            raise ValueError(
                f"{self.name} is a {self.architecture} with parts that are not built here: shape-only models are dense"
                f" and one of {', '.join(ARCHITECTURES)}"
            )

    @classmethod
    def named(cls, name: str) -> Shape:
        """A model of data/models.toml; ValueError for one that is not listed, or is no dense llama or qwen2."""
        entry = listed_shape(name)
        if entry.get("experts"):
            raise ValueError(f"{name} is a mixture of experts: shape-only models are dense")
        return cls(name, **{key: value for key, value in entry.items() if key in cls.__slots__})

    def tensors(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Name and shape of every tensor, rows first, in the order of llama.cpp's converter."""
        yield "token_embd.weight", (self.vocabulary, self.hidden)
        if self.rope_freqs:
            yield "rope_freqs.weight", (self.head_size // 2,)
        width, kv_width = self.heads * self.head_size, self.kv_heads * self.head_size
        biased = self.architecture == "qwen2"
        for i in range(self.layers):
            yield f"blk.{i}.attn_norm.weight", (self.hidden,)
            yield f"blk.{i}.ffn_down.weight", (self.hidden, self.ffn)
            yield f"blk.{i}.ffn_gate.weight", (self.ffn, self.hidden)
            yield f"blk.{i}.ffn_up.weight", (self.ffn, self.hidden)
            yield f"blk.{i}.ffn_norm.weight", (self.hidden,)
            for name, rows in (("k", kv_width), ("q", width), ("v", kv_width)):
                if biased:
                    yield f"blk.{i}.attn_{name}.bias", (rows,)
                yield f"blk.{i}.attn_{name}.weight", (rows, self.hidden)
            yield f"blk.{i}.attn_output.weight", (self.hidden, width)
        yield "output_norm.weight", (self.hidden,)
        if not self.tied:
            yield "output.weight", (self.vocabulary, self.hidden)


def shape_only(shape: str | Shape, kind: str) -> Path:
    """A GGUF of a listed model's name, or of a shape, with random weights in a quantisation; kept in the user's cache.

    Raises ValueError for an unknown name or kind, and for an architecture that is not built here.
    """
    made_of = Shape.named(shape) if isinstance(shape, str) else shape
    check_kind(kind)
    key = "" if isinstance(shape, str) else f"-{sha256(repr(made_of).encode()).hexdigest()[:16]}"
    with cached(f"{made_of.name}{key}-shapes{VERSION}-{kind}.gguf") as (target, made):
        if made:
            _write(made_of, kind, made)
    return target


def _write(shape: Shape, kind: str, path: Path) -> None:
    from gguf import GGUFReader

    from validate.llama import quantise

    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        thin, packed = Path(folder, "thin.gguf"), Path(folder, "packed.gguf")
        rng = np.random.default_rng(0)
        few = {name: _few(rng, name, full) for name, full in shape.tensors()}
        _write_gguf(shape, thin, {name: (rows, None, rows.shape) for name, rows in few.items()})
        quantise(thin, packed, KINDS[kind])
        blocks = {tensor.name: (tensor.data, tensor.tensor_type) for tensor in GGUFReader(packed).tensors}
        _write_gguf(shape, path, {name: (*blocks[name], full) for name, full in shape.tensors()})


def _few(rng: np.random.Generator, name: str, full: tuple[int, ...]) -> NDArray[np.float32]:
    """A vector whole, or the first rows of a matrix: of one that stands for the vocabulary, enough to tell apart."""
    if len(full) == 1:
        return np.zeros(full, np.float32) if name.endswith("bias") else np.ones(full, np.float32)
    rows = min(full[0], N_EMBEDDINGS if name.startswith(("token_embd", "output.")) else N_ROWS)
    return rng.normal(0, full[1] ** -0.5, (rows, full[1])).astype(np.float32)


def _write_gguf(shape: Shape, path: Path, tensors: dict[str, tuple[NDArray[Any], Any, tuple[int, ...]]]) -> None:
    """Write tensors given as some of their rows, their type, and the shape that the rows are repeated to."""
    from gguf import GGUFWriter

    writer = GGUFWriter(path, shape.architecture)
    _describe(writer, shape)
    for name, (rows, kind, full) in tensors.items():
        size = rows.nbytes // len(rows) * full[0]
        writer.add_tensor_info(name, (full[0], *rows.shape[1:]), rows.dtype, size, kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    for rows, _, full in tensors.values():
        writer.write_tensor_data(np.resize(rows, (full[0], *rows.shape[1:])))
    writer.close()


def _describe(writer: Any, shape: Shape) -> None:
    """Shapes, and a vocabulary of bytes and made-up words that reads any text; control tokens come last."""
    writer.add_name(f"{shape.name} (shapes only, random weights)")
    writer.add_context_length(N_CTX_TRAIN)
    writer.add_embedding_length(shape.hidden)
    writer.add_feed_forward_length(shape.ffn)
    writer.add_block_count(shape.layers)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_key_length(shape.head_size)
    writer.add_value_length(shape.head_size)
    writer.add_rope_dimension_count(shape.head_size)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(shape.vocabulary)
    n_bytes, control = 256, ["<unk>", "<s>", "</s>"]
    words = list(islice(_words(), shape.vocabulary - n_bytes - len(control)))
    writer.add_tokenizer_model("llama")
    writer.add_token_list([*(f"<0x{i:02X}>" for i in range(n_bytes)), *words, *control])
    writer.add_token_scores([0.0] * n_bytes + [float(-i) for i in range(len(words))] + [0.0] * len(control))
    writer.add_token_types([6] * n_bytes + [1] * len(words) + [2, 3, 3])
    unknown, begin, end = range(shape.vocabulary - len(control), shape.vocabulary)
    writer.add_unk_token_id(unknown)
    writer.add_bos_token_id(begin)
    writer.add_eos_token_id(end)
    writer.add_add_bos_token(True)


def _words() -> Iterator[str]:
    """The space mark, then all words of letters by length, each as a beginning and as a continuation."""
    yield "▁"
    for length in count(1):
        for letters in product(ascii_lowercase, repeat=length):
            yield "".join(letters)
            yield "▁" + "".join(letters)
