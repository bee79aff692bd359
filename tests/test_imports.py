"""The arrows of the design run one way, and the heavy libraries stay where they are used."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("costmodel", "sim", "validate", "figures")
FILES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))

MAY_IMPORT = {
    "costmodel": {"costmodel"},
    "sim": {"sim", "costmodel"},
    "validate": {"validate", "sim", "costmodel"},
    "figures": {"figures", "validate", "sim", "costmodel"},
}
ONLY_IN = {
    "llama_cpp": ("validate/weights.py",),
    "matplotlib": ("figures/",),
    "jinja2": ("figures/", "validate/weights.py"),
    "simpy": ("sim/events.py",),
    "time": ("validate/",),
    "random": ("validate/",),
    "datetime": ("validate/",),
}


def imported(path: Path) -> set[str]:
    """The top-level modules that a file imports anywhere, and `sim.predict`-like full names."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return names


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_arrows_run_one_way(path: Path) -> None:
    name = path.relative_to(ROOT).as_posix()
    package = name.split("/")[0]
    tops = {module.split(".")[0] for module in imported(path)}
    assert tops & set(PACKAGES) <= MAY_IMPORT[package]
    assert "sweepcap" not in tops
    for module, places in ONLY_IN.items():
        if module in tops:
            assert name.startswith(places), f"{name} imports {module}"


def test_the_machine_and_the_loops_are_standard_library_only() -> None:
    for name in ("tokens", "machine", "loops"):
        tops = {module.split(".")[0] for module in imported(ROOT / "sim" / f"{name}.py")}
        assert tops <= set(sys.stdlib_module_names) | {"sim"}, name


def test_importing_the_program_loads_nothing_heavy() -> None:
    code = "import sys, sweepcap; print([m for m in sys.modules if m in %r])"
    heavy = ("numpy", "scipy", "matplotlib", "polars", "llama_cpp", "numba", "msgspec", "jinja2", "simpy")
    done = subprocess.run([sys.executable, "-c", code % (heavy,)], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"
