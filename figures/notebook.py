"""The toolkit from Python: each step a function, each result an object that shows itself and holds a polars frame.

    texts = sweepcap.record(["la la la"])        costs = sweepcap.calibrate(texts)
    sweepcap.predict(costs, texts)               sweepcap.compare(costs, texts, sweepcap.measure(texts))

`import sweepcap` brings these names without loading anything; what is heavy comes with the first call.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from costmodel import ask
from costmodel import profile as profiles
from costmodel.acceptance import parse as parse_law
from costmodel.caps import full_acceptance_speedup, sweep_cap
from costmodel.passcost import PassCost
from figures.results import Compared, Costs, File, Predictions, Replayed, Swept, Texts, Timed
from sim import trace
from sim.predict import Prediction, predictions, walk
from sim.predict import predict as predicted
from sim.setting import DEFAULT_DRAFTER, STUDY, Setting, settings
from sim.trace import Text
from validate import runs as run_files
from validate.environment import chosen_threads
from validate.models import chosen_model

if TYPE_CHECKING:
    from validate.record import Prompt

__all__ = ["calibrate", "caps", "compare", "load", "measure", "predict", "record", "replay", "sweep"]


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

    header, texts = record_texts(_model(model), _prompts(prompts), tokens, chosen_threads(threads), context)
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
    made = calibrated(_model(model), given, chosen_threads(threads), context=context, max_rows=rows, n_rounds=rounds)
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
    made = predictions(texts.texts, settings(loops, _many(rows), drafter), cost, replays=texts.header.replays)
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

    plan = Plan(settings(loops, _many(rows), drafter), max(t.n_tokens for t in texts.texts), blocks)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(out) if out else Path(folder) / "runs.jsonl"
        timed(
            _model(model),
            file,
            texts.header,
            list(texts.texts),
            plan,
            chosen_threads(threads),
            say=warnings.warn,
        )
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


def _model(given: File | None) -> Path:
    return chosen_model(Path(given) if given else None)
