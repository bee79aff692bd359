"""The machine: what it is, what must agree before numbers are compared, and what may disturb them."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

import psutil


def physical_cores() -> int:
    """Cores this process may use, hyper-threads counted once: the default number of threads."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    physical = psutil.cpu_count(logical=False) or allowed
    return max(1, min(allowed, physical, _quota() or allowed))


def _quota() -> int | None:
    """Whole CPUs that the control group grants; None without a limit."""
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return None if quota == "max" else max(1, int(quota) // int(period))
    except (OSError, ValueError):
        return None


def check_threads(n_threads: int) -> None:
    """Raise ValueError when more threads are asked for than may run at once: their barriers would spin."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    allowed = min(allowed, _quota() or allowed)
    if not 1 <= n_threads <= allowed:
        raise ValueError(f"--threads {n_threads} must be between 1 and the {allowed} cores this process may use")


def _cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _governor() -> str | None:
    try:
        return Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").read_text().strip()
    except OSError:
        return None


def describe() -> dict[str, Any]:
    """What is written into every file: CPU, cores, memory, system, load."""
    return {
        "cpu": _cpu_name(),
        "cores": physical_cores(),
        "logical_cpus": os.cpu_count() or 1,
        "memory_bytes": psutil.virtual_memory().total,
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "governor": _governor(),
        "load_average": [round(value, 2) for value in os.getloadavg()],
    }


def steal_seconds() -> float | None:
    """CPU seconds that a hypervisor took away since the start of the machine; None where it cannot be read."""
    return getattr(psutil.cpu_times(), "steal", None)


def busy() -> list[str]:
    """Warnings about what runs beside us, by a look of a tenth of a second; empty on a quiet machine."""
    warnings = []
    before = psutil.Process().cpu_times()
    percent = psutil.cpu_percent(interval=0.1)
    own = psutil.Process().cpu_times()
    own_percent = (own.user + own.system - before.user - before.system) / 0.1 * 100 / (os.cpu_count() or 1)
    if percent - own_percent > 15:
        warnings.append(
            f"other processes use {percent - own_percent:.0f} % of the CPUs: llama.cpp's threads wait for each other at"
            " every layer, so times can be several times too long; stop them and measure again"
        )
    governor = _governor()
    if governor not in (None, "performance"):
        warnings.append(
            f"the CPU governor is {governor!r}: the clock follows the load; 'performance' gives steadier numbers"
        )
    return warnings


def must_agree(what: str, ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    """Raise ValueError when two sets of facts differ in a key that both hold."""
    for key in ours.keys() & theirs.keys():
        if ours[key] != theirs[key]:
            raise ValueError(f"{what}: {key} is {theirs[key]!r} there and {ours[key]!r} here")
