"""Will it fit? What a model and its contexts need against the memory that can be had, told before loading."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import psutil

from costmodel.ggufheader import parts
from costmodel.ggufspec import read_spec

CGROUP = Path("/sys/fs/cgroup")


def available_bytes() -> int:
    """Memory that can be had without swapping: of the machine, and of the control group where one is set."""
    free = psutil.virtual_memory().available
    try:
        limit, used = (int((CGROUP / name).read_text()) for name in ("memory.max", "memory.current"))
        cached = dict(line.split() for line in (CGROUP / "memory.stat").read_text().splitlines())["file"]
        return min(free, limit - used + int(cached))
    except (OSError, ValueError, KeyError):
        return free


def check_weights(path: Path) -> None:
    """Raise ValueError when a model's file is larger than the memory: every pass would read it from the disk."""
    size, free = sum(part.stat().st_size for part in parts(path)), available_bytes()
    if size > free:
        raise ValueError(
            f"{path} needs {_gigabytes(size)} of memory, {_gigabytes(free)} are free: take a smaller quantisation or"
            " model, or free some memory"
        )


def check_context(path: Path, n_ctx: int) -> None:
    """Raise ValueError when a context of so many tokens does not fit beside what is in memory already."""
    size, free = n_ctx * bytes_per_token(path), available_bytes()
    if size > free:
        raise ValueError(
            f"a context of {n_ctx} tokens of {path} needs {size:.0f} bytes ({_gigabytes(size)}), {_gigabytes(free)} are"
            " free: ask for a shorter --context, or fewer tokens"
        )


def bytes_per_token(path: Path) -> float:
    """Bytes of cache that a token takes; 0 where a model keeps none of it, or does not say."""
    return _bytes_per_token(path, path.stat().st_mtime_ns)


@cache
def _bytes_per_token(path: Path, stamp: int) -> float:
    try:
        spec = read_spec(path)
    except ValueError:
        return 0.0
    return spec.kv_values * spec.kv_value_bytes


def _gigabytes(size: float) -> str:
    return f"{size / 1e9:.2f} GB"
