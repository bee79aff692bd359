"""Records -> the screen: results to standard output, everything else to standard error.

What users gave (names, paths) is printed as text, never read as markup.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from figures import shell
from figures.text import plain
from validate.files import check_writable, write

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.figure import Figure

FIGURES = (".svg", ".pdf", ".png")
TABLES = {".csv": "write_csv", ".parquet": "write_parquet", ".json": "write_json"}


def console(*, stderr: bool = False, width: int | None = None) -> Console:
    """A screen without colours where `NO_COLOR` is set (no-color.org) or nobody looks."""
    return Console(stderr=stderr, width=width, color_system=None if os.environ.get("NO_COLOR") else "auto")


def say(sentence: str) -> None:
    """A sentence for the person in front of the screen, unless asked to be quiet."""
    if shell.verbosity:
        print(f"sweepcap: {sentence}", file=sys.stderr, flush=True)


def emit(text: str) -> None:
    """A result. A reader that went away is no error; a full disk is: ValueError."""
    try:
        sys.stdout.write(text if text.endswith("\n") else text + "\n")
        sys.stdout.flush()
    except OSError as error:
        # What is left in the buffer must not be tried again when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            raise SystemExit(0) from None
        raise ValueError(f"standard output cannot be written: {error.strerror}") from error


def emit_json(value: Any) -> None:
    """A result as one JSON document; what is not a number is null."""
    emit(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def emit_table(title: str, names: Sequence[str], rows: Iterable[Sequence[object]], longest: int = 200) -> None:
    """A result as a table: words to the left, numbers to the right, as wide as needed where no terminal limits it.

    What has more than `longest` characters is cut.
    """
    table = Table(title=Text(plain(title)), title_justify="left", box=None, pad_edge=False, header_style="bold")
    cells = [[plain(str(cell), longest) for cell in row] for row in rows]
    for i, name in enumerate(names):
        numeric = all(row[i][:1] in "-+0123456789(n" or row[i] == "-" for row in cells)
        table.add_column(Text(name), justify="right" if numeric and i else "left", overflow="fold")
    for row in cells:
        table.add_row(*(Text(cell) for cell in row))
    screen = console(width=None if sys.stdout.isatty() else 240)
    with screen.capture() as capture:
        screen.print(table)
    emit("\n".join(line.rstrip() for line in capture.get().splitlines()))


def check_table(path: Path | None) -> None:
    """Raise ValueError, before any work, when a table's file could not be written or is of no known kind."""
    if path is not None:
        if path.suffix not in TABLES:
            raise ValueError(f"{path}: a table is written as {', '.join(TABLES)}; choose one of these endings")
        check_writable(path)


def check_figure(path: Path | None) -> None:
    """Raise ValueError, before any work, when a figure's file could not be written or is of no known kind."""
    if path is not None:
        if path.suffix not in FIGURES:
            raise ValueError(f"{path}: a figure is written as {', '.join(FIGURES)}; choose one of these endings")
        check_writable(path)


def write_figure(path: Path, figure: Figure) -> None:
    """A figure as a file of the kind that its ending tells, or nothing."""
    from figures.style import rendered

    write(path, rendered(figure, path.suffix[1:]))


def write_table(path: Path, rows: Sequence[Any]) -> None:
    """Rows (dataclasses or structs of plain values) as a file of the kind that its ending tells, or nothing."""
    import polars as pl

    frame = pl.DataFrame(msgspec.to_builtins(list(rows)), infer_schema_length=None)
    nested = [name for name, kind in frame.schema.items() if isinstance(kind, pl.Struct)]
    frame = frame.unnest(nested)
    if path.suffix == ".csv":  # which has no lists
        lists = [
            pl.col(name).cast(pl.List(pl.String)).list.join(" ") for name in frame.columns if _is_list(frame, name)
        ]
        frame = frame.with_columns(lists)
    write_frame(path, frame)


def write_frame(path: Path, frame: pl.DataFrame) -> None:
    """A frame as a file of the kind that its ending tells, or nothing."""
    buffer = BytesIO()
    getattr(frame, TABLES[path.suffix])(buffer)
    write(path, buffer.getvalue())


def _is_list(frame: pl.DataFrame, name: str) -> bool:
    """Whether a column holds lists."""
    return str(frame.schema[name]).startswith("List")


class _Rate(ProgressColumn):
    """Units done, of how many, and how many a second."""

    def __init__(self, unit: str) -> None:
        super().__init__()
        self._unit = unit

    def render(self, task: Task) -> Text:
        """The mean of the last while."""
        speed = task.finished_speed or task.speed
        rate = "" if speed is None else f", {speed:,.0f} {self._unit}/s"
        return Text(f"{task.completed:,.0f} of {task.total or 0:,.0f}{rate}")


@contextmanager
def progress(unit: str = "") -> Iterator[Callable[[str, int, int], None]]:
    """A bar on standard error: what is being done, how long is left; sentences where it is no terminal.

    With a `unit`, of which there are many, also how many are done and how fast; a sentence is then for a tenth of them.
    """
    screen = console(stderr=True)
    told: list[str | int] = []
    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        *([_Rate(unit)] if unit else []),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=screen,
        disable=not (screen.is_terminal and shell.verbosity),
    )
    with bar:
        task = bar.add_task("starting", total=None)

        def advance(what: str, done: int, total: int) -> None:
            bar.update(task, description=plain(what), completed=done, total=total)
            step = 10 * done // max(total, 1) if unit else what
            if not screen.is_terminal and (step not in told or shell.verbosity > 1):
                told.append(step)
                counted = f": {done:,} of {total:,} {unit}" if unit else f" ({done} of {total})"
                say(f"{plain(what)}{counted}")

        yield advance
