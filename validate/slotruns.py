"""Timed runs of several sequences: what a session of `validate.slots` keeps, one line for each block and slot count.

The first line is the header of `validate.runs`. A line holds every pass's raw seconds and the calibration rounds that
were strewn among them, so that costs can be fitted again, and predictions made again, without the machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec

from costmodel.rounds import Round
from sim.trace import headed
from validate.comparison import Parity
from validate.knots import Grid
from validate.runs import Header

FORMAT, VERSION = "sweepcap-slots", 1


@dataclass(frozen=True, slots=True)
class SlotPass:
    """One pass over a row or more of every slot's sequence.

    n_past, n_rows, n_tokens   by slot: cached rows before it, rows fed, tokens that it yielded
    """

    seconds: float
    n_past: tuple[int, ...]
    n_rows: tuple[int, ...]
    n_tokens: tuple[int, ...]


class Served(msgspec.Struct, frozen=True, kw_only=True):
    """One request in a slot.

    n_known   tokens of the text that were known and, but for the last, cached when it began
    tokens    ids that it got
    first     the number of its first pass; `last` that of its last one, None when the run stopped before it ended
    parity    the verdict on ids that are not the recorded ones
    """

    slot: int
    text: str
    n_known: int
    tokens: tuple[int, ...]
    first: int
    last: int | None = None
    parity: Parity | None = None


class SlotRun(msgspec.Struct, frozen=True, kw_only=True):
    """One loop in so many slots over the texts of a workload; requests in the order in which they began."""

    place: int
    n_slots: int
    workload: str
    loop: str
    rows: int
    drafter: str
    wall_seconds: float
    requests: tuple[Served, ...]
    passes: tuple[SlotPass, ...]

    @property
    def seconds(self) -> float:
        """Seconds of all passes."""
        return sum(pass_.seconds for pass_ in self.passes)

    @property
    def n_tokens(self) -> int:
        """Tokens of all slots."""
        return sum(sum(pass_.n_tokens) for pass_ in self.passes)

    @property
    def throughput(self) -> float:
        """Tokens a second, all slots together."""
        return self.n_tokens / self.seconds

    @property
    def tpot(self) -> float:
        """Mean over the requests that ended of their seconds a token."""
        ended = [r for r in self.requests if r.last is not None]
        each = [sum(p.seconds for p in self.passes[r.first : (r.last or 0) + 1]) / len(r.tokens) for r in ended]
        return sum(each) / len(each)


class SlotBlock(msgspec.Struct, frozen=True, kw_only=True):
    """All runs of one block in so many slots, side by side, and the rounds strewn among their passes.

    visit   the grid of the rounds: sums of cached lengths, total rows
    noise   the most by which the company of the other slots changed a lead between two tokens (logits)
    """

    block: int
    n_slots: int
    visit: Grid
    rounds: tuple[Round, ...]
    runs: tuple[SlotRun, ...]
    noise: float = 0.0


def load(path: Path) -> tuple[Header, list[SlotBlock]]:
    """Header and blocks of a file; ValueError naming the line that is broken."""
    return headed(path, Header, SlotBlock, (FORMAT, VERSION), "a timed run of slots")
