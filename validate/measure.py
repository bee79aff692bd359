"""Timed runs of loops on llama.cpp: ABBA blocks over all settings, every pass kept, every run on disk before the next.

Calibration rounds stand between the runs of a block, so that prediction and measurement see the same machine. A folder
that already holds runs of the same plan is gone on with from there.
"""

from __future__ import annotations

import gc
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, perf_counter
from typing import Any

import msgspec
import numpy as np

from sim.machine import Pass, State
from sim.run import run
from sim.setting import Setting
from sim.trace import Header as TextsHeader
from sim.trace import Text
from validate import environment
from validate.calibrate import Measured, calibration_round, calibration_text, load_rounds, longest, where
from validate.design import block_order
from validate.files import append, check_writable, cut_half_line, write
from validate.llama import LlamaEngine, build, opened
from validate.models import model_hash
from validate.parity import margin_noise, triage
from validate.progress import Advance, Say, quiet
from validate.runs import Header, Run
from validate.runs import load as load_runs


def timed_run(
    engine: LlamaEngine, setting: Setting, text: Text, n_tokens: int, *, block: int = 0, place: int = 0
) -> Run:
    """One run of a fresh loop over a text's prompt, for `n_tokens` tokens or up to a stop token."""
    start = State.start(text.tokens[: text.n_prompt], n_tokens, engine.model.stops)
    loop = setting.make()
    stolen = environment.steal_seconds()
    gc.collect()
    gc.disable()  # a collection in the middle of a loop would be charged to that loop
    try:
        begin = perf_counter()
        end, records = run(loop, start, engine)
        wall = perf_counter() - begin
    finally:
        gc.enable()
    stolen_after = environment.steal_seconds()
    return Run(
        block=block,
        place=place,
        prompt=text.name,
        loop=setting.loop,
        rows=setting.rows,
        drafter=setting.drafter,
        tokens=tuple(end.tokens[text.n_prompt :]),
        wall_seconds=wall - sum(record.seconds for record in records if record.kind == "prefill"),
        passes=tuple(records),
        steal_seconds=None if stolen is None or stolen_after is None else stolen_after - stolen,
    )


def warm_up(engine: LlamaEngine, text: Text, max_rows: int) -> None:
    """Some passes that do not count: weights paged in, threads awake, a graph built for each width."""
    engine(Pass(0, text.tokens[: text.n_prompt], 1))
    for n in (*range(1, max_rows + 1), 1):
        rows = (text.tokens * max_rows)[:n]
        engine(Pass(text.n_prompt, rows, n))


@dataclass(frozen=True, slots=True)
class Plan:
    """What is timed: settings in blocks over texts; equal plans can go on from each other."""

    settings: tuple[Setting, ...]
    n_tokens: int
    n_blocks: int
    seed: int = 0

    @property
    def max_rows(self) -> int:
        """The widest pass that is calibrated: eight rows at least, so that the cost curve can be seen."""
        return max(8, *(setting.rows for setting in self.settings))

    def facts(self, header: TextsHeader, texts: Sequence[Text]) -> dict[str, Any]:
        """What a later call must agree with; the number of blocks may grow."""
        return {
            "settings": [str(setting) for setting in self.settings],
            "n_tokens": self.n_tokens,
            "seed": self.seed,
            "prompts": [text.name for text in texts],
            "model_hash": header.model_hash,
        }


def measure(
    path: Path,
    runs_file: Path,
    header: TextsHeader,
    texts: Sequence[Text],
    plan: Plan,
    n_threads: int,
    *,
    rounds_file: Path | None = None,
    limit_seconds: float | None = None,
    advance: Advance = quiet,
    say: Say = quiet,
) -> None:
    """Time the plan on the model in a file, going on from what `runs_file` already holds.

    With a `rounds_file`, a calibration round stands before the runs of each prompt in each block. Raises ValueError when
    the runs there are of another plan, model or thread count.
    """
    max_rows = plan.max_rows
    length = longest(texts, plan.n_tokens, max_rows)
    for file in (runs_file, rounds_file):
        if file:
            check_writable(file)
            cut_half_line(file)
    with opened(path, lambda _: length, n_threads) as engine:
        if header.model_hash and model_hash(path) != header.model_hash:
            raise ValueError(f"the texts were not recorded with {path.name}: record them with this model")
        done = _go_on(runs_file, header, texts, plan, engine)
        rounds_done = {(m.block, m.prompt) for m in load_rounds(rounds_file)} if rounds_file else set()
        for warning in environment.busy():
            say(warning)
        tokens, visit = calibration_text(texts, length), where(texts, plan.n_tokens, max_rows)
        warm_up(engine, texts[0], max_rows)
        noise = load_runs(runs_file)[0].noise
        begin, n_steps = monotonic(), plan.n_blocks * len(texts)
        for block in range(plan.n_blocks):
            started = monotonic()
            for i, text in enumerate(texts):
                what = f"block {block + 1} of {plan.n_blocks}: {text.name}"
                advance(what, block * len(texts) + i, n_steps)
                if rounds_file and (block, text.name) not in rounds_done:
                    rng = np.random.default_rng((plan.seed, block, i))
                    round_ = calibration_round(engine, tokens, visit, rng)
                    append(rounds_file, msgspec.json.encode(Measured(block, text.name, round_)))
                for place, setting in enumerate(block_order(plan.settings, block, plan.seed + i)):
                    if (block, text.name, place) in done:
                        continue
                    run = timed_run(engine, setting, text, plan.n_tokens, block=block, place=place)
                    if run.tokens != text.tokens[text.n_prompt :]:
                        run = msgspec.structs.replace(run, parity=triage(engine, text, run.tokens, noise))
                    append(runs_file, msgspec.json.encode(run))
            now = monotonic()
            if (
                limit_seconds is not None
                and now - begin + (now - started) > limit_seconds
                and block + 1 < plan.n_blocks
            ):
                say(
                    f"stopped after {block + 1} of {plan.n_blocks} blocks: the next would not fit the time limit"
                )
                break
        advance("measured", n_steps, n_steps)


def _go_on(
    runs_file: Path, header: TextsHeader, texts: Sequence[Text], plan: Plan, engine: LlamaEngine
) -> set[tuple[int, str, int]]:
    """The runs already there; writes the header of a new file."""
    facts = plan.facts(header, texts)
    if runs_file.exists() and runs_file.stat().st_size:
        there, runs = load_runs(runs_file)
        try:
            environment.must_agree("plan", facts, there.plan)
            environment.must_agree("run", {"n_threads": engine.n_threads}, {"n_threads": there.n_threads})
        except ValueError as error:
            raise ValueError(
                f"{runs_file} holds runs of another setting ({error}): choose another --out, or remove that file"
            ) from error
        return {(run.block, run.prompt, run.place) for run in runs}
    head = Header(
        model=header.model,
        model_hash=header.model_hash,
        n_threads=engine.n_threads,
        n_ctx=engine.n_ctx,
        n_tokens=plan.n_tokens,
        n_blocks=plan.n_blocks,
        noise=max(margin_noise(engine, text, plan.max_rows) for text in texts),
        plan=facts,
        environment=environment.describe() | {"llama": build(), "model": engine.model.description},
    )
    write(runs_file, msgspec.json.encode(head) + b"\n")
    return set()
