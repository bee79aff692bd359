"""Timed runs of loops on llama.cpp: all settings side by side over a prompt, every pass kept.

The runs of a prompt are on disk before the next prompt is begun. The cells of a calibration round are strewn among
their passes, so that prediction and measurement see the same machine. A file that holds runs of the same plan is gone
on with from there.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, perf_counter
from typing import Any

import msgspec
import numpy as np

from sim.loops import greedy
from sim.machine import Pass, State
from sim.run import Record, passes
from sim.setting import Setting
from sim.trace import Header as TextsHeader
from sim.trace import Text
from validate import environment
from validate.calibrate import Measured, Strewn, calibration_round, calibration_text, knots, longest, where
from validate.design import block_order, next_turn
from validate.files import append, check_writable, cut_half_line, write
from validate.llama import LlamaEngine, Model, build, opened, padded
from validate.models import model_hash
from validate.parity import margin_noise, triage
from validate.progress import Advance, Say, quiet
from validate.runs import Header, Run
from validate.runs import load as load_runs


class Lane:
    """One setting decoding on its own context from where a prefill ended, a pass at a time; its drafter is fresh."""

    def __init__(self, engine: LlamaEngine, setting: Setting, state: State, prefill: Record) -> None:
        self.setting = setting
        self.state = state
        self.records = [prefill]
        self.wall_seconds = 0.0
        self._passes = passes(setting.make(replays=not engine.can_cut), self.state, engine)

    def turn(self) -> bool:
        """Run the next pass; False when the text has ended."""
        begin = perf_counter()
        following = next(self._passes, None)
        wall = perf_counter() - begin
        if following is None:
            return False
        self.state, record = following
        self.records.append(record)
        self.wall_seconds += wall
        return True

    def result(self, block: int, place: int, text: Text) -> Run:
        """The finished run."""
        return Run(
            block=block,
            place=place,
            prompt=text.name,
            loop=self.setting.loop,
            rows=self.setting.rows,
            drafter=self.setting.drafter,
            tokens=tuple(self.state.tokens[text.n_prompt :]),
            wall_seconds=self.wall_seconds,
            passes=tuple(self.records),
        )


def timed_block(
    engines: Sequence[LlamaEngine],
    settings: Sequence[Setting],
    text: Text,
    n_tokens: int,
    block: int = 0,
    strewn: Strewn | None = None,
) -> list[Run]:
    """One run of each setting over a text's prompt, pass by pass in turn, up to `n_tokens` tokens or a stop token.

    The prompt is read once; the cells of calibration rounds are strewn evenly among the passes.
    """
    start = State.start(text.tokens[: text.n_prompt], n_tokens, engines[0].model.stops)
    state, prefill = next(passes(greedy(lambda _: (), 1), start, engines[0]))
    for engine in engines[1:]:
        engine.adopt(engines[0])
    lanes = [Lane(engine, s, state, prefill) for engine, s in zip(engines, settings, strict=True)]
    gc.collect()
    gc.disable()  # a collection in the middle of a loop would be charged to that loop
    try:
        going, turn = list(lanes), 0
        while going:
            lengths = [len(lane.state.tokens) for lane in going]
            if strewn:
                strewn.until((min(lengths) - text.n_prompt) / text.n_tokens)
            i = next_turn(lengths, turn)
            if not going[i].turn():
                del going[i]
            turn += 1
    finally:
        gc.enable()
    return [lane.result(block, place, text) for place, lane in enumerate(lanes)]


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
    n_rounds: int = 4
    seed: int = 0

    @property
    def max_rows(self) -> int:
        """The widest pass: all up to it are calibrated."""
        return max(setting.rows for setting in self.settings)

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
    n_gpu_layers: int = 0,
    advance: Advance = quiet,
    say: Say = quiet,
) -> None:
    """Time the plan on the model in a file, going on from what `runs_file` already holds.

    With a `rounds_file`, a calibration round is taken along with the runs of each prompt in each block. Raises
    ValueError when the runs there are of another plan, model or thread count.
    """
    for file in (runs_file, rounds_file):
        if file:
            check_writable(file)
            cut_half_line(file)
    length = longest(texts, plan.n_tokens, plan.max_rows)
    with opened(path, n_threads, n_gpu_layers=n_gpu_layers) as model, ExitStack() as stack:
        if header.model_hash and model_hash(path) != header.model_hash:
            raise ValueError(f"the texts were not recorded with {path.name}: record them with this model")
        check_vocabulary(model, header, texts)
        n_ctx = padded(length)
        engines = [
            stack.enter_context(LlamaEngine(model, n_ctx=n_ctx, n_threads=n_threads, penalties=header.penalties))
            for _ in plan.settings
        ]
        done = _go_on(runs_file, header, texts, plan, engines[0])
        for warning in environment.busy():
            say(warning)
        tokens, visit, at = calibration_text(texts, length), where(texts, plan.n_tokens, plan.max_rows), None
        if rounds_file:
            at = stack.enter_context(
                knots(model, visit, tokens, n_ctx=n_ctx, n_threads=n_threads, penalties=header.penalties)
            )
        for engine in engines:
            warm_up(engine, texts[0], plan.max_rows)
        noise = load_runs(runs_file)[0].noise
        begin, n_steps, longest_block = monotonic(), plan.n_blocks * len(texts), 0.0
        for block in range(plan.n_blocks):
            started = monotonic()
            for i, text in enumerate(texts):
                advance(f"block {block + 1} of {plan.n_blocks}: {text.name}", block * len(texts) + i, n_steps)
                if (block, text.name) in done:
                    continue
                strewn = None
                if at:
                    rng = np.random.default_rng((plan.seed, block, i))
                    rounds = [calibration_round(at, tokens, visit, rng) for _ in range(plan.n_rounds)]
                    strewn = Strewn(rounds, plan.n_rounds * visit.n_cells)
                order = block_order(plan.settings, block, plan.seed + i)
                runs = timed_block(engines, order, text, plan.n_tokens, block, strewn)
                if rounds_file and strewn:
                    strewn.finish()
                    append(rounds_file, msgspec.json.encode(Measured(block, text.name, tuple(strewn.rounds))))
                lines = (msgspec.json.encode(_judged(run, text, engines[0], noise)) for run in runs)
                append(runs_file, b"\n".join(lines))
            longest_block = max(longest_block, monotonic() - started)
            over = limit_seconds is not None and monotonic() - begin + longest_block > limit_seconds
            if over and block + 1 < plan.n_blocks:
                say(f"stopped after {block + 1} of {plan.n_blocks} blocks: the next would not fit the time limit")
                break
        advance("measured", n_steps, n_steps)


def check_vocabulary(model: Model, header: TextsHeader, texts: Sequence[Text]) -> None:
    """Raise ValueError when texts hold ids that the model does not know, or are of another vocabulary's size."""
    largest = max(max(text.tokens) for text in texts)
    if largest >= model.n_vocab or (header.n_vocab and header.n_vocab != model.n_vocab):
        theirs = header.n_vocab or f"at least {largest + 1}"
        raise ValueError(
            f"the texts are of a vocabulary of {theirs} tokens, {model.path.name} has {model.n_vocab}: record them with"
            " this model"
        )


def _judged(run: Run, text: Text, engine: LlamaEngine, noise: float) -> Run:
    """The run with a verdict on its text, where that is not the recorded one."""
    if run.tokens == text.tokens[text.n_prompt :]:
        return run
    return msgspec.structs.replace(run, parity=triage(engine, text, run.tokens, noise))


def _go_on(
    runs_file: Path, header: TextsHeader, texts: Sequence[Text], plan: Plan, engine: LlamaEngine
) -> set[tuple[int, str]]:
    """The prompts of blocks that are already there; writes the header of a new file."""
    facts = plan.facts(header, texts)
    if runs_file.exists() and runs_file.stat().st_size:
        there, runs = load_runs(runs_file)
        try:
            environment.must_agree("plan", facts, there.plan)
            environment.must_agree("texts", {"penalties": str(header.penalties)}, {"penalties": str(there.penalties)})
            environment.must_agree("run", {"n_threads": engine.n_threads}, {"n_threads": there.n_threads})
        except ValueError as error:
            raise ValueError(
                f"{runs_file} holds runs of another setting ({error}): choose another --out, or remove that file"
            ) from error
        seen = Counter((run.block, run.prompt) for run in runs)
        whole = {key for key, n in seen.items() if n == len(plan.settings)}
        if len(whole) < len(seen):  # a prompt whose runs were not all written is measured again, all of them
            kept = [there, *(run for run in runs if (run.block, run.prompt) in whole)]
            write(runs_file, b"".join(msgspec.json.encode(item) + b"\n" for item in kept))
        return whole
    head = Header(
        model=header.model,
        model_hash=header.model_hash,
        n_threads=engine.n_threads,
        n_ctx=engine.n_ctx,
        n_tokens=plan.n_tokens,
        n_blocks=plan.n_blocks,
        noise=max(margin_noise(engine, text, plan.max_rows) for text in texts),
        plan=facts,
        penalties=engine.penalties,
        replays=not engine.can_cut,
        environment=environment.describe() | {"llama": build(), "model": engine.model.description},
    )
    write(runs_file, msgspec.json.encode(head) + b"\n")
    return set()
