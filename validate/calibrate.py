"""Pass costs in place: c(rows, cached length) and the price of a change of row count, measured in rounds.

A round visits every cell of the grid once, in random order, and feeds it twice: behind a pass of other rows (llama.cpp
builds its graph anew) and behind its like. Each cached length has a context of its own that is filled once, so the
cells of a round can be strewn among the passes of timed runs. They should be: what a wide pass costs in units of a
narrow one depends on the clock, on heat and on the neighbours (c(6)/c(1) was seen at 3.4 and 3.8 within minutes).
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from costmodel.profile import Profile
from costmodel.rounds import Round, nested, table
from sim.machine import Pass
from sim.penalties import NONE, Penalties
from sim.trace import Text, lines
from validate import environment
from validate.models import PADDING, model_hash
from validate.progress import Advance, quiet

if TYPE_CHECKING:  # reading rounds must not need llama.cpp
    from validate.llama import LlamaEngine, Model


MIN_SPAN = 32


class Grid(msgspec.Struct, frozen=True, kw_only=True):
    """What a calibration visits: cached lengths (knots), both ascending, and row counts."""

    n_past: tuple[int, ...]
    n_rows: tuple[int, ...]

    @property
    def n_cells(self) -> int:
        """How many cells a round visits."""
        return len(self.n_past) * len(self.n_rows)


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
    at: Sequence[Knot], tokens: Sequence[int], visit: Grid, rng: np.random.Generator, *, last_row: bool = False
) -> Generator[None, None, Round]:
    """One round over the grid in random order, a cell at a time: behind other rows, then behind its like.

    A generator, so that the cells can be strewn among other passes: it stops before each cell, and returns the round.
    """
    shape = (len(visit.n_past), len(visit.n_rows))
    same, changed, last = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    for cell in rng.permutation(same.size):
        yield
        i, j = divmod(int(cell), shape[1])
        knot, n = at[i], visit.n_rows[j]
        if knot.n_rows == n:
            other = visit.n_rows[j - 1]
            knot.feed(tokens, other, other)
        changed[i, j], same[i, j] = knot.feed(tokens, n, n), knot.feed(tokens, n, n)
        if last_row:
            knot.feed(tokens, n, 1)
            last[i, j] = knot.feed(tokens, n, 1)
    return Round(same=nested(same), changed=nested(changed), last_row=nested(last) if last_row else None)


class Strewn:
    """Rounds in progress, taken along by something else as far as that has come."""

    def __init__(self, rounds: Iterable[Generator[None, None, Round]], n_cells: int) -> None:
        self.rounds: list[Round] = []
        self._n_cells, self._n_begun = n_cells, 0
        self._cells = self._all(rounds)

    def _all(self, rounds: Iterable[Generator[None, None, Round]]) -> Iterator[None]:
        for cells in rounds:
            self.rounds.append((yield from cells))

    def until(self, share: float) -> None:
        """Visit cells until `share` of them are done."""
        while self._n_begun < share * self._n_cells:
            next(self._cells, None)
            self._n_begun += 1

    def finish(self) -> None:
        """Visit the cells that are left."""
        for _ in self._cells:
            pass


class Measured(msgspec.Struct, frozen=True):
    """Calibration rounds and their place in the design."""

    block: int
    prompt: str
    rounds: tuple[Round, ...]


def load_rounds(path: Path) -> list[Measured]:
    """The calibration rounds of a folder, none when there are none yet."""
    if not path.exists():
        return []
    try:
        return [msgspec.json.decode(line, type=Measured) for _, line in lines(path)]
    except msgspec.MsgspecError as error:
        raise ValueError(f"{path} is damaged: {error}; remove it and measure again") from error


def longest(texts: Sequence[Text], n_tokens: int, max_rows: int) -> int:
    """The cached length, and the rows on it, that the loops over some texts can reach."""
    return max(text.n_prompt for text in texts) + n_tokens + max_rows


def calibration_text(texts: Sequence[Text], length: int) -> tuple[int, ...]:
    """A text of at least `length` ids to calibrate on: the recorded ones, one after another."""
    joined = tuple(token for text in texts for token in text.tokens)
    return joined * (-(-length // len(joined)))


def where(texts: Sequence[Text], n_tokens: int, max_rows: int) -> Grid:
    """The calibration grid that covers the loops over some texts."""
    return grid(longest(texts, n_tokens, max_rows), max_rows, shortest=min(text.n_prompt for text in texts))


def calibrate(
    path: Path,
    texts: Sequence[Text],
    n_threads: int,
    *,
    context: int,
    max_rows: int,
    n_rounds: int,
    n_gpu_layers: int = 0,
    advance: Advance = quiet,
) -> Profile:
    """The profile of the model in a file, for the cached lengths of some texts, or up to `context` without any."""
    from validate.llama import build, opened, padded

    n_ctx = padded(max((len(text.tokens) for text in texts), default=context) + max_rows)
    with opened(path, n_threads, n_ctx=n_ctx, n_gpu_layers=n_gpu_layers) as model:
        if texts:
            visit = where(texts, max(text.n_tokens for text in texts), max_rows)
            tokens = calibration_text(texts, n_ctx)
        else:
            visit = grid(context, max_rows)
            # A dense model does the same work whatever the tokens are.
            tokens = tuple(i % model.n_vocab for i in range(n_ctx))
        rounds: list[Round] = []
        with knots(model, visit, tokens, n_ctx=n_ctx, n_threads=n_threads) as at:
            for i in range(n_rounds):
                advance(f"round {i + 1} of {n_rounds}", i, n_rounds)
                cells = calibration_round(at, tokens, visit, np.random.default_rng(i), last_row=True)
                strewn = Strewn([cells], visit.n_cells)
                strewn.finish()
                rounds += strewn.rounds
        advance("calibrated", n_rounds, n_rounds)
        return Profile(
            source="calibrated",
            model=path.name,
            model_hash=model_hash(path),
            n_threads=n_threads,
            n_ctx=n_ctx,
            cost=table(visit.n_past, visit.n_rows, rounds, padding=PADDING),
            rounds=tuple(rounds),
            environment=environment.describe() | {"llama": build(), "model": model.description},
        )
