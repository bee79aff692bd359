"""Results that show themselves: a title, notes, and a table, as text and as HTML; and pictures as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from markupsafe import Markup

from figures.text import plain

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.figure import Figure

MOST_ROWS = 20


class Shown:
    """What has a `title` and a polars `frame`; the frame holds everything, what is shown is its beginning."""

    @property
    def title(self) -> str:
        """What it is, in a sentence."""
        raise NotImplementedError

    @property
    def frame(self) -> pl.DataFrame:
        """The whole table."""
        raise NotImplementedError

    @property
    def notes(self) -> Sequence[str]:
        """What must be said with it."""
        return ()

    def __repr__(self) -> str:
        names, rows, rest = self._table()
        widths = [max(len(name), *(len(row[i]) for row in rows), 0) for i, name in enumerate(names)]
        lines = [
            "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in (names, *rows)
        ]
        told = [f"note: {plain(note, 400)}" for note in self.notes]
        return "\n".join([plain(self.title, 2000), *told, *lines, *rest])

    def _repr_html_(self) -> str:
        names, rows, rest = self._table()
        title = Markup("<p><strong>{}</strong></p>").format(plain(self.title, 2000))
        notes = Markup("").join(Markup("<p>note: {}</p>").format(plain(note, 400)) for note in self.notes)
        head = Markup("").join(Markup("<th>{}</th>").format(name) for name in names)
        body = Markup("").join(
            Markup("<tr>{}</tr>").format(Markup("").join(Markup("<td>{}</td>").format(cell) for cell in row))
            for row in rows
        )
        more = Markup("").join(Markup("<p>{}</p>").format(line) for line in rest)
        table = Markup("<table><thead><tr>{}</tr></thead><tbody>{}</tbody></table>").format(head, body)
        return str(title + notes + table + more)

    def _table(self) -> tuple[list[str], list[list[str]], list[str]]:
        """Names, the first rows as text, and how many more there are."""
        rows = [[_cell(value) for value in row] for row in self.frame.head(MOST_ROWS).iter_rows()]
        hidden = self.frame.height - len(rows)
        return self.frame.columns, rows, [f"... and {hidden} more rows in .frame"] if hidden else []


def _cell(value: object) -> str:
    """A value of a table, short enough for a line.

    >>> _cell(1.23456789), _cell(None), _cell("a\\nb"), _cell([1, 2, 3])
    ('1.235', '-', 'a↵b', '3 values')
    """
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{len(value)} values" if isinstance(value, list) else plain(value, 40)


@dataclass(frozen=True)
class Drawn:
    """A figure that a notebook shows as SVG."""

    figure: Figure

    def _repr_svg_(self) -> str:
        from figures.style import rendered

        return rendered(self.figure, "svg").decode("utf-8")

    def save(self, path: str | Path) -> None:
        """Write it as what the ending says: .svg, .pdf or .png."""
        from figures.style import save

        path = Path(path)
        save(self.figure, path.with_suffix(""), (path.suffix.lstrip("."),))
