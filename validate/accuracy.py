"""How far predictions miss, on cells nobody tuned to: the default model in five quantisations, six prompts, three R.

Every variant is a session folder like that of `sweepcap run`, so measuring goes on where it was stopped and everything
is judged again from raw records at any time. The time given is planned with the prediction itself: a short calibration
and the recorded texts say what a block will take, and the fullest design that fits is measured. Each variant is visited
twice, so that a slow quarter of an hour does not fall on one of them alone; what time is left goes to the widest
intervals. A later call with more time grows the design.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from time import monotonic

import msgspec

from sim.trace import Header, Text
from validate.budget import CANDIDATES, GIVEN, SCATTER, VARIANTS, Design, block_seconds, choose
from validate.calibrate import calibrate
from validate.files import write_json
from validate.measure import measure
from validate.models import requantised
from validate.progress import Advance, Say, quiet
from validate.record import Prompt, load_prompts, recorded_or_loaded, suite
from validate.runs import load as load_runs

DEVELOPED_PROMPTS = ("locked repetition", "code edit", "story")
N_TOKENS, WANTED = 128, 0.01
"""Tokens a prompt; the half-width that is aimed at with what time is left."""


def prompts() -> list[Prompt]:
    """Three prompts of the suite, which the model was developed on, and three that were kept aside."""
    with resources.as_file(resources.files("validate") / "heldout.jsonl") as path:
        kept = load_prompts(path)
    return [*(p for p in load_prompts(suite()) if p.name in DEVELOPED_PROMPTS), *kept]


def held_out(variant: str) -> dict[str, str]:
    """By prompt: by what its cells were kept from development; the default model as it is was developed on."""
    return {
        p.name: {(False, False): "", (True, False): "variant", (False, True): "prompt", (True, True): "both"}[
            variant != GIVEN, p.name not in DEVELOPED_PROMPTS
        ]
        for p in prompts()
    }


def measured(
    folder: Path,
    model: Path,
    loops: Sequence[str],
    n_threads: int,
    minutes: float,
    *,
    candidates: Sequence[Design] = CANDIDATES,
    n_tokens: int = N_TOKENS,
    asked: Sequence[Prompt] | None = None,
    advance: Advance = quiet,
    say: Say = quiet,
) -> Design:
    """Measure what fits the time into `folder`, a session for each variant, going on from what is there.

    The design is kept in `design.json`; a later call goes on with it, and grows it when its time allows. Raises
    ValueError when the folder holds sessions of another model.
    """
    end = monotonic() + 60 * minutes
    asked = prompts() if asked is None else asked
    paths = {
        v: model if v == GIVEN else requantised(model, v)
        for v in dict.fromkeys(v for c in candidates for v in c.variants)
    }

    def texts_of(variant: str) -> tuple[Header, list[Text]]:
        file = folder / home(variant) / "texts.jsonl"
        return recorded_or_loaded(file, paths[variant], asked, n_tokens, n_threads, advance)

    design = _design(folder, paths, texts_of(GIVEN)[1], loops, n_threads, end, candidates, advance)
    say(
        f"R = {', '.join(map(str, design.rows))}, {design.n_blocks} blocks of {len(asked)} prompts, variants"
        f" {', '.join(map(home, design.variants))}: about {design.left(_done(folder)) / 60:.0f} min from here, and"
        f" intervals of about +-{design.half_width:.1%} where runs scatter by {SCATTER:.1%}"
    )
    half, done = -(-design.n_blocks // 2), _done(folder)
    visits = [(v, n) for n in (half, design.n_blocks) for v in design.variants]
    visits += [(v, 0) for v in design.variants]  # what time is left, for the widest intervals
    for i, (variant, n_blocks) in enumerate(visits):
        header, texts = texts_of(variant)
        left = end - monotonic()
        if n_blocks:
            share = design.share(variant, n_blocks, done, left)
            done[variant] = max(n_blocks, done.get(variant, 0))
        else:
            share = left * design.seconds[variant] / sum(design.seconds[v] for v, _ in visits[i:])
        limit = share - design.visit(variant)
        if i and limit < design.seconds[variant] / len(asked):
            continue  # not even one prompt of it would fit
        plan = design.plan(loops, n_tokens, n_blocks or design.n_blocks, None if n_blocks else WANTED)
        measure(
            paths[variant], folder / home(variant) / "runs.jsonl", header, texts, plan, n_threads,
            rounds_file=folder / home(variant) / "calibration.jsonl", limit_seconds=max(limit, 1.0),
            advance=_named(home(variant), advance), say=say,
        )  # fmt: skip
    return design


def _design(
    folder: Path,
    paths: Mapping[str, Path],
    texts: Sequence[Text],
    loops: Sequence[str],
    n_threads: int,
    end: float,
    candidates: Sequence[Design],
    advance: Advance,
) -> Design:
    """The fullest design that fits, by a round of calibration of each variant; never less than the folder's own."""
    file = folder / "design.json"
    kept, done = load_design(folder) if file.exists() else None, _done(folder)
    if kept is not None:
        candidates = [
            c for c in candidates
            if c.rows == kept.rows and c.n_blocks >= kept.n_blocks and {*c.variants} >= {*kept.variants}
        ] or [kept]  # fmt: skip
    widest = max(n for c in candidates for n in c.rows)
    costs = {
        v: calibrate(path, [], n_threads, context=64, max_rows=widest, n_rounds=1, advance=advance).cost
        for v, path in paths.items()
    }
    # All of equal R take as long a block, so that is reckoned once.
    seconds = {
        c.rows: {v: block_seconds(c, loops, texts, costs[v]) for v in paths}
        for c in {c.rows: c for c in candidates}.values()
    }
    design = choose([msgspec.structs.replace(c, seconds=seconds[c.rows]) for c in candidates], end - monotonic(), done)
    write_json(file, design)
    return design


def load_design(folder: Path) -> Design:
    """The design kept in a folder; ValueError when it is none."""
    file = folder / "design.json"
    try:
        return msgspec.json.decode(file.read_bytes(), type=Design)
    except (OSError, msgspec.MsgspecError) as error:
        raise ValueError(f"{file} is no design: {error}; measure first, or choose another --out") from error


def _named(name: str, advance: Advance) -> Advance:
    """Progress that says which variant it is of."""
    return lambda what, i, n: advance(f"{name}, {what}", i, n)


def _done(folder: Path) -> dict[str, int]:
    """Whole blocks that are there, by variant."""
    done = {}
    for variant in VARIANTS:
        file = folder / home(variant) / "runs.jsonl"
        if file.exists() and file.stat().st_size:
            header, runs = load_runs(file)
            seen = {(run.block, run.prompt) for run in runs}
            prompts = header.plan.get("prompts", ())
            done[variant] = min(sum((block, p) in seen for block in range(header.n_blocks)) for p in prompts)
    return done


def home(variant: str) -> str:
    """The name of a variant's folder."""
    return "given" if variant == GIVEN else variant


def sessions(folder: Path) -> dict[str, Path]:
    """The session folders of the variants that were begun, by variant."""
    homes = {variant: folder / home(variant) for variant in VARIANTS}
    return {v: path for v, path in homes.items() if (path / "calibration.jsonl").exists()}
