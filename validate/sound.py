"""Is a GGUF sound? It is loaded, and fed three tokens, in a child process first.

llama.cpp refuses most damaged files with a reason, but some end the process that loads them. A child may die; what is
left of it is one sentence.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

CHILD = ("-m", "validate.sound")
N_CTX = 64
CPU_SECONDS, SPARE_BYTES = 60, 2 << 30


def check_sound(path: Path) -> None:
    """Raise ValueError, in one sentence, when a model cannot be loaded and run; a file is looked at once."""
    _check(path, path.stat().st_size, path.stat().st_mtime_ns)


@cache
def _check(path: Path, size: int, stamp: int) -> None:
    (fault,) = faults([path]).values()
    if fault is not None:
        raise ValueError(fault)


def faults(paths: Sequence[Path]) -> dict[Path, str | None]:
    """What is wrong with each model, one sentence; None where nothing is. A child looks at one after another."""
    found: dict[Path, str | None] = {}
    while rest := [path for path in paths if path not in found]:
        env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "GGML_NO_BACKTRACE": "1"}
        command = [sys.executable, *CHILD, *map(str, rest)]
        child = subprocess.run(command, capture_output=True, env=env, check=False)
        told = [json.loads(line) for line in child.stdout.splitlines()]
        found |= dict(zip(rest, told, strict=False))
        if len(told) < len(rest):
            found[rest[len(told)]] = _epitaph(rest[len(told)], child)
    return found


def _epitaph(path: Path, child: subprocess.CompletedProcess[bytes]) -> str:
    """Why the child died over a file."""
    said = child.stderr.decode("utf-8", "replace").strip().splitlines()
    status = child.returncode
    how = f"signal {signal.Signals(-status).name}" if status < 0 else f"status {status}"
    last = next((line for line in said if "GGML_ASSERT" in line or "error" in line.lower()), said[-1] if said else "")
    return f"{path} is damaged: llama.cpp dies of it ({how}{': ' + last.strip() if last else ''}); get the file again"


def _limit(size: int) -> None:
    """No more time and memory than a model of that size can need."""
    try:
        import resource
    except ImportError:  # pragma: no cover - not on Windows
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    seconds = CPU_SECONDS + size // (1 << 26)
    for what, most in ((resource.RLIMIT_CPU, seconds), (resource.RLIMIT_DATA, 2 * size + SPARE_BYTES)):
        _, hard = resource.getrlimit(what)
        resource.setrlimit(what, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def _look(path: Path) -> str | None:
    from sim.machine import Pass
    from validate.llama import LlamaEngine, Model

    try:
        with Model(path) as model, LlamaEngine(model, n_ctx=N_CTX, n_threads=1) as engine:
            engine(Pass(0, (0,), 1))
    except ValueError as error:
        return str(error)
    except MemoryError:
        return f"{path} asks for more memory than a model of its size can need: it is damaged"
    return None


def main() -> None:
    """Write a line of JSON for each file named: null, or what is wrong with it."""
    paths = [Path(word) for word in sys.argv[1:]]
    _limit(sum(path.stat().st_size for path in paths))
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # nothing that llama.cpp prints may stand between the lines
    for path in paths:
        print(json.dumps(_look(path)), file=out, flush=True)


if __name__ == "__main__":
    main()
