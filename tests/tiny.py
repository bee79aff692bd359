"""A GGUF of a few kilobytes with random weights: a real llama for llama.cpp, built in a moment."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np

N_EMBD, N_FF, N_HEAD, N_LAYER = 32, 64, 2, 2
SYLLABLES = [a + b for a in "bcdfgh" for b in "aeiou"]
WORDS = [*(f"▁{s}" for s in SYLLABLES), *SYLLABLES, "▁", *"abcdefghiou"]


def write_tiny(path: Path, seed: int = 0, context: int = 4096) -> Path:
    """Write the model; another seed makes another model of the same vocabulary."""
    rng = np.random.default_rng(seed)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("tiny")
    writer.add_context_length(context)
    writer.add_embedding_length(N_EMBD)
    writer.add_feed_forward_length(N_FF)
    writer.add_block_count(N_LAYER)
    writer.add_head_count(N_HEAD)
    writer.add_head_count_kv(N_HEAD)
    writer.add_rope_dimension_count(N_EMBD // N_HEAD)
    writer.add_layer_norm_rms_eps(1e-5)
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{i:02X}>" for i in range(256)), *WORDS]
    writer.add_vocab_size(len(pieces))
    writer.add_tokenizer_model("llama")
    writer.add_token_list(pieces)
    writer.add_token_scores([0.0] * 259 + [-1.0 - i for i in range(len(WORDS))])
    writer.add_token_types([2, 3, 3] + [6] * 256 + [1] * len(WORDS))
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(True)

    def tensor(name: str, *shape: int) -> None:
        values = np.ones(shape) if len(shape) == 1 else rng.normal(0, 1.5 / np.sqrt(shape[-1]), shape)
        writer.add_tensor(name, values.astype(np.float32))

    tensor("token_embd.weight", len(pieces), N_EMBD)
    tensor("output_norm.weight", N_EMBD)
    tensor("output.weight", len(pieces), N_EMBD)
    for i in range(N_LAYER):
        for name in ("attn_norm", "ffn_norm"):
            tensor(f"blk.{i}.{name}.weight", N_EMBD)
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            tensor(f"blk.{i}.{name}.weight", N_EMBD, N_EMBD)
        tensor(f"blk.{i}.ffn_gate.weight", N_FF, N_EMBD)
        tensor(f"blk.{i}.ffn_up.weight", N_FF, N_EMBD)
        tensor(f"blk.{i}.ffn_down.weight", N_EMBD, N_FF)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
