"""What every command has: `--quiet` and `--verbose`, its example under `--help`, and names that complete.

An example stands in the command's docstring, behind a line `Example:`; one indented line is one command.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, signature
from typing import Annotated, Any

import typer

verbosity = 1
"""0: results and errors; 1: progress and notes too; 2: every step, and where errors arose."""


Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Only results and errors: no progress, no notes.", show_default=False)
]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Every step, and where an error arose.", show_default=False)
]


class App(typer.Typer):
    """A `typer.Typer` whose commands all have `--quiet` and `--verbose`."""

    def command(self, name: str | None = None, **more: Any) -> Callable[[Any], Any]:
        """As `typer.Typer.command`."""
        register = super().command(name, **more)

        def added(function: Callable[..., Any]) -> Callable[..., Any]:
            register(_heeding(function))
            return function

        return added


def _heeding(function: Callable[..., Any]) -> Callable[..., Any]:
    """The command with two more options, that are heeded before it is called."""

    @wraps(function)
    def heeding(*, quiet: bool = False, verbose: bool = False, **options: Any) -> Any:
        global verbosity
        verbosity = 2 if verbose else 0 if quiet else 1
        return function(**options)

    kinds = {"quiet": Quiet, "verbose": Verbose}
    more = [Parameter(name, Parameter.KEYWORD_ONLY, default=False, annotation=kind) for name, kind in kinds.items()]
    given = signature(function, eval_str=True)
    heeding.__signature__ = given.replace(parameters=[*given.parameters.values(), *more])  # type: ignore[attr-defined]
    heeding.__annotations__ = {p.name: p.annotation for p in (*given.parameters.values(), *more)}
    return heeding


def loops(begun: str) -> list[str]:
    """Loops whose names begin so."""
    from sim.loops import LOOPS

    return [name for name in LOOPS if name.startswith(begun)]


def devices(begun: str) -> list[str]:
    """Listed devices whose names begin so."""
    from costmodel.specs import known_devices

    return [name for name in known_devices() if name.startswith(begun)]


def models(begun: str) -> list[str]:
    """Listed models whose names begin so."""
    from costmodel.specs import known_models

    return [name for name in known_models() if name.startswith(begun)]
