"""A model's spec from a GGUF file: every tensor put on the heap that a pass reads it from.

Names are those of the `gguf` package (constants.TENSOR_NAMES): `token_embd` is looked up, `output` is the
head (missing: tied, the embedding is), `*_exps` hold all experts along their last axis, everything else is
dense.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

from costmodel.ggufheader import check_model, parts
from costmodel.specs import ModelSpec

LOOKED_UP = ("token_embd.weight", "per_layer_token_embd.weight")


def read_spec(path: Path) -> ModelSpec:
    """The spec of a GGUF file, or of a file in parts, named by its first.

    Raises ValueError, naming the file, when it is not a whole GGUF model, when a part is missing, or when a
    tensor's type is unknown.
    """
    check_model(path)
    readers = [_reader(part) for part in parts(path)]
    fields = readers[0].fields
    architecture = _value(fields, "general.architecture")
    tensors = {tensor.name: tensor for reader in readers for tensor in reader.tensors}

    def number(key: str, default: Any = None) -> Any:
        value = _value(fields, f"{architecture}.{key}", default)
        if value is None:
            raise ValueError(f"{path} has no {architecture}.{key}: its shapes cannot be known")
        return value

    n_layers = int(number("block_count"))
    heads = _per_layer(number("attention.head_count"), n_layers)
    kv_heads = _per_layer(number("attention.head_count_kv", heads), n_layers)
    key_size = int(number("attention.key_length", int(number("embedding_length")) // max(max(heads), 1)))
    value_size = int(number("attention.value_length", key_size))
    n_experts = int(number("expert_count", 0))
    head = tensors.get("output.weight", tensors.get("token_embd.weight"))
    if head is None:
        raise ValueError(f"{path} has neither output.weight nor token_embd.weight: no logits can come out")
    experts = [tensor for name, tensor in tensors.items() if "_exps" in name and n_experts]
    apart = {*LOOKED_UP, "output.weight", *(tensor.name for tensor in experts)}
    dense = [tensor for name, tensor in tensors.items() if name not in apart]
    window = int(number("attention.sliding_window", 0))
    return ModelSpec(
        name=str(_value(fields, "general.name", path.stem)),
        n_layers=n_layers,
        n_heads=max(heads),
        head_size=key_size,
        kv_values=sum(kv_heads) * (key_size + value_size),
        dense_weights=sum(int(tensor.n_elements) for tensor in dense),
        dense_bytes=float(sum(int(tensor.n_bytes) for tensor in dense)),
        head_weights=int(head.n_elements),
        head_bytes=float(head.n_bytes),
        n_experts=n_experts,
        n_experts_used=int(number("expert_used_count", 0)),
        expert_weights=sum(int(tensor.n_elements) for tensor in experts) // max(n_experts, 1),
        expert_bytes=sum(int(tensor.n_bytes) for tensor in experts) / max(n_experts, 1),
        window=window,
        n_windowed_layers=_windowed(_value(fields, f"{architecture}.attention.sliding_window_pattern"), n_layers)
        if window
        else 0,
        source=str(path),
    )


def _reader(path: Path) -> Any:
    try:
        from gguf import GGUFReader, GGUFValueType
    except ImportError:
        raise ValueError("reading a GGUF needs the gguf package: pip install gguf") from None

    class Reader(GGUFReader):
        """The package's reader, but vocabularies are stepped over: it takes seconds to map 100,000 strings."""

        def _get_field_parts(self, orig_offs: int, raw_type: int) -> Any:
            if raw_type == GGUFValueType.ARRAY and self.byte_order == "I":
                data: Any = self.data
                kind, count = struct.unpack_from("<IQ", data, orig_offs)
                if kind == GGUFValueType.STRING:
                    return _end_of_strings(data, orig_offs + 12, count) - orig_offs, [], [], []
            return super()._get_field_parts(orig_offs, raw_type)

    try:
        return Reader(path)
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror or error}") from None
    except Exception as error:  # the package lets through whatever numpy or enum raise on a damaged file
        raise ValueError(f"{path} is not a whole GGUF file of known tensor types: {error}") from None


def _end_of_strings(data: Any, at: int, count: int) -> int:
    """The offset behind so many strings, each its length and its bytes; struct.error past the end of the data."""
    for _ in range(count):
        at += 8 + struct.unpack_from("<Q", data, at)[0]
    return at


def _value(fields: Any, key: str, default: Any = None) -> Any:
    field = fields.get(key)
    return default if field is None else field.contents()


def _per_layer(value: Any, n_layers: int) -> list[int]:
    return [int(item) for item in value] if isinstance(value, list) else [int(value)] * n_layers


def _windowed(pattern: Any, n_layers: int) -> int:
    """Windowed layers: a flag per layer, every layer but each n-th (a number), or all of them (not said)."""
    if isinstance(pattern, list):
        return sum(map(bool, pattern))
    return n_layers - n_layers // int(pattern) if pattern else n_layers
