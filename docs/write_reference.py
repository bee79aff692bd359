"""`python -m docs.write_reference`: docs/reference.md, from the commands' options and the functions' docstrings."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main

import sweepcap
from figures import notebook
from sim.drafters import DRAFTERS
from sim.loops import LOOPS
from validate import passes

PAGE = Path(__file__).with_name("reference.md")
HEAD = """# Reference

Written by `make docs` from the docstrings and from what `--help` shows; edit those. What each loop feeds:
[loops.md](loops.md).
"""


def page() -> str:
    """The whole page."""
    parts = [HEAD, "## Commands\n", *_commands(typer.main.get_command(sweepcap.app), "sweepcap")]
    parts += ["## Python\n", inspect.getdoc(notebook) or "", "", *map(_function, notebook.__all__)]
    parts += ["## A log of passes\n", f"```text\n{inspect.getdoc(passes)}\n```\n"]
    for title, registry in (("Loops", LOOPS), ("Drafters", DRAFTERS)):
        parts += [f"## {title}\n", *(f"- `{name}`: {_first(made)}" for name, made in registry.items()), ""]
    return "\n".join(parts).rstrip() + "\n"


def _commands(command: Any, name: str) -> Iterator[str]:
    if subcommands := getattr(command, "commands", None):
        for word, sub in sorted(subcommands.items()):
            yield from _commands(sub, f"{name} {word}")
        return
    told, _, example = (inspect.cleandoc(command.help or "")).replace("\b\n", "").partition("Example:")
    yield f"### `{name}`\n"
    yield f"{' '.join(told.split())}\n"
    if example.strip():
        yield f"```sh\n{inspect.cleandoc(example)}\n```\n"
    yield from (f"- {_option(param)}" for param in command.params if param.name != "help")
    yield ""


def _option(param: Any) -> str:
    names = ", ".join(f"`{word}`" for word in param.opts) if param.param_type_name == "option" else f"`{param.name}`"
    told = (getattr(param, "help", None) or "").rstrip(".")
    if param.required:
        return f"{names} (needed): {told}"
    plain = param.default not in (None, "", False, (), [])
    return f"{names}: {told}" + (f" ({param.default} without it)" if plain and not callable(param.default) else "")


def _function(name: str) -> str:
    function = getattr(notebook, name)
    names = [
        f"{p.name}={p.default!r}" if p.default is not p.empty else p.name
        for p in inspect.signature(function).parameters.values()
    ]
    return f"### `sweepcap.{name}({', '.join(names)})`\n\n{inspect.getdoc(function)}\n"


def _first(made: Any) -> str:
    told = (inspect.getdoc(made) or "").split("\n\n")[0]
    return " ".join(told.split())


if __name__ == "__main__":
    PAGE.write_text(page())
