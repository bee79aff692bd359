"""What an accuracy run can measure in the time it is given: the fullest design that fits, as predicted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import sqrt

import msgspec

from costmodel.passcost import Table
from sim.predict import predict
from sim.setting import Setting
from sim.trace import Text
from validate.agenda import Plan
from validate.calibrate import where

GIVEN = "as it is"
VARIANTS = (GIVEN, "Q8_0", "Q4_0", "BF16", "F32")
N_ROUNDS, SLACK, VISIT_SECONDS, VISIT_SHARE = 3, 1.15, 6.0, 0.14
"""Calibration rounds a prompt and block; what estimates are stretched by; what a visit costs before anything is timed:
seconds, and the share of a block that contexts, warm-up and the noise of widths take."""
SCATTER = 0.016
"""Standard deviation of the log seconds of a run beside others, as seen on 2 cores."""


class Design(msgspec.Struct, frozen=True, kw_only=True):
    """What is measured: R, blocks, variants, and how many settings have a twin.

    seconds     what a block of each variant should take
    """

    rows: tuple[int, ...]
    n_blocks: int
    variants: tuple[str, ...] = VARIANTS
    n_twins: int = 1
    seconds: dict[str, float] = {}

    def settings(self, loops: Sequence[str]) -> tuple[Setting, ...]:
        """Greedy once, and every other loop at each R."""
        others = (Setting(loop, n) for n in self.rows for loop in loops if loop != "greedy")
        return (Setting("greedy", self.rows[0]), *others)

    def plan(self, loops: Sequence[str], n_tokens: int, n_blocks: int, half_width: float | None = None) -> Plan:
        """The plan of one variant up to some blocks."""
        settings = self.settings(loops)
        # Greedy and the last loop at the last R: the narrowest and the widest passes.
        twins = (settings[0], settings[-1])[: self.n_twins]
        return Plan(settings, n_tokens, n_blocks, N_ROUNDS, twins=twins, half_width=half_width)

    def left(self, done: Mapping[str, int]) -> float:
        """Seconds that the blocks should take which are not yet done, contexts and warm-up of two visits with them."""
        blocks = {variant: max(0, self.n_blocks - done.get(variant, 0)) for variant in self.variants}
        return sum(n * self.seconds[variant] + 2 * self.visit(variant) * (n > 0) for variant, n in blocks.items())

    def share(self, variant: str, n_blocks: int, done: Mapping[str, int], left: float) -> float:
        """Of the seconds `left`, those for a visit that brings a variant to some blocks.

        What its own blocks take, and more only where the blocks to come leave more: odd blocks are measured again then.
        """
        there = done.get(variant, 0)
        own = self.visit(variant) + max(0, n_blocks - there) * self.seconds[variant]
        return min(left, max(own, left - self.left({**done, variant: max(n_blocks, there)})))

    def visit(self, variant: str) -> float:
        """Seconds that a visit to a variant takes before anything is timed."""
        return VISIT_SECONDS + VISIT_SHARE * self.seconds[variant]

    @property
    def half_width(self) -> float:
        """What a 95 % interval should come to on a machine whose runs scatter by `SCATTER`."""
        return 1.96 * SCATTER * sqrt(2 / self.n_blocks)


def _candidates() -> Iterator[Design]:
    """The fullest first. Settings that happen to run the same passes are A/A comparisons besides the twins."""
    for n_variants, rows, most, least in (
        (5, (4, 6, 8), 20, 4), (5, (4, 8), 6, 4), (5, (6,), 10, 4), (4, (6,), 10, 3), (3, (6,), 10, 1),
    ):  # fmt: skip
        for n_blocks in range(most, least - 1, -1):
            yield Design(rows=rows, n_blocks=n_blocks, variants=VARIANTS[:n_variants], n_twins=1 + (len(rows) == 1))


CANDIDATES = tuple(_candidates())


def block_seconds(design: Design, loops: Sequence[str], texts: Sequence[Text], cost: Table) -> float:
    """What one block of a variant should take: every lane as predicted, the prompts, and the strewn calibration."""
    plan = design.plan(loops, max(text.n_tokens for text in texts), 1)
    cost = replace(cost, extrapolate=True)
    lanes = sum(predict(text, setting, cost).seconds for text in texts for setting in plan.lanes)
    visit = where(texts, plan.n_tokens, plan.max_rows)
    typical = cost.all_rows_seconds[-1]
    round_ = len(visit.n_past) * sum(2 * typical[n - 1] for n in visit.n_rows)
    prefills = sum(text.n_prompt for text in texts) * typical[-1] / len(typical)
    return SLACK * (lanes + prefills + len(texts) * plan.n_rounds * round_)


def choose(candidates: Sequence[Design], budget: float, done: Mapping[str, int] | None = None) -> Design:
    """The first of the designs whose blocks that are not done fit into `budget` seconds; the last when none does."""
    return next((design for design in candidates if design.left(done or {}) <= budget), candidates[-1])
