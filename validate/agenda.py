"""What is timed, and what is timed next: the planned blocks, then what came out too wide or odd. Pure.

With a wanted half-width every prompt gets blocks until the intervals of all its cells are that narrow. Without one,
prompts with a block that was disturbed, or that disagrees with the others, are measured again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sim.setting import Setting
from sim.trace import Header, Text
from validate.blocks import bad_blocks, widest
from validate.runs import Run

MOST_BLOCKS = 60
N_AGAIN = 2


@dataclass(frozen=True, slots=True)
class Plan:
    """What is timed: settings in blocks over texts; equal plans can go on from each other.

    n_blocks    blocks that every prompt gets
    n_rounds    calibration rounds strewn among the passes of a prompt in a block
    twins       settings that also run on a second lane: a loop against itself is the noise floor
    half_width  more blocks until the 95 % interval of every cell reaches at most so far to either side

    Raises ValueError for a half-width that is not positive.
    """

    settings: tuple[Setting, ...]
    n_tokens: int
    n_blocks: int
    n_rounds: int = 4
    seed: int = 0
    twins: tuple[Setting, ...] = ()
    half_width: float | None = None

    def __post_init__(self) -> None:
        assert set(self.twins) <= set(self.settings)
        if self.half_width is not None and not 0 < self.half_width < 1:
            raise ValueError(f"--half-width is a share of the ratio, as 0.01 for 1 %, not {self.half_width}")

    @property
    def lanes(self) -> tuple[Setting, ...]:
        """Everything that runs side by side: the settings, and again those with a twin."""
        return (*self.settings, *self.twins)

    @property
    def max_rows(self) -> int:
        """The widest pass: all up to it are calibrated."""
        return max(setting.rows for setting in self.settings)

    def facts(self, header: Header, texts: Sequence[Text]) -> dict[str, Any]:
        """What a later call must agree with; the number of blocks may grow."""
        return {
            "settings": [str(setting) for setting in self.settings],
            "twins": [str(setting) for setting in self.twins],
            "n_tokens": self.n_tokens,
            "seed": self.seed,
            "prompts": [text.name for text in texts],
            "model_hash": header.model_hash,
        }


class Agenda:
    """The steps (block, place of the prompt) of a plan, given the runs that are there.

    A planned block is begun only when all of it fits the time limit, a further one when its prompt does; the first
    block always is. `reason` says why it ended early.
    """

    def __init__(
        self, plan: Plan, prompts: Sequence[str], runs: Sequence[Run], limit_seconds: float | None, begin: float
    ) -> None:
        self.plan, self.prompts, self.reason = plan, tuple(prompts), ""
        self._runs: dict[str, list[Run]] = {name: [] for name in prompts}
        for run in runs:
            self._runs[run.prompt].append(run)
        self._end = None if limit_seconds is None else begin + limit_seconds
        self._seconds: dict[str, float] = {}
        self._again: Counter[str] = Counter()
        self._wide: dict[str, tuple[int, float]] = {}
        self.n_done = sum(len(self._blocks(name)) for name in prompts)

    @property
    def n_steps(self) -> int:
        """How many steps there are, as far as is known now."""
        return max(self.plan.n_blocks * len(self.prompts), self.n_done + 1)

    def add(self, runs: Sequence[Run], seconds: float) -> None:
        """Take note of the runs of a step, and of what it took."""
        name = runs[0].prompt
        self._runs[name] += runs
        self._seconds[name] = seconds
        self.n_done += 1

    def next(self, now: float) -> tuple[int, int] | None:
        """The next step; None at the end, or where it would end behind the time limit."""
        if (step := next(self._planned(), None)) is not None:
            block, place = step
            left = [name for name in self.prompts if block not in self._blocks(name)]
            if place == 0 and block and not self._fits(now, left):
                self.reason = (
                    f"stopped after {block} of {self.plan.n_blocks} blocks: the next would not fit the time limit"
                )
                return None
            return step
        for name in self._further():
            if self._fits(now, [name]):
                if self.plan.half_width is None:
                    self._again[name] += 1
                return max(self._blocks(name), default=-1) + 1, self.prompts.index(name)
            self.reason = self._short()
            return None
        return None

    def _blocks(self, name: str) -> set[int]:
        return {run.block for run in self._runs[name]}

    def _fits(self, now: float, names: Sequence[str]) -> bool:
        if self._end is None:
            return True
        known = list(self._seconds.values())
        typical = max(known, default=0.0)
        return now + sum(self._seconds.get(name, typical) for name in names) <= self._end

    def _planned(self) -> Iterator[tuple[int, int]]:
        for block in range(self.plan.n_blocks):
            for place, name in enumerate(self.prompts):
                if block not in self._blocks(name):
                    yield block, place

    def _widest(self, name: str) -> float:
        n = len(self._blocks(name))
        if self._wide.get(name, (0, 0.0))[0] != n:
            self._wide[name] = n, widest(self._runs[name])
        return self._wide[name][1]

    def _further(self) -> list[str]:
        """The prompts that need another block, the one with the fewest first."""
        if self.plan.half_width is not None:
            wide = [name for name in self.prompts if self._widest(name) > self.plan.half_width]
            open_ = [name for name in wide if len(self._blocks(name)) < MOST_BLOCKS]
            return sorted(open_, key=lambda name: len(self._blocks(name)))
        return [
            name
            for name in self.prompts
            if self._again[name] < min(N_AGAIN, len(bad_blocks(self._runs[name])))
            and len(self._blocks(name)) < self.plan.n_blocks + N_AGAIN
        ]

    def _short(self) -> str:
        if self.plan.half_width is None:
            return "the time limit leaves no room to measure odd blocks again: the report lists them"
        wide = max(self._widest(name) for name in self.prompts)
        return (
            f"stopped at the time limit: the widest interval is +-{wide:.1%}, not the +-{self.plan.half_width:.1%}"
            " asked for; the same command goes on from here"
        )
