"""The prediction: a recorded text answers, a pass cost prices.

    seconds = sum over the loop's passes of c(n_past, n_rows, n_out; rows of the pass before)

Its only error is that of the cost, because the passes of a loop over its own text are exact. The prefill is the same
for all loops, so it is left out: seconds and tokens are those behind it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from costmodel.fitlaw import Seen
from costmodel.passcost import PassCost
from sim.answers import recorded
from sim.machine import Pass, State
from sim.run import Record, run
from sim.setting import Setting, is_pure
from sim.trace import Text

LONG = 200_000
"""Tokens from which the compiled walk is quicker, the time to load it included."""


def walk(text: Text, setting: Setting, n_tokens: int | None = None, *, replays: bool = False) -> list[Record]:
    """The passes that a setting takes over a recorded text, the prefill first; they cost nothing yet.

    Drafts are cut to the `n_tokens` asked for. Without them: to the text's end, unless a stop token ended it early.
    With `replays` as on memory that cannot be cut back.
    """
    if n_tokens is None and text.n_tokens > LONG and is_pure(setting.drafter):
        from sim.replay import drafts, passes

        return passes(drafts(text, setting.drafter), setting.loop, setting.rows, recurrent=replays)
    answers = recorded(text.tokens)

    def engine(pass_: Pass) -> tuple[Sequence[int], float]:
        return answers(pass_), 0.0

    if n_tokens is None:
        n_tokens = text.n_tokens + setting.rows * text.stopped
    start = State.start(text.tokens[: text.n_prompt], n_tokens, text.stop)
    return run(setting.make(replays=replays), start, engine)[1]


def price(records: Sequence[Record], cost: PassCost) -> NDArray[np.float64]:
    """Seconds of each pass behind the prefill of one run.

    Raises ValueError when the cost does not cover a pass.
    """
    decode = [i for i, record in enumerate(records) if record.kind != "prefill"]
    if not decode:
        return np.zeros(0)
    n_past, n_rows, n_out, before = np.array(
        [
            (
                records[i].n_past,
                records[i].n_rows,
                records[i].n_out,
                records[i - 1].n_rows if i else records[i].n_rows,
            )
            for i in decode
        ]
    ).T
    seconds: NDArray[np.float64] = cost.seconds(n_past, n_rows, n_out, before)
    return seconds


@dataclass(frozen=True, slots=True)
class Prediction:
    """The priced passes behind the prefill that a setting takes over a text."""

    setting: Setting
    text: str
    records: tuple[Record, ...]

    @property
    def seconds(self) -> float:
        """Seconds of all passes."""
        return sum(record.seconds for record in self.records)

    @property
    def n_tokens(self) -> int:
        """Tokens behind the prefill's first."""
        return sum(record.n_tokens for record in self.records)

    @property
    def n_rows(self) -> int:
        """Rows fed."""
        return sum(record.n_rows for record in self.records)

    @property
    def seconds_per_token(self) -> float:
        """Mean seconds a token; 0 when the prefill's token was all."""
        return self.seconds / self.n_tokens if self.n_tokens else 0.0

    @property
    def acceptance(self) -> float | None:
        """Share of guessed rows that were right; None when nothing was ever drafted."""
        guessed = sum(record.guessed for record in self.records)
        return sum(record.accepted for record in self.records) / guessed if guessed else None


def predict(text: Text, setting: Setting, cost: PassCost, *, replays: bool = False) -> Prediction:
    """What `setting` takes over `text` at `cost`.

    Raises ValueError when the cost does not cover a pass.
    """
    records = walk(text, setting, replays=replays)
    seconds = price(records, cost)
    decode = (record for record in records if record.kind != "prefill")
    priced = tuple(replace(record, seconds=float(s)) for record, s in zip(decode, seconds, strict=True))
    return Prediction(setting, text.name, priced)


def speedup(baseline: Prediction, other: Prediction) -> float:
    """`total_time` speedup of `other` over `baseline`: seconds for the same tokens; 1 when no token was left to do."""
    return baseline.seconds_per_token / other.seconds_per_token if other.seconds else 1.0


@dataclass(frozen=True, slots=True)
class Line:
    """A prediction in numbers, with its speedups over the baselines of the same text; None where there is none."""

    prompt: str
    loop: str
    rows: int
    drafter: str
    n_passes: int
    n_rows: int
    n_tokens: int
    tokens_per_pass: float | None
    acceptance: float | None
    seconds: float
    over_greedy: float | None
    over_gated: float | None


def predictions(
    texts: Sequence[Text], settings: Sequence[Setting], cost: PassCost, *, replays: bool = False
) -> list[Line]:
    """A line for each text and setting; baselines are `greedy`, and `gated` with the same R and drafter."""
    made = {(text.name, s): predict(text, s, cost, replays=replays) for text in texts for s in settings}

    def over(baseline: str, name: str, other: Setting) -> float | None:
        for (text, s), base in made.items():
            if text == name and s.loop == baseline and (baseline == "greedy" or s == replace(other, loop=baseline)):
                return speedup(base, made[name, other])
        return None

    return [
        Line(
            prompt=name,
            loop=s.loop,
            rows=s.rows,
            drafter=s.drafter,
            n_passes=len(p.records),
            n_rows=p.n_rows,
            n_tokens=p.n_tokens,
            tokens_per_pass=p.n_tokens / len(p.records) if p.records else None,
            acceptance=p.acceptance,
            seconds=p.seconds,
            over_greedy=over("greedy", name, s),
            over_gated=over("gated", name, s) if s.loop != "greedy" else None,
        )
        for (name, s), p in made.items()
    ]


def drafts_of(texts: Sequence[Text], setting: Setting) -> tuple[list[Seen], float]:
    """What the drafts of a setting came to over some texts, for `costmodel.fitlaw`: agreements, and the share without.

    A draft is looked at up to its first wrong token, as a verify pass does. Raises ValueError when nothing was drafted.
    """
    decode = [record for text in texts for record in walk(text, setting) if record.kind != "prefill"]
    counts = Counter((record.accepted, record.guessed) for record in decode if record.guessed)
    if not counts:
        raise ValueError(f"{setting} drafted nothing over these texts: there is no acceptance to fit")
    seen = [Seen((1,) * right + (0,) * (right < guessed), times) for (right, guessed), times in sorted(counts.items())]
    return seen, 1 - sum(counts.values()) / len(decode)
