"""The machine while it is measured: what ran beside us, what the hypervisor took, how the clock stood.

A look reads counters; two looks make what was seen between them. It is taken where nothing is timed, before the first
prompt and after each: a thread that watched would be one more runnable thread.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from time import monotonic

import msgspec
import psutil

from validate.environment import governor

OTHERS_BOUND = 0.10
STEAL_BOUND = 0.05
CLOCK_BOUND = 0.10
"""Shares from which on a window counts as disturbed; the clock's is how far it may move within a run."""

_CPUS = Path("/sys/devices/system/cpu")


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen of the machine in a window of `seconds`.

    others      share of all CPUs that other processes used
    steal       share of all CPUs that a hypervisor took away; 0 where it does not tell
    throttled   times that a core was slowed down for heat, and times that a control group held us back
    megahertz   the clock at the end, mean over CPUs; None where it cannot be read
    runnable    other processes and threads that were ready to run at the end
    load        load average of the last minute
    """

    seconds: float
    others: float = 0.0
    steal: float = 0.0
    throttled: int = 0
    megahertz: float | None = None
    runnable: int = 0
    load: float = 0.0

    @property
    def disturbed(self) -> str:
        """Why times of this window are not to be trusted; empty when they are."""
        if self.others > OTHERS_BOUND:
            return f"other processes used {self.others:.0%} of the CPUs"
        if self.steal > STEAL_BOUND:
            return f"the hypervisor took {self.steal:.0%} of the CPUs"
        if self.throttled:
            return f"the CPU was throttled {self.throttled} times"
        return ""


class Watch:
    """Counters at the last look; each look says what was seen since."""

    def __init__(self) -> None:
        self._last = _counters()

    def look(self) -> Seen:
        """What was seen since the last look."""
        now = _counters()
        elapsed, busy, own, steal, throttled = (b - a for a, b in zip(self._last, now, strict=True))
        self._last = now
        cpus = elapsed * (os.cpu_count() or 1)
        if cpus <= 0:
            return Seen(seconds=0.0)
        return Seen(
            seconds=elapsed,
            others=max(0.0, (busy - own) / cpus),
            steal=max(0.0, steal / cpus),
            throttled=max(0, int(throttled)),
            megahertz=megahertz(),
            runnable=_runnable(),
            load=os.getloadavg()[0],
        )


def _counters() -> tuple[float, float, float, float, float]:
    """Clock, CPU seconds of everybody, our own CPU seconds, stolen seconds, throttling events."""
    all_, own = psutil.cpu_times(), psutil.Process().cpu_times()
    steal = getattr(all_, "steal", 0.0)
    busy = all_.user + all_.system + sum(getattr(all_, name, 0.0) for name in ("nice", "irq", "softirq"))
    return monotonic(), busy, own.user + own.system, steal, float(_throttled())


def _throttled() -> int:
    counts = [_number(path) for path in _CPUS.glob("cpu[0-9]*/thermal_throttle/*_throttle_count")]
    return sum(counts) + _held_back()


def _number(path: Path) -> int:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return 0


def _held_back() -> int:
    """Times that the control group's CPU limit held its processes back."""
    try:
        stat = dict(line.split() for line in Path("/sys/fs/cgroup/cpu.stat").read_text().splitlines())
        return int(stat.get("nr_throttled", 0))
    except (OSError, ValueError):
        return 0


def megahertz() -> float | None:
    """The mean clock of the CPUs; None where it cannot be read."""
    try:
        clocks = [clock.current for clock in psutil.cpu_freq(percpu=True)]
    except (AttributeError, NotImplementedError, OSError, TypeError):
        return None
    return sum(clocks) / len(clocks) if clocks and min(clocks) > 0 else None


def _runnable() -> int:
    """Threads ready to run besides this one, as the fourth word of /proc/loadavg counts them."""
    try:
        return max(0, int(Path("/proc/loadavg").read_text().split()[3].partition("/")[0]) - 1)
    except (OSError, ValueError, IndexError):
        return 0


def before(seen: Seen, n_threads: int) -> list[str]:
    """Warnings before anything is timed: what was seen, why it matters, what to do."""
    warnings = []
    if why := seen.disturbed:
        warnings.append(
            f"{why} before anything was timed ({seen.runnable} other threads ready to run, load {seen.load:.1f}):"
            f" llama.cpp's {n_threads} threads wait for each other at every layer, so times can be several times too"
            " long; stop the other work and measure again"
        )
    if (how := governor()) not in (None, "performance"):
        warnings.append(
            f"the CPU governor is {how!r}: the clock follows the load, so short passes and long ones are timed at"
            " different clocks; set it to 'performance' (cpupower frequency-set -g performance)"
        )
    return warnings


def during(windows: Sequence[Seen]) -> list[str]:
    """Warnings about the windows in which a run was timed."""
    warnings = []
    if bad := [seen for seen in windows if seen.disturbed]:
        worst = max(bad, key=lambda seen: seen.others + seen.steal)
        warnings.append(
            f"{len(bad)} of {len(windows)} timed windows were disturbed ({worst.disturbed} in the worst): their ratios"
            " are kept in the file and left out of the intervals; stop the other work and call again to measure more"
        )
    clocks = [seen.megahertz for seen in windows if seen.megahertz]
    if clocks and max(clocks) / min(clocks) - 1 > CLOCK_BOUND:
        warnings.append(
            f"the clock moved between {min(clocks):.0f} and {max(clocks):.0f} MHz: what a wide pass costs in units of a"
            " narrow one moves with it; fix the clock (no turbo, governor 'performance') or give it time to warm up"
        )
    return warnings
