"""The answer in words: is it worth guessing on this machine, with which loop, and what does fusing add.

Speedups are `total_time` on each prompt; over several prompts their geometric mean is given and named, since
a ratio and its inverse then say the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from costmodel.caps import full_acceptance_speedup, sweep_cap
from costmodel.passcost import Table
from figures.text import apart, listed, percent, plain, times
from validate.comparison import Cell, Comparison

CLOSE = 0.01
"""Loops whose means are this near to the best one's are named with it."""

Key = tuple[str, int, str]


@dataclass(frozen=True, slots=True)
class Answer:
    """A headline, the sentence behind it, and how far to trust it."""

    headline: str
    sentence: str
    trust: str


@dataclass(frozen=True, slots=True)
class Standing:
    """One setting against one baseline over all its prompts."""

    key: Key
    cells: tuple[Cell, ...]

    @property
    def mean(self) -> float:
        """The geometric mean of the measured speedups."""
        return math.exp(sum(math.log(cell.measured) for cell in self.cells) / len(self.cells))

    @property
    def best(self) -> Cell:
        """The prompt it gains most on."""
        return max(self.cells, key=lambda cell: cell.measured)

    @property
    def least(self) -> Cell:
        """The prompt it gains least on."""
        return min(self.cells, key=lambda cell: cell.measured)


def standings(cells: Sequence[Cell], baseline: str) -> list[Standing]:
    """The settings measured against `baseline` on the most prompts, the fastest on average first."""
    groups: dict[Key, list[Cell]] = {}
    for cell in cells:
        if cell.baseline == baseline and cell.measured > 0:
            groups.setdefault((cell.loop, cell.rows, cell.drafter), []).append(cell)
    most = max(map(len, groups.values()), default=0)
    found = [Standing(key, tuple(group)) for key, group in groups.items() if len(group) == most]
    return sorted(found, key=lambda standing: -standing.mean)


def answer(comparison: Comparison, cost: Table | None = None, n_past: int = 0) -> Answer:
    """What a reader wants to know first; `cost` at the cached length `n_past` gives the cap on this curve."""
    over_greedy = standings(comparison.cells, "greedy")
    headline, advice = _worth(over_greedy)
    fused = next((s for s in standings(comparison.cells, "gated") if s.key[0] == "fused"), None)
    parts = [advice] if fused is None else [f"{_fusing(fused)}; {_caps(fused.key[1], cost, n_past)}.", advice]
    return Answer(headline, " ".join(part for part in parts if part), _trust(comparison))


def _worth(over_greedy: Sequence[Standing]) -> tuple[str, str]:
    """Whether to guess at all, as a headline and as a sentence."""
    if not over_greedy:
        return (
            "Nothing is compared yet",
            "No loop was measured against greedy, so there is no advice on guessing.",
        )
    best = over_greedy[0]
    loop, mean = plain(best.key[0], 40), times(best.mean)
    close = [plain(s.key[0], 40) for s in over_greedy[1:] if s.mean > best.mean * (1 - CLOSE)]
    close = [name for name in dict.fromkeys(close) if name != loop]
    gains = [cell for cell in best.cells if cell.low > 1]
    losses = [cell for cell in best.cells if cell.high < 1]
    average = f"{mean} greedy on average (geometric mean of {len(best.cells)} prompts)"
    if len(best.cells) == 1:
        average = f"{mean} greedy on {plain(best.best.prompt, 40)}, the only prompt"
    if not gains:
        return (
            "Do not speculate here",
            f"Guessing does not pay: the best loop, {loop}, runs at {average}.",
        )
    if losses or best.mean <= 1:
        pays, costs = _prompts(gains), _prompts(losses) if losses else "none"
        return (
            f"Speculate only where text repeats, with {loop}",
            f"Guessing pays on {pays} and costs time on {costs}: the best loop, {loop}, runs at {average}, "
            f"from {times(best.least.measured)} to {times(best.best.measured)}.",
        )
    near = f"; {listed(close)} {'comes' if len(close) == 1 else 'come'} within 1 % of it" if close else ""
    spread = f", from {times(best.least.measured)} to {times(best.best.measured)}" if len(best.cells) > 1 else ""
    even = len(best.cells) - len(gains)
    idle = f"; on {even} of the prompts it makes no clear difference" if even else ""
    return (
        f"Speculate here, with {loop}: {mean} greedy",
        f"The best loop, {loop}, runs at {average}{spread}{near}{idle}.",
    )


def _prompts(cells: Sequence[Cell]) -> str:
    names = list(apart((cell.prompt for cell in cells), 40).values())
    return listed(names) if len(names) <= 3 else f"{len(names)} prompts"


def _fusing(fused: Standing) -> str:
    best, least = fused.best, fused.least
    words = f"On this machine fused gains {times(best.measured)} over gated on {plain(best.prompt, 40)}"
    if len(fused.cells) > 1:
        words += f" and {times(least.measured)} on {plain(least.prompt, 40)}"
    return words


def _caps(n_rows: int, cost: Table | None, n_past: int) -> str:
    """The cap on a flat cost, and at full acceptance on this one."""
    cap = sweep_cap(n_rows)
    words = f"the cap is {cap.numerator}/{cap.denominator} = {times(float(cap))} where every pass costs one sweep"
    if cost is None or not {1, n_rows} <= set(cost.n_rows):
        return words
    ratio = cost.seconds(n_past, n_rows, n_rows) / cost.seconds(n_past, 1, 1)
    here = full_acceptance_speedup("fused", "gated", n_rows, ratio=ratio)
    share = Fraction(n_rows, n_rows + 1)
    return (
        f"{words}, and on this cost curve, with every draft right, "
        f"({share.numerator}/{share.denominator})(1 + c1/c{n_rows}) = {times(float(here))}"
    )


def _trust(comparison: Comparison) -> str:
    """Mean and worst error, whether the texts agree, and what the measuring itself cost."""
    cells = [cell for cell in comparison.cells if cell.measured > 0]
    if not cells:
        return "No cell has been measured."
    if comparison.source == "imported":
        unknown = "The passes come from another engine's log: whether all loops wrote one text is not known."
        return f"{_misses(cells)} {unknown}"
    bugs = sum(cell.parity.verdict == "bug" for cell in cells)
    ties = sum(cell.parity.verdict == "tie" for cell in cells)
    text = "Every loop wrote greedy's text."
    if ties or bugs:
        parts = [f"{ties} left it at a numerical tie"] if ties else []
        parts += [f"{bugs} left it by more than the numerical noise, which is a bug"] if bugs else []
        text = f"Of {len(cells)} cells, {' and '.join(parts)}."
        text = text.replace("left it", "left the baseline's text", 1)
    return (
        f"{_misses(cells)} {text} {100 * comparison.host_share:.2f} % of the timed loops was spent outside llama.cpp."
    )


def _misses(cells: Sequence[Cell]) -> str:
    """By how much predictions are off, on average and at worst."""
    errors = [(cell.error, cell) for cell in cells if cell.error is not None]
    if not errors:
        return "Nothing was predicted: no pass costs were given."
    error, worst = max(errors, key=lambda pair: abs(pair[0]))
    mean = sum(abs(error) for error, _ in errors) / len(errors)
    where = f"{plain(worst.loop, 40)} over {plain(worst.baseline, 40)} on {plain(worst.prompt, 40)}"
    return (
        f"Predictions miss by {percent(mean)} on average over {len(errors)} cells; "
        f"the worst is {percent(error, '+')}, {where}."
    )
