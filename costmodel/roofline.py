"""A pass priced from shapes and rates: bytes over bandwidth against operations over peak.

    bytes  = dense + touched experts + head (if logits are wanted) + the KV cache, read once
    flops  = 2 weights rows (routed ones only) + 2 head n_out + 4 attention
    pass   = overhead + max(bytes / bandwidth, flops / peak)        or their sum, when nothing overlaps

Williams, Waterman, Patterson 2009, "Roofline", gives the maximum. With u of E experts chosen evenly per row
and layer, m rows touch E (1 - (1 - u/E)^m) of them on average. Rows of a repetition share experts, so this is
too dear there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from costmodel.chunks import in_chunks
from costmodel.specs import DeviceSpec, ModelSpec

COMBINE: dict[str, Callable[[Any, Any], Any]] = {"max": np.maximum, "sum": np.add}


@dataclass(frozen=True, slots=True)
class Roofline:
    """The cost of a model on a device; ValueError for a combining rule that is not in COMBINE.

    >>> cost = Roofline(ModelSpec.named("Llama-3.2-3B", "Q8_0"), DeviceSpec.named("laptop, DDR4-3200"))
    >>> [round(cost.seconds(256, n, n) / cost.seconds(256, 1, 1), 2) for n in (1, 2, 4, 6, 8)]
    [1.0, 1.0, 1.44, 2.16, 2.88]
    """

    model: ModelSpec
    device: DeviceSpec
    combine: Literal["max", "sum"] = "max"

    def __post_init__(self) -> None:
        if self.combine not in COMBINE:
            raise ValueError(f"combine must be one of {', '.join(COMBINE)}, not {self.combine!r}")

    def seconds(self, n_past: Any, n_rows: Any, n_out: Any, n_rows_before: Any = None) -> Any:
        """Seconds of a pass; `n_rows_before` changes nothing here."""
        if isinstance(n_past, int) and isinstance(n_rows, int) and isinstance(n_out, int):
            return float(self._price(n_past, n_rows, n_out))
        return in_chunks(self._price, n_past, n_rows, n_out)

    def _price(self, n_past: Any, n_rows: Any, n_out: Any) -> Any:
        device = self.device
        moving = self.bytes(n_past, n_rows, n_out) / device.bytes_per_second
        computing = self.flops(n_past, n_rows, n_out) / device.flops_per_second
        return device.pass_seconds + COMBINE[self.combine](moving, computing)

    def bytes(self, n_past: Any, n_rows: Any, n_out: Any) -> Any:
        """Bytes that a pass reads."""
        model = self.model
        weights = model.dense_bytes + model.head_bytes * (n_out > 0)
        if model.n_experts:
            weights = weights + model.expert_bytes * _by_rows(self._touched, n_rows)
        return weights + model.kv_value_bytes * self._kv_values(n_past + n_rows)

    def flops(self, n_past: Any, n_rows: Any, n_out: Any) -> Any:
        """Operations that a pass computes: 2 for each weight and row, and the attention."""
        model = self.model
        routed = model.dense_weights + model.n_experts_used * model.expert_weights
        queries = model.n_heads * model.head_size * model.n_layers
        share = self._kv_values(n_past + n_rows) / model.kv_values  # tokens looked back at, averaged over layers
        return 2 * routed * n_rows + 2 * model.head_weights * n_out + 4.0 * queries * share * n_rows

    def _kv_values(self, n_tokens: Any) -> Any:
        model = self.model
        if not model.window:
            return model.kv_values * n_tokens
        per_layer = model.kv_values / model.n_layers
        windowed = per_layer * model.n_windowed_layers
        return (model.kv_values - windowed) * n_tokens + windowed * np.minimum(n_tokens, model.window)

    def _touched(self, n_rows: Any) -> Any:
        """Expected number of different experts (of each layer) that so many rows touch."""
        total = self.model.n_experts
        return total * (1 - (1 - self.model.n_experts_used / total) ** n_rows)


def _by_rows(function: Callable[[Any], Any], n_rows: Any) -> Any:
    """A power over many passes, computed once per row count: there are few of them."""
    if np.ndim(n_rows) == 0:
        return function(n_rows)
    return np.take(function(np.arange(int(np.max(n_rows, initial=0)) + 1)), n_rows)
