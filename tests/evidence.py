"""Evidence made up from theory: texts replayed at a price, measured as predicted unless a test says otherwise."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from costmodel.passcost import Table
from sim.predict import predict, walk
from sim.setting import Setting
from sim.trace import Text
from tests import small_run
from validate.claimed import LOCKED
from validate.evidence import PAIRS, Evidence, Part, Ratio, Walk
from validate.parts import SETTINGS

REGIMES = {LOCKED: "locked", "code edit": "mixed", "question": "free", "summary": "free", "story": "free"}


def cost(ratio: float, change: float = 0.0) -> Table:
    """Pass costs that are affine in the rows, with this c(6)/c(1)."""
    line = tuple(0.01 * (1 + (ratio - 1) * (n - 1) / 5) for n in range(1, 9))
    return Table(tuple(range(1, 9)), (0, 300), (line, line), change_seconds=0.01 * change, padding=None)


def part(ratio: float, measured: float = 1.0, half: float = 0.01, change: float = 0.0, **more: object) -> Part:
    """A part whose measured ratios are `measured` times the predicted ones, with intervals of `half` either way."""
    table = cost(ratio, change)
    texts = [
        Text(name=name, n_prompt=small_run.N_PROMPT, tokens=tuple(small_run.ids(regime)))
        for name, regime in REGIMES.items()
    ]
    seconds = {(t.name, s.loop, s.rows): predict(t, s, table).seconds_per_token for t in texts for s in SETTINGS}
    made = Part(
        model="made-up.gguf",
        n_threads=2,
        n_tokens=120,
        n_blocks=4,
        n_past=0,
        cost=table,
        ratios=tuple(
            _ratio(text.name, ours, theirs, seconds[text.name, *theirs] / seconds[text.name, *ours], measured, half)
            for text in texts
            for ours, theirs in PAIRS
        ),
        walks=tuple(_walk(text, setting) for text in texts for setting in SETTINGS),
        agreement={LOCKED: (1.0, 0.0), "code edit": (0.7, 0.2), "question": (0.0, 1.0), "summary": (0.0, 1.0)}
        | {"story": (0.0, 1.0)},
    )
    return msgspec.structs.replace(made, **more)


def evidence(parts: Mapping[str, Part], **more: object) -> Evidence:
    """Those parts, on a made-up machine."""
    return msgspec.structs.replace(Evidence(environment={"cpu": "Some CPU"}, parts=dict(parts)), **more)


def _ratio(
    prompt: str, ours: tuple[str, int], theirs: tuple[str, int], predicted: float, measured: float, half: float
) -> Ratio:
    value = measured * predicted
    return Ratio(
        prompt=prompt,
        loop=ours[0],
        rows=ours[1],
        baseline=theirs[0],
        baseline_rows=theirs[1],
        predicted=predicted,
        measured=value,
        low=value * (1 - half),
        high=value * (1 + half),
    )


def _walk(text: Text, setting: Setting) -> Walk:
    records = [record for record in walk(text, setting) if record.kind != "prefill"]
    counts = {n: sum(r.n_rows == n for r in records) for n in sorted({r.n_rows for r in records})}
    return Walk(
        prompt=text.name,
        loop=setting.loop,
        rows=setting.rows,
        passes=counts,
        n_chained=sum(r.kind == "chained" for r in records),
        n_corrections=sum(r.kind == "correction" for r in records),
        longest_chain=max(0, *(1 if r.guessed else 0 for r in records)),
    )
