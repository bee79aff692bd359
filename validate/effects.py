"""Each cell of a session beside what it would be predicted to be if one effect were switched off.

The table's effects are those of `costmodel.ablate`. Two more belong to the loop: the text (the recorded one replayed
instead of what was really written) and the host's time between passes, which only a speedup by the wall clock holds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from math import exp

import msgspec
import numpy as np

from costmodel.ablate import EFFECTS
from costmodel.passcost import PassCost
from validate import blocks
from validate.blocks import Group
from validate.compare import priced
from validate.comparison import Cell
from validate.design import middle
from validate.runs import Run
from validate.session import Session

TEXT, HOST = "text difference", "host time"
NAMES = (*EFFECTS, TEXT, HOST)


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """A cell, and its predictions with an effect switched off.

    variant     of the model
    held_out    by what it was kept from development: "variant", "prompt", "both", or "" for a cell developed on
    without     predicted speedup by the name of the effect that was switched off
    wall        measured speedup by the wall clock, and predicted with the host's time between passes
    """

    variant: str
    cell: Cell
    held_out: str
    without: dict[str, float]
    wall: tuple[float, float]

    def error(self, without: str = "") -> float:
        """predicted / measured - 1, with all effects or without one of them; for the host's time, by the wall clock."""
        predicted = self.cell.predicted
        assert predicted is not None, "only cells that a profile predicted are judged"
        if without == HOST:
            return predicted / self.wall[0] - 1
        return (self.without[without] if without else predicted) / self.cell.measured - 1

    @property
    def wall_error(self) -> float:
        """predicted / measured - 1 by the wall clock, the host's time known."""
        return self.wall[1] / self.wall[0] - 1


def host_seconds(runs: Sequence[Run]) -> float:
    """Seconds outside llama.cpp for each pass behind the prefill: the median over runs."""
    each = [(run.wall_seconds - run.seconds) / len(run.decode) for run in runs if run.decode]
    return float(np.median(each)) if each else 0.0


def judged(session: Session, variant: str, held_out: Mapping[str, str], host: float) -> list[Judged]:
    """The cells of a session with the predictions that each effect's absence would make.

    held_out    by prompt: "" or why its cells count as held out
    host        seconds outside llama.cpp for each pass
    """
    assert session.profile is not None, "only sessions measured here are judged"
    texts = {text.name: text for text in session.texts}
    groups = {key: blocks.clean(group) or group for key, group in blocks.grouped(session.runs).items()}
    costs: list[PassCost] = [session.profile.cost, *(without(session.profile.cost) for without in EFFECTS.values())]
    seconds = {
        key: priced(group, texts[key[0]], costs, session.header) for key, group in groups.items() if group[0].n_tokens
    }
    cells = {(c.prompt, c.loop, c.rows, c.drafter, c.baseline): c for c in session.comparison.cells}
    found = []
    for base, key in blocks.pairs(groups):
        cell = cells.get((key[0], key[1].loop, key[1].rows, key[1].drafter, base[1].loop))
        if cell is None or cell.predicted is None:
            continue
        ratios = seconds[base] / seconds[key]
        without = dict(zip(EFFECTS, map(float, ratios[1:]), strict=True))
        without[TEXT] = cell.predicted if cell.predicted_before is None else cell.predicted_before
        walled = [float(seconds[k][0]) + host * _passes_per_token(groups, k) for k in (base, key)]
        found.append(
            Judged(
                variant=variant,
                cell=cell,
                held_out=held_out.get(key[0], ""),
                without=without,
                wall=(_wall(groups[base], groups[key]), walled[0] / walled[1]),
            )
        )
    return found


def _passes_per_token(groups: Mapping[Group, Sequence[Run]], key: Group) -> float:
    run = groups[key][0]
    return len(run.decode) / run.n_tokens


def _wall(base: Sequence[Run], own: Sequence[Run]) -> float:
    """The measured speedup by the wall clock: `middle` over blocks, as for the passes."""

    def walls(runs: Sequence[Run]) -> dict[int, float]:
        by_block: dict[int, list[float]] = defaultdict(list)
        for run in runs:
            by_block[run.block].append(run.wall_seconds / run.n_tokens)
        return {block: float(np.mean(values)) for block, values in by_block.items()}

    a, b = walls(base), walls(own)
    return exp(middle([float(np.log(a[block] / b[block])) for block in sorted(a.keys() & b.keys())]))
