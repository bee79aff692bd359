"""The command line: parse and call.

Predicts, and then measures, what a greedy speculative decoding loop gains on a machine, a model and a workload. Results
go to standard output (a table, or one JSON document with --json), everything else to standard error. Exit status: 0
done; 1 a check failed; 2 what was given is wrong.
"""

from __future__ import annotations

import shlex
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from costmodel.profile import Profile
    from sim.setting import Setting
    from validate.comparison import Comparison
    from validate.runs import Run
    from validate.session import Session

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help=__doc__,
    add_completion=False,
)

STUDY = ("greedy", "gated", "fused", "fused-partial", "gated-held", "carry")
"""The loops of the study: what is compared when no loop is named."""

Model = Annotated[
    Path | None, typer.Option("--model", help="A GGUF file; the embedded default model without it.")
]
Out = Annotated[Path, typer.Option("--out", help="Where to write.")]
Json = Annotated[
    bool, typer.Option("--json", help="One JSON document on standard output, and nothing else there.")
]
Loops = Annotated[
    list[str] | None, typer.Option("--loop", help="A loop; again for more. Without: those of the study.")
]
Rows = Annotated[
    list[int] | None,
    typer.Option("--rows", help="R, the most rows a guessing pass may have; again for more."),
]
Threads = Annotated[
    int | None, typer.Option("--threads", help="Threads of every pass; the physical cores without it.")
]
Texts = Annotated[Path, typer.Option("--texts", help="Recorded texts (sweepcap record).")]
ProfileFile = Annotated[Path, typer.Option("--profile", help="Pass costs (sweepcap calibrate).")]
Prompts = Annotated[Path | None, typer.Option("--prompts", help='JSON lines {"name": ..., "prompt": ...}.')]
Context = Annotated[
    int | None, typer.Option("--context", min=1, help="Context length; as long as needed without it.")
]
Blocks = Annotated[int | None, typer.Option("--blocks", min=1, help="Blocks; each runs every setting twice.")]


@app.command()
def run(
    model: Model = None,
    out: Out = Path("out"),
    quick: Annotated[
        bool, typer.Option("--quick", help="A look in two minutes: fewer tokens and blocks.")
    ] = False,
    prompts: Prompts = None,
    loop: Loops = None,
    rows: Rows = None,
    tokens: Annotated[int | None, typer.Option("--tokens", min=1, help="Tokens for each prompt.")] = None,
    blocks: Blocks = None,
    minutes: Annotated[
        float | None, typer.Option("--minutes", help="Start no block that would end later.")
    ] = None,
    n_threads: Threads = None,
    as_json: Json = False,
) -> None:
    """Record, calibrate, measure, compare and report, all in one folder; a stopped run goes on where it was."""
    from figures.terminal import progress, say
    from validate.files import check_writable
    from validate.measure import Plan
    from validate.measure import measure as timed
    from validate.record import load_prompts, recorded_or_loaded, suite

    asked = load_prompts(prompts or suite())
    path, n_cores = _model(model), _threads(n_threads)
    check_writable(out / "comparison.json")
    plan = Plan(_settings(loop, rows), tokens or (48 if quick else 128), blocks or (2 if quick else 6))
    limit = 60 * (minutes or (1.6 if quick else 10))
    with progress() as advance:
        header, texts = recorded_or_loaded(out / "texts.jsonl", path, asked, plan.n_tokens, n_cores, advance)
        timed(
            path, out / "runs.jsonl", header, texts, plan, n_cores,
            rounds_file=out / "calibration.jsonl", limit_seconds=limit, advance=advance, say=say,
        )  # fmt: skip
    session = _finish(out, shlex.join(["sweepcap", *sys.argv[1:]]))
    _show(session.comparison, session.profile, session.runs, as_json)
    say(f"the report is {out / 'report.html'}")
    _check(session.comparison)


@app.command()
def calibrate(
    out: Out = Path("profile.json"),
    model: Model = None,
    texts: Annotated[
        Path | None, typer.Option("--texts", help="Cover the cached lengths of these recorded texts.")
    ] = None,
    rows: Annotated[int, typer.Option("--rows", min=2, help="Measure passes of 1 to this many rows.")] = 12,
    context: Annotated[int, typer.Option("--context", min=32, help="Cover cached lengths up to this.")] = 512,
    rounds: Annotated[int, typer.Option("--rounds", min=1, help="Rounds over the whole grid.")] = 8,
    n_threads: Threads = None,
    as_json: Json = False,
) -> None:
    """Measure what a pass costs by rows and cached length, with intervals."""
    from figures.terminal import emit_json, emit_table, progress
    from sim.trace import load as load_texts
    from validate.calibrate import calibrate as measured
    from validate.files import check_writable

    path, n_cores = _model(model), _threads(n_threads)
    check_writable(out)
    given = load_texts(texts)[1] if texts else []
    with progress() as advance:
        profile = measured(
            path, given, n_cores, context=context, max_rows=rows, n_rounds=rounds, advance=advance
        )
    _write_json(out, profile)
    if as_json:
        emit_json(profile)
        return
    cost = profile.cost
    head = ["cached", *(f"c({n})" for n in cost.n_rows)]
    lines = [
        [past, *(f"{1e3 * s:.2f}" for s in row)]
        for past, row in zip(cost.n_past, cost.all_rows_seconds, strict=True)
    ]
    emit_table(f"milliseconds a pass, {profile.model}, {n_cores} threads ({out})", head, lines)


@app.command()
def record(
    prompts: Annotated[Path, typer.Option("--prompts", help='JSON lines {"name": ..., "prompt": ...}.')],
    model: Model = None,
    out: Out = Path("texts.jsonl"),
    tokens: Annotated[int, typer.Option("--tokens", min=1, help="Tokens for each prompt.")] = 128,
    context: Context = None,
    n_threads: Threads = None,
    as_json: Json = False,
) -> None:
    """Record the model's greedy text behind each prompt: what predictions are made from."""
    from figures.terminal import emit_json, emit_table, progress
    from sim.trace import dumps
    from validate.files import check_writable, write
    from validate.record import load_prompts, record_texts

    asked = load_prompts(prompts)
    path, n_cores = _model(model), _threads(n_threads)
    check_writable(out)
    with progress() as advance:
        header, texts = record_texts(path, asked, tokens, n_cores, context, advance)
    write(out, dumps(header, texts))
    if as_json:
        shown = [{"name": t.name, "n_prompt": t.n_prompt, "n_tokens": t.n_tokens} for t in texts]
        emit_json({"out": str(out), "texts": shown})
    else:
        emit_table(
            f"recorded in {out}",
            ("prompt", "prompt tokens", "tokens"),
            [(t.name, t.n_prompt, t.n_tokens) for t in texts],
        )


@app.command()
def predict(
    profile: ProfileFile,
    texts: Texts,
    loop: Loops = None,
    rows: Rows = None,
    as_json: Json = False,
) -> None:
    """What each loop would take over recorded texts at a profile's pass costs."""
    from costmodel.profile import load as load_profile
    from figures.terminal import emit_json, emit_table, say
    from sim.predict import predictions
    from sim.trace import load as load_texts
    from validate.compare import check_same_model

    costs = load_profile(profile)
    header, recorded = load_texts(texts)
    check_same_model(costs, header)
    for caveat in costs.caveats:
        say(caveat)
    lines = predictions(recorded, _settings(loop, rows), costs.cost)
    if as_json:
        emit_json({"caveats": costs.caveats, "speedup": "total_time", "predictions": lines})
        return
    names = (
        "prompt",
        "loop",
        "R",
        "passes",
        "rows",
        "tokens",
        "tok/pass",
        "accepted",
        "seconds",
        "over greedy",
        "over gated",
    )
    emit_table(
        "predicted, behind the prefill; speedups are total_time",
        names,
        [
            (
                line.prompt, line.loop, line.rows, line.n_passes, line.n_rows, line.n_tokens,
                _number(line.tokens_per_pass, "{:.2f}"), _number(line.acceptance, "{:.0%}", "no drafts"),
                f"{line.seconds:.3f}", _times(line.over_greedy), _times(line.over_gated),
            )
            for line in lines
        ],
    )  # fmt: skip


@app.command()
def measure(
    texts: Texts,
    model: Model = None,
    out: Out = Path("runs.jsonl"),
    loop: Loops = None,
    rows: Rows = None,
    blocks: Blocks = None,
    n_threads: Threads = None,
    as_json: Json = False,
) -> None:
    """Time loops on the model that wrote the texts, in ABBA blocks, every pass kept."""
    from figures.terminal import emit_json, emit_table, progress, say
    from sim.trace import load as load_texts
    from validate.measure import Plan
    from validate.measure import measure as timed
    from validate.runs import load as load_runs

    path, n_cores = _model(model), _threads(n_threads)
    header, recorded = load_texts(texts)
    plan = Plan(_settings(loop, rows), max(t.n_tokens for t in recorded), blocks or 4)
    with progress() as advance:
        timed(path, out, header, recorded, plan, n_cores, advance=advance, say=say)
    head, runs = load_runs(out)
    if as_json:
        emit_json({"header": head, "runs": runs})
        return
    lines = [
        (
            r.block,
            r.place,
            r.prompt,
            r.loop,
            r.rows,
            len(r.decode),
            r.n_tokens,
            f"{r.seconds:.3f}",
            f"{r.n_tokens / r.seconds:.1f}",
        )
        for r in runs
        if r.seconds
    ]
    emit_table(
        f"timed in {out}",
        ("block", "place", "prompt", "loop", "R", "passes", "tokens", "seconds", "tok/s"),
        lines,
    )


@app.command()
def compare(
    profile: ProfileFile,
    texts: Texts,
    runs: Annotated[Path, typer.Option("--runs", help="Timed runs (sweepcap measure).")],
    out: Annotated[Path | None, typer.Option("--out", help="Also write comparison.json here.")] = None,
    as_json: Json = False,
) -> None:
    """Put predicted and measured speedups side by side."""
    from costmodel.profile import load as load_profile
    from sim.trace import load as load_texts
    from validate.compare import check_same_model
    from validate.compare import compare as compared
    from validate.runs import load as load_runs

    costs = load_profile(profile)
    text_header, recorded = load_texts(texts)
    header, timed = load_runs(runs)
    check_same_model(costs, text_header, header)
    comparison = compared(costs, recorded, header, timed)
    if out:
        _write_json(out, comparison)
    _show(comparison, costs, timed, as_json)
    _check(comparison)


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(help="What `sweepcap run` left.")],
    as_json: Json = False,
) -> None:
    """Draw the figures and the page of a run again, finished or not."""
    from figures.terminal import say

    if not folder.is_dir():
        raise ValueError(f"there is no folder {folder}: give what sweepcap run left")
    session = _finish(folder)
    _show(session.comparison, session.profile, session.runs, as_json)
    say(f"the report is {folder / 'report.html'}")


@app.command()
def cap(
    rows: Annotated[int, typer.Option("--rows", help="R, the rows of a full verify pass.")],
    ratio: Annotated[float | None, typer.Option("--ratio", help="c(R)/c(1).")] = None,
    profile: Annotated[Path | None, typer.Option("--profile", help="Pass costs; shows every loop.")] = None,
    as_json: Json = False,
) -> None:
    """What deleting the 1-row correction is worth at most: 2k/(k+1), or on a real cost curve."""
    from costmodel.profile import load as load_profile
    from figures.caps import cap_lines
    from figures.terminal import emit, emit_json

    if ratio is not None and profile is not None:
        raise ValueError("--ratio and --profile both say what c(R)/c(1) is: give one of them")
    lines = cap_lines(rows, ratio, load_profile(profile).cost if profile else None)
    if as_json:
        emit_json(lines)
    else:
        emit("\n".join(line.sentence for line in lines))


# --- what the commands share -----------------------------------------------------------------------------------------


def _settings(loops: Sequence[str] | None, rows: Sequence[int] | None) -> tuple[Setting, ...]:
    """The settings asked for, with the baselines `greedy` and `gated` that speedups need."""
    from sim.setting import Setting

    names = dict.fromkeys(("greedy", "gated", *(loops or STUDY)))
    made = [Setting(name, n) for n in rows or [6] for name in names]
    # Greedy has one row whatever R is: one setting of it is enough.
    return tuple(s for i, s in enumerate(made) if s.loop != "greedy" or i == 0)


def _model(model: Path | None) -> Path:
    from validate.models import check_gguf, default_model

    path = model or default_model()
    check_gguf(path)
    return path


def _threads(n: int | None) -> int:
    from validate.environment import check_threads, physical_cores

    n_threads = physical_cores() if n is None else n
    check_threads(n_threads)
    return n_threads


def _write_json(path: Path, value: Any) -> None:
    import msgspec

    from validate.files import write

    write(path, msgspec.json.format(msgspec.json.encode(value), indent=1))


def _finish(folder: Path, command: str = "") -> Session:
    """What a folder holds, put together and written there: profile, comparison, figures and page."""
    from figures.report import write as write_report
    from validate.session import load

    session = load(folder)
    _write_json(folder / "profile.json", session.profile)
    _write_json(folder / "comparison.json", session.comparison)
    write_report(
        folder,
        session.comparison,
        session.profile,
        session.runs,
        session.texts,
        header=session.header,
        command=command,
    )
    return session


def _number(value: float | None, form: str, none: str = "-") -> str:
    return none if value is None else form.format(value)


def _times(value: float | None) -> str:
    return _number(value, "{:.3f}x")


def _show(comparison: Comparison, profile: Profile, runs: Sequence[Run], as_json: bool) -> None:
    """The comparison as a table with the answer under it, or as JSON."""
    from figures.comparison import show
    from figures.report import answered
    from figures.terminal import emit_json

    if as_json:
        emit_json(comparison)
    else:
        show(comparison, answered(comparison, profile, runs))


def _check(comparison: Comparison) -> None:
    """Exit status 1 when a loop's ids differ from the greedy ones by more than the numerical noise."""
    if any(cell.parity.verdict == "bug" for cell in comparison.cells):
        raise typer.Exit(1)


def main() -> None:
    """Run the program: one sentence and status 2 for what the user got wrong, 128 + the signal when stopped."""

    def stop(number: int, _: object) -> None:
        for other in signals:
            signal.signal(other, signal.SIG_IGN)
        print(
            "sweepcap: stopped; what was finished is kept, and the same command goes on from there",
            file=sys.stderr,
        )
        raise SystemExit(128 + number)

    signals = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    for number in signals:
        signal.signal(number, stop)
    try:
        app()
    except ValueError as error:
        print(f"sweepcap: {error}", file=sys.stderr)
        raise SystemExit(2) from None


if __name__ == "__main__":
    main()
