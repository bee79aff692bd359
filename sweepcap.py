"""The command line: parse and call.

Predicts, and then measures, what a greedy speculative decoding loop gains on a machine, a model and a workload. Results
go to standard output (a table, or one JSON document with --json), everything else to standard error. Exit status: 0
done; 1 a check failed; 2 what was given is wrong.
"""

from __future__ import annotations

import shlex
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from figures import shell
from figures.options import (
    Acceptance,
    Blocks,
    Context,
    DeviceName,
    Extrapolate,
    FrequencyPenalty,
    GpuLayers,
    HalfWidth,
    Json,
    LastN,
    Loops,
    Minutes,
    Model,
    ModelSpec,
    Out,
    Pin,
    PresencePenalty,
    ProfileFile,
    Prompts,
    RepeatPenalty,
    Rows,
    SomeProfile,
    SomeTexts,
    TableFile,
    Texts,
    Threads,
    Weights,
    Workers,
)

if TYPE_CHECKING:
    from costmodel.passcost import PassCost
    from costmodel.profile import Profile
    from figures.notebook import calibrate as calibrate
    from figures.notebook import caps as caps
    from figures.notebook import compare as compare
    from figures.notebook import load as load
    from figures.notebook import measure as measure
    from figures.notebook import predict as predict
    from figures.notebook import record as record
    from figures.notebook import replay as replay
    from figures.notebook import sweep as sweep
    from sim.penalties import Penalties
    from sim.predict import Line
    from sim.requests import Source
    from sim.setting import Setting
    from validate.comparison import Comparison
    from validate.runs import Run

app = shell.App(no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False, help=__doc__)
imports = shell.App(no_args_is_help=True, rich_markup_mode=None, help="Take over what other programs wrote.")
app.add_typer(imports, name="import")

PUBLIC = ("calibrate", "caps", "compare", "load", "measure", "predict", "record", "replay", "sweep")
"""Functions for Python, of `figures.notebook`."""
RESUMED = ("run", "measure", "sweep", "accuracy", "claims", "slots")
"""Commands that go on from what a stopped call of theirs left."""
GOES_ON = "what was finished is kept, and the same command goes on from there"


@app.command("run")
def _run(
    model: Model = None,
    out: Out = Path("out"),
    quick: Annotated[bool, typer.Option("--quick", help="A look in two minutes: fewer tokens and blocks.")] = False,
    prompts: Prompts = None,
    loop: Loops = None,
    rows: Rows = None,
    tokens: Annotated[int | None, typer.Option("--tokens", min=1, help="Tokens for each prompt.")] = None,
    blocks: Blocks = None,
    half_width: HalfWidth = None,
    minutes: Minutes = None,
    repeat: RepeatPenalty = 1.0,
    frequency: FrequencyPenalty = 0.0,
    presence: PresencePenalty = 0.0,
    last_n: LastN = 64,
    n_threads: Threads = None,
    gpu_layers: GpuLayers = 0,
    pin: Pin = False,
    as_json: Json = False,
) -> None:
    """Record, calibrate, measure, compare and report, all in one folder; a stopped run goes on where it was.

    \b
    Example:
      sweepcap run --quick
      sweepcap run --model my.gguf --prompts prompts.jsonl --out mine
    """
    path, n_cores = _model(model), _threads(n_threads, pin)

    from figures.report import finished
    from figures.terminal import progress, say
    from validate.agenda import Plan
    from validate.files import check_writable
    from validate.measure import measure as timed
    from validate.record import load_prompts, recorded_or_loaded, suite

    asked = load_prompts(prompts or suite())
    check_writable(out / "comparison.json")
    settings = _settings(loop, rows)
    plan = Plan(
        settings, tokens or (48 if quick else 128), blocks or (2 if quick else 6), 2 if quick else 4,
        twins=settings[:1], half_width=half_width,
    )  # fmt: skip
    penalties = _penalties(repeat, frequency, presence, last_n)
    limit = 60 * (minutes or (1.7 if quick else 10.5))
    with progress() as advance:
        header, texts = recorded_or_loaded(out / "texts.jsonl", path, asked, plan.n_tokens, n_cores, advance, penalties)
        timed(
            path, out / "runs.jsonl", header, texts, plan, n_cores,
            rounds_file=out / "calibration.jsonl", limit_seconds=limit, n_gpu_layers=gpu_layers,
            advance=advance, say=say,
        )  # fmt: skip
    session = finished(out, _typed())
    _show(session.comparison, session.profile, session.runs, as_json)
    say(f"the report is {out / 'report.html'}")
    _check(session.comparison)


@app.command("calibrate")
def _calibrate(
    out: Out = Path("profile.json"),
    model: Model = None,
    texts: Annotated[
        Path | None, typer.Option("--texts", help="Cover the cached lengths of these recorded texts.")
    ] = None,
    rows: Annotated[int, typer.Option("--rows", min=2, help="Measure passes of 1 to this many rows.")] = 12,
    context: Annotated[int, typer.Option("--context", min=32, help="Cover cached lengths up to this.")] = 512,
    rounds: Annotated[int, typer.Option("--rounds", min=1, help="At most so many rounds over the grid.")] = 100,
    half_width: Annotated[
        float, typer.Option("--half-width", help="Stop when every interval reaches at most so far: 0.02 is 2 %.")
    ] = 0.02,
    limit: Annotated[float, typer.Option("--limit", help="Seconds; start no round that would end later.")] = 55.0,
    n_threads: Threads = None,
    gpu_layers: GpuLayers = 0,
    pin: Pin = False,
    as_json: Json = False,
) -> None:
    """Measure what a pass costs by rows and cached length, with intervals.

    \b
    Example:
      sweepcap calibrate --model my.gguf --context 512 --out profile.json
    """
    path, n_cores = _model(model), _threads(n_threads, pin)

    from figures import costs
    from figures.terminal import emit_json, progress, say
    from sim.trace import load as load_texts
    from validate.calibrate import calibrate as measured
    from validate.files import check_writable, write_json

    check_writable(out)
    given = load_texts(texts)[1] if texts else []
    with progress() as advance:
        profile = measured(
            path, given, n_cores, context=context, max_rows=rows, n_rounds=rounds, half_width=half_width,
            limit_seconds=limit, n_gpu_layers=gpu_layers, advance=advance,
        )  # fmt: skip
    for caveat in profile.caveats:
        say(caveat)
    write_json(out, profile)
    if as_json:
        emit_json(profile)
    else:
        costs.show(profile, out)


@app.command("record")
def _record(
    prompts: Annotated[Path, typer.Option("--prompts", help='JSON lines {"name": ..., "prompt": ...}.')],
    model: Model = None,
    out: Out = Path("texts.jsonl"),
    tokens: Annotated[int, typer.Option("--tokens", min=1, help="Tokens for each prompt.")] = 128,
    context: Context = None,
    repeat: RepeatPenalty = 1.0,
    frequency: FrequencyPenalty = 0.0,
    presence: PresencePenalty = 0.0,
    last_n: LastN = 64,
    n_threads: Threads = None,
    gpu_layers: GpuLayers = 0,
    as_json: Json = False,
) -> None:
    """Record the model's greedy text behind each prompt: what predictions are made from.

    \b
    Example:
      sweepcap record --model my.gguf --prompts prompts.jsonl --tokens 128 --out texts.jsonl
    """
    from figures.terminal import emit_json, emit_table, progress
    from sim.trace import dumps
    from validate.files import check_writable, write
    from validate.record import load_prompts, record_texts

    asked = load_prompts(prompts)
    path, n_cores = _model(model), _threads(n_threads)
    penalties = _penalties(repeat, frequency, presence, last_n)
    check_writable(out)
    with progress() as advance:
        header, texts = record_texts(path, asked, tokens, n_cores, context, advance, penalties, gpu_layers)
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


@app.command("model")
def _make_model(
    model: Model = None,
    shape: Annotated[str | None, typer.Option("--shape", help="A listed model's shapes with random weights.")] = None,
    quant: Annotated[str, typer.Option("--quant", help="F32, F16, BF16, Q8_0, Q4_0, Q4_K, ...")] = "Q8_0",
    as_json: Json = False,
) -> None:
    """Make a model in another quantisation, or one of known shapes, and print its path (for --model).

    \b
    Example:
      sweepcap model --model my.gguf --quant Q4_0
      sweepcap model --shape SmolLM2-135M --quant Q8_0
    """
    from figures.terminal import emit, emit_json
    from validate.models import requantised
    from validate.shapes import shape_only

    if shape is not None and model is not None:
        raise ValueError("--model and --shape both say what to make: give one of them")
    path = requantised(_model(model), quant) if shape is None else shape_only(shape, quant)
    if as_json:
        emit_json({"model": str(path), "bytes": path.stat().st_size})
    else:
        emit(str(path))


@app.command("predict")
def _predict(
    profile: SomeProfile = None,
    texts: SomeTexts = None,
    acceptance: Acceptance = None,
    model_spec: ModelSpec = None,
    device: DeviceName = None,
    weights: Weights = "Q8_0",
    loop: Loops = None,
    rows: Rows = None,
    tokens: Annotated[int, typer.Option("--tokens", min=1, help="Tokens, with --acceptance.")] = 256,
    extrapolate: Extrapolate = False,
    past: Annotated[int, typer.Option("--past", min=0, help="Cached tokens to begin with, with --acceptance.")] = 0,
    table: TableFile = None,
    as_json: Json = False,
) -> None:
    """What each loop takes over recorded texts or an acceptance law, at the pass costs of a profile or a roofline.

    \b
    Example:
      sweepcap predict --profile profile.json --texts texts.jsonl
      sweepcap predict --acceptance "iid 0.8" --model-spec Llama-3.2-3B --device "Apple M3 Max"
    """
    from costmodel.acceptance import parse
    from costmodel.ask import predict as expected
    from figures import predictions as shown
    from figures.terminal import check_table, emit_json, write_table
    from sim.setting import STUDY

    check_table(table)
    cost, caveats = _cost(profile, model_spec, device, weights, extrapolate)
    _one_source(texts, acceptance)
    told: dict[str, Any] = {"caveats": caveats, "speedup": "total_time"}
    lines: Sequence[Any]
    show: Callable[[], None]
    if acceptance is not None:
        told["acceptance"] = acceptance
        laws = expected(parse(acceptance), cost, rows or [6], loop or STUDY, tokens, past)
        lines, show = laws, partial(shown.show_expected, laws, f"{tokens} tokens of {acceptance}")
    else:
        assert texts is not None
        walked = _predict_texts(texts, cost, loop, rows, profile)
        lines, show = walked, partial(shown.show, walked)
    if table:
        write_table(table, lines)
    if as_json:
        emit_json(told | {"predictions": lines})
    else:
        show()


def _predict_texts(texts: Path, cost: PassCost, loop: Loops, rows: Rows, profile: Path | None) -> list[Line]:
    """Predictions over recorded texts, of the profile's model."""
    from costmodel.profile import load as load_profile
    from sim.predict import predictions
    from sim.trace import load as load_texts
    from validate.compare import check_same_model

    header, recorded = load_texts(texts)
    if profile is not None:
        check_same_model(load_profile(profile), header)
    return predictions(recorded, _settings(loop, rows), cost, replays=header.replays)


@app.command("measure")
def _measure(
    texts: Texts,
    model: Model = None,
    out: Out = Path("runs.jsonl"),
    loop: Loops = None,
    rows: Rows = None,
    blocks: Blocks = None,
    half_width: HalfWidth = None,
    minutes: Minutes = None,
    repeat: Annotated[float | None, typer.Option("--repeat-penalty", help="That of the texts without it.")] = None,
    frequency: Annotated[
        float | None, typer.Option("--frequency-penalty", help="That of the texts without it.")
    ] = None,
    presence: Annotated[float | None, typer.Option("--presence-penalty", help="That of the texts without it.")] = None,
    last_n: Annotated[int | None, typer.Option("--repeat-last-n", help="That of the texts without it.")] = None,
    n_threads: Threads = None,
    gpu_layers: GpuLayers = 0,
    pin: Pin = False,
    as_json: Json = False,
) -> None:
    """Time loops on the model that wrote the texts, in ABBA blocks, every pass kept; a stopped one goes on.

    \b
    Example:
      sweepcap measure --model my.gguf --texts texts.jsonl --loop carry --rows 6 --rows 8 --out runs.jsonl
    """
    path, n_cores = _model(model), _threads(n_threads, pin)

    from figures.terminal import emit_json, emit_table, progress, say
    from sim.trace import load as load_texts
    from validate.agenda import Plan
    from validate.measure import measure as timed
    from validate.record import check_same_penalties
    from validate.runs import load as load_runs

    header, recorded = load_texts(texts)
    kept = header.penalties
    asked = _penalties(
        kept.repeat if repeat is None else repeat,
        kept.frequency if frequency is None else frequency,
        kept.presence if presence is None else presence,
        kept.last_n if last_n is None else last_n,
    )
    check_same_penalties(asked, kept, str(texts))
    settings = _settings(loop, rows)
    n_tokens = max(t.n_tokens for t in recorded)
    plan = Plan(settings, n_tokens, blocks or 8, twins=settings[:1], half_width=half_width)
    limit = None if minutes is None else 60 * minutes
    with progress() as advance:
        timed(
            path, out, header, recorded, plan, n_cores,
            limit_seconds=limit, n_gpu_layers=gpu_layers, advance=advance, say=say,
        )  # fmt: skip
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


@app.command("compare")
def _compare(
    runs: Annotated[Path, typer.Option("--runs", help="Timed runs (sweepcap measure, or import passes).")],
    profile: Annotated[Path | None, typer.Option("--profile", help="Pass costs; imported runs may go without.")] = None,
    texts: Annotated[
        Path | None, typer.Option("--texts", help="The recorded texts of the runs; imported runs have none.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Also write comparison.json here.")] = None,
    table: TableFile = None,
    as_json: Json = False,
) -> None:
    """Put predicted and measured speedups side by side.

    \b
    Example:
      sweepcap compare --profile profile.json --texts texts.jsonl --runs runs.jsonl
    """
    from msgspec.structs import replace

    from costmodel.profile import load as load_profile
    from figures.terminal import check_table, write_table
    from sim.trace import Header as TextsHeader
    from sim.trace import load as load_texts
    from validate.compare import check_same_model
    from validate.compare import compare as compared
    from validate.files import write_json
    from validate.runs import load as load_runs

    check_table(table)
    header, timed = load_runs(runs)
    if header.source != "imported" and (profile is None or texts is None):
        raise ValueError("say what the runs are compared with: --profile FILE and --texts FILE")
    costs = load_profile(profile) if profile else None
    text_header, recorded = load_texts(texts) if texts else (TextsHeader(), [])
    if costs is not None:
        check_same_model(costs, text_header, header)
    comparison = replace(compared(costs, recorded, header, timed), command=_typed())
    if out:
        write_json(out, comparison)
    if table:
        write_table(table, comparison.cells)
    _show(comparison, costs, timed, as_json)
    _check(comparison)


@app.command("report")
def _report(
    folder: Annotated[Path, typer.Argument(help="What `sweepcap run` left.")],
    as_json: Json = False,
) -> None:
    """Draw the figures and the page of a run again, finished or not; of imported runs too.

    \b
    Example:
      sweepcap report out
    """
    from figures.report import finished
    from figures.terminal import say

    if not folder.is_dir():
        raise ValueError(f"there is no folder {folder}: give what sweepcap run left")
    session = finished(folder)
    _show(session.comparison, session.profile, session.runs, as_json)
    say(f"the report is {folder / 'report.html'}")


@app.command("accuracy")
def _accuracy(
    out: Out = Path("accuracy"),
    model: Model = None,
    page: Annotated[
        Path | None, typer.Option("--page", help="Where to write the page; its figure goes beside.")
    ] = None,
    minutes: Annotated[float | None, typer.Option("--minutes", help="Measure what fits this time.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="10 minutes instead of 70.")] = False,
    analyse: Annotated[bool, typer.Option("--analyse", help="Measure nothing: judge what is there again.")] = False,
    n_threads: Threads = None,
    pin: Pin = False,
    as_json: Json = False,
) -> None:
    """How far predictions miss on held-out cells: five quantisations, six prompts, three R; raw records stay in OUT.

    \b
    Example:
      sweepcap accuracy --quick --out accuracy
      sweepcap accuracy --analyse --out accuracy --page docs/accuracy.md
    """
    path, n_cores = (None, 0) if analyse else (_model(model), _threads(n_threads, pin))

    from figures.terminal import emit, emit_json, progress, say
    from validate.accuracy_page import page as written
    from validate.verdict import analysed

    if path is not None:
        from sim.setting import STUDY
        from validate.accuracy import measured

        with progress() as advance:
            measured(out, path, STUDY, n_cores, minutes or (9.5 if quick else 70), advance=advance, say=say)
    verdict = analysed(out)
    command = _typed()
    if page:
        from figures import style
        from figures.accuracy import draw
        from validate.files import write

        write(page, written(verdict, command, f"{page.stem}.svg").encode())
        write(page.with_suffix(".svg"), style.rendered(draw(verdict.cells), "svg"))
    if as_json:
        emit_json(verdict)
    else:
        emit(written(verdict, command, "accuracy.svg"))


@app.command("cap")
def _cap(
    rows: Annotated[int, typer.Option("--rows", help="R, the rows of a full verify pass.")],
    ratio: Annotated[float | None, typer.Option("--ratio", help="c(R)/c(1).")] = None,
    profile: Annotated[Path | None, typer.Option("--profile", help="Pass costs; shows every loop.")] = None,
    as_json: Json = False,
) -> None:
    """What deleting the 1-row correction is worth at most: 2k/(k+1), or on a real cost curve.

    \b
    Example:
      sweepcap cap --rows 6
      sweepcap cap --rows 6 --ratio 2.1
      sweepcap cap --rows 6 --profile profile.json
    """
    from fractions import Fraction

    from costmodel.ask import cap as asked
    from costmodel.profile import load as load_profile
    from figures.caps import as_numbers, in_words
    from figures.terminal import emit, emit_json, say

    if ratio is not None and profile is not None:
        raise ValueError("--ratio and --profile both say what c(R)/c(1) is: give one of them")
    where = ""
    if profile is not None:
        costs = load_profile(profile)
        past = costs.cost.n_past[0]
        for caveat in costs.caveats:
            say(caveat)
        answer = asked(rows, cost=costs.cost, n_past=past)
        measured = costs.cost.seconds(past, rows, rows) / costs.cost.seconds(past, 1, 1)
        where = f"on this profile, c({rows})/c(1) = {measured:.3f} at {past} cached tokens"
    elif ratio is not None:
        answer, where = asked(rows, ratio=Fraction(str(ratio))), f"where c({rows})/c(1) = {ratio:g}"
    else:
        answer = asked(rows)
    if as_json:
        emit_json(as_numbers(answer))
    else:
        emit(in_words(answer, where))


@app.command("claims")
def _claims(
    model: Model = None,
    out: Out = Path("claims"),
    full: Annotated[
        bool, typer.Option("--full", help="Also the shapes of Llama-3.2-3B; about 10 minutes more.")
    ] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer tokens and one block: a look, not a verdict.")] = False,
    prompts: Annotated[
        Path | None, typer.Option("--prompts", help="The suite's prompts in your words, by the same names.")
    ] = None,
    no_measure: Annotated[
        bool, typer.Option("--no-measure", help="Judge what the folder holds, without measuring.")
    ] = False,
    page: Annotated[
        Path | None, typer.Option("--page", help="Also write the page, and figures/ beside it, here.")
    ] = None,
    n_threads: Threads = None,
    as_json: Json = False,
) -> None:
    """Check the preprint's numbers here, one by one: what each implies, what is predicted, what is measured.

    Takes at most 6 minutes on 2 idle cores without --full. A stopped command goes on where it was.

    \b
    Example:
      sweepcap claims --out claims
      sweepcap claims --out claims --no-measure --page docs/claims.md
    """
    from figures.claimspage import write as write_page
    from figures.terminal import emit_json, emit_table, progress, say
    from validate.claims import judge
    from validate.evidence import gather
    from validate.files import write_json
    from validate.parts import PARTS, measure_parts, shortened
    from validate.record import load_prompts, suite

    if not no_measure:
        path, n_cores = _model(model), _threads(n_threads)
        parts = shortened(PARTS, n_tokens=24, n_blocks=1) if quick else PARTS
        with progress() as advance:
            measure_parts(
                path, out, load_prompts(prompts or suite()), n_cores, full=full, parts=parts, advance=advance, say=say
            )
    evidence = gather(out, list(PARTS))
    lines = judge(evidence)
    write_json(out / "evidence.json", evidence)
    for where in (out / "claims.md", page):
        if where:
            write_page(where, evidence, lines)
            say(f"the page is {where}")
    if as_json:
        emit_json({"evidence": evidence, "claims": lines})
        return
    emit_table(
        "the preprint's claims; speedups are total_time over gated at R = 6",
        ("claim", "verdict", "implies", "predicted here", "measured here", "why"),
        [(line.claim.states, line.verdict, line.implies, line.predicted, line.measured, line.reason) for line in lines],
        longest=1000,
    )


@app.command("slots")
def _slots(
    out: Out = Path("out/slots"),
    model: Model = None,
    slots: Annotated[str, typer.Option("--slots", help="Numbers of slots, as in 1,2,4,8.")] = "1,2,4,8",
    loop: Loops = None,
    rows: Rows = None,
    tokens: Annotated[int, typer.Option("--tokens", min=8, help="Tokens of each text.")] = 64,
    blocks: Annotated[int, typer.Option("--blocks", min=1, help="Blocks; each runs everything.")] = 8,
    minutes: Annotated[float, typer.Option("--minutes", help="Start no block that would end later.")] = 7.5,
    offline: Annotated[bool, typer.Option("--offline", help="Measure nothing: compare what --out holds.")] = False,
    page: Annotated[Path | None, typer.Option("--page", help="Also write a page (docs/slots.md).")] = None,
    n_threads: Threads = None,
    table: TableFile = None,
    as_json: Json = False,
) -> None:
    """Many sequences in one pass, simulated and measured side by side; a stopped run goes on where it was.

    \b
    Example:
      sweepcap slots --slots 1,2,4 --loop carry --rows 6
      sweepcap slots --offline --out out/slots --table slots.csv
    """
    from figures.terminal import check_table
    from validate.files import check_writable

    check_table(table)
    numbers = tuple(_counts(slots))
    if page:
        check_writable(page)
    if not offline:
        settings = _settings(loop or ("greedy", "gated", "fused", "carry"), rows)
        _time_slots(out / "slots.jsonl", model, settings, numbers, tokens, blocks, minutes, n_threads)
    _side_by_side(out, page, table, as_json)


def _side_by_side(out: Path, page: Path | None, table: Path | None, as_json: bool) -> None:
    """Simulated and measured, of what `sweepcap slots` left in a folder."""
    from figures import slotcheck as shown
    from figures.terminal import emit_json, write_table
    from sim.trace import load as load_texts
    from validate.files import cut_half_line, write
    from validate.slotcheck import check, stops_paying
    from validate.slotruns import load as load_blocks

    cut_half_line(out / "slots.jsonl")
    header, timed = load_blocks(out / "slots.jsonl")
    cells = check(timed, load_texts(out / "texts.jsonl")[1])
    if page:
        write(page, shown.page(cells, header).encode())
    if table:
        write_table(table, cells)
    if as_json:
        emit_json({"cells": cells, "stops_paying": stops_paying(cells), "summary": shown.summary(cells)})
    else:
        shown.show(cells)
    if any(cell.bugs for cell in cells):
        raise typer.Exit(1)


def _time_slots(
    file: Path,
    model: Path | None,
    settings: tuple[Setting, ...],
    numbers: tuple[int, ...],
    tokens: int,
    blocks: int,
    minutes: float,
    n_threads: int | None,
) -> None:
    from figures.terminal import progress, say
    from validate.files import check_writable
    from validate.record import load_prompts, recorded_or_loaded, suite
    from validate.slots import WORKLOADS, SlotPlan, measure_slots

    plan = SlotPlan(settings, numbers, WORKLOADS, blocks)
    names = {name for served in WORKLOADS.values() for name in served}
    asked = [prompt for prompt in load_prompts(suite()) if prompt.name in names]
    path, n_cores = _model(model), _threads(n_threads)
    check_writable(file)
    with progress() as advance:
        header, texts = recorded_or_loaded(file.parent / "texts.jsonl", path, asked, tokens, n_cores, advance)
        measure_slots(path, file, header, texts, plan, n_cores, limit_seconds=60 * minutes, advance=advance, say=say)


@app.command("design")
def _design(
    pairs: Annotated[int, typer.Option("--pairs", help="Pairs of runs, one of either loop.")] = 8,
    drift: Annotated[
        str | None,
        typer.Option("--drift", help='"ou sd=0.1 seconds=0.4", "windows ...", "linear ...", "recorded FILE".'),
    ] = None,
    runs: Annotated[Path | None, typer.Option("--runs", help="Fit the drift to these timed runs instead.")] = None,
    half_width: Annotated[
        float, typer.Option("--half-width", help="Wanted of the 95 % interval: 0.01 for 1 %.")
    ] = 0.01,
    ratio: Annotated[float, typer.Option("--ratio", help="The true ratio; without it the cap at 6 rows.")] = 12 / 7,
    above: Annotated[float, typer.Option("--above", help="How likely is it to measure more than this?")] = 2.03,
    seconds: Annotated[float | None, typer.Option("--seconds", help="Of a run; as in --runs, or 1.")] = None,
    passes: Annotated[int | None, typer.Option("--passes", help="Of a run; as in --runs, or 40.")] = None,
    jitter: Annotated[float | None, typer.Option("--jitter", help="Log sd of each pass; as in --runs, or 0.")] = None,
    repetitions: Annotated[int, typer.Option("--repetitions", help="How often each design is simulated.")] = 2000,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of all chance: same seed, same answer.")] = 0,
    figure: Annotated[Path | None, typer.Option("--figure", help="Draw P against drift: .svg, .pdf or .png.")] = None,
    table: TableFile = None,
    as_json: Json = False,
) -> None:
    """What an order of timed runs can see of a ratio on a machine whose speed wanders, and which order to take.

    \b
    Example:
      sweepcap design --drift "ou sd=0.1 seconds=0.4"
      sweepcap design --runs runs.jsonl --half-width 0.01
    """
    from figures import designs as pictures
    from figures.terminal import check_figure, check_table, emit_json, say, write_figure, write_table
    from sim.designs import STRENGTHS, Timing, against_drift, check_half_width, recommend, see
    from sim.drift import parse
    from validate.driftfit import fit_drift, usual_run
    from validate.runs import load as load_runs

    check_table(table)
    check_figure(figure)
    check_half_width(half_width)
    if (drift is None) == (runs is None):
        raise ValueError('say how the speed wanders: --drift "ou sd=0.1 seconds=0.4", or --runs FILE to fit it')
    usual_seconds, usual_passes, usual_jitter = 1.0, 40, 0.0
    if runs is not None:
        timed = load_runs(runs)[1]
        fitted = fit_drift(timed)
        drift, usual_jitter = fitted.words, fitted.jitter
        usual_seconds, usual_passes = usual_run(timed)
        words = f"--drift {drift!r} --jitter {usual_jitter:.3g}"
        say(f"fitted to {fitted.n_passes} passes of {fitted.seconds:.0f} s: {words}")
    assert drift is not None
    wander = parse(drift)
    timing = Timing(
        ratio,
        usual_seconds if seconds is None else seconds,
        usual_passes if passes is None else passes,
        usual_jitter if jitter is None else jitter,
    )
    at_strength = against_drift(pairs, timing, wander, above, STRENGTHS if figure else (1.0,), seed=seed, n=repetitions)
    lines = [seen[STRENGTHS.index(1.0) if figure else 0] for seen in at_strength.values()]
    one_pair = see("ABAB", 1, timing, wander, above=above, seed=seed, n=repetitions)
    advice = recommend(timing, wander, half_width, above=above, seed=seed, n=repetitions)
    if figure:
        alone = against_drift(1, timing, wander, above, STRENGTHS, only=("ABAB",), seed=seed, n=repetitions)["ABAB"]
        write_figure(figure, pictures.draw(STRENGTHS, alone, at_strength, ratio))
    if table:
        write_table(table, lines)
    if as_json:
        emit_json({
            "drift": drift, "timing": timing, "half_width": half_width, "designs": lines, "one_pair": one_pair,
            "recommended": advice.any, "recommended_whole_runs": advice.whole_runs,
        })  # fmt: skip
    else:
        pictures.show(drift, lines, one_pair, advice, timing, half_width)


@app.command("simulate")
def _simulate(
    slots: Annotated[
        str, typer.Option("--slots", help="Sequences served at a time: one number, or several.")
    ] = "1,2,4,8",
    arrivals: Annotated[
        str, typer.Option("--arrivals", help='"closed" (all slots always busy), "poisson 0.5" a second, or a file.')
    ] = "closed",
    profile: SomeProfile = None,
    texts: SomeTexts = None,
    acceptance: Acceptance = None,
    model_spec: ModelSpec = None,
    device: DeviceName = None,
    weights: Weights = "Q8_0",
    loop: Loops = None,
    rows: Rows = None,
    tokens: Annotated[int, typer.Option("--tokens", min=1, help="Tokens of a request, with --acceptance.")] = 128,
    prompt: Annotated[int, typer.Option("--prompt", min=1, help="Tokens of a prompt, with --acceptance.")] = 32,
    extrapolate: Extrapolate = False,
    policy: Annotated[
        str, typer.Option("--policy", help='R of each pass: "fixed", "shared ROWS", "quiet BUSY", "backoff N REST".')
    ] = "fixed",
    chunk: Annotated[
        int | None, typer.Option("--chunk", min=1, help="The most rows of a pass; prompts go in by what is left of it.")
    ] = None,
    prefill: Annotated[
        str, typer.Option("--prefill", help="Prompts share passes (shared) or have theirs (alone).")
    ] = "shared",
    view: Annotated[str, typer.Option("--view", help="Cached length of a pass: sum of all, longest, or mean.")] = "sum",
    draft_seconds: Annotated[float, typer.Option("--draft-seconds", help="What one call of the drafter takes.")] = 0.0,
    overlap: Annotated[bool, typer.Option("--overlap", help="Draft beside the device.")] = False,
    drift: Annotated[
        str, typer.Option("--drift", help='As in sweepcap design: "ou sd=0.1 seconds=0.4", ...')
    ] = "constant factor=1",
    jitter: Annotated[float, typer.Option("--jitter", help="Log sd of each pass.")] = 0.0,
    stalls: Annotated[
        tuple[float, float] | None, typer.Option("--stalls", help="Mean seconds between two stalls, and of one.")
    ] = None,
    patience: Annotated[float | None, typer.Option("--patience", help="Mean seconds until a user gives up.")] = None,
    ttft: Annotated[float, typer.Option("--ttft", help="Target for goodput, seconds.")] = float("inf"),
    tpot: Annotated[float, typer.Option("--tpot", help="Target for goodput, seconds a token.")] = float("inf"),
    requests: Annotated[int, typer.Option("--requests", help="Requests that count, in each replication.")] = 40,
    warmup: Annotated[
        int | None, typer.Option("--warmup", help="Requests before them; twice the slots without it.")
    ] = None,
    precision: Annotated[
        float | None, typer.Option("--precision", help="Go on until the mean latency is known to +- this share.")
    ] = None,
    replications: Annotated[int, typer.Option("--replications", help="Independent ones.")] = 5,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of all chance: same seed, same answer.")] = 0,
    figure: Annotated[Path | None, typer.Option("--figure", help="Draw against slots: .svg, .pdf or .png.")] = None,
    timeline: Annotated[
        Path | None, typer.Option("--timeline", help="Draw the first passes of the last loop in the most slots.")
    ] = None,
    trace: Annotated[
        Path | None, typer.Option("--trace", help="Chrome trace events of all loops in the most slots, for Perfetto.")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Measure it too, side by side: what sweepcap slots does.")
    ] = False,
    table: TableFile = None,
    as_json: Json = False,
) -> None:
    """Many users on one device: what each loop gains by the number of slots, and where it stops paying.

    \b
    Example:
      sweepcap simulate --profile profile.json --texts texts.jsonl --slots 1,2,4,8 --loop carry
      sweepcap simulate --profile profile.json --acceptance "iid 0.8" --arrivals "poisson 0.5"
    """
    if check:
        if arrivals != "closed":
            raise ValueError(f"slots are measured with closed arrivals: leave out --arrivals {arrivals!r}, or --check")
        _slots(slots=slots, loop=loop, rows=rows, table=table, as_json=as_json)
        return
    from costmodel.batched import SlotCost
    from figures import slotline
    from figures import slots as pictures
    from figures.chrometrace import dumps
    from figures.terminal import check_figure, check_table, emit_json, progress, write_figure, write_table
    from sim import arrivals as arriving
    from sim import policies
    from sim.device import Device, Lognormal, Stalls
    from sim.drift import parse as parse_drift
    from sim.replications import first_history
    from sim.scenario import Scenario
    from sim.served import Targets
    from sim.setting import STUDY
    from sim.slots import flat, limits, study
    from validate.files import check_writable, write

    check_table(table)
    for path in (figure, timeline):
        check_figure(path)
    if trace is not None:
        check_writable(trace)
    counts = _counts(slots)
    cost, caveats = _cost(profile, model_spec, device, weights, extrapolate)
    settings = tuple(s for s in _settings(loop, rows) if s.loop != "gated" or "gated" in (loop or STUDY))
    base = Scenario(
        Device(
            SlotCost(cost, view=view),  # type: ignore[arg-type]
            parse_drift(drift),
            Lognormal(jitter) if jitter else None,
            Stalls(*stalls) if stalls else None,
        ),
        _source(texts, acceptance, profile, prompt, tokens),
        settings[0],
        1,
        requests,
        arriving.parse(arrivals),
        2 * max(counts) if warmup is None else warmup,
        policies.parse(policy),
        chunk or _widest(cost),
        prefill,  # type: ignore[arg-type]
        draft_seconds,
        overlap,
        arriving.Patience(patience) if patience is not None else None,
    )
    with progress() as advance:
        lines = study(base, settings, counts, replications, seed, Targets(ttft, tpot), precision, advance)
    criterion = "throughput" if isinstance(base.arrivals, arriving.Closed) else "latency"
    found = limits(lines)
    if figure:
        write_figure(figure, pictures.draw(lines, criterion))
    if timeline:
        shown = first_history(base, settings[-1], max(counts), seed)
        write_figure(timeline, slotline.draw(shown, f"{settings[-1]}, {max(counts)} slots"))
    if trace:
        write(trace, dumps({str(s): first_history(base, s, max(counts), seed) for s in settings}))
    if table:
        write_table(table, [flat(line) for line in lines])
    if as_json:
        emit_json({"caveats": caveats, "arrivals": arrivals, "gain_of": criterion, "lines": lines, "limits": found})
    else:
        pictures.show(lines, found, f"simulated, {arrivals}; means of {replications} replications", criterion)


def _counts(words: str) -> list[int]:
    """Numbers of slots, as in 1,2,4,8."""
    try:
        return [int(word) for word in words.split(",")]
    except ValueError:
        raise ValueError(f"--slots takes whole numbers, as in 1,2,4,8, not {words!r}") from None


def _source(texts: Path | None, acceptance: str | None, profile: Path | None, n_prompt: int, n_tokens: int) -> Source:
    """The requests to simulate: recorded texts of the profile's model, or texts of a law."""
    from costmodel.acceptance import parse
    from costmodel.profile import load as load_profile
    from sim.requests import LawTexts, Texts
    from sim.trace import load as load_texts
    from validate.compare import check_same_model

    _one_source(texts, acceptance)
    if acceptance is not None:
        return LawTexts(parse(acceptance), n_prompt, n_tokens)
    assert texts is not None
    header, recorded = load_texts(texts)
    if profile is not None:
        check_same_model(load_profile(profile), header)
    return Texts(tuple(recorded))


def _one_source(texts: Path | None, acceptance: str | None) -> None:
    """Raise ValueError unless just one of the two says what is decoded."""
    if (texts is None) == (acceptance is None):
        raise ValueError('say what is decoded: --texts FILE, or --acceptance "iid 0.8"')


def _widest(cost: PassCost) -> int | None:
    """The most rows that a measured table has; whole prompts where costs are not bound to what was measured."""
    from costmodel.passcost import Table

    return cost.n_rows[-1] if isinstance(cost, Table) and not cost.extrapolate else None


@imports.command("cost")
def _import_cost(
    file: Annotated[
        Path, typer.Argument(help="llama-bench -o json|jsonl, or llama-batched-bench --output-format jsonl.")
    ],
    out: Out = Path("profile.json"),
    select: Annotated[
        list[str] | None, typer.Option("--select", help="model=NAME, threads=N: which of several.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Take what is there of a file that is cut short.")] = False,
    model_spec: ModelSpec = None,
    as_json: Json = False,
) -> None:
    """Make a profile of another program's timings.

    \b
    Example:
      llama-bench -m my.gguf -p 1,2,3,4,5,6,7,8 -n 0 -o json > bench.json
      sweepcap import cost bench.json --out profile.json
    """
    from costmodel.bench import import_cost as imported
    from costmodel.specs import ModelSpec as Spec
    from figures import costs
    from figures.terminal import emit_json, say
    from validate.files import check_writable, write_json

    check_writable(out)
    if model_spec is None:
        spec = None
    else:
        spec = Spec.from_gguf(model_spec) if model_spec.endswith(".gguf") else Spec.named(model_spec, "Q8_0")
    made = imported(file, _pairs(select), spec, force)
    for note in (*made.notes, *made.profile.caveats):
        say(note)
    write_json(out, made.profile)
    if as_json:
        emit_json(made.profile)
    else:
        costs.show(made.profile, out)


@imports.command("texts")
def _import_texts(
    file: Annotated[Path, typer.Argument(help="Plain text, JSON lines of token ids, or a chat log (JSON lines).")],
    out: Out = Path("texts.jsonl"),
    model: Annotated[
        Path | None, typer.Option("--model", help="The GGUF whose tokenizer reads text and chats.")
    ] = None,
    kind: Annotated[str | None, typer.Option("--as", help="text, ids or chat; seen from the file without it.")] = None,
    prompt_tokens: Annotated[
        int | None, typer.Option("--prompt-tokens", min=1, help="Where ids do not say, and in plain text (64).")
    ] = None,
    characters: Annotated[int, typer.Option("--characters", min=1, help="Of a piece of plain text.")] = 16_384,
    skip_broken: Annotated[bool, typer.Option("--skip-broken", help="Leave broken lines out, and count them.")] = False,
    as_json: Json = False,
) -> None:
    """Make recorded texts of what you have: a line or a piece at a time, whatever the size.

    \b
    Example:
      sweepcap import texts chats.jsonl --model my.gguf --out texts.jsonl
    """
    from figures.terminal import emit, emit_json, progress, say
    from validate.imported import import_texts as imported

    with progress() as advance:
        made = imported(
            file,
            out,
            model,
            kind=kind,
            n_prompt=prompt_tokens,
            n_characters=characters,
            skip_broken=skip_broken,
            advance=advance,
        )
    for note in _origin("imported"):
        say(note)
    if as_json:
        emit_json(made)
    else:
        skipped = f", {made.n_skipped:,} broken lines left out" if made.n_skipped else ""
        emit(f"{made.n_texts:,} texts of {made.n_tokens:,} tokens in {out}{skipped}")


@app.command("sweep")
def _sweep(
    profile: Annotated[list[Path] | None, typer.Option("--profile", help="Pass costs; again for more.")] = None,
    texts: Annotated[list[Path] | None, typer.Option("--texts", help="Recorded texts; again for more files.")] = None,
    grid: Annotated[Path | None, typer.Option("--grid", help="The same and what follows, from a TOML file.")] = None,
    loop: Loops = None,
    rows: Annotated[str | None, typer.Option("--rows", help='R: "6", "2..8" or "2,4,8..12".')] = None,
    drafter: Annotated[
        list[str] | None, typer.Option("--drafter", help='"ngram n_max=2..4 pick=latest,earliest"; again for more.')
    ] = None,
    prompt: Annotated[list[str] | None, typer.Option("--prompt", help="Only the text of this name; again.")] = None,
    baseline: Annotated[
        str | None, typer.Option("--baseline", help='greedy, another loop, or "carry rows=11 hf-prompt-lookup".')
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="A .parquet, .csv or .json table.")] = None,
    by_prompt: Annotated[bool, typer.Option("--by-prompt", help="A row for each prompt too.")] = False,
    bounds: Annotated[
        bool, typer.Option("--bounds/--no-bounds", help="What the best choice of rows could gain.")
    ] = True,
    workers: Workers = None,
    scheduler: Annotated[str | None, typer.Option("--scheduler", help="A Dask scheduler's address.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="The most settings.")] = 1_000_000,
    extrapolate: Extrapolate = False,
    as_json: Json = False,
) -> None:
    """Every combination of loops, R and drafters over recorded texts, as a table; a stopped sweep goes on.

    \b
    Example:
      sweepcap sweep --profile profile.json --texts texts.jsonl --rows 2..8 --drafter "ngram n_max=2..4"
    """
    from figures.sweep import show
    from figures.terminal import check_table, emit_json, progress, say, write_frame
    from sim.grid import GridFile, load
    from sim.grid import grid as all_of
    from sim.setting import STUDY
    from sim.summary import frame, with_baselines
    from sim.sweep import Work
    from validate.journal import forget
    from validate.sweeping import profile_names, rows_of, swept, texts_of

    told = load(grid) if grid else GridFile()
    profiles, files = profile or [*map(Path, told.profiles)], texts or [*map(Path, told.texts)]
    if not profiles or not files:
        raise ValueError("say what to sweep over: --profile FILE and --texts FILE, or --grid FILE with both in it")
    check_table(out)
    costs = [_profile(path, extrapolate) for path in profiles]
    header, recorded = texts_of(files, prompt or told.prompts, costs)
    many_rows, patterns = rows_of(rows or told.rows or 6), drafter or told.drafters or ["ngram"]
    made = all_of(loop or told.loops or STUDY, many_rows, patterns, limit)
    base = baseline or told.baseline or "greedy"
    work = Work(
        with_baselines(made.settings, base), tuple(recorded), tuple(c.cost for c in costs), bounds, header.replays
    )
    for note in (*_origin(header.source), *(caveat for cost in costs for caveat in cost.caveats), *made.left_out):
        say(note)
    with progress("settings x texts") as advance:
        result = swept(work, out, n_workers=workers, scheduler=scheduler, advance=advance, say=say)
    table = frame(result, made.settings, base, profile_names(profiles), by_prompt)
    if out:
        write_frame(out, table)
        forget(out)
    if as_json:
        emit_json({"baseline": base, "settings": table.to_dicts()})
    else:
        show(table, base, out)


@app.command("advise")
def _advise(
    profile: ProfileFile,
    texts: Texts,
    loop: Loops = None,
    rows: Annotated[
        str | None, typer.Option("--rows", help='R to choose from: "2..8"; all that the profile covers.')
    ] = None,
    drafter: Annotated[
        list[str] | None, typer.Option("--drafter", help="Drafters to choose from, as in `sweep`; again for more.")
    ] = None,
    today: Annotated[
        str | None, typer.Option("--today", help='What you run now: "carry rows=11 hf-prompt-lookup".')
    ] = None,
    workers: Workers = None,
    extrapolate: Extrapolate = False,
    as_json: Json = False,
) -> None:
    """The best loop, R and drafter for these texts on this machine, how sure that is, and the flags to get it.

    \b
    Example:
      sweepcap advise --profile profile.json --texts texts.jsonl --rows 2..8
    """
    from figures.advice import show
    from figures.terminal import emit_json, progress, say
    from sim.advise import DRAFTERS, LOOPS, candidates, cost_draws, covered_rows
    from sim.advise import advise as advised
    from sim.grid import grid, numbers
    from sim.setting import Setting
    from sim.sweep import Work
    from validate.sweeping import swept, texts_of

    costs = _profile(profile, extrapolate)
    header, recorded = texts_of([texts], [], [costs])
    many_rows = numbers(rows) if rows else covered_rows(costs)
    now = Setting.parse(today) if today else None
    settings = candidates(grid(loop or LOOPS, many_rows, drafter or DRAFTERS).settings, many_rows, now)
    for note in (*_origin(header.source), *costs.caveats):
        say(note)
    with progress("settings x texts") as advance:
        work = Work(settings, tuple(recorded), (costs.cost,), replays=header.replays)
        result = swept(work, n_workers=workers, advance=advance, say=say)
    advice = advised(result, now, cost_draws(costs))
    if as_json:
        emit_json(advice)
    else:
        show(advice)


@imports.command("passes")
def _import_passes(
    file: Annotated[
        Path, typer.Argument(help="JSON lines or CSV: run, loop, rows, cached, seconds, tokens; a line a pass.")
    ],
    out: Out = Path("runs.jsonl"),
    model_name: Annotated[str, typer.Option("--model-name", help="What was run; the file's name without it.")] = "",
    engine: Annotated[str, typer.Option("--engine", help="What ran it, for the report.")] = "",
    n_threads: Annotated[int, typer.Option("--threads", min=0, help="Its threads, where known.")] = 0,
    as_json: Json = False,
) -> None:
    """Take over passes that another engine timed, to compare and report as if they were timed here.

    \b
    Example:
      sweepcap import passes passes.csv --engine "llama-server b6900" --out theirs/runs.jsonl
      sweepcap compare --runs theirs/runs.jsonl
      sweepcap report theirs
    """
    from figures.comparison import PACE, pace
    from figures.terminal import emit_json, emit_table, say
    from validate.files import check_writable, write
    from validate.passes import import_passes, paces
    from validate.runs import dumps

    check_writable(out)
    header, timed = import_passes(file, model_name, engine, n_threads)
    for note in header.notes:
        say(note)
    write(out, dumps(header, timed))
    if as_json:
        emit_json({"header": header, "paces": paces(timed)})
    else:
        emit_table(f"{len(timed)} runs in {out}", PACE, map(pace, paces(timed)))


# --- what the commands share -----------------------------------------------------------------------------------------


def _origin(source: str) -> tuple[str, ...]:
    """What to say of texts that the model did not write under this program's eyes."""
    if source == "recorded":
        return ()
    return ("the texts come from elsewhere: what is predicted from them holds as far as this model writes such texts",)


def _typed() -> str:
    """The command as it was typed."""
    return shlex.join(["sweepcap", *sys.argv[1:]])


def _settings(loops: Sequence[str] | None, rows: Sequence[int] | None) -> tuple[Setting, ...]:
    """The settings asked for, those of the study at R = 6 without, and the baselines that speedups need."""
    from sim.setting import STUDY, settings

    return settings(loops or STUDY, rows or [6])


def _penalties(repeat: float, frequency: float, presence: float, last_n: int) -> Penalties:
    """The sampler penalties asked for; none at all where nothing would come of them."""
    from sim.penalties import NONE
    from sim.penalties import Penalties as Made

    made = Made(repeat=repeat, frequency=frequency, presence=presence, last_n=last_n)
    return made if made.counts_tokens else NONE


def _pairs(words: Sequence[str] | None) -> dict[str, str]:
    """KEY=VALUE words as a mapping; ValueError for a word without the sign."""
    for word in words or ():
        if "=" not in word:
            raise ValueError(f"--select takes KEY=VALUE, as in --select threads=4, not {word!r}")
    return dict(word.split("=", 1) for word in words or ())


def _profile(path: Path, extrapolate: bool) -> Profile:
    """The profile in a file, which prices what was not measured too, with the caveat of it, if that is asked for."""
    from costmodel.profile import extrapolating, load

    return extrapolating(load(path)) if extrapolate else load(path)


def _cost(
    profile: Path | None, model_spec: str | None, device: str | None, weights: str, extrapolate: bool
) -> tuple[PassCost, tuple[str, ...]]:
    """The pass cost asked for, and what must be said with every number derived from it."""
    from costmodel.ask import described_cost
    from figures.terminal import say

    if profile is not None and model_spec is None and device is None:
        costs = _profile(profile, extrapolate)
        for caveat in costs.caveats:
            say(caveat)
        return costs.cost, costs.caveats
    if profile is None and model_spec is not None and device is not None:
        return described_cost(model_spec, device, weights), ()
    raise ValueError("say what a pass costs: --profile FILE, or --model-spec NAME and --device NAME")


def _model(model: Path | None) -> Path:
    from validate.models import chosen_model

    return chosen_model(model)


def _threads(n: int | None, pinned: bool = False) -> int:
    from validate.environment import chosen_threads, pin

    n_threads = chosen_threads(n)
    if pinned:  # before llama.cpp is loaded: OpenMP reads its settings once
        pin(n_threads)
    return n_threads


def _show(comparison: Comparison, profile: Profile | None, runs: Sequence[Run], as_json: bool) -> None:
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


def __getattr__(name: str) -> Any:
    """The functions for notebooks, `sweepcap.record` and so on, loaded when one is asked for."""
    if name not in PUBLIC:
        raise AttributeError(f"module 'sweepcap' has no attribute {name!r}")
    from figures import notebook

    return getattr(notebook, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *PUBLIC})


def main() -> None:
    """Run the program: one sentence and status 2 for what the user got wrong, 128 + the signal when stopped."""

    def stop(number: int, _: object) -> None:
        for other in signals:
            signal.signal(other, signal.SIG_IGN)
        kept = GOES_ON if sys.argv[1:2] and sys.argv[1] in RESUMED else "nothing half-written is left"
        print(f"sweepcap: stopped; {kept}", file=sys.stderr)
        raise SystemExit(128 + number)

    signals = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    for number in signals:
        signal.signal(number, stop)
    try:
        app(prog_name="sweepcap")
    except ValueError as error:
        if shell.verbosity > 1:
            traceback.print_exc()
        print(f"sweepcap: {error}", file=sys.stderr)
        raise SystemExit(2) from None


if __name__ == "__main__":
    main()
