"""`python -m tests.mutate`: break the code in every small way, and see that a test notices.

cosmic-ray makes the mutants, in a copy of the tree. A mutant is tried on random worlds first, or on the golden
files of a drafter (a second finds most), and on the tests of its module then. One that survives is a hole in the
tests, unless `equivalent_mutants.toml` says why it changes nothing that can be seen. Figures are kept in
`mutants.json` by module, and go to docs/exactness.md from there.

Left out: `|` (annotations), `is` for `==` (an accident of small numbers in CPython), decorators removed, and
shifts, powers, bits, remainders and floor division in place of an arithmetic operator, which still has its
near neighbours + - * and /. Of the comparisons put for another, three subsume the rest (Kaminski, Ammann and
Offutt 2013, "Improving logic-based testing", J. Syst. Softw. 86): those are tried.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tests.prove import PAGE, write_section

ROOT = Path(__file__).parents[1]
FIGURES = Path(__file__).with_name("mutants.json")
EQUIVALENT = Path(__file__).with_name("equivalent_mutants.toml")
TESTS = {  # module: the tests that must notice, the quickest first
    "sim/machine.py": ["sim/machine.py", "tests/test_machine.py"],
    "sim/loops.py": ["tests/test_loops.py", "tests/test_loops_page.py", "tests/test_machine.py"],
    "sim/penalties.py": ["sim/penalties.py", "tests/test_penalties.py"],
}
LEFT_OUT = [
    r"core/ReplaceBinaryOperator_BitOr_.*",
    r"core/ReplaceBinaryOperator_.*_(RShift|LShift|Pow|Mod|FloorDiv|BitXor|BitOr|BitAnd)",
    r"core/ReplaceComparisonOperator_(.*_(Is|IsNot)|Is_Eq|IsNot_NotEq)",
    r"core/RemoveDecorator",
    r"core/ReplaceComparisonOperator_(Lt|Gt)_Eq",
    r"core/ReplaceComparisonOperator_(LtE|GtE)_NotEq",
    r"core/ReplaceComparisonOperator_(Lt_GtE|LtE_Gt|Gt_LtE|GtE_Lt|Eq_Lt|Eq_Gt|NotEq_LtE|NotEq_GtE)",
]
CONFIG = """
[cosmic-ray]
module-path = {module}
timeout = 120.0
excluded-modules = []
test-command = {command}
[cosmic-ray.distributor]
name = "local"
[cosmic-ray.filters.operators-filter]
exclude-operators = {left_out}
"""


@dataclass(frozen=True)
class Mutant:
    """One changed line."""

    module: str
    was: str
    now: str
    outcome: str


def drafter_tests() -> dict[str, list[str]]:
    """The drafters' modules and tests."""
    modules = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("sim/drafters/*.py"))
    tests = ["tests/test_goldens.py", "tests/test_drafters.py"]
    return {module: tests for module in modules if not module.endswith("__init__.py")}


def mutate(module: str, tests: list[str], *, quick: bool = False) -> Iterator[tuple[int, int, list[Mutant]]]:
    """Try all mutants of a module; how many are done and how many there are, and in the end all of them."""
    with tempfile.TemporaryDirectory() as name:
        tree = Path(name)
        for part in ("sim", "tests", "docs", "costmodel"):
            if (ROOT / part).exists():
                shutil.copytree(ROOT / part, tree / part, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", tree)
        pytest = f"{sys.executable} -m pytest -x -q -p no:cacheprovider --hypothesis-seed=0 {' '.join(tests)}"
        first = "tests.quick" if module in TESTS else f"tests.quick_drafters {Path(module).stem}"
        command = f"sh -c '{sys.executable} -m {first} && {'true' if quick else pytest}'"
        config = CONFIG.format(module=json.dumps(module), command=json.dumps(command), left_out=json.dumps(LEFT_OUT))
        (tree / "mutate.toml").write_text(config)
        base = subprocess.run(command, shell=True, cwd=tree, capture_output=True, text=True, check=False)
        if base.returncode:
            raise SystemExit(f"the tests of {module} fail without any mutant:\n{base.stdout}{base.stderr}")
        for step in (["cosmic_ray.cli", "init"], ["cosmic_ray.tools.filters.operators_filter"]):
            args = ["mutate.toml", "mutate.sqlite"] if "init" in step else ["mutate.sqlite", "mutate.toml"]
            subprocess.run([sys.executable, "-m", *step, *args], cwd=tree, check=True, capture_output=True)
        work = subprocess.Popen(
            [sys.executable, "-m", "cosmic_ray.cli", "exec", "mutate.toml", "mutate.sqlite"], cwd=tree
        )
        try:
            while work.poll() is None:
                time.sleep(1)
                yield (*progress(tree / "mutate.sqlite"), [])
        finally:
            work.terminate()
        yield (*progress(tree / "mutate.sqlite"), mutants(tree / "mutate.sqlite"))


def progress(session: Path) -> tuple[int, int]:
    """Mutants tried, and mutants in all, those left out not counted."""
    with sqlite3.connect(session) as data:
        (n,) = data.execute("select count(*) from work_items").fetchone()
        outcomes = Counter(dict(data.execute("select worker_outcome, count(*) from work_results group by 1")))
    return outcomes.total() - outcomes["SKIPPED"], n - outcomes["SKIPPED"]


def mutants(session: Path) -> list[Mutant]:
    """What became of each mutant that was not left out."""
    query = """select module_path, diff, test_outcome from mutation_specs join work_results using (job_id)
               where worker_outcome != 'SKIPPED'"""
    found = []
    with sqlite3.connect(session) as data:
        for module, diff, outcome in data.execute(query):
            lines = [line for line in (diff or "").splitlines() if not line.startswith(("---", "+++"))]
            was = " / ".join(line[1:].strip() for line in lines if line.startswith("-"))
            now = " / ".join(line[1:].strip() for line in lines if line.startswith("+"))
            found.append(Mutant(module, was, now, str(outcome)))
    return found


def report(figures: dict[str, list[int]]) -> str:
    """The section of docs/exactness.md, from mutants, survivors and seconds by module."""
    n, _, seconds = (sum(column) for column in zip(*figures.values(), strict=True))
    lines = [
        f"{n:,} mutants in {seconds / 60:.0f} minutes; none survives that is not listed as equivalent in "
        "`tests/equivalent_mutants.toml`, with the reason.",
        "",
        "| module | mutants | killed | equivalent |",
        "|---|--:|--:|--:|",
    ]
    for module, (n, survived, _) in sorted(figures.items()):
        lines.append(f"| `{module}` | {n} | {n - survived} | {survived} |")
    return "\n".join(lines)


def equivalents() -> dict[tuple[str, str, str], str]:
    """Why each listed mutant is equivalent."""
    listed = tomllib.loads(EQUIVALENT.read_text()).get("mutant", [])
    return {(m["module"], m["was"], m["now"]): m["why"] for m in listed}


def main() -> None:
    """Parse, mutate, print, write."""
    parser = argparse.ArgumentParser(description="Mutation tests of the machine, the loops and the drafters.")
    parser.add_argument("modules", nargs="*", help="all of them unless named")
    parser.add_argument("--quick", action="store_true", help="the first tries only: finds where to look")
    given = parser.parse_args()
    todo = {m: t for m, t in {**TESTS, **drafter_tests()}.items() if not given.modules or m in given.modules}
    if unknown := set(given.modules) - set(todo):
        parser.error(f"no tests are named for {', '.join(sorted(unknown))}")
    known = equivalents()
    figures: dict[str, list[int]] = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
    holes: list[Mutant] = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        for module, tests in todo.items():
            task, start = bar.add_task(module, total=None), time.perf_counter()
            found: list[Mutant] = []
            for n_done, n, tried in mutate(module, tests, quick=given.quick):
                bar.update(task, completed=n_done, total=n)
                found = tried
            survived = [m for m in found if m.outcome == "SURVIVED"]
            holes += [m for m in survived if (m.module, m.was, m.now) not in known]
            figures[module] = [len(found), len(survived), round(time.perf_counter() - start)]
            print(f"{module}: {len(found)} mutants, {len(survived)} survived")
    for m in holes:
        print(f"\n[[mutant]]\nmodule = {m.module!r}\nwas = {m.was!r}\nnow = {m.now!r}\nwhy = ''")
    if holes:
        raise SystemExit(f"{len(holes)} mutants survived and are not explained")
    if not given.quick:
        FIGURES.write_text(json.dumps(figures, indent=1, sort_keys=True) + "\n")
        write_section(PAGE, "mutate", report(figures))


if __name__ == "__main__":
    main()
