"""Timed runs of loops on llama.cpp: all settings side by side over a prompt, every pass kept.

The runs of a prompt are on disk before the next prompt is begun. The passes of calibration rounds are strewn among
theirs, so that prediction and measurement see the same machine. A file that holds runs of the same plan is gone on with
from there. What is measured next is asked of `validate.agenda`: the planned blocks, then what came out odd or too wide.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from time import monotonic

import msgspec
import numpy as np

from sim.penalties import Penalties
from sim.trace import Header as TextsHeader
from sim.trace import Text
from validate import environment, watch
from validate.agenda import Agenda, Plan
from validate.calibrate import Measured, calibration_text, longest, where
from validate.design import block_order
from validate.fed import FedEngine
from validate.files import append, check_writable, cut_half_line, write
from validate.knots import Grid, Knot, Strewn, calibration_round, knots
from validate.lanes import timed_block, warm_up
from validate.llama import LlamaEngine, Model, build, opened, padded
from validate.parity import margin_noise, triage
from validate.progress import Advance, Say, quiet
from validate.record import check_recorded_with
from validate.runs import Header, Run
from validate.runs import load as load_runs


class Bench:
    """Contexts for every lane and for every calibrated cached length, ready to time prompts."""

    def __init__(
        self,
        stack: ExitStack,
        model: Model,
        texts: Sequence[Text],
        plan: Plan,
        n_threads: int,
        *,
        calibrated: bool,
        penalties: Penalties,
        fed: bool,
    ) -> None:
        length = longest(texts, plan.n_tokens, plan.max_rows)
        n_ctx = padded(length)

        kind = FedEngine if fed else LlamaEngine

        def engine() -> LlamaEngine:
            return stack.enter_context(kind(model, n_ctx=n_ctx, n_threads=n_threads, penalties=penalties))

        self.plan, self.texts = plan, texts
        self.engines = [engine() for _ in plan.lanes]
        self.tokens: tuple[int, ...] = calibration_text(texts, length)
        self.visit: Grid = where(texts, plan.n_tokens, plan.max_rows)
        self.at: list[Knot] = []
        if calibrated:
            self.at = stack.enter_context(
                knots(model, self.visit, self.tokens, n_ctx=n_ctx, n_threads=n_threads, penalties=penalties)
            )

    def warm_up(self) -> None:
        """Passes that do not count, on every context."""
        for engine in self.engines:
            warm_up(engine, self.texts[0], self.plan.max_rows)

    def time(self, block: int, place: int) -> tuple[list[Run], Measured | None]:
        """The runs of all lanes over one prompt in one block, and the calibration rounds strewn among them."""
        plan, text = self.plan, self.texts[place]
        rng = np.random.default_rng((plan.seed, block, place))
        strewn = None
        if self.at:
            rounds = [calibration_round(self.at, self.tokens, self.visit, rng) for _ in range(plan.n_rounds)]
            strewn = Strewn(rounds, plan.n_rounds * self.visit.n_passes)
        engines = [self.engines[i] for i in rng.permutation(len(self.engines))]
        for engine in engines:
            if isinstance(engine, FedEngine):
                engine.follow(text)
        order = block_order(plan.lanes, block, plan.seed + place)
        runs = timed_block(engines, order, text, plan.n_tokens, block, strewn)
        if strewn is None:
            return runs, None
        strewn.finish()
        return runs, Measured(block, text.name, tuple(strewn.rounds))


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
    fed: bool = False,
    advance: Advance = quiet,
    say: Say = quiet,
) -> None:
    """Time the plan on the model in a file, going on from what `runs_file` already holds.

    With a `rounds_file`, calibration rounds are taken along with the runs of each prompt in each block. `fed`: the
    model gives the seconds alone, the answers are those of the texts (see `validate.fed`). Raises ValueError when the
    runs there are of another plan, model or thread count.
    """
    for file in (runs_file, rounds_file):
        if file:
            check_writable(file)
            cut_half_line(file)
    with opened(path, n_threads, n_gpu_layers=n_gpu_layers) as model, ExitStack() as stack:
        check_recorded_with(path, header)
        check_vocabulary(model, header, texts)
        bench = Bench(
            stack, model, texts, plan, n_threads,
            calibrated=rounds_file is not None, penalties=header.penalties, fed=fed,
        )  # fmt: skip
        watcher = watch.Watch()
        there = _go_on(runs_file, header, texts, plan, bench.engines[0])
        noise = load_runs(runs_file)[0].noise
        agenda = Agenda(plan, [text.name for text in texts], there, limit_seconds, monotonic())
        bench.warm_up()
        for warning in watch.before(watcher.look(), n_threads):
            say(warning)
        while (step := agenda.next(monotonic())) is not None:
            block, place = step
            which = f"block {block + 1} of {plan.n_blocks}" if block < plan.n_blocks else f"further block {block + 1}"
            advance(f"{which}: {texts[place].name}", agenda.n_done, agenda.n_steps)
            started = monotonic()
            watcher.look()
            runs, rounds = bench.time(block, place)
            seen = watcher.look()
            runs = [
                msgspec.structs.replace(_judged(run, texts[place], bench.engines[0], noise), machine=seen)
                for run in runs
            ]
            if rounds_file and rounds:
                append(rounds_file, msgspec.json.encode(rounds))
            append(runs_file, b"\n".join(msgspec.json.encode(run) for run in runs))
            agenda.add(runs, monotonic() - started)
        if agenda.reason:
            say(agenda.reason)
        advance("measured", agenda.n_steps, agenda.n_steps)


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
    return msgspec.structs.replace(run, parity=triage(engine, text, run.tokens, noise, run.passes))


def _go_on(runs_file: Path, header: TextsHeader, texts: Sequence[Text], plan: Plan, engine: LlamaEngine) -> list[Run]:
    """The runs of whole prompts that are already there; writes the header of a new file."""
    facts = plan.facts(header, texts)
    if runs_file.exists() and runs_file.stat().st_size:
        there, runs = load_runs(runs_file)
        environment.must_go_on(
            runs_file,
            ("plan", facts, there.plan),
            ("texts", {"penalties": str(header.penalties)}, {"penalties": str(there.penalties)}),
            ("run", {"n_threads": engine.n_threads}, {"n_threads": there.n_threads}),
        )
        seen = Counter((run.block, run.prompt) for run in runs)
        whole = [run for run in runs if seen[run.block, run.prompt] == len(plan.lanes)]
        if len(whole) < len(runs) or there.n_blocks < plan.n_blocks:
            # A prompt whose runs were not all written is measured again, all of them; more blocks may be asked for.
            head = msgspec.structs.replace(there, n_blocks=max(there.n_blocks, plan.n_blocks))
            write(runs_file, b"".join(msgspec.json.encode(item) + b"\n" for item in (head, *whole)))
        return whole
    head = Header(
        model=header.model,
        model_hash=header.model_hash,
        n_threads=engine.n_threads,
        n_ctx=engine.n_ctx,
        n_tokens=plan.n_tokens,
        n_blocks=plan.n_blocks,
        noise=0.0 if isinstance(engine, FedEngine) else max(margin_noise(engine, t, plan.max_rows) for t in texts),
        plan=facts,
        penalties=engine.penalties,
        replays=not engine.can_cut,
        environment=environment.describe() | {"llama": build(), "model": engine.model.description},
    )
    write(runs_file, msgspec.json.encode(head) + b"\n")
    return []
