"""Shapes of models and rates of devices: what a roofline needs to know, and nothing else.

Weights are kept in four heaps that a pass reads differently: `dense` (every pass), `expert` (one expert, all
its layers; touched when a row is routed to it), `head` (only when logits are asked for) and the token
embedding (a few lines, so not at all; a tied head is the same tensor read as a head). SI units: bytes,
operations, seconds.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

BYTES_PER_WEIGHT: dict[str, float] = {
    "F32": 4.0,
    "F16": 2.0,
    "BF16": 2.0,
    "Q8_0": 34 / 32,
    "Q6_K": 210 / 256,
    "Q5_K": 176 / 256,
    "Q5_1": 24 / 32,
    "Q5_0": 22 / 32,
    "Q4_K": 144 / 256,
    "Q4_1": 20 / 32,
    "Q4_0": 18 / 32,
    "MXFP4": 17 / 32,
    "Q3_K": 110 / 256,
    "Q2_K": 84 / 256,
}
"""Bytes of a block over the weights in it (ggml-common.h)."""


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """What a pass through a model reads and computes.

    n_layers, n_heads, head_size   attention; kv_values = key and value numbers cached per token, over all layers
    dense_weights, dense_bytes     read by every pass
    head_weights, head_bytes       read when logits are asked for
    n_experts, n_experts_used      0 for a dense model; expert_weights, expert_bytes are of one expert
    window, n_windowed_layers      layers that look back only so many tokens; 0 when there are none
    kv_value_bytes                 bytes of a cached number (2: half precision)

    Raises ValueError for shapes that cannot be.
    """

    name: str
    n_layers: int
    n_heads: int
    head_size: int
    kv_values: int
    dense_weights: int
    dense_bytes: float
    head_weights: int
    head_bytes: float
    n_experts: int = 0
    n_experts_used: int = 0
    expert_weights: int = 0
    expert_bytes: float = 0.0
    window: int = 0
    n_windowed_layers: int = 0
    kv_value_bytes: float = 2.0
    source: str = ""

    def __post_init__(self) -> None:
        for name in ("n_layers", "n_heads", "head_size", "kv_values", "dense_weights", "head_weights"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} of a model must be at least 1, not {getattr(self, name)}")
        for heap in ("dense", "head", "expert"):
            weights, size = getattr(self, f"{heap}_weights"), getattr(self, f"{heap}_bytes")
            if weights and not 1 / 8 <= size / weights <= 8:
                raise ValueError(
                    f"{size:g} {heap}_bytes for {weights} weights is {size / weights:.3g} bytes a weight, "
                    "which no tensor type has: give bytes, not GB"
                )
        if not 0 <= self.n_experts_used <= self.n_experts or bool(self.n_experts) != bool(self.expert_weights):
            raise ValueError(f"{self.n_experts_used} of {self.n_experts} experts used per token cannot be")
        if not 0 <= self.n_windowed_layers <= self.n_layers or bool(self.window) != bool(self.n_windowed_layers):
            raise ValueError(f"a window of {self.window} tokens on {self.n_windowed_layers} layers cannot be")
        if not 0.25 <= self.kv_value_bytes <= 8:
            raise ValueError(f"kv_value_bytes must be between 0.25 and 8, not {self.kv_value_bytes}")

    @property
    def n_weights(self) -> int:
        """All weights but the token embedding; a tied head counts."""
        return self.dense_weights + self.head_weights + self.n_experts * self.expert_weights

    @classmethod
    def from_gguf(cls, path: str | Path) -> ModelSpec:
        """The spec of a GGUF file, from its tensors' shapes and types (see `costmodel.ggufspec`)."""
        from costmodel.ggufspec import read_spec

        return read_spec(Path(path))

    @classmethod
    def named(cls, name: str, weights: str = "F16") -> ModelSpec:
        """A well-known model of data/models.toml, all its matrices in one tensor type.

        Raises ValueError for a name or a tensor type that is not listed.

        >>> spec = ModelSpec.named("Llama-3.2-3B", "Q8_0")
        >>> spec.n_weights, round(spec.dense_bytes / 1e9, 2)
        (3212574720, 2.99)
        """
        if weights not in BYTES_PER_WEIGHT:
            raise ValueError(f"unknown tensor type {weights!r}; known are {', '.join(BYTES_PER_WEIGHT)}")
        shape = _entry("models", name)
        size = BYTES_PER_WEIGHT[weights]
        layers, hidden, kv_width = shape["layers"], shape["hidden"], shape["kv_heads"] * shape["head_size"]
        attention = hidden * (2 * shape["heads"] * shape["head_size"] + 2 * kv_width)
        ffn = 3 * hidden * shape["ffn"]  # gate, up and down
        experts = shape.get("experts", 0)
        dense = layers * (attention + (hidden * experts if experts else ffn))
        head = hidden * shape["vocabulary"]
        return cls(
            name=f"{name} {weights}",
            n_layers=layers,
            n_heads=shape["heads"],
            head_size=shape["head_size"],
            kv_values=layers * 2 * kv_width,
            dense_weights=dense,
            dense_bytes=dense * size,
            head_weights=head,
            head_bytes=head * size,
            n_experts=experts,
            n_experts_used=shape.get("used", 0),
            expert_weights=layers * ffn if experts else 0,
            expert_bytes=layers * ffn * size if experts else 0.0,
            window=shape.get("window", 0),
            n_windowed_layers=shape.get("windowed", 0),
            source=shape["source"],
        )


@dataclass(frozen=True, slots=True)
class DeviceSpec:
    """What a device moves and computes at most, and what every pass costs before it starts.

    Raises ValueError for rates outside what devices have, with the likely slip of unit.

    >>> DeviceSpec("mine", bytes_per_second=51.2, flops_per_second=5e11)
    Traceback (most recent call last):
    ValueError: bytes_per_second must be between 1e+08 and 1e+15, not 51.2: 51.2 GB/s is 51.2e9
    """

    name: str
    bytes_per_second: float
    flops_per_second: float
    pass_seconds: float = 0.0
    kind: str = ""
    source: str = ""

    def __post_init__(self) -> None:
        for name, unit in (("bytes_per_second", "GB/s"), ("flops_per_second", "Gflop/s")):
            value, least, most = getattr(self, name), 1e8, 1e15 if unit == "GB/s" else 1e19
            if not least <= value <= most:
                hint = f": {value:g} {unit} is {value:g}e9" if 0 < value < least else ""
                raise ValueError(f"{name} must be between {least:.0e} and {most:.0e}, not {value:g}{hint}")
        if not 0 <= self.pass_seconds < 10:
            raise ValueError(f"pass_seconds must be between 0 and 10 seconds, not {self.pass_seconds:g}")

    @classmethod
    def named(cls, name: str) -> DeviceSpec:
        """A device of data/devices.toml, at its published peaks; ValueError for one that is not listed.

        >>> DeviceSpec.named("NVIDIA H200").bytes_per_second
        4800000000000.0
        """
        return cls(name=name, **_entry("devices", name))


def known_models() -> tuple[str, ...]:
    """Names that `ModelSpec.named` knows."""
    return tuple(_data("models"))


def listed_shape(name: str) -> dict[str, Any]:
    """The numbers of a model of data/models.toml; ValueError for one that is not listed."""
    return _entry("models", name)


def known_devices() -> tuple[str, ...]:
    """Names that `DeviceSpec.named` knows."""
    return tuple(_data("devices"))


@cache
def _data(kind: str) -> dict[str, dict[str, Any]]:
    return tomllib.loads((files("costmodel") / "data" / f"{kind}.toml").read_text(encoding="utf-8"))


def _entry(kind: str, name: str) -> dict[str, Any]:
    entries = _data(kind)
    try:
        return entries[name]
    except KeyError:
        raise ValueError(f"unknown {kind[:-1]} {name!r}; known are {', '.join(entries)}") from None
