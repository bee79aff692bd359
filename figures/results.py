"""What a step of the toolkit came to, as objects that show themselves in a notebook and hold polars frames."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import polars as pl

from costmodel.profile import Profile
from figures.shown import Drawn, Shown
from sim import trace
from sim.predict import Prediction
from sim.trace import Text
from validate import runs as run_files
from validate.comparison import Comparison
from validate.files import write, write_json
from validate.runs import Run

File: TypeAlias = str | Path


@dataclass(frozen=True, repr=False)
class Texts(Shown):
    """Recorded greedy texts, and the model that wrote them."""

    header: trace.Header
    texts: tuple[Text, ...]

    @property
    def title(self) -> str:
        """How many, and whose."""
        return f"{len(self.texts)} texts of {sum(t.n_tokens for t in self.texts)} tokens by {self.header.model or '?'}"

    @cached_property
    def frame(self) -> pl.DataFrame:
        """One row a text."""
        rows = [(_utf8(t.name), t.n_prompt, t.n_tokens, _utf8(t.prompt), list(t.tokens)) for t in self.texts]
        names = ["prompt", "n_prompt", "n_tokens", "words", "tokens"]
        return pl.DataFrame(rows, schema=names, orient="row")

    def save(self, path: File) -> None:
        """Write the file that `--texts` takes."""
        write(Path(path), trace.dumps(self.header, self.texts))


@dataclass(frozen=True, repr=False)
class Costs(Shown):
    """What a pass costs, by rows and cached length."""

    profile: Profile

    @property
    def title(self) -> str:
        """Of which model, on how many threads, from where."""
        threads = f" on {self.profile.n_threads} threads" if self.profile.n_threads else ""
        return f"pass costs of {self.profile.model}{threads}, {self.profile.source}"

    @property
    def notes(self) -> tuple[str, ...]:
        """What must be said with every number derived from them."""
        return self.profile.caveats

    @cached_property
    def frame(self) -> pl.DataFrame:
        """One row a cached length and row count: seconds with their 95 % interval, and the ratio to one row."""
        cost = self.profile.cost
        all_rows, lows, highs = cost.all_rows_seconds, cost.low, cost.high
        rows = [
            (
                *(past, n, all_rows[i][j]),
                *(lows[i][j] if lows else None, highs[i][j] if highs else None, all_rows[i][j] / all_rows[i][0]),
            )
            for i, past in enumerate(cost.n_past)
            for j, n in enumerate(cost.n_rows)
        ]
        names = ["n_past", "n_rows", "seconds", "low", "high", "over_smallest"]
        return pl.DataFrame(rows, schema=names, orient="row")

    def draw(self, rows: int = 6) -> Drawn:
        """The pass-cost curve."""
        from figures import passcost
        from figures.pictures import typical_past

        return Drawn(passcost.draw(self.profile.cost, rows, typical_past(self.profile.cost)))

    def save(self, path: File) -> None:
        """Write the file that `--profile` takes."""
        write_json(Path(path), self.profile)


@dataclass(frozen=True, repr=False)
class Predictions(Shown):
    """What each setting takes, in expectation or over texts."""

    lines: tuple[Any, ...]
    what: str = "predicted"

    @property
    def title(self) -> str:
        """What is predicted."""
        return self.what

    @cached_property
    def frame(self) -> pl.DataFrame:
        """One row a prompt and setting, or a setting."""
        return pl.DataFrame(msgspec.to_builtins(list(self.lines)), infer_schema_length=None)


@dataclass(frozen=True, repr=False)
class Replayed(Shown):
    """The passes of one setting over one recorded text, priced where pass costs were given."""

    prediction: Prediction

    @property
    def title(self) -> str:
        """Setting, text and totals."""
        p = self.prediction
        return f"{p.setting} over {p.text}: {p.n_tokens} tokens in {len(p.records)} passes of {p.n_rows} rows"

    @cached_property
    def frame(self) -> pl.DataFrame:
        """One row a pass."""
        return pl.DataFrame(msgspec.to_builtins(self.prediction.records), infer_schema_length=None)


@dataclass(frozen=True, repr=False)
class Swept(Shown):
    """A table of settings, as swept; sort and filter the frame."""

    table: pl.DataFrame
    baseline: str
    caveats: tuple[str, ...] = ()

    @property
    def frame(self) -> pl.DataFrame:
        """One row a setting and profile, and a prompt if asked for."""
        return self.table

    @property
    def notes(self) -> tuple[str, ...]:
        """What must be said with every number."""
        return self.caveats

    @property
    def title(self) -> str:
        """How many, and over what their speedups are."""
        return f"{self.frame.height} lines; speedups over {self.baseline}"


@dataclass(frozen=True, repr=False)
class Timed(Shown):
    """Timed runs, every pass kept."""

    header: run_files.Header
    runs: tuple[Run, ...]

    @property
    def title(self) -> str:
        """How many, of which model."""
        return f"{len(self.runs)} runs of {self.header.model} in {len({r.block for r in self.runs})} blocks"

    @property
    def notes(self) -> tuple[str, ...]:
        """What must be said with every number derived from them."""
        return self.header.notes

    @cached_property
    def frame(self) -> pl.DataFrame:
        """One row a run."""
        rows = [
            (r.block, r.place, r.prompt, r.loop, r.rows, r.drafter, len(r.decode), r.n_tokens, r.seconds)
            for r in self.runs
        ]
        names = ["block", "place", "prompt", "loop", "rows", "drafter", "n_passes", "n_tokens", "seconds"]
        return pl.DataFrame(rows, schema=names, orient="row")

    @cached_property
    def passes(self) -> pl.DataFrame:
        """One row a pass."""
        rows = [
            {"block": r.block, "prompt": r.prompt, "loop": r.loop, "rows": r.rows, "nth": i, **msgspec.to_builtins(p)}
            for r in self.runs
            for i, p in enumerate(r.passes)
        ]
        return pl.DataFrame(rows, infer_schema_length=None)


@dataclass(frozen=True, repr=False)
class Compared(Shown):
    """Predicted and measured speedups, with what they rest on."""

    comparison: Comparison
    costs: Costs | None
    timed: Timed
    texts: Texts | None = None

    @property
    def title(self) -> str:
        """The answer."""
        from figures.report import answered

        words = answered(self.comparison, self.costs.profile if self.costs else None, self.timed.runs)
        return f"{words.headline}. {words.sentence} {words.trust}"

    @property
    def notes(self) -> tuple[str, ...]:
        """The warnings."""
        return self.comparison.warnings

    @cached_property
    def frame(self) -> pl.DataFrame:
        """One row a cell: a loop against a baseline on a prompt."""
        rows = msgspec.to_builtins(self.comparison.cells)
        frame = pl.DataFrame([{k: v for k, v in r.items() if k != "parity"} for r in rows], infer_schema_length=None)
        verdicts = pl.Series("parity", [cell.parity.verdict for cell in self.comparison.cells], dtype=pl.String)
        return frame.with_columns(verdicts)

    @cached_property
    def overall(self) -> pl.DataFrame:
        """One row a setting and baseline over all prompts, by each of the three speedups."""
        return pl.DataFrame(msgspec.to_builtins(self.comparison.overall), infer_schema_length=None)

    def draw(self, baseline: str = "greedy") -> Drawn:
        """What each loop gains on each prompt."""
        from figures import speedup

        return Drawn(speedup.draw(self.comparison.cells, baseline))

    def report(self, folder: File) -> Path:
        """Write the page and its figures into a folder; the page's path."""
        from figures.report import write as write_report

        costs, texts = self.costs.profile if self.costs else None, self.texts.texts if self.texts else ()
        header, runs = self.timed.header, self.timed.runs
        return write_report(Path(folder), self.comparison, costs, runs, texts, header=header)


def _utf8(text: str) -> str:
    """The text without halves of surrogate pairs, which no frame can hold."""
    return text.encode("utf-8", "replace").decode("utf-8")
