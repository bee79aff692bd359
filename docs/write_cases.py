"""Writes docs/cases.md: what people reported elsewhere, and the tests that hold the right behaviour here."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

FILE, PAGE = Path(__file__).with_name("cases.toml"), Path(__file__).with_name("cases.md")


def cases() -> dict[str, dict[str, Any]]:
    """The cases by name: what was reported, tests, and the result or what is open."""
    return tomllib.loads(FILE.read_text(encoding="utf-8"))


def page() -> str:
    """The page, in Markdown."""
    made = cases()
    n_open = sum("open" in case for case in made.values())
    lines = [
        "# Cases from elsewhere",
        "",
        f"{len(made)} things that people reported of other programs; {len(made) - n_open} hold here, each as tests of"
        " its whole kind. Written by `make docs` from `docs/cases.toml`.",
        "",
        "| case | reported | tests | result |",
        "| --- | --- | --- | --- |",
    ]
    for name, case in made.items():
        tests = "<br>".join(f"`{test}`" for test in case["tests"])
        result = f"open: {case['open']}" if "open" in case else case["result"]
        lines.append(f"| {name} | {case['case']} | {tests} | {result} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
