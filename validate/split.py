"""Where a prediction's error comes from: the kinds of passes that took longer, or shorter, than they were priced.

With the machine's speed taken from `greedy` (a = its measured over its priced seconds), a loop's predicted speedup over
greedy errs by

    log(predicted / measured) = log(sum over kinds of measured seconds / (a times the priced seconds))

and each kind's share is what it adds to that sum.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from math import log

import msgspec

from costmodel.passcost import PassCost
from sim.predict import price, walk
from sim.setting import Setting
from sim.trace import Text
from validate.compare import own_text
from validate.runs import Run


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """What one kind of passes adds to log(predicted / measured) of a loop's speedup over greedy."""

    loop: str
    rows: int
    kind: str
    error: float


def split(texts: Sequence[Text], runs: Sequence[Run], cost: PassCost) -> list[Share]:
    """The error shares of every guessing setting, over all its prompts and blocks; empty without `greedy`."""
    by_name = {text.name: text for text in texts}
    measured: dict[tuple[str, int], dict[str, float]] = defaultdict(lambda: defaultdict(float))
    priced: dict[tuple[str, int], dict[str, float]] = defaultdict(lambda: defaultdict(float))
    known: dict[tuple[str, str, int], dict[str, float]] = {}
    for run in runs:
        key = (run.loop, run.rows)
        if (run.prompt, *key) not in known:
            known[run.prompt, *key] = _priced(run, by_name[run.prompt], cost)
        for kind, seconds in known[run.prompt, *key].items():
            priced[key][kind] += seconds
        for record in run.decode:
            measured[key][record.kind] += record.seconds
    base = next((key for key in measured if key[0] == "greedy"), None)
    if base is None:
        return []
    speed = sum(measured[base].values()) / sum(priced[base].values())
    shares = []
    for loop, rows in measured:
        if loop == "greedy":
            continue
        ours, theirs = measured[loop, rows], priced[loop, rows]
        total = speed * sum(theirs.values())
        whole = sum(ours.values()) / total - 1
        scale = log(1 + whole) / whole if whole else 1.0
        for kind in sorted(ours.keys() | theirs.keys()):
            error = scale * (ours.get(kind, 0.0) - speed * theirs.get(kind, 0.0)) / total
            shares.append(Share(loop=loop, rows=rows, kind=kind, error=error))
    return shares


def _priced(run: Run, text: Text, cost: PassCost) -> dict[str, float]:
    records = walk(own_text(run, text), Setting(run.loop, run.rows, run.drafter))
    decode = [record for record in records if record.kind != "prefill"]
    seconds: dict[str, float] = defaultdict(float)
    for record, s in zip(decode, price(records, cost), strict=True):
        seconds[record.kind] += float(s)
    return seconds
