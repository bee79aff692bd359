"""The walk of `run(loop, state, recorded text)`, compiled: how many passes of which kind, and their seconds.

    index    all drafts of a drafter over a text       once for every loop and R        sim.index
    walk     the passes of a loop over the index       once for every price             sim.walk
    price    seconds of the counted passes             for any number of costs at once

Passes are counted by kind, rows, rows of the pass before, and bin of the cached length; each count is priced at
its mean cached length to the nearest token: exact for bins of one token, within half a cached token's price for
larger ones, which end where the blocks of a padded KV view do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from costmodel.passcost import PassCost
from sim.compiled import is_ready
from sim.index import LONGEST, find_places, index, judge_places
from sim.loops import LOOPS, Clip, Prompt, alone, before_goal, before_stop, last_apart, together, uncut, useful
from sim.run import Kind, Record
from sim.setting import Setting, is_pure, make_drafter
from sim.trace import Text
from sim.walk import KINDS, LOOP_WORDS, REPLAY, Index, Ints, Rules, Sums, count_passes, list_passes

BIN = 64
FIRST_USE = "compiling the replay for this machine: about a quarter of a minute, this once"

CLIPS: dict[Clip, tuple[bool, bool]] = {
    useful: (True, True),
    before_goal: (True, False),
    before_stop: (False, True),
    uncut: (False, False),
}
PROMPTS: dict[Prompt, int] = {alone: 0, together: 1, last_apart: 2}


@dataclass(frozen=True, slots=True)
class Counts:
    """The passes of a run behind its prefill, those alike counted together; arrays of one length.

    kind    place in `KINDS`            n_rows_before   rows of the pass before
    n_past  cached length, the mean     count           how many of them
    n_rows  rows fed                    sums            totals
    """

    kind: Ints
    n_past: Ints
    n_rows: Ints
    n_rows_before: Ints
    count: Ints
    sums: Sums

    @property
    def n_out(self) -> Ints:
        """Rows whose logits are asked for: all, but the last alone where right rows are fed again."""
        return np.where(self.kind == REPLAY, np.int32(1), self.n_rows)

    def seconds(self, cost: PassCost) -> float:
        """Seconds of all passes; ValueError when the cost does not cover one."""
        return float(price([self], cost)[0])


def ready() -> bool:
    """Whether the compiled code is there, so that the next call does not wait for it."""
    return is_ready(count_passes, find_places, judge_places)


def warm_up() -> None:
    """Compile all that a sweep needs, or load it, so that several processes do not all compile."""
    from costmodel.passcost import Flat
    from sim.bounds import oracle

    for stop in ((), (2,)):
        small = drafts(Text(name="", n_prompt=2, tokens=(0, 1, 0, 1, 2), stop=stop), "ngram")
        replay(small, "carry", 2)
        oracle(small, Flat(1.0), [2])


def drafts(text: Text, drafter: str) -> Index:
    """The index of a recorded text for a drafter in words; ValueError when its drafts depend on the loop."""
    if not is_pure(drafter):
        raise ValueError(f"{drafter} learns from what became of its drafts, so each loop has drafts of its own")
    made = index(text.tokens, text.n_prompt, make_drafter(drafter), stops=text.stop)
    # More was asked for than a stop token left: no draft is cut to this length.
    return made._replace(goal=made.goal + LONGEST) if text.stopped else made


def replay(
    index: Index,
    loop: str,
    n_rows: int,
    *,
    clip: Clip = useful,
    prompt: Prompt = alone,
    recurrent: bool = False,
    bin_tokens: int = BIN,
) -> Counts:
    """The counted passes of a loop over an indexed text; `recurrent`: on memory that cannot be cut.

    Raises ValueError for an unknown loop, too few rows, an empty bin, and where the drafter refuses the text.
    """
    if bin_tokens < 1:
        raise ValueError(f"a bin holds at least 1 token, not {bin_tokens}")
    lines, sums = count_passes(index, _rules(loop, n_rows, clip, prompt, recurrent), bin_tokens)
    if sums.guessed < 0:
        raise ValueError("the drafter refuses a text as short as this prompt")
    kind, rows, before, count, past = lines.T
    return Counts(kind, past, rows, before, count, sums)


def passes(
    index: Index,
    loop: str,
    n_rows: int,
    *,
    clip: Clip = useful,
    prompt: Prompt = alone,
    recurrent: bool = False,
) -> list[Record]:
    """The same walk pass by pass, the prefill first, as `run` records it; passes cost nothing yet."""
    lines = list_passes(index, _rules(loop, n_rows, clip, prompt, recurrent))
    if len(lines) and lines[-1, 4] < 0:
        raise ValueError("the drafter refuses a text as short as this prompt")
    return [Record(KINDS[k], past, rows, out, g, a, n, 0.0) for k, past, rows, out, g, a, n in lines.tolist()]


def _rules(loop: str, n_rows: int, clip: Clip, prompt: Prompt, recurrent: bool) -> Rules:
    if loop not in LOOP_WORDS:
        raise ValueError(f"unknown loop {loop!r}: the loops are {', '.join(LOOPS)}")
    LOOPS[loop](lambda _: (), n_rows)  # refuses too few rows
    return Rules(*LOOP_WORDS[loop], n_rows, *CLIPS[clip], PROMPTS[prompt], recurrent)


def counted(records: Sequence[Record], bin_tokens: int = BIN) -> Counts:
    """The same counts from records of the Python machine."""
    cells: dict[tuple[int, Kind, int, int], list[int]] = {}
    totals = [0, 0, 0, 0, 0, 0]
    for before, record in pairwise(records):
        if record.kind == "prefill":
            continue
        place = (record.n_past + record.n_rows - 1) // bin_tokens
        cells.setdefault((place, record.kind, record.n_rows, before.n_rows), []).append(record.n_past)
        numbers = (1, record.n_rows, record.n_tokens, record.guessed, record.accepted, int(record.guessed > 0))
        totals = [total + number for total, number in zip(totals, numbers, strict=True)]
    lines = np.array(
        [
            (KINDS.index(kind), (sum(pasts) + len(pasts) // 2) // len(pasts), rows, before, len(pasts))
            for (_, kind, rows, before), pasts in cells.items()
        ],
        dtype=np.int32,
    ).reshape(-1, 5)
    kinds, pasts_, rows_, befores, counts = lines.T
    return Counts(kinds, pasts_, rows_, befores, counts, Sums(*totals))


def setting_counts(text: Text, setting: Setting, bin_tokens: int = BIN, *, recurrent: bool = False) -> Counts:
    """The counts of one setting over one text, by the compiled walk if its drafter is pure."""
    if is_pure(setting.drafter):
        made = drafts(text, setting.drafter)
        return replay(made, setting.loop, setting.rows, recurrent=recurrent, bin_tokens=bin_tokens)
    from sim.predict import walk

    return counted(walk(text, setting, replays=recurrent), bin_tokens)


def price(counts: Sequence[Counts], cost: PassCost) -> NDArray[np.float64]:
    """Seconds of each run at a cost, all passes priced in one call; ValueError when the cost does not cover one."""
    if not any(len(c.count) for c in counts):
        return np.zeros(len(counts))
    n_past, n_rows, n_out, before, count = (
        np.concatenate([getattr(c, name) for c in counts])
        for name in ("n_past", "n_rows", "n_out", "n_rows_before", "count")
    )
    owner = np.repeat(np.arange(len(counts)), [len(c.count) for c in counts])
    seconds = cost.seconds(n_past, n_rows, n_out, before) * count
    sums: NDArray[np.float64] = np.bincount(owner, weights=seconds, minlength=len(counts)).astype(np.float64)
    return sums
