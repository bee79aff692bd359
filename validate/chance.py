"""How likely a measurement design shows a speedup that is not there, on a machine whose speed wanders.

The runs are those of the preprint's loops over a text like the recorded repetition, at a part's pass costs; the drift
was fitted to timed passes of this machine (`validate.driftfit`).
"""

from __future__ import annotations

from functools import lru_cache

from sim.designs import Seen, Timing, see
from sim.drift import parse
from validate.evidence import Evidence, Part

DESIGNS = {"pair": ("ABAB", 1), "aabb": ("AABB", 2)}
"""What a claim calls its design: one run of each loop in turn, or two of one and then two of the other."""
LOCKED = ("locked repetition", ("gated", 6))
N_REPETITIONS = 4000


def chance(shown: float, truth: float, design: str, evidence: Evidence, part: Part) -> Seen:
    """What a design sees of a true speedup; `p_above` is the share of measurements that show `shown` or more."""
    prompt, gated = LOCKED
    walk = part.walk(prompt, gated) or evidence.parts["text"].walk(prompt, gated)
    passes = walk.passes if walk else {6: 18, 1: 18}
    seconds = sum(times * part.seconds(n) for n, times in passes.items())
    timing = Timing(truth, seconds, sum(passes.values()), evidence.jitter)
    return _see(*DESIGNS[design], timing, evidence.drift, shown)


@lru_cache(maxsize=64)
def _see(design: str, n_pairs: int, timing: Timing, drift: str, shown: float) -> Seen:
    return see(design, n_pairs, timing, parse(drift), above=shown, n=N_REPETITIONS)
