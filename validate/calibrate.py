"""Pass costs in place: c(rows, cached length) and the price of a change of row count, measured in rounds.

Rounds (`validate.knots`) go on until every interval is narrow enough or the time is over. Those that were strewn among
timed runs are read back here.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from pathlib import Path
from time import monotonic

import msgspec
import numpy as np

from costmodel.drift import drift
from costmodel.profile import Profile
from costmodel.rounds import Round, table
from costmodel.table import Table
from sim.trace import Text, lines
from validate import environment
from validate.knots import Grid, Strewn, calibration_round, grid, knots
from validate.models import PADDING, model_hash
from validate.progress import Advance, quiet

MIN_ROUNDS, MAX_ROUNDS = 6, 100
HALF_WIDTH, LIMIT_SECONDS = 0.02, 55.0


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
    n_rounds: int = MAX_ROUNDS,
    half_width: float = HALF_WIDTH,
    limit_seconds: float | None = LIMIT_SECONDS,
    n_gpu_layers: int = 0,
    advance: Advance = quiet,
) -> Profile:
    """The profile of the model in a file, for the cached lengths of some texts, or up to `context` without any.

    Rounds go on until the 95 % interval of every cell is at most `half_width` to either side, or until there are
    `n_rounds`, or until the next would end behind `limit_seconds`; the profile says which when it is not the first.
    """
    from validate.llama import build, opened, padded

    begin = monotonic()
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
        cost, reached = None, False
        with knots(model, visit, tokens, n_ctx=n_ctx, n_threads=n_threads) as at:
            each = 0.0
            while len(rounds) < n_rounds and not reached:
                if limit_seconds is not None and rounds and monotonic() - begin + each > limit_seconds:
                    break
                advance(f"round {len(rounds) + 1} of at most {n_rounds}", len(rounds), n_rounds)
                started = monotonic()
                passes = calibration_round(at, tokens, visit, np.random.default_rng(len(rounds)), last_row=True)
                strewn = Strewn([passes], 0)
                strewn.finish()
                rounds += strewn.rounds
                each = monotonic() - started
                cost = table(visit.n_past, visit.n_rows, rounds, padding=PADDING)
                reached = len(rounds) >= min(MIN_ROUNDS, n_rounds) and widest(cost) <= half_width
        assert cost is not None
        advance("calibrated", n_rounds, n_rounds)
        return Profile(
            source="calibrated",
            model=path.name,
            model_hash=model_hash(path),
            n_threads=n_threads,
            n_ctx=n_ctx,
            cost=cost,
            rounds=tuple(rounds),
            environment=environment.describe() | {"llama": build(), "model": model.description},
            caveats=(
                *(moved.warnings() if (moved := drift(visit.n_rows, rounds)) else ()),
                *(() if reached else (_precision(cost, len(rounds), half_width),)),
            ),
        )


def widest(cost: Table) -> float:
    """The largest half-width of a table's intervals, as a share of its seconds; infinite without intervals."""
    if cost.low is None or cost.high is None:
        return inf
    return float(np.sqrt(np.array(cost.high) / np.array(cost.low)).max() - 1)


def _precision(cost: Table, n_rounds: int, asked: float) -> str:
    if n_rounds < 2:
        return "one calibration round has no intervals: give more --rounds or a longer --limit"
    return (
        f"after {n_rounds} calibration rounds the widest interval of a pass cost is +-{widest(cost):.1%}, not the"
        f" {asked:.1%} asked for: give more --rounds or a longer --limit"
    )
