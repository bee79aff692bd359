"""A claim beside what was measured and predicted of it: the parts that every verdict is put together from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from costmodel.acceptance import Number
from costmodel.caps import full_acceptance_speedup, sweep_cap
from costmodel.claims import ROWS, Claim
from costmodel.implied import endless
from costmodel.roofline import Roofline
from costmodel.specs import ModelSpec, known_models
from validate.evidence import Evidence, Part, Ratio

Verdict = Literal["reproduced", "explained", "not reproduced"]
GATED = ("gated", ROWS)
LOCKED = "locked repetition"
CLOSE = 0.05
"""A prediction this near to what was measured is one to explain with."""
SHAPE_WEIGHTS = "Q8_0"
CAP = float(sweep_cap(ROWS))


@dataclass(frozen=True, slots=True)
class Point:
    """A speedup over `gated`: as claimed, as a cap, as predicted or as measured, with its range or interval."""

    label: str
    kind: Literal["claimed", "cap", "predicted", "measured"]
    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Line:
    """A claim judged. `counts` tells how often something was so, where a claim is counted and not timed."""

    claim: Claim
    implies: str
    predicted: str
    measured: str
    verdict: Verdict
    reason: str
    points: tuple[Point, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)


def timed(claim: Claim, evidence: Evidence, implies: str, verdict: Verdict, reason: str) -> Line:
    """The line of a claim about a speedup."""
    words, points = _predictions(claim, evidence)
    stated = Point("preprint", "claimed", (claim.low + claim.high) / 2, claim.low, claim.high)
    cap = Point("cap, flat cost", "cap", CAP, CAP, CAP)
    seen = _measured_points(claim, evidence)
    return Line(claim, implies, words, _measured_words(claim, evidence), verdict, reason, (stated, cap, *points, *seen))


def found(claim: Claim, part: Part | None) -> list[Ratio]:
    """The claim's ratio on each of its prompts, where the part has it."""
    ratios = (part.find(prompt, (claim.loop, ROWS), GATED) for prompt in claim.prompts) if part else ()
    return [ratio for ratio in ratios if ratio is not None]


def own(claim: Claim, evidence: Evidence) -> list[Ratio]:
    """What was measured of the claim in the part that it names."""
    return found(claim, evidence.parts.get(claim.part))


def trusted(claim: Claim, evidence: Evidence) -> list[Ratio]:
    """What was measured of the claim in any part and predicted within `CLOSE`: the model may explain with it."""
    return [ratio for part in evidence.parts.values() for ratio in found(claim, part) if abs(ratio.error) <= CLOSE]


def overlaps(claim: Claim, ratio: Ratio) -> bool:
    """Whether what was measured may be in the range that is stated."""
    return ratio.low <= claim.high and claim.low <= ratio.high


def nearest_part(claim: Claim, evidence: Evidence) -> tuple[str, Part]:
    """What the part is called that the claim names, and it; the default model's text where that was not measured."""
    name = claim.part if claim.part in evidence.parts else "text"
    return label(name, evidence.parts[name]), evidence.parts[name]


def locked_passes(evidence: Evidence, loop: str) -> dict[int, Number]:
    """The passes of a loop over the text that is locked in repetition, by rows; those of an endless one without it."""
    walk = evidence.parts["text"].walk(LOCKED, (loop, ROWS))
    return dict(walk.passes) if walk else dict(endless(loop, ROWS))


def chain(evidence: Evidence) -> str:
    """How long the recorded repetition keeps `fused` chaining, in words."""
    walk = evidence.parts["text"].walk(LOCKED, ("fused", ROWS))
    return f"a chain of {walk.longest_chain} passes" if walk else "an endless chain"


def ceiling(part: Part) -> float:
    """Fused over gated on a part's pass costs when every draft is right, the price of a change of rows included."""
    return float(full_acceptance_speedup("fused", "gated", ROWS, part.cost, n_past=part.n_past))


def shape_prediction(claim: Claim, evidence: Evidence) -> float | None:
    """The claim's speedup on locked text by a roofline of its shapes at this machine's rates; None without either."""
    if evidence.device is None or claim.part not in known_models():
        return None
    cost = Roofline(ModelSpec.named(claim.part, SHAPE_WEIGHTS), evidence.device)
    n_past = evidence.parts["text"].n_past
    ours, theirs = (
        sum(float(times) * cost.seconds(n_past, n, n) for n, times in locked_passes(evidence, loop).items())
        for loop in (claim.loop, "gated")
    )
    return float(theirs / ours)


def label(name: str, part: Part) -> str:
    """What a part is called."""
    return f"{name} shapes" if part.fed else "default model" if part.penalty == 1 else f"penalty {part.penalty:g}"


def _predictions(claim: Claim, evidence: Evidence) -> tuple[str, list[Point]]:
    """In words and as points: the shapes' roofline, and each part's own pass costs over the texts."""
    points, words = [], []
    if (value := shape_prediction(claim, evidence)) is not None:
        points.append(Point(f"{claim.part}, roofline", "predicted", value, value, value))
        words.append(f"{times(value)} by a roofline of its shapes at this machine's rates")
    for name, part in evidence.parts.items():
        if ratios := found(claim, part):
            low, high = (end(r.predicted for r in ratios) for end in (min, max))
            points.append(Point(f"{label(name, part)}, its costs", "predicted", (low + high) / 2, low, high))
            words.append(f"{times_range(low, high)} on {label(name, part)} (c(6)/c(1) = {part.ratio6:.2f})")
    return "; ".join(words) or "-", points


def _measured_points(claim: Claim, evidence: Evidence) -> list[Point]:
    several = len(claim.prompts) > 1
    return [
        Point(
            label(name, part) + (f": {ratio.prompt}" if several else ""),
            "measured",
            ratio.measured,
            ratio.low,
            ratio.high,
        )
        for name, part in evidence.parts.items()
        for ratio in found(claim, part)
    ]


def _measured_words(claim: Claim, evidence: Evidence) -> str:
    words = [
        f"{label(name, part)} {with_intervals(ratios)}"
        for name, part in evidence.parts.items()
        if (ratios := found(claim, part))
    ]
    return "; ".join(words) or "not measured yet"


def times(value: float) -> str:
    """A speedup as it is printed."""
    return f"{value:.2f}x"


def times_range(low: float, high: float) -> str:
    """Two speedups as it is printed, or one where they are the same."""
    return times(low) if f"{low:.2f}" == f"{high:.2f}" else f"{low:.2f}-{times(high)}"


def span(values: Iterable[Number]) -> str:
    """The ends of some numbers.

    >>> span([1.5, 1.291]), span([2, 2]), span([])
    ('1.29 to 1.50', '2.00', 'nowhere')
    """
    ends = sorted(map(float, values))
    if not ends:
        return "nowhere"
    low, high = f"{ends[0]:.2f}", f"{ends[-1]:.2f}"
    return low if low == high else f"{low} to {high}"


def with_intervals(ratios: Sequence[Ratio]) -> str:
    """Measured speedups with their intervals, each with its prompt where there are several."""
    named = len({ratio.prompt for ratio in ratios}) > 1
    return ", ".join(
        f"{times(r.measured)} ({r.low:.2f}-{r.high:.2f})" + (f" on {r.prompt}" if named else "") for r in ratios
    )
