"""Did a loop write the baseline's text, and if not, was it a tie or a bug?

1-row and m-row kernels are not bit-identical, so two loops may part where two tokens are nearly equally likely. A
difference is a *tie* when the baseline's lead there is no larger than what the pass width alone was seen to change a
lead by, for this model; anything larger is a *bug*.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sim.machine import Pass
from sim.run import Record
from sim.trace import Text
from validate.comparison import Parity
from validate.llama import LlamaEngine


def first_difference(a: Sequence[int], b: Sequence[int]) -> int | None:
    """The first index at which two texts differ; a shorter text differs where it ends; None when they are the same.

    >>> first_difference([1, 2, 3], [1, 5, 3]), first_difference([1], [1, 2]), first_difference([1], [1])
    (1, 1, None)
    """
    for i, (x, y) in enumerate(zip(a, b, strict=False)):
        if x != y:
            return i
    return None if len(a) == len(b) else min(len(a), len(b))


def margin_noise(
    engine: LlamaEngine, text: Text, max_rows: int, n_places: int = 4, *, widths: Sequence[int] = ()
) -> float:
    """The most by which the pass width changed a lead between two tokens, over some places of a text (logits).

    A row's logits in a pass of one row against the same row in passes of 2..max_rows rows, or of these `widths`: the
    largest change of any difference of two logits is the spread (maximum minus minimum) of the change.
    """
    noise, cached = 0.0, 0
    last = len(text.tokens) - max_rows
    for place in sorted({*np.linspace(min(text.n_prompt, last), last, n_places, dtype=int).tolist()}):
        if place < 1:
            continue
        if place > cached:
            engine(Pass(cached, text.tokens[cached:place], 1))
        alone = [engine.logits(Pass(place + i, text.tokens[place + i : place + i + 1], 1))[0] for i in range(max_rows)]
        for width in widths or range(2, max_rows + 1):
            change = engine.logits(Pass(place, text.tokens[place : place + width], width)) - np.array(alone[:width])
            noise = max(noise, float(np.ptp(change, axis=1).max()))
        cached = place + max_rows
    return noise


def triage(
    engine: LlamaEngine, text: Text, other: Sequence[int], noise: float, passes: Sequence[Record] = ()
) -> Parity:
    """The verdict on the ids that a loop generated behind the prompt of a recorded text in some `passes`.

    The recorded text was decoded one row a pass, so its lead is that of a 1-row pass; the loop's is taken in the pass
    that produced its token, fed again. Both texts are the same up to there.
    """
    recorded = text.tokens[text.n_prompt :]
    place = first_difference(recorded, other)
    if place is None:
        return Parity(same=True, noise=noise)
    if place >= min(len(recorded), len(other)):
        return Parity(same=False, first_difference=place, noise=noise, verdict="bug")
    mine, theirs = recorded[place], other[place]
    known = text.tokens[: text.n_prompt + place]
    if len(known) > 1:
        engine(Pass(0, known[:-1], 1))
    logits = engine.logits(Pass(len(known) - 1, known[-1:], 1))[0]
    margin = float(logits[mine] - logits[theirs])
    width, own_margin = 1, -margin
    if record := _producer(passes, text.n_prompt, len(known)):
        # Rows behind the last known one were guesses that cannot change its logits; any token stands for them.
        rows = (*known, *[mine] * record.n_rows)[record.n_past : record.n_past + record.n_rows]
        if record.n_past:
            engine(Pass(0, known[: record.n_past], 1))
        at = len(known) - 1 - record.n_past
        wide = engine.logits(Pass(record.n_past, rows, record.n_rows))[at]
        width, own_margin = record.n_rows, float(wide[theirs] - wide[mine])
    return Parity(
        same=False,
        first_difference=place,
        tokens=(engine.model.text([mine]), engine.model.text([theirs])),
        widths=(1, width),
        margin=margin,
        own_margin=own_margin,
        noise=noise,
        verdict="tie" if margin <= noise else "bug",
    )


def _producer(passes: Sequence[Record], n_prompt: int, n_known: int) -> Record | None:
    """The pass that told the token behind the first `n_known`, prompt included."""
    length = n_prompt
    for record in passes:
        length += record.n_tokens
        if length > n_known:
            return record
    return None
