"""The toolkit from Python: each step a function, each result an object that shows itself and holds a polars frame.

    texts = sweepcap.record(["la la la"])        costs = sweepcap.calibrate(texts)
    sweepcap.predict(costs, texts)               sweepcap.compare(costs, texts, sweepcap.measure(texts))

`import sweepcap` brings these names without loading anything; what is heavy comes with the first call.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
import polars as pl

from costmodel import ask
from costmodel import profile as profiles
from costmodel.acceptance import parse as parse_law
from costmodel.caps import full_acceptance_speedup, sweep_cap
from costmodel.passcost import PassCost
from costmodel.profile import Profile
from figures.shown import Drawn, Shown
from sim import trace
from sim.predict import Prediction, predictions, walk
from sim.predict import predict as predicted
from sim.setting import DEFAULT_DRAFTER, Setting
from sim.trace import Text
from validate import runs as run_files
from validate.comparison import Comparison
from validate.environment import check_threads, physical_cores
from validate.files import write
from validate.runs import Run

if TYPE_CHECKING:
    from validate.record import Prompt

__all__ = ["calibrate", "caps", "compare", "load", "measure", "predict", "record", "replay", "sweep"]

STUDY = ("greedy", "gated", "fused", "fused-partial", "gated-held", "carry")
"""The loops of the study: what is compared when no loop is named."""

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
        write(Path(path), msgspec.json.format(msgspec.json.encode(self.profile), indent=1))


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


def record(
    prompts: File | Mapping[str, str] | Sequence[str],
    model: File | None = None,
    *,
    tokens: int = 128,
    context: int | None = None,
    threads: int | None = None,
) -> Texts:
    """The model's greedy texts behind prompts: a file of them, a mapping of names to prompts, or just prompts.

    Raises ValueError for what the command line refuses too.
    """
    from validate.record import record_texts

    header, texts = record_texts(_model(model), _prompts(prompts), tokens, _threads(threads), context)
    return Texts(header, tuple(texts))


def calibrate(
    texts: Texts | None = None,
    model: File | None = None,
    *,
    context: int = 512,
    rows: int = 12,
    rounds: int = 8,
    threads: int | None = None,
) -> Costs:
    """What passes of 1 to `rows` rows cost, at the cached lengths of `texts` or up to `context`."""
    from validate.calibrate import calibrate as calibrated

    given = list(texts.texts) if texts else []
    made = calibrated(_model(model), given, _threads(threads), context=context, max_rows=rows, n_rounds=rounds)
    return Costs(made)


def predict(
    costs: Costs | PassCost,
    texts: Texts | str,
    loops: Sequence[str] = STUDY,
    rows: int | Sequence[int] = 6,
    *,
    drafter: str = DEFAULT_DRAFTER,
    tokens: int = 256,
) -> Predictions:
    """What each loop takes over recorded texts, or for `tokens` tokens of an acceptance law such as "iid 0.8".

    Raises ValueError for rows that the costs do not cover, and for unknown loops, drafters and laws.
    """
    cost = costs.profile.cost if isinstance(costs, Costs) else costs
    if isinstance(texts, str):
        lines = ask.predict(parse_law(texts), cost, _many(rows), loops, tokens)
        return Predictions(tuple(lines), f"expected for {tokens} tokens of {texts}")
    if isinstance(costs, Costs):
        from validate.compare import check_same_model

        check_same_model(costs.profile, texts.header)
    made = predictions(texts.texts, settings(loops, rows, drafter), cost, replays=texts.header.replays)
    return Predictions(tuple(made))


def replay(text: Text | Texts, setting: str, costs: Costs | PassCost | None = None, *, name: str = "") -> Replayed:
    """The passes of a setting such as "carry rows=6 ngram n_max=3" over a recorded text, priced at `costs`.

    Of several texts, the one of this `name`, or the first. Raises ValueError for a text that is not there.
    """
    replays = isinstance(text, Texts) and text.header.replays
    if isinstance(text, Texts):
        named = [t for t in text.texts if t.name == name] if name else list(text.texts)
        if not named:
            raise ValueError(f"no text is named {name!r}: there are {', '.join(t.name for t in text.texts)}")
        text = named[0]
    cost, made = costs.profile.cost if isinstance(costs, Costs) else costs, Setting.parse(setting)
    if cost is not None:
        return Replayed(predicted(text, made, cost, replays=replays))
    records = walk(text, made, replays=replays)
    return Replayed(Prediction(made, text.name, tuple(r for r in records if r.kind != "prefill")))


def sweep(
    costs: Costs | Sequence[Costs],
    texts: Texts,
    loops: Sequence[str] = STUDY,
    rows: int | Sequence[int] = 6,
    *,
    drafters: Sequence[str] = (DEFAULT_DRAFTER,),
    baseline: str = "greedy",
    by_prompt: bool = False,
    workers: int = 1,
) -> Swept:
    """Every combination of loops, R and drafters ("ngram n_max=2..4") over recorded texts, at one or more costs.

    Raises ValueError for unknown loops and drafters, and for rows that the costs do not cover.
    """
    from sim.grid import grid
    from sim.summary import frame, with_baselines
    from sim.sweep import Work
    from validate.sweeping import swept

    given = [costs] if isinstance(costs, Costs) else list(costs)
    made = grid(loops, _many(rows), drafters, 1_000_000)
    compared, prices = with_baselines(made.settings, baseline), tuple(c.profile.cost for c in given)
    work = Work(compared, tuple(texts.texts), prices, replays=texts.header.replays)
    result = swept(work, n_workers=workers)
    names = [f"{c.profile.model} {i}" if len(given) > 1 else c.profile.model for i, c in enumerate(given, 1)]
    table = frame(result, made.settings, baseline, names, by_prompt)
    return Swept(table, baseline, (*given[0].notes, *made.left_out))


def measure(
    texts: Texts,
    model: File | None = None,
    loops: Sequence[str] = STUDY,
    rows: int | Sequence[int] = 6,
    *,
    drafter: str = DEFAULT_DRAFTER,
    blocks: int = 8,
    threads: int | None = None,
    out: File | None = None,
) -> Timed:
    """Time loops on the model that wrote the texts, in ABBA blocks; with `out`, going on from that file.

    What may disturb the timing is warned of. Raises ValueError when the texts are of another model.
    """
    from validate.agenda import Plan
    from validate.measure import measure as timed

    plan = Plan(settings(loops, rows, drafter), max(t.n_tokens for t in texts.texts), blocks)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(out) if out else Path(folder) / "runs.jsonl"
        timed(_model(model), file, texts.header, list(texts.texts), plan, _threads(threads), say=warnings.warn)
        header, runs = run_files.load(file)
    return Timed(header, tuple(runs))


def compare(costs: Costs | None, texts: Texts | None, timed: Timed) -> Compared:
    """Predicted and measured speedups side by side; imported runs need neither costs nor texts.

    Raises ValueError when the three are not of one model and thread count.
    """
    from validate.compare import check_same_model
    from validate.compare import compare as compared

    if timed.header.source != "imported" and (costs is None or texts is None):
        raise ValueError("runs that were timed here are compared with their costs and texts: give both")
    if costs is not None:
        check_same_model(costs.profile, texts.header if texts else trace.Header(), timed.header)
    given = list(texts.texts) if texts else []
    made = compared(costs.profile if costs else None, given, timed.header, timed.runs)
    return Compared(made, costs, timed, texts)


def caps(
    rows: int | Sequence[int] = tuple(range(2, 9)),
    *,
    ratio: float | None = None,
    costs: Costs | PassCost | None = None,
    past: int | None = None,
) -> Predictions:
    """What always-right drafts gain, by R: on a flat cost, on c(R)/c(1) = `ratio`, or on `costs` at a cached length.

    Raises ValueError for fewer than 2 rows, and for rows that the costs do not cover.
    """
    cost = costs.profile.cost if isinstance(costs, Costs) else costs
    at = past if past is not None else costs.profile.cost.n_past[0] if isinstance(costs, Costs) else 0
    loops = [("fused", "gated"), ("gated", "greedy"), ("fused", "greedy"), ("carry", "greedy")]
    lines = [
        {"rows": n, "flat": float(sweep_cap(n))}
        | {
            f"{loop}/{base}": float(full_acceptance_speedup(loop, base, n, cost=cost, ratio=ratio, n_past=at))
            for loop, base in loops
        }
        for n in _many(rows)
    ]
    what = "speedups with every draft right; flat: fused/gated where every pass costs one sweep"
    return Predictions(tuple(lines), what)


def load(path: File) -> Texts | Costs | Timed | Compared:
    """What a file of this project holds, or what a folder that `sweepcap run` left comes to.

    Raises ValueError when it is neither.
    """
    path = Path(path)
    if path.is_dir():
        from validate.session import load as load_session

        session = load_session(path)
        costs = Costs(session.profile) if session.profile else None
        texts = Texts(trace.load(path / "texts.jsonl")[0], session.texts) if session.texts else None
        return Compared(session.comparison, costs, Timed(session.header, session.runs), texts)
    head = next(trace.lines(path), (0, ""))[1] if path.suffix == ".jsonl" else ""
    if run_files.FORMAT in head:
        header, runs = run_files.load(path)
        return Timed(header, tuple(runs))
    if path.suffix == ".jsonl":
        given, texts_ = trace.load(path)
        return Texts(given, tuple(texts_))
    return Costs(profiles.load(path))


def settings(loops: Sequence[str], rows: int | Sequence[int], drafter: str = DEFAULT_DRAFTER) -> tuple[Setting, ...]:
    """The settings asked for, with the baselines `greedy` and `gated` that speedups need.

    >>> [str(s) for s in settings(["carry"], [6, 8])]
    ['greedy R=6', 'gated R=6', 'carry R=6', 'gated R=8', 'carry R=8']
    """
    names = dict.fromkeys(("greedy", "gated", *loops))
    made = [Setting(name, n, drafter) for n in _many(rows) for name in names]
    # Greedy has one row whatever R is: one setting of it is enough.
    return tuple(s for i, s in enumerate(made) if s.loop != "greedy" or i == 0)


def _utf8(text: str) -> str:
    """The text without halves of surrogate pairs, which no frame can hold."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _many(rows: int | Sequence[int]) -> Sequence[int]:
    return [rows] if isinstance(rows, int) else rows


def _prompts(prompts: File | Mapping[str, str] | Sequence[str]) -> list[Prompt]:
    from validate.record import Prompt, load_prompts

    if isinstance(prompts, str | Path):
        return load_prompts(Path(prompts))
    named = prompts if isinstance(prompts, Mapping) else {f"prompt {i}": p for i, p in enumerate(prompts, 1)}
    if not named or not all(named.values()):
        raise ValueError("a prompt is empty: give some text to continue")
    return [Prompt(name=name, prompt=text) for name, text in named.items()]


def _model(model: File | None) -> Path:
    from validate.models import check_gguf, default_model

    path = Path(model) if model else default_model()
    check_gguf(path)
    return path


def _threads(threads: int | None) -> int:
    n_threads = physical_cores() if threads is None else threads
    check_threads(n_threads)
    return n_threads
