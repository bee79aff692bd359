"""What a history comes to: throughput, goodput, TTFT, TPOT; warm-up removed.

throughput   tokens delivered per second, from when counting begins to the end of the last counted request
goodput      counted requests per second that meet both targets (Zhong et al. 2024, "DistServe")
TTFT, TPOT   seconds to the first token, and seconds a token behind it
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from sim.history import History

PERCENTILES = {"p50": 50, "p95": 95, "p99": 99}


@dataclass(frozen=True, slots=True)
class Targets:
    """What a request must keep to count as good: seconds to the first token, and seconds a token."""

    ttft_seconds: float = math.inf
    tpot_seconds: float = math.inf

    def __post_init__(self) -> None:
        for field in fields(self):
            if not (value := getattr(self, field.name)) > 0:
                raise ValueError(f"{field.name} must be positive, not {value}")


@dataclass(frozen=True, slots=True)
class Served:
    """One history in numbers; seconds, and NaN where nothing was to be seen (no second token, say).

    busy           share of the time in which the device ran a pass
    rows_per_pass  of all sequences together        wasted      share of rows that did not become cached text
    cancelled      share of counted requests that were given up
    """

    tokens_per_second: float
    requests_per_second: float
    goodput_per_second: float
    ttft: float
    ttft_p50: float
    ttft_p95: float
    ttft_p99: float
    tpot: float
    tpot_p50: float
    tpot_p95: float
    tpot_p99: float
    queue: float
    latency: float
    latency_p95: float
    busy: float
    rows_per_pass: float
    wasted: float
    cancelled: float


def served(history: History, targets: Targets | None = None) -> Served:
    """The numbers of one history, warm-up removed."""
    limits = targets or Targets()
    counted = history.counted
    begins, ends = history.begins, max(request.ended for request in counted)
    span = ends - begins
    passes = [p for p in history.passes if p.at + p.seconds > begins and p.at < ends]
    delivered = sum(record.n_tokens for p in passes for record in p.records if begins < p.at + p.seconds <= ends)
    busy = sum(min(p.at + p.seconds, ends) - max(p.at, begins) for p in passes)
    done = [request for request in counted if request.outcome == "done"]
    good = [r for r in done if (r.ttft or 0.0) <= limits.ttft_seconds and (r.tpot or 0.0) <= limits.tpot_seconds]
    rows, wasted = (sum(getattr(request, name) for request in counted) for name in ("n_rows", "n_wasted"))
    ttft = [r.ttft for r in counted if r.ttft is not None]
    tpot = [r.tpot for r in counted if r.tpot is not None]
    latency = [r.latency for r in done]
    return Served(
        tokens_per_second=_share(delivered, span),
        requests_per_second=_share(len(done), span),
        goodput_per_second=_share(len(good), span),
        ttft=mean(ttft),
        tpot=mean(tpot),
        queue=mean([r.queue for r in counted]),
        latency=mean(latency),
        latency_p95=_percentile(latency, 95),
        busy=_share(busy, span),
        rows_per_pass=_share(sum(p.n_rows for p in passes), len(passes)),
        wasted=_share(wasted, rows),
        cancelled=_share(sum(r.outcome == "cancelled" for r in counted), len(counted)),
        **{f"ttft_{name}": _percentile(ttft, q) for name, q in PERCENTILES.items()},
        **{f"tpot_{name}": _percentile(tpot, q) for name, q in PERCENTILES.items()},
    )


def mean(values: Sequence[float]) -> float:
    """The mean; NaN of nothing."""
    return float(np.mean(values)) if len(values) else math.nan


def _percentile(values: Sequence[float], q: float) -> float:
    return float(np.percentile(values, q)) if len(values) else math.nan


def _share(part: float, whole: float) -> float:
    return part / whole if whole else math.nan
