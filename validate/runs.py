"""Timed runs: one line a run in `runs.jsonl`, those of a prompt written before the next prompt is begun.

The first line says what must agree for runs to be compared: model, threads, context. Every pass keeps its raw seconds.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from sim.penalties import NONE, Penalties
from sim.run import Record
from sim.setting import DEFAULT_DRAFTER, Setting
from sim.trace import headed
from validate.comparison import Parity
from validate.watch import Seen

FORMAT, VERSION = "sweepcap-runs", 1


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """What all runs of a file share.

    n_tokens, n_blocks  what was asked for; `n_blocks` is the least number, with a wanted half-width
    noise   the most by which the pass width alone changed a lead between two tokens (logits)
    penalties, replays  as in the header of the texts
    plan    what a later call must agree with to go on: prompts, settings, tokens
    source  "measured" here, or "imported" from another engine's log; `notes` go with every number derived from it
    """

    model: str
    model_hash: str
    n_threads: int
    n_ctx: int
    n_tokens: int = 0
    n_blocks: int = 0
    noise: float = 0.0
    plan: dict[str, Any] = {}
    environment: dict[str, Any] = {}
    source: str = "measured"
    penalties: Penalties = NONE
    replays: bool = False
    notes: tuple[str, ...] = ()
    format: str = FORMAT
    version: int = VERSION


class Key(NamedTuple):
    """What tells the settings of runs apart; another engine's loop need not be one of `sim.loops`."""

    loop: str
    rows: int
    drafter: str

    def __str__(self) -> str:
        return f"{self.loop} R={self.rows}" + ("" if self.drafter == DEFAULT_DRAFTER else f" {self.drafter}")


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One timed run of one loop over one prompt.

    block, place    which block of the design, and which place in it
    prompt          the prompt's name; `loop`, `rows`, `drafter` the setting
    tokens          the generated ids, without the prompt
    wall_seconds    of the turns behind the prefill: the passes, and drafting and judging between them
    passes          one record a pass, the prefill first
    parity          the verdict on a text that differs from the recorded one
    twin            the second of two lanes of this setting in the block: its A/A comparison, and a run like the first
    machine         what was seen of the machine while the prompt's lanes ran
    """

    block: int
    place: int
    prompt: str
    loop: str
    rows: int
    drafter: str
    tokens: tuple[int, ...]
    wall_seconds: float
    passes: tuple[Record, ...]
    parity: Parity | None = None
    twin: bool = False
    machine: Seen | None = None

    @property
    def setting(self) -> Setting:
        """Loop, R and drafter."""
        return Setting(self.loop, self.rows, self.drafter)

    @property
    def key(self) -> Key:
        """Its setting."""
        return Key(self.loop, self.rows, self.drafter)

    @property
    def decode(self) -> tuple[Record, ...]:
        """The passes behind the prefill: what a speedup counts."""
        return tuple(record for record in self.passes if record.kind != "prefill")

    @property
    def seconds(self) -> float:
        """Seconds of all passes behind the prefill."""
        return sum(record.seconds for record in self.decode)

    @property
    def n_tokens(self) -> int:
        """Tokens that those passes yielded; the prefill's first token is not among them."""
        return sum(record.n_tokens for record in self.decode)


def load(path: Path) -> tuple[Header, list[Run]]:
    """Header and runs of a file; ValueError naming the line that is broken."""
    return headed(path, Header, Run, (FORMAT, VERSION), "a timed run")


def dumps(header: Header, runs: Iterable[Run]) -> bytes:
    """The file's bytes."""
    return b"".join(msgspec.json.encode(item) + b"\n" for item in (header, *runs))
