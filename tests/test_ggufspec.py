"""Specs out of GGUF files written here: dense, tied, mixtures, windows, parts, and files that are none."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from costmodel.specs import ModelSpec

gguf = pytest.importorskip("gguf", reason="gguf is not installed")

HIDDEN, VOCABULARY, KV, FFN, LAYERS = 64, 96, 32, 128, 2


def write(
    path: Path, *, tied: bool = False, experts: int = 0, extra: dict[str, Any] | None = None, layers: int = LAYERS
) -> Path:
    """A tiny llama of F32 matrices, its FFN in Q8_0."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("tiny")
    writer.add_block_count(layers)
    writer.add_embedding_length(HIDDEN)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    if experts:
        writer.add_expert_count(experts)
        writer.add_expert_used_count(2)
    for key, value in (extra or {}).items():
        (writer.add_uint32 if isinstance(value, int) else writer.add_array)(key, value)
    writer.add_tensor("token_embd.weight", np.ones((VOCABULARY, HIDDEN), dtype=np.float32))
    if not tied:
        writer.add_tensor("output.weight", np.ones((VOCABULARY, HIDDEN), dtype=np.float16))
    q8 = gguf.GGMLQuantizationType.Q8_0
    for i in range(layers):
        for name, width in (("attn_q", HIDDEN), ("attn_k", KV), ("attn_v", KV), ("attn_output", HIDDEN)):
            writer.add_tensor(f"blk.{i}.{name}.weight", np.ones((width, HIDDEN), dtype=np.float32))
        stack = (experts,) if experts else ()
        kind = "_exps" if experts else ""
        for name, shape in (("up", (FFN, HIDDEN)), ("gate", (FFN, HIDDEN)), ("down", (HIDDEN, FFN))):
            weights = gguf.quants.quantize(np.ones((*stack, *shape), dtype=np.float32), q8)
            writer.add_tensor(f"blk.{i}.ffn_{name}{kind}.weight", weights, raw_dtype=q8)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


ATTENTION = LAYERS * HIDDEN * (2 * HIDDEN + 2 * KV)
MATRICES = LAYERS * 3 * FFN * HIDDEN


def test_a_dense_model(tmp_path: Path) -> None:
    spec = ModelSpec.from_gguf(write(tmp_path / "a.gguf"))
    assert (spec.name, spec.n_layers, spec.n_heads, spec.head_size) == ("tiny", LAYERS, 4, 16)
    assert spec.dense_weights == ATTENTION + MATRICES
    assert spec.dense_bytes == 4 * ATTENTION + MATRICES * 34 / 32
    assert (spec.head_weights, spec.head_bytes) == (VOCABULARY * HIDDEN, 2 * VOCABULARY * HIDDEN)
    assert spec.kv_values == LAYERS * 2 * KV


def test_a_tied_head_is_the_embedding(tmp_path: Path) -> None:
    spec = ModelSpec.from_gguf(write(tmp_path / "a.gguf", tied=True))
    assert spec.head_bytes == 4 * VOCABULARY * HIDDEN
    assert spec.dense_weights == ATTENTION + MATRICES


def test_a_mixture_of_experts(tmp_path: Path) -> None:
    spec = ModelSpec.from_gguf(write(tmp_path / "a.gguf", experts=8))
    assert (spec.n_experts, spec.n_experts_used) == (8, 2)
    assert (spec.expert_weights, spec.expert_bytes) == (MATRICES, MATRICES * 34 / 32)
    assert spec.dense_weights == ATTENTION


def test_windows_are_noted(tmp_path: Path) -> None:
    key = "llama.attention.sliding_window"
    every = ModelSpec.from_gguf(write(tmp_path / "a.gguf", extra={key: 64}))
    half = ModelSpec.from_gguf(write(tmp_path / "b.gguf", extra={key: 64, f"{key}_pattern": [True, False]}))
    other = ModelSpec.from_gguf(write(tmp_path / "c.gguf", extra={key: 64, f"{key}_pattern": 2}))
    assert [spec.n_windowed_layers for spec in (every, half, other)] == [2, 1, 1]
    assert every.window == 64


def test_vocabularies_are_stepped_over(tmp_path: Path) -> None:
    words = ["", "a", "longer word"] * 40
    keys = {"tokenizer.ggml.tokens": words, "llama.attention.sliding_window": 64}
    spec = ModelSpec.from_gguf(write(tmp_path / "a.gguf", extra=keys))
    assert (spec.window, spec.dense_weights) == (64, ATTENTION + MATRICES)


def test_heads_that_differ_from_layer_to_layer(tmp_path: Path) -> None:
    spec = ModelSpec.from_gguf(write(tmp_path / "a.gguf", extra={"llama.attention.key_length": 32}))
    assert spec.kv_values == LAYERS * 2 * 2 * 32


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    whole = write(tmp_path / "a.gguf").read_bytes()
    for name, data in {
        "empty": b"",
        "words": b"this is not a model" * 10,
        "header": whole[:200],
        "tensors": whole[:-2000],
        "version": whole[:4] + (99).to_bytes(4, "little") + whole[8:],
    }.items():
        path = tmp_path / f"{name}.gguf"
        path.write_bytes(data)
        with pytest.raises(ValueError, match=f"{name}.gguf is not a whole GGUF"):
            ModelSpec.from_gguf(path)
    with pytest.raises(ValueError, match="cannot be read"):
        ModelSpec.from_gguf(tmp_path / "nowhere.gguf")
    with pytest.raises(ValueError, match="cannot be read"):
        ModelSpec.from_gguf(tmp_path)


def test_an_unknown_tensor_type_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.gguf")
    data = bytearray(path.read_bytes())
    at = data.index(b"output.weight") + len(b"output.weight") + 4 + 2 * 8  # behind its name, rank and two lengths
    assert data[at] == gguf.GGMLQuantizationType.F16
    data[at] = 250
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"known tensor types: .*250"):
        ModelSpec.from_gguf(path)


def test_models_that_are_no_models_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has no layers"):
        ModelSpec.from_gguf(write(tmp_path / "vocabulary.gguf", layers=0))
    path = write(tmp_path / "part-00001-of-00002.gguf")
    with pytest.raises(ValueError, match=r"in 2 parts, and part-00002-of-00002.gguf is not beside it"):
        ModelSpec.from_gguf(path)
    joined = write(tmp_path / "joined.gguf", extra={"split.count": 2})
    with pytest.raises(ValueError, match="one part of a model"):
        ModelSpec.from_gguf(joined)


def test_parts_are_one_model(tmp_path: Path) -> None:
    first = write(tmp_path / "m-00001-of-00002.gguf", extra={"split.count": 2})
    shutil.copy(first, tmp_path / "m-00002-of-00002.gguf")
    assert ModelSpec.from_gguf(first).dense_weights == ATTENTION + MATRICES  # the same tensors are one tensor
