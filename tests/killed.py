"""Kills runs of the program in the middle, at 20 random moments (SIGKILL), and looks at what is left each time.

    python -m tests.killed MODEL PROMPTS FOLDER

A process of its own: everything is imported once, and each run is a fork of it, so that a run takes a moment. Ends
with status 1 where a file is broken or a finished run is lost.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path

from sim.trace import load as load_texts
from validate import watch
from validate.agenda import Plan
from validate.calibrate import load_rounds
from validate.files import cut_half_line
from validate.measure import measure
from validate.record import load_prompts, recorded_or_loaded
from validate.runs import load as load_runs
from validate.session import load as load_session

N_KILLS, N_TOKENS, N_BLOCKS = 20, 12, 3


def program(model: Path, prompts: Path, out: Path) -> None:
    """What `sweepcap run` does up to the comparison."""
    from sim.setting import Setting

    settings = tuple(Setting(loop, 4) for loop in ("greedy", "gated", "fused"))
    plan = Plan(settings, N_TOKENS, N_BLOCKS, n_rounds=1, twins=settings[:1])
    header, texts = recorded_or_loaded(out / "texts.jsonl", model, load_prompts(prompts), N_TOKENS, 1)
    measure(model, out / "runs.jsonl", header, texts, plan, 1, rounds_file=out / "calibration.jsonl")


def forked(model: Path, prompts: Path, out: Path) -> int:
    """A process that runs the program; status 0 when it came to the end."""
    if pid := os.fork():
        return pid
    try:
        program(model, prompts, out)
        os._exit(0)
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
    os._exit(1)


def finished(out: Path) -> set[tuple[int, str, str, bool, float]]:
    """The runs that are on disk; every whole line of every file must be readable."""
    if (out / "texts.jsonl").exists():
        load_texts(out / "texts.jsonl")
    for name in ("runs.jsonl", "calibration.jsonl"):
        cut_half_line(out / name)  # what every reader of a session does first
    load_rounds(out / "calibration.jsonl")
    if not (out / "runs.jsonl").exists() or not (out / "runs.jsonl").stat().st_size:
        return set()
    runs = load_runs(out / "runs.jsonl")[1]
    whole = [b for b in {(r.block, r.prompt) for r in runs} if sum((r.block, r.prompt) == b for r in runs) == 4]
    return {(r.block, r.prompt, r.loop, r.twin, r.wall_seconds) for r in runs if (r.block, r.prompt) in whole}


def main() -> int:
    """Kill, look, go on; at the end of a folder, begin another."""
    model, prompts, folder = map(Path, sys.argv[1:4])
    watch.OTHERS_BOUND = watch.STEAL_BOUND = 9.0  # how quiet the machine is does not matter here
    rng = random.Random(0)
    began = time.monotonic()
    os.waitpid(forked(model, prompts, folder / "whole"), 0)
    usual = time.monotonic() - began
    n_runs = len(finished(folder / "whole"))
    assert n_runs == 4 * N_BLOCKS * 2, n_runs
    hits, number, kept = 0, 0, set()
    for _ in range(20 * N_KILLS):
        if hits == N_KILLS:
            break
        out = folder / f"killed-{number}"
        pid = forked(model, prompts, out)
        time.sleep(rng.uniform(0, usual))
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        left = finished(out)
        if not kept <= left:
            print(f"{out}: {len(kept - left)} finished runs are lost")
            return 1
        hits += os.WIFSIGNALED(status)
        if os.WIFEXITED(status) and os.WEXITSTATUS(status):
            print(f"{out}: the run that went on ended with status {os.WEXITSTATUS(status)}")
            return 1
        number, kept = (number, left) if len(left) < n_runs else (number + 1, set())
    out = folder / f"killed-{number}"
    _, status = os.waitpid(forked(model, prompts, out), 0)
    left = finished(out)
    if status or len(left) != n_runs or not kept <= left or not load_session(out).comparison.complete:
        print(f"{out}: what was stopped did not come to its end: {len(left)} of {n_runs} runs")
        return 1
    print(f"{hits} kills; {number} folders were finished, {len(kept)} runs outlived the last kill")
    return 0


if __name__ == "__main__":
    sys.exit(main())
