"""The questions that need no text and no measurement, each one call: what is the cap, what is to be expected.

What comes back are plain values for a table or for JSON; nothing is printed here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist

from costmodel.acceptance import Law, Number
from costmodel.caps import (
    best_rows,
    break_even_ratio,
    full_acceptance_speedup,
    sweep_cap,
)
from costmodel.chain import PLANS
from costmodel.passcost import PassCost, Roofline, Table
from costmodel.specs import DeviceSpec, ModelSpec
from costmodel.throughput import finite


@dataclass(frozen=True, slots=True)
class Cap:
    """What R rows can gain at most, every draft right.

    flat         fused over gated when every pass costs one sweep, 2R/(R+1)
    fused        the same on the ratio or the cost given, else equal to `flat`
    break_even   the c_R/c_1 at which fused over gated crosses 1
    rows_gain    R c(1)/c(R), carry over greedy;  best  the row count with the largest such gain, and that gain
    notes        what the numbers rest on besides measurement
    """

    n_rows: int
    flat: Fraction
    fused: Number
    break_even: Fraction | None
    rows_gain: Number
    best: tuple[int, Number] | None
    notes: tuple[str, ...] = ()


def cap(n_rows: int, ratio: Number | None = None, cost: PassCost | None = None, n_past: int = 0) -> Cap:
    """The cap at R = `n_rows`, on a flat cost, on c_R/c_1, or on a pass cost at a cached length.

    Raises ValueError for fewer than 2 rows, for both a ratio and a cost, or for rows that the cost does not
    have.

    >>> answer = cap(6, ratio=Fraction(3, 2))
    >>> answer.flat, answer.fused, answer.break_even
    (Fraction(12, 7), Fraction(10, 7), Fraction(6, 1))
    """
    fused = full_acceptance_speedup("fused", "gated", n_rows, cost, ratio, n_past)
    carried = full_acceptance_speedup("carry", "greedy", n_rows, cost, ratio, n_past)
    best: tuple[int, Number] | None = None
    notes: tuple[str, ...] = ()
    if cost is not None:
        rows = cost.n_rows if isinstance(cost, Table) else range(1, max(n_rows, 16) + 1)
        best = best_rows(cost, [n for n in rows if n <= 64], n_past)
    if isinstance(cost, Table):
        notes = cost.notes([1, n_rows], n_past)
    even = break_even_ratio("fused", "gated", n_rows)
    return Cap(n_rows, sweep_cap(n_rows), fused, even, carried, best, notes)


@dataclass(frozen=True, slots=True)
class Prediction:
    """A loop on texts of an acceptance law: means, and the interval that holds 95 % of texts.

    `over_greedy` and `over_gated` are ratios of expected total time at equal R; the latter is None where the law
    was not measured as far as a gate looks, one draft further than `carry` does.
    """

    loop: str
    n_rows: int
    n_passes: float
    tokens_per_pass: float
    seconds: float
    low: float
    high: float
    over_greedy: float
    over_gated: float | None


def predict(
    law: Law,
    cost: PassCost,
    n_rows: Sequence[int],
    loops: Sequence[str] = tuple(PLANS),
    n_tokens: int = 256,
    n_past: int = 0,
) -> list[Prediction]:
    """What each loop is to be expected to take for `n_tokens` tokens behind a prompt of `n_past`, without a text.

    The pass that reads the prompt is the same for all loops and is left out. Raises ValueError for an unknown
    loop, and where the law or the cost does not reach.

    >>> from costmodel.acceptance import parse
    >>> from costmodel.passcost import Flat
    >>> [answer] = predict(parse("iid 1"), Flat(0.02), [6], ["fused"], n_tokens=42)
    >>> answer.n_passes, round(answer.over_gated, 4)
    (7.0, 1.7143)
    """
    if n_tokens < 1:
        raise ValueError(f"n_tokens must be at least 1, not {n_tokens}")
    floats = law.in_floats()
    greedy = float(finite("greedy", floats, 2, n_tokens, cost, n_past).seconds)
    answers = []
    for rows in n_rows:
        reaches = not law.renewal or len(law.agreement) >= rows
        gated = float(finite("gated", floats, rows, n_tokens, cost, n_past).seconds) if reaches else None
        for loop in loops:
            run = finite(loop, floats, rows, n_tokens, cost, n_past)
            mean, passes = float(run.seconds), float(run.n_passes)
            half = NormalDist().inv_cdf(0.975) * max(float(run.variance), 0.0) ** 0.5
            answers.append(
                Prediction(
                    loop,
                    rows,
                    passes,
                    n_tokens / passes,
                    mean,
                    max(mean - half, 0.0),
                    mean + half,
                    greedy / mean,
                    gated / mean if gated is not None else None,
                )
            )
    return answers


def described_cost(model: str, device: str, weights: str = "Q8_0") -> Roofline:
    """The roofline of a model (a listed name, or the path of a GGUF, which knows its own types) on a listed device.

    Raises ValueError for names that are not listed and for files that are no model.

    >>> described_cost("Llama-3.2-3B", "Apple M3 Max", "Q4_0").seconds(0, 1, 1) > 0.004
    True
    """
    spec = ModelSpec.from_gguf(model) if model.endswith(".gguf") else ModelSpec.named(model, weights)
    return Roofline(spec, DeviceSpec.named(device))
