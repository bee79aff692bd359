"""Rounds of passes that calibrate: a grid of cached lengths and row counts, a context for each cached length.

A round visits every cell of the grid, in random order, and feeds it twice: behind a pass of other rows (llama.cpp
builds its graph anew) and behind its like. Each cached length has a context of its own that is filled once, so the
passes of a round can be strewn among those of timed runs. They should be: what a wide pass costs in units of a narrow
one depends on the clock, on heat and on the neighbours (c(6)/c(1) was seen at 3.4 and 3.8 within minutes).
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import msgspec
import numpy as np

from costmodel.rounds import Round, nested
from sim.machine import Pass
from sim.penalties import NONE, Penalties
from validate.models import PADDING

if TYPE_CHECKING:  # reading rounds must not need llama.cpp
    from validate.llama import LlamaEngine, Model

MIN_SPAN = 32


class Grid(msgspec.Struct, frozen=True, kw_only=True):
    """What a calibration visits: cached lengths (knots), both ascending, and row counts."""

    n_past: tuple[int, ...]
    n_rows: tuple[int, ...]

    @property
    def n_passes(self) -> int:
        """How many passes a round has: each cell behind other rows, and behind its like."""
        return 2 * len(self.n_past) * len(self.n_rows)


def grid(longest: int, max_rows: int, shortest: int = 1) -> Grid:
    """Knots near both ends of every block of the padded KV view that passes up to `longest` tokens can see.

    >>> grid(400, 6).n_past
    (1, 250, 256, 394)
    """
    knots: list[int] = []
    for begin in range(0, max(longest, 1), PADDING):
        first = max(begin, shortest)
        last = min(begin + PADDING, longest) - max_rows
        if last < first + MIN_SPAN:
            # A block hardly entered: one knot tells its level, a slope could not be told from noise.
            knots.extend([first] if first + max_rows <= begin + PADDING else [])
        else:
            knots.extend((first, last))
    return Grid(n_past=tuple(sorted(set(knots)) or (shortest,)), n_rows=tuple(range(1, max_rows + 1)))


class Feeds(Protocol):
    """What stands at one cached length and can be fed passes of any rows; `n_rows` are those of the last one."""

    n_rows: int

    def feed(self, tokens: Sequence[int], n_rows: int, n_out: int) -> float:
        """Seconds of a pass of `n_rows` rows on the cached ones."""
        ...


@dataclass(slots=True)
class Knot:
    """A context whose cache holds a text up to one cached length, and the row count of the pass it fed last."""

    engine: LlamaEngine
    past: int
    n_rows: int

    def feed(self, tokens: Sequence[int], n_rows: int, n_out: int) -> float:
        """Seconds of a pass of `n_rows` rows of the text on the cached ones."""
        self.n_rows = n_rows
        return self.engine(Pass(self.past, tuple(tokens[self.past : self.past + n_rows]), n_out))[1]


@contextmanager
def knots(
    model: Model,
    visit: Grid,
    tokens: Sequence[int],
    *,
    n_ctx: int,
    n_threads: int,
    penalties: Penalties = NONE,
) -> Iterator[list[Knot]]:
    """A context for each cached length of the grid, filled once; every width is fed once, which does not count."""
    from validate.llama import LlamaEngine

    with ExitStack() as stack:
        made = []
        for past in visit.n_past:
            engine = stack.enter_context(LlamaEngine(model, n_ctx=n_ctx, n_threads=n_threads, penalties=penalties))
            engine(Pass(0, tuple(tokens[:past]), 1))
            knot = Knot(engine, past, 0)
            for n in visit.n_rows:
                knot.feed(tokens, n, n)
            made.append(knot)
        yield made


def calibration_round(
    at: Sequence[Feeds], tokens: Sequence[int], visit: Grid, rng: np.random.Generator, *, last_row: bool = False
) -> Generator[None, None, Round]:
    """One round over the grid, a pass at a time: each row count at all knots behind other rows, then behind its like.

    Row counts and knots come in random order. Between a knot's passes come those of the other knots, as other lanes'
    passes come between those of a timed run. A generator, so that the passes can be strewn among others: it stops
    before each, and returns the round. With `last_row` it also times passes with only the last row's logits.
    """
    shape = (len(visit.n_past), len(visit.n_rows))
    same, changed, last = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    for j in rng.permutation(shape[1]):
        n = visit.n_rows[j]
        for timed, n_out in ((changed, n), (same, n), *([(last, 1)] if last_row else [])):
            for i in rng.permutation(shape[0]):
                yield
                if timed is changed and at[i].n_rows == n:
                    other = visit.n_rows[j - 1]
                    at[i].feed(tokens, other, other)
                timed[i, j] = at[i].feed(tokens, n, n_out)
    return Round(same=nested(same), changed=nested(changed), last_row=nested(last) if last_row else None)


class Strewn:
    """Rounds in progress, `n_passes` in all, taken along by something else as far as that has come."""

    def __init__(self, rounds: Iterable[Generator[None, None, Round]], n_passes: int) -> None:
        self.rounds: list[Round] = []
        self._n_passes, self._n_begun = n_passes, 0
        self._passes = self._all(rounds)

    def _all(self, rounds: Iterable[Generator[None, None, Round]]) -> Iterator[None]:
        for passes in rounds:
            self.rounds.append((yield from passes))

    def until(self, share: float) -> None:
        """Feed passes until `share` of them are done."""
        while self._n_begun < share * self._n_passes:
            next(self._passes, None)
            self._n_begun += 1

    def finish(self) -> None:
        """Feed the passes that are left."""
        for _ in self._passes:
            pass
