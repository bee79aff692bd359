"""Long work -> a bar on standard error with how fast it goes and how long is left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text

from figures.terminal import say
from figures.text import plain


class Rate(ProgressColumn):
    """Units a second."""

    def __init__(self, unit: str) -> None:
        super().__init__()
        self._unit = unit

    def render(self, task: Task) -> Text:
        """The mean of the last while."""
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.0f} {self._unit}/s")


@contextmanager
def meter(unit: str) -> Iterator[Callable[[str, int, int], None]]:
    """A bar that is told what is being done, how many units are done and how many there are; sentences at a tenth
    each where standard error is no terminal.
    """
    console = Console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.completed:,.0f} of {task.total:,.0f}"),
        Rate(unit),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
    )
    told = -1
    with bar:
        task = bar.add_task("starting", total=1)

        def advance(what: str, done: int, total: int) -> None:
            nonlocal told
            bar.update(task, description=plain(what), completed=done, total=total)
            tenth = 10 * done // max(total, 1)
            if not console.is_terminal and tenth > told:
                told = tenth
                say(f"{plain(what)}: {done:,} of {total:,} {unit}")

        yield advance
