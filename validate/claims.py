"""The preprint's numbers, one by one: what each implies, what the model predicts here, what is measured, a verdict.

    reproduced      measured here, on the shapes that it names, within its range
    explained       not so here, but the model that predicts what is measured here says under which pass cost, which
                    acceptance or which slow window it comes out, and that can be
    not reproduced  neither

A verdict follows from the evidence by rules (`validate.verdicts`, `validate.counted`); nothing is settled by hand.
"""

from __future__ import annotations

from collections.abc import Callable

from costmodel.claims import Claim, claims
from validate import counted, verdicts
from validate.claimed import Line
from validate.evidence import Evidence

KINDS: dict[str, Callable[[Claim, Evidence], Line]] = {
    "speedup": verdicts.speedup,
    "over-cap": verdicts.over_cap,
    "cap": verdicts.the_cap,
    "no-chain": verdicts.no_chain,
    "partial": verdicts.partial,
    "parity": counted.parity,
    "loops": counted.loops,
}


def judge(evidence: Evidence) -> list[Line]:
    """A line for every claim; ValueError when the default model's own text is not among the evidence."""
    if "text" not in evidence.parts:
        raise ValueError("the default model's real text is not measured yet: call sweepcap claims again")
    return [KINDS[claim.kind](claim, evidence) for claim in claims().values()]
