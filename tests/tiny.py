"""GGUFs of a few kilobytes with random weights: models of several kinds for llama.cpp, built in a moment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np

N_EMBD, N_FF, N_HEAD, N_LAYER = 32, 64, 2, 2
SYLLABLES = [a + b for a in "bcdfgh" for b in "aeiou"]
WORDS = [*(f"▁{s}" for s in SYLLABLES), *SYLLABLES, "▁", *"abcdefghiou"]


# What each architecture has besides the shapes of all: keys, and the tensors of a layer by name without `.weight`.
Shapes = dict[str, tuple[int, ...]]
WINDOW, N_EXPERT, N_INNER, N_STATE, N_CONV, N_RANK = 16, 4, 64, 8, 4, 4
ATTENTION: Shapes = {"attn_norm": (N_EMBD,)} | {f"attn_{name}": (N_EMBD, N_EMBD) for name in ("q", "k", "v", "output")}
FEED_FORWARD: Shapes = {
    "ffn_norm": (N_EMBD,),
    "ffn_gate": (N_FF, N_EMBD),
    "ffn_up": (N_FF, N_EMBD),
    "ffn_down": (N_EMBD, N_FF),
}
EXPERTS: Shapes = {
    "ffn_norm": (N_EMBD,),
    "ffn_gate_inp": (N_EXPERT, N_EMBD),
    "ffn_gate_exps": (N_EXPERT, N_FF, N_EMBD),
    "ffn_up_exps": (N_EXPERT, N_FF, N_EMBD),
    "ffn_down_exps": (N_EXPERT, N_EMBD, N_FF),
}
RECURRENT: Shapes = {
    "attn_norm": (N_EMBD,),
    "ssm_in": (2 * N_INNER, N_EMBD),
    "ssm_conv1d": (N_INNER, N_CONV),
    "ssm_conv1d.bias": (N_INNER,),
    "ssm_x": (N_RANK + 2 * N_STATE, N_INNER),
    "ssm_dt": (N_INNER, N_RANK),
    "ssm_dt.bias": (N_INNER,),
    "ssm_a": (N_INNER, N_STATE),
    "ssm_d": (N_INNER,),
    "ssm_out": (N_EMBD, N_INNER),
}
SSM_KEYS = {
    "ssm.conv_kernel": N_CONV,
    "ssm.inner_size": N_INNER,
    "ssm.state_size": N_STATE,
    "ssm.time_step_rank": N_RANK,
}
BERT: Shapes = {
    f"{name}.{part}": shape if part == "weight" else shape[:1]
    for name, shape in {
        **{f"attn_{name}": (N_EMBD, N_EMBD) for name in ("q", "k", "v", "output")},
        "attn_output_norm": (N_EMBD,),
        "ffn_up": (N_FF, N_EMBD),
        "ffn_down": (N_EMBD, N_FF),
        "layer_output_norm": (N_EMBD,),
    }.items()
    for part in ("weight", "bias")
}
ARCHITECTURES: dict[str, tuple[str, dict[str, Any], tuple[Shapes, ...]]] = {
    "llama": ("llama", {}, (ATTENTION | FEED_FORWARD,) * N_LAYER),
    "qwen2": ("qwen2", {}, (ATTENTION | {f"attn_{n}.bias": (N_EMBD,) for n in "qkv"} | FEED_FORWARD,) * N_LAYER),
    "gemma2": (
        "gemma2",
        {
            "attention.sliding_window": WINDOW,
            "attention.key_length": N_EMBD // N_HEAD,
            "attention.value_length": N_EMBD // N_HEAD,
        },
        (ATTENTION | FEED_FORWARD | {"post_attention_norm": (N_EMBD,), "post_ffw_norm": (N_EMBD,)},) * 4,
    ),
    "experts": ("llama", {"expert_count": N_EXPERT, "expert_used_count": 2}, (ATTENTION | EXPERTS,) * N_LAYER),
    "mamba": ("mamba", SSM_KEYS, (RECURRENT,) * N_LAYER),
    "jamba": (
        "jamba",
        SSM_KEYS | {"attention.head_count_kv": [0, N_HEAD]},
        (
            RECURRENT | {"ssm_dt_norm": (N_RANK,), "ssm_b_norm": (N_STATE,), "ssm_c_norm": (N_STATE,)} | FEED_FORWARD,
            ATTENTION | FEED_FORWARD,
        ),
    ),
    "bert": ("bert", {"attention.layer_norm_epsilon": 1e-5, "attention.causal": False}, (BERT,) * N_LAYER),
}


def write_tiny(
    path: Path,
    seed: int = 0,
    context: int = 4096,
    kind: str = "llama",
    template: str | None = None,
    only: set[str] | None = None,
    extra: dict[str, int] | None = None,
    bos: bool = True,
) -> Path:
    """Write a model of `ARCHITECTURES`; another seed makes another model of the same vocabulary.

    With `only` some of its tensors, and with `extra` further keys, as in one part of a model that is in parts.
    """
    rng = np.random.default_rng(seed)
    architecture, keys, layers = ARCHITECTURES[kind]
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_name("tiny")
    writer.add_context_length(context)
    writer.add_embedding_length(N_EMBD)
    writer.add_feed_forward_length(N_FF)
    writer.add_block_count(len(layers))
    writer.add_head_count(N_HEAD)
    if "attention.head_count_kv" not in keys:
        writer.add_head_count_kv(N_HEAD)
    for key, value in keys.items():
        add = {int: writer.add_uint32, float: writer.add_float32, bool: writer.add_bool, list: writer.add_array}
        add[type(value)](f"{architecture}.{key}", value)
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
    writer.add_add_bos_token(bos)
    for key, number in (extra or {}).items():
        writer.add_uint16(key, number) if key != "split.tensors.count" else writer.add_int32(key, number)
    if template is not None:
        writer.add_chat_template(template)

    def tensor(name: str, *shape: int) -> None:
        values = np.ones(shape) if len(shape) == 1 else rng.normal(0, 1.5 / np.sqrt(shape[-1]), shape)
        if name.endswith("ssm_a"):
            values = -np.exp(values)
        whole = name.endswith((".bias", ".weight", "ssm_a", "ssm_d"))
        name = name if whole else f"{name}.weight"
        if only is None or name in only:
            writer.add_tensor(name, values.astype(np.float32))

    tensor("token_embd", len(pieces), N_EMBD)
    if kind == "bert":
        writer.add_token_type_count(2)
        for name, shape in {"token_types": (2, N_EMBD), "position_embd": (context, N_EMBD)}.items():
            tensor(name, *shape)
        tensor("token_embd_norm", N_EMBD)
        tensor("token_embd_norm.bias", N_EMBD)
    else:
        tensor("output_norm", N_EMBD)
    if kind not in ("bert", "gemma2"):
        tensor("output", len(pieces), N_EMBD)
    for i, layer in enumerate(layers):
        for name, shape in layer.items():
            tensor(f"blk.{i}.{name}", *shape)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
