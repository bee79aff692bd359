"""A busy process on one core for a third of a run: each ratio stays within 3 % of the quiet one, or is not stated.

    python -m benchmarks.robust [MODEL]

About 8 minutes on a machine where nothing else runs. Exit status 1 where a stated ratio is further off than 3 % and
further than the two intervals explain.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from sim.setting import Setting
from sim.trace import Header, Text
from validate.agenda import Plan
from validate.comparison import Cell, Comparison
from validate.environment import physical_cores
from validate.measure import measure
from validate.models import default_model
from validate.record import load_prompts, record_texts, suite
from validate.session import load

BOUND = 0.03
PROMPTS = ("locked repetition", "list")
SETTINGS = tuple(Setting(loop, 6) for loop in ("greedy", "gated", "fused", "carry"))
PLAN = Plan(SETTINGS, n_tokens=96, n_blocks=10, n_rounds=2, twins=SETTINGS[:1])


def busy(begin: float, seconds: float) -> None:
    """Keep one core busy from `begin` seconds on."""
    time.sleep(begin)
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process:
        time.sleep(seconds)
        process.kill()


def session(folder: Path, model: Path, header: Header, texts: list[Text], n_threads: int) -> tuple[Comparison, float]:
    """A timed run in a folder, and how long it took."""
    from sim.trace import dumps
    from validate.files import write

    write(folder / "texts.jsonl", dumps(header, texts))
    begin = time.monotonic()
    files = folder / "runs.jsonl", folder / "calibration.jsonl"
    measure(model, files[0], header, texts, PLAN, n_threads, rounds_file=files[1], say=print)
    return load(folder).comparison, time.monotonic() - begin


def by_name(comparison: Comparison) -> dict[tuple[str, str, str], Cell]:
    """The stated cells."""
    return {(cell.prompt, cell.loop, cell.baseline): cell for cell in comparison.cells}


def main() -> int:
    """Run quietly, run disturbed, compare."""
    model = Path(sys.argv[1]) if len(sys.argv) > 1 else default_model()
    n_threads = physical_cores()
    asked = [prompt for prompt in load_prompts(suite()) if prompt.name in PROMPTS]
    header, texts = record_texts(model, asked, PLAN.n_tokens, n_threads)
    with tempfile.TemporaryDirectory() as folder:
        quiet, seconds = session(Path(folder) / "quiet", model, header, texts, n_threads)
        other = threading.Thread(target=busy, args=(seconds / 3, seconds / 3))
        other.start()
        disturbed, _ = session(Path(folder) / "busy", model, header, texts, n_threads)
        other.join()
    for warning in disturbed.warnings:
        print("busy run:", warning)
    stated, failed = by_name(disturbed), 0
    for key, cell in by_name(quiet).items():
        if (again := stated.get(key)) is None:
            print(*key, f"quiet {cell.measured:.3f}", "not stated when disturbed", sep="; ")
            continue
        off = again.measured / cell.measured - 1
        bad = abs(off) > BOUND and (again.low > cell.high or cell.low > again.high)
        failed += bad
        print(
            *key, f"quiet {cell.measured:.3f} ({cell.low:.3f}-{cell.high:.3f})",
            f"disturbed {again.measured:.3f} ({again.low:.3f}-{again.high:.3f})",
            f"{len(again.disturbed_blocks)} blocks left out", f"{off:+.1%}{' BEYOND 3 %' if bad else ''}", sep="; ",
        )  # fmt: skip
    print(
        f"{failed} of {len(stated)} stated ratios are further off than {BOUND:.0%}; {len(disturbed.refused)} not stated"
    )
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
