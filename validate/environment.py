"""The machine: what it is, which of its CPUs are ours, and what must agree before numbers are compared."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

import psutil


def allowed_cpus() -> int:
    """Logical CPUs this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def physical_cores() -> int:
    """Cores this process may use, hyper-threads counted once: the default number of threads."""
    allowed = allowed_cpus()
    physical = psutil.cpu_count(logical=False) or allowed
    return max(1, min(allowed, physical, quota() or allowed))


def quota(root: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> int | None:
    """Whole CPUs that the control groups grant, the strictest of this process's own and those above; None if unlimited.

    Version 2 keeps it in `cpu.max`, version 1 in `cpu/cpu.cfs_quota_us`.
    """
    try:
        lines = own.read_text().splitlines()
    except OSError:
        lines = []
    groups = {line.rpartition(":")[2].strip("/") for line in lines} | {""}
    granted = []
    for group in groups:
        for folder in (root / group, *(root / group).parents):
            if folder != root and root not in folder.parents:
                break
            granted += [n for n in (_granted(folder), _granted(root / "cpu" / folder.relative_to(root))) if n]
    return min(granted, default=None)


def _granted(folder: Path) -> int | None:
    try:
        if (folder / "cpu.max").exists():
            given, period = (folder / "cpu.max").read_text().split()
        else:
            given, period = ((folder / f"cpu.cfs_{name}_us").read_text().strip() for name in ("quota", "period"))
        return None if given in ("max", "-1") else max(1, int(given) // int(period))
    except (OSError, ValueError):
        return None


def check_threads(n_threads: int) -> None:
    """Raise ValueError when more threads are asked for than may run at once: their barriers would spin."""
    cpus, limit = allowed_cpus(), quota()
    if limit is not None and limit < cpus and n_threads > limit:
        raise ValueError(
            f"--threads {n_threads} must be between 1 and {limit}: the control group of this process grants {limit}"
            f" CPUs of the {cpus} cores (cpu.max), and threads that wait for a share spin at every layer; give"
            f" --threads {limit}, or raise the group's limit"
        )
    if not 1 <= n_threads <= cpus:
        raise ValueError(f"--threads {n_threads} must be between 1 and the {cpus} cores this process may use")


def chosen_threads(n_threads: int | None) -> int:
    """The threads asked for, or one for each physical core; ValueError when so many cannot run at once."""
    chosen = physical_cores() if n_threads is None else n_threads
    check_threads(chosen)
    return chosen


def pin(n_threads: int) -> None:
    """Keep this process on `n_threads` cores, hyper-threads left out, and each of its threads on one of them.

    Call it before llama.cpp is loaded: OpenMP reads its settings once. Raises ValueError where there is no pinning.
    """
    if not hasattr(os, "sched_setaffinity"):
        raise ValueError("--pin needs Linux: leave it out")
    check_threads(n_threads)
    cpus = sorted(os.sched_getaffinity(0))
    # One CPU of each core first, then their siblings.
    cpus.sort(key=lambda cpu: (_siblings(cpu).index(cpu), cpu))
    os.sched_setaffinity(0, cpus[:n_threads])
    os.environ["OMP_PROC_BIND"] = "true"
    os.environ["OMP_PLACES"] = ",".join(f"{{{cpu}}}" for cpu in cpus[:n_threads])


def _siblings(cpu: int) -> list[int]:
    """The CPUs that share a core with this one, itself among them."""
    try:
        words = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list").read_text().strip()
    except OSError:
        return [cpu]
    found: list[int] = []
    for part in words.split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found if cpu in found else [cpu]


def _cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def governor() -> str | None:
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
        "governor": governor(),
        "cpus_allowed": allowed_cpus(),
        "cpu_quota": quota(),
        "load_average": [round(value, 2) for value in os.getloadavg()],
    }


def must_agree(what: str, ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    """Raise ValueError when two sets of facts differ in a key that both hold."""
    for key in ours.keys() & theirs.keys():
        if ours[key] != theirs[key]:
            raise ValueError(f"{what}: {key} is {theirs[key]!r} there and {ours[key]!r} here")


def must_go_on(file: Path, *facts: tuple[str, dict[str, Any], dict[str, Any]]) -> None:
    """Raise ValueError, naming the file, unless its runs are of the setting that is to be gone on with."""
    try:
        for what, ours, theirs in facts:
            must_agree(what, ours, theirs)
    except ValueError as error:
        raise ValueError(
            f"{file} holds runs of another setting ({error}): choose another --out, or remove that file"
        ) from error
