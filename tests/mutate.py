"""`python -m tests.mutate`: break the code in every small way, and see that a test notices.

cosmic-ray makes the mutants; each is tried in a copy of the tree, in a process of its own that has the libraries
loaded. First come random worlds, or the golden files of a drafter (a second finds most), then the tests of the
module. One that survives is a hole in the tests, unless `equivalent_mutants.toml` says why it changes nothing that
can be seen. A mutant that runs on and on is stopped by its processor time, not by the clock, so that a slow or halted
machine kills none. Figures are kept in `mutants.json` by module, and go to docs/exactness.md from there.

Left out: `|` (annotations), `is` for `==` (an accident of small numbers in CPython), decorators removed, and
shifts, powers, bits, remainders and floor division in place of an arithmetic operator, which still has its
near neighbours + - * and /. Of the comparisons put for another, three subsume the rest (Kaminski, Ammann and
Offutt 2013, "Improving logic-based testing", J. Syst. Softw. 86): those are tried.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import re
import resource
import runpy
import shutil
import sys
import tempfile
import tomllib
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import hypothesis
import numpy  # noqa: F401  (loaded here once, not once for every mutant)
import pytest
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
LEFT_OUT = re.compile(
    r"core/(ReplaceBinaryOperator_BitOr_.*"
    r"|ReplaceBinaryOperator_.*_(RShift|LShift|Pow|Mod|FloorDiv|BitXor|BitOr|BitAnd)"
    r"|ReplaceComparisonOperator_(.*_(Is|IsNot)|Is_Eq|IsNot_NotEq)"
    r"|RemoveDecorator"
    r"|ReplaceComparisonOperator_(Lt|Gt)_Eq"
    r"|ReplaceComparisonOperator_(LtE|GtE)_NotEq"
    r"|ReplaceComparisonOperator_(Lt_GtE|LtE_Gt|Gt_LtE|GtE_Lt|Eq_Lt|Eq_Gt|NotEq_LtE|NotEq_GtE))"
)
MEMORY = 4 << 30  # bytes a mutant may ask for
PATIENCE = 4  # a mutant may take that many times the processor time of the right code, and two seconds

Check = Callable[[], object]


@dataclass(frozen=True)
class Mutant:
    """One changed line, and whether no test noticed."""

    module: str
    was: str
    now: str
    survived: bool

    def __str__(self) -> str:
        """As `equivalent_mutants.toml` lists it."""
        return f"\n[[mutant]]\nmodule = {self.module!r}\nwas = {self.was!r}\nnow = {self.now!r}\nwhy = ''"


def drafter_tests() -> dict[str, list[str]]:
    """The drafters' modules and tests."""
    modules = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("sim/drafters/*.py"))
    tests = sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("tests/test_drafters*.py"))
    return {module: [*tests, module] for module in modules if not module.endswith("__init__.py")}


def changed(code: str) -> Iterator[str]:
    """The code with one small change, for each change that cosmic-ray knows and that is not left out."""
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator, operator_names

    nodes = list(ast_nodes(get_ast(code)))
    for name in operator_names():
        if not LEFT_OUT.match(name) and not get_operator(name).arguments():
            operator = get_operator(name)()
            for i in range(sum(len(list(operator.mutation_positions(node))) for node in nodes)):
                yield mutate_code(code, operator, i)


def lines_of(code: str, other: str) -> tuple[str, str]:
    """The lines that are in one only, and those that are in the other only."""
    lines = [line for line in difflib.ndiff(code.splitlines(), other.splitlines()) if line[:1] in "+-"]
    was, now = (" / ".join(line[2:].strip() for line in lines if line[0] == sign) for sign in "-+")
    return was, now


def tried(check: Check, tree: Path, seconds: float) -> tuple[bool, float]:
    """Whether a check in the tree passes in a process of its own and in time; and the processor time it took."""
    child = os.fork()
    if not child:
        try:
            _confine(tree, seconds)
            status = 1 if check() else 0
            sys.stdout.flush()
        except BaseException:  # whatever it is, this process goes no further
            traceback.print_exc()
            status = 1
        finally:
            os._exit(status)
    _, status, usage = os.wait4(child, 0)
    return status == 0, usage.ru_utime + usage.ru_stime


def _confine(tree: Path, seconds: float) -> None:
    """Make this process one of the tree: its modules, what it writes, and how much it may take."""
    output = os.open(tree / "output.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(output, 2)
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 2))
    with suppress(ValueError, OSError):  # not every system has this limit
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    os.chdir(tree)
    sys.path.insert(0, str(tree))
    for name in [name for name in sys.modules if name.split(".")[0] in ("sim", "costmodel", "tests")]:
        del sys.modules[name]


def first(module: str) -> None:
    """What finds most mutants of a module in a second."""
    name = "tests.quick" if module in TESTS else "tests.quick_drafters"
    sys.argv = [name, Path(module).stem]
    runpy.run_module(name, run_name="__main__")


def mutate(module: str, tests: list[str], *, quick: bool = False) -> Iterator[tuple[int, int, float, Mutant | None]]:
    """Try all mutants of a module: how many are done, how many there are, seconds spent, and the one tried."""
    with tempfile.TemporaryDirectory() as name:
        tree = Path(name)
        for part in ("sim", "tests", "docs", "costmodel"):
            shutil.copytree(ROOT / part, tree / part, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", tree)
        arguments = ["-x", "-q", "-p", "no:cacheprovider", "--hypothesis-seed=0", *tests]
        checks: list[Check] = [lambda: first(module)] + [lambda: pytest.main(arguments)] * (not quick)
        limits: list[float] = []
        for check in checks:
            passed, seconds = tried(check, tree, 600)
            if not passed:
                raise SystemExit(f"{module} fails without any mutant:\n{(tree / 'output.txt').read_text()}")
            limits.append(PATIENCE * seconds + 2)
        sys.dont_write_bytecode = True  # two mutants within a second would be one to Python
        for compiled in (tree / module).parent.glob(f"__pycache__/{Path(module).stem}.*"):
            compiled.unlink()
        code, spent = (tree / module).read_text(), 0.0
        todo = list(changed(code))
        yield 0, len(todo), spent, None
        for i, other in enumerate(todo):
            (tree / module).write_text(other)
            survived = True
            for check, limit in zip(checks, limits, strict=True):
                if survived:
                    survived, seconds = tried(check, tree, limit)
                    spent += seconds
            yield i + 1, len(todo), spent, Mutant(module, *lines_of(code, other), survived)
        sys.dont_write_bytecode = False


def report(figures: dict[str, list[int]]) -> str:
    """The section of docs/exactness.md, from mutants, survivors and seconds by module."""
    n, _, seconds = (sum(column) for column in zip(*figures.values(), strict=True))
    lines = [
        f"{n:,} mutants in {seconds / 60:.0f} minutes on 1 core; none survives that is not listed as equivalent in "
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


def write(module: str, found: list[int]) -> None:
    """Keep a module's figures, and write the page's section anew."""
    figures = (json.loads(FIGURES.read_text()) if FIGURES.exists() else {}) | {module: found}
    FIGURES.write_text(json.dumps(figures, indent=1, sort_keys=True) + "\n")
    write_section(PAGE, "mutate", report(figures))


def main() -> None:
    """Parse, mutate, print, write."""
    parser = argparse.ArgumentParser(description="Mutation tests of the machine, the loops and the drafters.")
    parser.add_argument("modules", nargs="*", help="all of them unless named")
    parser.add_argument("--quick", action="store_true", help="the first tries only: finds where to look")
    given = parser.parse_args()
    todo = {m: t for m, t in {**TESTS, **drafter_tests()}.items() if not given.modules or m in given.modules}
    if unknown := set(given.modules) - set(todo):
        parser.error(f"no tests are named for {', '.join(sorted(unknown))}")
    phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)  # one failure is enough: it need not be the least
    hypothesis.settings.register_profile("mutants", database=None, deadline=None, phases=phases)
    hypothesis.settings.load_profile("mutants")
    known = equivalents()
    holes: list[Mutant] = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), auto_refresh=False) as bar:  # no thread beside the forks
        for module, tests in todo.items():
            task, figures, explained = bar.add_task(module, total=None), [0, 0, 0], len(holes)
            for n_done, n, seconds, mutant in mutate(module, tests, quick=given.quick):
                bar.update(task, completed=n_done, total=n, refresh=True)
                figures[0], figures[2] = n, round(seconds)
                if mutant is not None and mutant.survived:
                    figures[1] += 1
                    if (mutant.module, mutant.was, mutant.now) not in known:
                        holes.append(mutant)
                        print(mutant, flush=True)
            print(f"{module}: {figures[0]} mutants, {figures[1]} survived", flush=True)
            if len(holes) == explained and not given.quick:
                write(module, figures)
    if holes:
        raise SystemExit(f"{len(holes)} mutants survived and are not explained")


if __name__ == "__main__":
    main()
