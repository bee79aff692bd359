"""Pass costs in place: c(rows, cached length) and the price of a change of row count, measured in rounds.

A round visits every cached length from the longest to the shortest and every row count in random order, and feeds
each pass several times: the first follows a pass of other rows (llama.cpp rebuilds its graph), the others follow
their like. Rounds are short, so that they can stand between timed runs and see the same drift; a round is also the
unit of resampling. The cache is filled once a round and only cut from then on.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from costmodel.profile import Profile
from costmodel.rounds import Round, nested, table
from sim.machine import Pass
from sim.trace import Text, lines
from validate import environment
from validate.models import PADDING, model_hash
from validate.progress import Advance, quiet

if TYPE_CHECKING:  # reading rounds must not need llama.cpp
    from validate.llama import LlamaEngine


class Grid(msgspec.Struct, frozen=True, kw_only=True):
    """What a calibration visits: cached lengths (knots), both ascending, and row counts."""

    n_past: tuple[int, ...]
    n_rows: tuple[int, ...]


def grid(longest: int, max_rows: int, shortest: int = 1) -> Grid:
    """Knots near both ends of every block of the padded KV view that passes up to `longest` tokens can see.

    >>> grid(400, 6).n_past
    (1, 250, 256, 394)
    """
    knots: list[int] = []
    for begin in range(0, max(longest, 1), PADDING):
        first = max(begin, shortest)
        last = min(begin + PADDING, longest) - max_rows
        if last <= first:
            # A block only just entered: one knot in it tells its level.
            knots.extend([first] if first >= begin and first + max_rows <= begin + PADDING else [])
        else:
            knots.extend((first, last))
    return Grid(n_past=tuple(sorted(set(knots)) or (shortest,)), n_rows=tuple(range(1, max_rows + 1)))


def calibration_round(
    engine: LlamaEngine,
    tokens: Sequence[int],
    where: Grid,
    rng: np.random.Generator,
    *,
    repeat: int = 3,
    last_row: bool = False,
) -> Round:
    """One round over the grid, feeding the text `tokens` (as long as the longest knot and its rows)."""
    shape = (len(where.n_past), len(where.n_rows))
    same, changed, last = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    top = where.n_past[-1]
    engine(Pass(0, tuple(tokens[:top]), 1))
    for i in range(shape[0] - 1, -1, -1):
        past = where.n_past[i]
        for j in rng.permutation(shape[1]):
            n = where.n_rows[j]
            rows = tuple(tokens[past : past + n])
            seconds = [engine(Pass(past, rows, n))[1] for _ in range(repeat)]
            changed[i, j], same[i, j] = seconds[0], np.mean(seconds[1:])
            if last_row:
                last[i, j] = min(engine(Pass(past, rows, 1))[1] for _ in range(2))

    return Round(same=nested(same), changed=nested(changed), last_row=nested(last) if last_row else None)


class Measured(msgspec.Struct, frozen=True):
    """A calibration round's place in the design."""

    block: int
    prompt: str
    round: Round


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
    advance: Advance = quiet,
) -> Profile:
    """The profile of the model in a file, for the cached lengths of some texts, or up to `context` without any."""
    from validate.llama import build, opened

    with opened(
        path, lambda _: max((len(text.tokens) for text in texts), default=context) + max_rows, n_threads
    ) as engine:
        if texts:
            visit = where(texts, max(text.n_tokens for text in texts), max_rows)
            tokens = calibration_text(texts, engine.n_ctx)
        else:
            visit = grid(context, max_rows)
            # A dense model does the same work whatever the tokens are.
            tokens = tuple(i % engine.model.n_vocab for i in range(engine.n_ctx))
        rounds = []
        for i in range(n_rounds):
            advance(f"round {i + 1} of {n_rounds}", i, n_rounds)
            rounds.append(calibration_round(engine, tokens, visit, np.random.default_rng(i), last_row=True))
        advance("calibrated", n_rounds, n_rounds)
        return Profile(
            source="calibrated",
            model=path.name,
            model_hash=model_hash(path),
            n_threads=n_threads,
            n_ctx=engine.n_ctx,
            cost=table(visit.n_past, visit.n_rows, rounds, padding=PADDING),
            rounds=tuple(rounds),
            environment=environment.describe() | {"llama": build(), "model": engine.model.description},
        )
