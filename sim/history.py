"""What happened: one record for each pass of the device, and one for each request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from sim.run import Record

Outcome: TypeAlias = Literal["done", "cancelled", "open"]


class DevicePass(NamedTuple):
    """One pass: the rows of every sequence that was ready.

    at        seconds at which the device began it        n_rows    rows fed, of all sequences
    seconds   how long the device was busy with it        slots     the slot of each sequence, ascending
    drafting  seconds it waited for drafts before that    requests  the request of each, by number
    records   what the pass was for each; `seconds` of them is that of the whole pass
    """

    at: float
    seconds: float
    drafting: float
    n_rows: int
    slots: tuple[int, ...]
    requests: tuple[int, ...]
    records: tuple[Record, ...]


@dataclass(frozen=True, slots=True)
class Request:
    """One request; times are seconds from the start, None for what never came.

    number    in order of arrival                      n_prompt, n_asked   tokens given, and wanted at most
    slot      where it was served                      n_tokens            tokens it got
    arrived, started, first, ended                     n_passes, n_rows    passes it was in, and its rows in them
    outcome   `open`: still there at the end           n_wasted            rows that did not become cached text
    """

    number: int
    name: str
    outcome: Outcome
    slot: int | None
    arrived: float
    started: float | None
    first: float | None
    ended: float
    n_prompt: int
    n_asked: int
    n_tokens: int
    n_passes: int
    n_rows: int
    n_wasted: int

    @property
    def queue(self) -> float:
        """Seconds before it had a slot (or left without one)."""
        return (self.ended if self.started is None else self.started) - self.arrived

    @property
    def ttft(self) -> float | None:
        """Seconds from arrival to the first token."""
        return None if self.first is None else self.first - self.arrived

    @property
    def tpot(self) -> float | None:
        """Seconds a token behind the first; None below two tokens."""
        return None if self.first is None or self.n_tokens < 2 else (self.ended - self.first) / (self.n_tokens - 1)

    @property
    def latency(self) -> float:
        """Seconds from arrival to the end."""
        return self.ended - self.arrived


@dataclass(frozen=True, slots=True)
class History:
    """All passes in order, all requests by number; the first `warmup` and those behind the next `counted` do not count.

    The last counted request ends at `seconds`, and everything with it.
    """

    slots: int
    warmup: int
    n_counted: int
    seconds: float
    passes: tuple[DevicePass, ...]
    requests: tuple[Request, ...]

    @property
    def counted(self) -> tuple[Request, ...]:
        """The requests that count."""
        return self.requests[self.warmup : self.warmup + self.n_counted]

    @property
    def begins(self) -> float:
        """When counting begins: 0, or when the first counted request has a slot, or has left without one."""
        if not self.warmup:
            return 0.0
        first = self.requests[self.warmup]
        return first.ended if first.started is None else first.started
