"""Verdicts on what is counted, not timed: whether ids are the same, and which loops run a correction."""

from __future__ import annotations

from costmodel.claims import ROWS, Claim
from sim.loops import LOOPS
from sim.peers import PEERS
from sim.predict import walk
from sim.setting import Setting
from sim.trace import Text
from validate.claimed import Line, Verdict
from validate.evidence import Evidence

OWN_LOOPS = ("greedy", "gated", "fused", "fused-partial", "gated-held")
"""The loops of the study; all others of `LOOPS` are programs'."""
NAMES = {"same": "same ids", "tie": "left at a tie", "bug": "left by more"}


def parity(claim: Claim, evidence: Evidence) -> Line:
    """Same ids as greedy: counted over every guessing loop and prompt that wrote a text of its own."""
    verdicts = [w.parity for part in evidence.parts.values() if not part.fed for w in part.walks if w.loop != "greedy"]
    counts = {name: verdicts.count(kind) for kind, name in NAMES.items()}
    same, ties, bugs = counts.values()
    verdict: Verdict = "not reproduced" if bugs or not same else "explained" if ties else "reproduced"
    reason = f"{same} of {len(verdicts)} loops and prompts wrote greedy's ids"
    if ties:
        reason += (
            f"; {ties} left them where two tokens are nearer than what the width of a pass changes a logit by:"
            " llama.cpp's kernels for one and for several rows round differently, which no loop can help"
        )
    if bugs:
        reason += f"; {bugs} left them by more than that"
    return Line(
        claim,
        "every loop writes greedy's ids: the step rule takes only rows that are the text",
        "the same ids, exactly, in every replay",
        ", ".join(f"{n} {name}" for name, n in counts.items()),
        verdict,
        reason,
        counts=counts,
    )


def loops(claim: Claim, evidence: Evidence) -> Line:
    """Which programs' loops run a 1-row pass behind every right guess: counted on a text that repeats for ever."""
    n_tokens = 20 * ROWS * (ROWS + 1)
    counts = {loop: corrections(loop, n_tokens) for loop in LOOPS if loop != "greedy"}
    programs = [loop for loop in counts if loop not in OWN_LOOPS]
    paying = [loop for loop in programs if counts[loop]]
    now = [name for name, peer in PEERS.items() if counts[peer.loop]]
    verdict: Verdict = "reproduced" if not paying else "explained" if len(paying) < len(programs) else "not reproduced"
    reason = f"of the {len(PEERS)} programs here, {', '.join(now) or 'none'} pays it today"
    if paying:
        reason += f"; the programs' loops that do: {', '.join(paying)} (docs/loops.md says whose they are)"
    return Line(
        claim,
        "a loop that carries its bonus token into the next pass has no correction to delete",
        f"1-row passes behind guesses in {n_tokens} locked tokens: " + ", ".join(f"{k} {n}" for k, n in counts.items()),
        "not timed: counted by driving each loop",
        verdict,
        reason,
        counts=counts,
    )


def corrections(loop: str, n_tokens: int) -> int:
    """1-row passes right behind a guess that a loop runs over a text that repeats for ever, but for its last pass.

    >>> corrections("gated", 840), corrections("carry", 840)
    (119, 0)
    """
    text = Text(name="locked", n_prompt=24, tokens=tuple(i % 12 for i in range(24 + n_tokens)))
    return sum(record.kind == "correction" for record in walk(text, Setting(loop, ROWS))[:-1])
