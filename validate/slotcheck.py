"""Simulated against measured throughput of slots, side by side, from what `validate.slots` kept.

The simulator (`sim.events`) serves the same requests, with the texts that they really got, in as many slots, closed. A
pass costs what the calibration rounds of the same session say of its total rows and of the sum of its cached lengths.
Nothing of the measured passes enters. Throughput is tokens a second of all slots; TPOT the mean over requests that
ended of their seconds a token. A loop pays in so many slots where its throughput is above that of `greedy`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import msgspec
import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from costmodel.batched import SlotCost
from costmodel.rounds import Round, nested, table
from costmodel.table import Table
from sim.answers import recorded
from sim.device import Device
from sim.events import simulate
from sim.intervals import student
from sim.requests import Job
from sim.scenario import Scenario
from sim.setting import Setting, make_drafter
from sim.trace import Text
from validate.closed import state_at
from validate.knots import Grid
from validate.slotruns import SlotBlock, SlotPass, SlotRun


@dataclass(frozen=True, slots=True)
class SlotCell:
    """One loop in so many slots over a workload: tokens a second and seconds a token, simulated and measured.

    low, high    95 % interval of the measured throughput, over blocks
    gain, simulated_gain   throughput over that of `greedy` (None for `greedy`); gain_low, gain_high the interval over
                 blocks, in each of which both went side by side
    ties, bugs   requests whose ids differ from the recorded ones within, and beyond, the model's numerical noise
    """

    workload: str
    n_slots: int
    loop: str
    rows: int
    simulated: float
    measured: float
    low: float
    high: float
    simulated_tpot: float
    measured_tpot: float
    simulated_gain: float | None
    gain: float | None
    gain_low: float | None
    gain_high: float | None
    n_blocks: int
    ties: int
    bugs: int

    @property
    def error(self) -> float:
        """Simulated over measured throughput, less one."""
        return self.simulated / self.measured - 1

    @property
    def tpot_error(self) -> float:
        """The same of TPOT."""
        return self.simulated_tpot / self.measured_tpot - 1


@dataclass(frozen=True, slots=True)
class Kept:
    """The requests of a run as jobs, in the order in which they began; behind the last one, the last again.

    A text that a run left unfinished goes on as it was recorded.
    """

    run: SlotRun
    texts: tuple[Text, ...]

    def jobs(self, setting: Setting, rng: Generator) -> Iterator[Job]:
        """See `sim.requests.Source`."""
        by_name = {text.name: text for text in self.texts}
        job = None
        for request in self.run.requests:
            text = by_name[request.text]
            tokens = (*text.tokens[: request.n_known], *request.tokens)
            own = tokens if request.last is not None else (*tokens, *text.tokens[len(tokens) :])
            kept = Text(name=text.name, n_prompt=text.n_prompt, tokens=own, stop=text.stop)
            job = Job(text.name, state_at(kept, request.n_known), recorded(own), make_drafter(setting.drafter))
            yield job
        assert job is not None, "a run has requests"
        while True:
            yield job


def cost_of(visit: Grid, rounds: Sequence[Round]) -> Table:
    """The table of a session's rounds, at the mean speed of the machine while they were taken.

    A table's cells are medians, near enough; the seconds of a run are a sum, to which slow moments belong. What a pass
    on more cached tokens costs more is a share of it that is a line over rows: every cell says something about it.
    """
    made = table(visit.n_past, visit.n_rows, rounds, padding=None)
    cells = _smooth(np.array(made.all_rows_seconds), np.array(visit.n_rows))
    speed = float(np.mean([r.same for r in rounds]) / cells.mean())
    change = made.change_seconds
    assert isinstance(change, float)
    # Row counts that were hardly ever seen lie on a straight line between those that were.
    return Table(
        made.n_rows, made.n_past, nested(speed * cells), change_seconds=speed * change, padding=None, extrapolate=True
    )


def _smooth(cells: NDArray[np.float64], n_rows: NDArray[np.int_]) -> NDArray[np.float64]:
    """Seconds at two cached lengths, [2][rows], whose log-ratio is a line over rows (a number, of few row counts)."""
    more = np.log(cells[1] / cells[0])
    line = np.polynomial.Polynomial.fit(n_rows, more, 1)(n_rows) if len(n_rows) > 3 else np.full_like(more, more.mean())
    middle = np.sqrt(cells[0] * cells[1])
    return np.stack((middle * np.exp(-line / 2), middle * np.exp(line / 2)))


def slot_cost(blocks: Sequence[SlotBlock]) -> SlotCost:
    """What a pass costs in the number of slots that some blocks have in common."""
    made = cost_of(blocks[0].visit, [round_ for block in blocks for round_ in block.rounds])
    return SlotCost(made, made, "sum")


def simulated(run: SlotRun, texts: Sequence[Text], cost: SlotCost) -> SlotRun:
    """The run as the simulator tells it: the same requests, seconds at a price."""
    setting = Setting(run.loop, run.rows, run.drafter)
    scenario = Scenario(Device(cost), Kept(run, tuple(texts)), setting, slots=run.n_slots, requests=len(run.requests))
    passes = []
    for device in simulate(scenario).passes[: len(run.passes)]:
        assert device.slots == tuple(range(run.n_slots)), "closed: every slot is in every pass"
        records = device.records
        passes.append(
            SlotPass(
                device.seconds,
                tuple(r.n_past for r in records),
                tuple(r.n_rows for r in records),
                tuple(r.n_tokens for r in records),
            )
        )
    return msgspec.structs.replace(run, passes=tuple(passes))


def check(blocks: Sequence[SlotBlock], texts: Sequence[Text]) -> list[SlotCell]:
    """All cells of a session. Raises ValueError when it holds no block, or not the texts that were served."""
    if not blocks:
        raise ValueError("no slots were timed yet: call the same command again, it goes on from there")
    names = {text.name for text in texts}
    if missing := {r.text for block in blocks for run in block.runs for r in run.requests} - names:
        raise ValueError(f"the texts do not hold {sorted(missing)[0]!r}, which the slots were served: give their own")
    cells: list[SlotCell] = []
    for n_slots in sorted({block.n_slots for block in blocks}):
        mine = [block for block in blocks if block.n_slots == n_slots]
        cost = slot_cost(mine)
        pairs: dict[tuple[str, Setting], list[tuple[SlotRun, SlotRun]]] = {}
        for run in (run for block in mine for run in block.runs):
            key = run.workload, Setting(run.loop, run.rows, run.drafter)
            pairs.setdefault(key, []).append((run, simulated(run, texts, cost)))
        greedy = {workload: runs for (workload, s), runs in pairs.items() if s.loop == "greedy"}
        noise = max(block.noise for block in mine)
        cells += [_cell(key, runs, greedy.get(key[0]), noise) for key, runs in sorted(pairs.items())]
    return cells


Pairs: TypeAlias = Sequence[tuple[SlotRun, SlotRun]]
"""Runs of one setting, block by block: measured, and simulated."""


def _throughputs(pairs: Pairs) -> tuple[float, float]:
    """Tokens a second of all runs together: measured, simulated."""
    tokens = sum(run.n_tokens for run, _ in pairs)
    return tokens / sum(run.seconds for run, _ in pairs), tokens / sum(told.seconds for _, told in pairs)


def _around(value: float, per_block: Sequence[float]) -> tuple[float, float]:
    """The 95 % interval of a ratio by its spread over blocks; the ratio itself where there is one block."""
    half = student(np.log(per_block)[:, None]).half_width.item() if len(per_block) > 1 else 0.0
    return value * math.exp(-half), value * math.exp(half)


def _cell(key: tuple[str, Setting], pairs: Pairs, greedy: Pairs | None, noise: float) -> SlotCell:
    workload, setting = key
    measured, told = _throughputs(pairs)
    low, high = _around(measured, [run.throughput for run, _ in pairs])
    left = [r.parity for run, _ in pairs for r in run.requests if r.parity is not None]
    # What was noise in any block of so many slots is noise in all.
    n_ties = sum(p.verdict == "tie" or (p.margin is not None and p.margin <= noise) for p in left)
    gains: tuple[float | None, ...] = (None,) * 4
    if greedy is not None and setting.loop != "greedy":
        base_measured, base_told = _throughputs(greedy)
        each = [run.throughput / base.throughput for (run, _), (base, _) in zip(pairs, greedy, strict=True)]
        gain = measured / base_measured
        gains = (told / base_told, gain, *_around(gain, each))
    return SlotCell(
        workload=workload,
        n_slots=pairs[0][0].n_slots,
        loop=setting.loop,
        rows=setting.rows,
        simulated=told,
        measured=measured,
        low=low,
        high=high,
        simulated_tpot=float(np.mean([told.tpot for _, told in pairs])),
        measured_tpot=float(np.mean([run.tpot for run, _ in pairs])),
        simulated_gain=gains[0],
        gain=gains[1],
        gain_low=gains[2],
        gain_high=gains[3],
        n_blocks=len(pairs),
        ties=n_ties,
        bugs=len(left) - n_ties,
    )


@dataclass(frozen=True, slots=True)
class StopsPaying:
    """From how many slots on a loop is no faster than `greedy`, simulated and measured; None: it pays in all tried.

    earliest, latest   what the measured intervals allow: at their lower, and at their upper ends
    """

    workload: str
    loop: str
    rows: int
    simulated: int | None
    measured: int | None
    earliest: int | None
    latest: int | None

    @property
    def same(self) -> bool:
        """Whether both say the same."""
        return self.simulated == self.measured

    @property
    def within(self) -> bool:
        """Whether the simulated one is among those that the measured intervals allow."""
        least, found, most = (math.inf if n is None else n for n in (self.earliest, self.simulated, self.latest))
        return least <= found <= most


def stops_paying(cells: Iterable[SlotCell]) -> list[StopsPaying]:
    """For each guessing loop over each workload, where it stops paying."""
    groups: dict[tuple[str, str, int], list[SlotCell]] = {}
    for cell in cells:
        if cell.gain is not None:
            groups.setdefault((cell.workload, cell.loop, cell.rows), []).append(cell)
    names = ("simulated_gain", "gain", "gain_low", "gain_high")
    return [
        StopsPaying(*key, *(from_slots((cell.n_slots, getattr(cell, name)) for cell in group) for name in names))
        for key, group in groups.items()
    ]


def from_slots(gains: Iterable[tuple[int, float | None]]) -> int | None:
    """The fewest slots from which on no gain is above 1; None where the most slots still gain.

    >>> from_slots([(1, 1.4), (2, 1.1), (4, 0.9), (8, 0.8)]), from_slots([(1, 0.9), (2, 1.1)]), from_slots([(1, 0.9)])
    (4, None, 1)
    """
    first = None
    for n_slots, gain in sorted(gains, reverse=True):
        if gain is not None and gain > 1:
            break
        first = n_slots
    return first
