"""Slots, simulated beside measured: a table, where each loop stops paying, and the page docs/slots.md."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from figures.terminal import emit, emit_table
from validate.runs import Header
from validate.slotcheck import SlotCell, StopsPaying, stops_paying

HEAD = (
    "workload",
    "slots",
    "loop",
    "R",
    "tok/s",
    "simulated",
    "error",
    "ms/token",
    "simulated",
    "over greedy",
    "simulated",
)


def _line(cell: SlotCell) -> tuple[object, ...]:
    return (
        cell.workload,
        cell.n_slots,
        cell.loop,
        cell.rows,
        f"{cell.measured:.1f} ({cell.low:.1f}-{cell.high:.1f})",
        f"{cell.simulated:.1f}",
        f"{cell.error:+.1%}",
        f"{1e3 * cell.measured_tpot:.2f}",
        f"{1e3 * cell.simulated_tpot:.2f}",
        "-" if cell.gain is None else f"{cell.gain:.3f}x ({cell.gain_low:.3f}-{cell.gain_high:.3f})",
        "-" if cell.simulated_gain is None else f"{cell.simulated_gain:.3f}x",
    )


def in_order(cells: Sequence[SlotCell]) -> list[SlotCell]:
    """By workload and slots, as they are read."""
    workloads = list(dict.fromkeys(cell.workload for cell in cells))
    return sorted(cells, key=lambda cell: (workloads.index(cell.workload), cell.n_slots))


def summary(cells: Sequence[SlotCell]) -> list[str]:
    """How well it agrees, and where loops stop paying, in sentences."""
    errors, tpots = [abs(c.error) for c in cells], [abs(c.tpot_error) for c in cells]
    said = [
        f"throughput: simulated misses measured by {_mean(errors):.1%} on average, {max(errors):.1%} at worst"
        f" ({len(cells)} cells, {cells[0].n_blocks} blocks); TPOT: {_mean(tpots):.1%} and {max(tpots):.1%}"
    ]
    said += [_stops(stop) for stop in stops_paying(cells)]
    if bugs := sum(cell.bugs for cell in cells):
        said.append(f"{bugs} requests got ids that differ from the recorded ones by more than the numerical noise")
    if ties := sum(cell.ties for cell in cells):
        said.append(f"{ties} requests left the recorded text at a tie, and were simulated with the text they got")
    return said


def _stops(stop: StopsPaying) -> str:
    def when(n_slots: int | None) -> str:
        return (
            "pays in all" if n_slots is None else "never pays" if n_slots == 1 else f"stops paying at {n_slots} slots"
        )

    said = f"{stop.loop} R={stop.rows} on {stop.workload} texts {when(stop.measured)}"
    if stop.earliest != stop.latest:
        said += f" (within the intervals: {when(stop.earliest)} to {when(stop.latest)})"
    return said + (", simulated too" if stop.same else f"; simulated it {when(stop.simulated)}")


def show(cells: Sequence[SlotCell]) -> None:
    """The table on the screen, with the sentences under it."""
    emit_table(
        "slots on one device, closed arrivals: measured, and simulated", HEAD, [_line(c) for c in in_order(cells)]
    )
    emit("\n".join(summary(cells)))


def page(cells: Sequence[SlotCell], header: Header) -> str:
    """docs/slots.md."""
    machine: dict[str, Any] = header.environment
    where = f"{header.model}, {header.n_threads} threads, {machine.get('cpu', 'unknown CPU')}"
    lines = [
        "| " + " | ".join(map(str, line)) + " |" for line in (HEAD, ["---"] * len(HEAD), *map(_line, in_order(cells)))
    ]
    return "\n".join([
        "# Slots: simulated against measured",
        "",
        f"Written by `sweepcap slots --page docs/slots.md`; {where}.",
        "",
        "Every slot always has a request, and the rows of all slots go in one `llama_decode` a pass. The simulator",
        "serves the same requests at the price that calibration rounds, taken among the measured passes, give to total",
        "rows and to the sum of cached lengths. Tokens a second are those of all slots, with the 95 % interval over",
        "blocks; ms/token is the mean over requests. Prompts are cached beforehand, on both sides.",
        "",
        *(f"- {sentence}" for sentence in summary(cells)),
        "",
        *lines,
        "",
    ])  # fmt: skip


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
