"""Verdicts on speedups: which pass cost, acceptance or slow window gives what was printed, and whether that can be."""

from __future__ import annotations

from functools import lru_cache

from costmodel.acceptance import Number
from costmodel.caps import sweep_cap
from costmodel.claims import ROWS, Claim, claims
from costmodel.implied import endless, free_rows_speedup, implied_ratio
from costmodel.throughput import acceptance_where
from validate.chance import chance
from validate.claimed import (
    CAP,
    Line,
    Verdict,
    ceiling,
    chain,
    found,
    label,
    locked_passes,
    nearest_part,
    overlaps,
    own,
    span,
    timed,
    times,
    times_range,
    trusted,
    with_intervals,
)
from validate.evidence import Evidence, Part

LIKELY = 0.05
"""Less likely than this under the fitted drift, a slow window is no explanation."""
LADDER = (1.5, 2.0, 3.0, 4.0, 6.0)
"""The c(6)/c(1) at which the acceptance behind a loss is told, beside the one measured here."""


def implied(speedup: float, evidence: Evidence, loop: str = "fused") -> tuple[Number | None, Number | None]:
    """c(6)/c(1) that gives a speedup over `gated`: on an endless repetition, and on the recorded one."""
    endlessly = implied_ratio(speedup, endless(loop, ROWS), endless("gated", ROWS), ROWS)
    return endlessly, implied_ratio(speedup, locked_passes(evidence, loop), locked_passes(evidence, "gated"), ROWS)


def speedup(claim: Claim, evidence: Evidence) -> Line:
    """A speedup that some pass cost gives."""
    pairs = [implied(value, evidence, claim.loop) for value in claim.speedups]
    endlessly, recorded = ([pair[i] for pair in pairs if pair[i] is not None] for i in (0, 1))
    words = span(r for r in recorded if r is not None)
    implies = (
        f"c(6)/c(1) = {span(r for r in endlessly if r is not None)} at full acceptance without an end, {words} with"
        f" {chain(evidence)} as in the recorded repetition"
    )
    can_be = len(recorded) == len(claim.speedups) and all(r is not None and 1 <= r <= ROWS for r in recorded)
    seen, known = own(claim, evidence), trusted(claim, evidence)
    name, part = nearest_part(claim, evidence)
    stated = (
        f"on {name} here a pass of 6 rows costs {part.ratio6:.2f} passes of one row, which leaves"
        f" {times(ceiling(part))} when every draft is right"
    )
    verdict: Verdict = "not reproduced"
    if any(overlaps(claim, ratio) for ratio in seen):
        verdict, reason = "reproduced", f"measured here on these shapes: {with_intervals(seen)}"
    elif can_be and known:
        verdict, worst = "explained", max(abs(ratio.error) for ratio in known)
        reason = (
            f"{stated}; the same model, which meets what is measured here within {100 * worst:.1f} %, gives the figure"
            f" where c(6)/c(1) is {words}" + ("" if seen else f"; {claim.part} itself is not measured here")
        )
    else:
        reason = f"{stated}, and no prediction here is near enough to explain with"
    return timed(claim, evidence, implies, verdict, reason)


def over_cap(claim: Claim, evidence: Evidence) -> Line:
    """A speedup of which no c(6)/c(1) gives the largest: what else it takes, and how likely that is here."""
    chained = free_rows_speedup(locked_passes(evidence, claim.loop), locked_passes(evidence, "gated"))
    beside = claims()[claim.beside]
    endlessly = implied(claim.high, evidence, claim.loop)[0]
    implies = (
        f"{times(claim.high)} exceeds the cap of {times(CAP)} ({times(chained)} with {chain(evidence)}): free rows do"
        f" not suffice, c(6)/c(1) would be {float(endlessly or 0):.2f}. It takes a window in which gated runs"
        f" {100 * (claim.high / CAP - 1):.1f} % slower than fused on a flat cost"
        f" ({100 * (claim.high / beside.high - 1):.0f} to {100 * (claim.high / beside.low - 1):.0f} % on the cost of"
        f" {times_range(beside.low, beside.high)}), or a change of row count, which the cap leaves out, that costs"
        f" {100 * _change_needed(claim.high):.1f} % of a pass"
    )
    if below := [value for value in claim.speedups if value <= CAP]:
        ratios = [r for value in below if (r := implied(value, evidence, claim.loop)[0]) is not None]
        implies += f"; {', '.join(map(times, below))} takes c(6)/c(1) = {span(ratios)}"
    seen = own(claim, evidence)
    if any(ratio.low <= claim.high <= ratio.high for ratio in seen):
        return timed(claim, evidence, implies, "reproduced", f"measured here: {with_intervals(seen)}")
    return timed(claim, evidence, implies, *_by_window(claim, evidence, beside))


def _change_needed(value: float) -> float:
    """What a change of row count must cost, in flat passes, for a speedup above the cap: (6/7)(2 + 2 x) = value."""
    return value / CAP - 1


def _change_here(part: Part) -> float:
    """What a change of row count costs on a part, in 1-row passes."""
    changed = float(part.cost.seconds(part.n_past, 1, 1, ROWS))
    return changed / part.seconds(1) - 1


def _by_window(claim: Claim, evidence: Evidence, beside: Claim) -> tuple[Verdict, str]:
    """Whether a change of rows or the drift that was seen here can put a measurement above the cap."""
    name, part = nearest_part(claim, evidence)
    change, needed = _change_here(part), _change_needed(claim.high)
    rows = f"a change of row count costs {100 * change:.1f} % of a 1-row pass on {name}"
    if part.penalty != 1 and (walk := part.walk(claim.prompts[0], (claim.loop, ROWS))):
        rows += f", whose text under repeat penalty {part.penalty:g} chains {walk.n_chained} passes"
    if not evidence.drift:
        return (
            "not reproduced",
            f"no c(6)/c(1) gives it; {rows}; no drift was fitted here to say how likely a window is",
        )
    seen = [chance(claim.high, truth, claim.design, evidence, part) for truth in (CAP, beside.high)]
    flat, likely = (one.p_above for one in seen)
    words = (
        f"no c(6)/c(1) gives it; {rows}; under the drift of this machine ({evidence.drift}) one measurement as"
        f" {seen[0].design} of {seen[0].seconds:.0f} s shows {times(claim.high)} or more with probability {flat:.2g} if"
        f" the truth is the cap, {likely:.2g} if it is {times(beside.high)}"
    )
    if flat >= LIKELY:
        return "explained", f"{words}: a slow window, not a faster loop"
    if found(claim, evidence.parts.get(claim.part)) and change >= needed:
        return "explained", f"{words}: the price of changing rows, which the cap leaves out"
    return "not reproduced", f"{words}: it takes a machine less steady than this one"


def the_cap(claim: Claim, evidence: Evidence) -> Line:
    """2k/(k+1) itself: arithmetic, and a bound that no measurement here may break."""
    cap = sweep_cap(ROWS)
    ratios = [ratio for part in evidence.parts.values() for ratio in found(claim, part)]
    broken = [ratio for ratio in ratios if ratio.low > CAP]
    right = abs(CAP - claim.high) < 0.005
    here = ", ".join(f"{times(ceiling(part))} on {label(name, part)}" for name, part in evidence.parts.items())
    reason = (
        f"2k/(k+1) at k = 6 is {cap} = {CAP:.4f} where every pass costs one sweep; on the pass costs measured here it"
        f" is {here}"
    )
    reason += f"; measured above it: {with_intervals(broken)}" if broken else "; nothing measured here exceeds it"
    implies = f"6 tokens in one pass against 7 in two: (6/1)/(7/2) = {cap}, if 6 rows cost what 1 row costs"
    return timed(claim, evidence, implies, "reproduced" if right and not broken else "not reproduced", reason)


def no_chain(claim: Claim, evidence: Evidence) -> Line:
    """Where nothing is chained the two loops feed the same passes: the ratio is 1, and what is printed is the noise."""
    seen = own(claim, evidence)
    walks = [w for prompt in claim.prompts if (w := evidence.parts["text"].walk(prompt, ("fused", ROWS)))]
    never = [walk.prompt for walk in walks if not walk.n_chained]
    out = [ratio for ratio in seen if not overlaps(claim, ratio)]
    implies = (
        "1.00x exactly where fused never chains, since the passes are the same; the range is then the noise of the"
        f" measurement, {100 * (claim.low - 1):+.0f} % to {100 * (claim.high - 1):+.0f} %"
    )
    told = ", ".join(f"{walk.n_chained or 'no'} chained passes on {walk.prompt}" for walk in walks)
    verdict: Verdict = "not reproduced"
    if seen and not out:
        verdict, reason = "reproduced", f"every prompt is in the range ({told})"
    elif seen and len(trusted(claim, evidence)) >= len(seen) and not any(ratio.prompt in never for ratio in out):
        verdict = "explained"
        reason = (
            f"{told}; outside the range is only what chains: {', '.join(r.prompt for r in out)}, {with_intervals(out)},"
            " as predicted"
        )
    else:
        reason = told or "nothing was measured of these prompts"
    return timed(claim, evidence, implies, verdict, reason)


def partial(claim: Claim, evidence: Evidence) -> Line:
    """A loss of chaining after partly wrong guesses: the pairs of pass cost and acceptance that give it."""
    text = evidence.parts["text"]
    here = round(text.ratio6, 2)
    pairs = {x: _acceptances(claim.loop, x, claim.low) for x in sorted({*LADDER, here})}
    places = ", ".join(f"({x:g}, {p:.2f})" for x, found_ in pairs.items() for p in found_)
    implies = f"(c(6)/c(1), acceptance of a draft) on the line {places}; on a flat cost no acceptance gives a loss"
    seen, known = own(claim, evidence), trusted(claim, evidence)
    verdict: Verdict = "not reproduced"
    if hits := [ratio for ratio in seen if overlaps(claim, ratio)]:
        verdict, reason = "reproduced", f"measured here: {', '.join(r.prompt for r in hits)} {with_intervals(hits)}"
    elif known and pairs[here]:
        verdict, worst = "explained", min(known, key=lambda ratio: ratio.measured)
        acceptance, none = text.agreement.get(worst.prompt, (0.0, 1.0))
        reason = (
            f"at c(6)/c(1) = {here:.2f} it takes drafts that are right {100 * pairs[here][0]:.0f} % of the time, and"
            f" are always found; the worst prompt here, {worst.prompt}, loses less, {with_intervals([worst])}, as"
            f" predicted ({times(worst.predicted)}): {100 * acceptance:.0f} % right, {100 * none:.0f} % of passes"
            " without a draft"
        )
    else:
        reason = "nothing measured here is near enough to a prediction to explain with"
    return timed(claim, evidence, implies, verdict, reason)


@lru_cache(maxsize=256)
def _acceptances(loop: str, ratio: float, target: float) -> tuple[float, ...]:
    """All acceptances at which a loop is `target` times as fast as `gated`, at a c(6)/c(1)."""
    return acceptance_where(loop, "gated", ROWS, ratio, target)
