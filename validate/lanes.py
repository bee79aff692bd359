"""Settings side by side over a prompt: each on a context of its own, a pass at a time, in turns.

Whose turn it is says `validate.design`; calibration passes are strewn among the others.
"""

from __future__ import annotations

import gc
from collections.abc import Sequence
from time import perf_counter

from sim.loops import greedy
from sim.machine import Pass, State, next_pass, step
from sim.run import Record, passes, record_of
from sim.setting import Setting
from sim.trace import Text
from validate.design import lots, next_turn
from validate.knots import Strewn
from validate.llama import LlamaEngine
from validate.runs import Run


class Lane:
    """One setting decoding on its own context from where a prefill ended, a pass at a time; its drafter is fresh."""

    def __init__(self, engine: LlamaEngine, setting: Setting, state: State, prefill: Record, twin: bool) -> None:
        self.setting = setting
        self.twin = twin
        self.state = state
        self.records = [prefill]
        self.wall_seconds = 0.0
        self._engine = engine
        self._loop = setting.make(replays=not engine.can_cut)

    def turn(self) -> bool:
        """Run the next pass; False when the text has ended. Drafting and judging are timed, its record is not."""
        begin = perf_counter()
        pass_ = next_pass(self._loop, self.state)
        if pass_ is None:
            return False
        answer, seconds = self._engine(pass_)
        after = step(self.state, pass_, answer)
        self.wall_seconds += perf_counter() - begin
        self.records.append(record_of(self.state, pass_, after, seconds))
        self.state = after
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
            twin=self.twin,
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

    The prompt is read once; the passes of calibration rounds are strewn evenly among the others. The second of two
    equal settings is the twin of the first.
    """
    start = State.start(text.tokens[: text.n_prompt], n_tokens, engines[0].model.stops)
    state, prefill = next(passes(greedy(lambda _: (), 1), start, engines[0]))
    for engine in engines[1:]:
        engine.adopt(engines[0])
    lanes = [
        Lane(engine, s, state, prefill, twin=s in settings[:place])
        for place, (engine, s) in enumerate(zip(engines, settings, strict=True))
    ]
    rng = lots(block, text.n_prompt)
    gc.collect()
    gc.disable()  # a collection in the middle of a loop would be charged to that loop
    try:
        going = list(lanes)
        while going:
            lengths = [len(lane.state.tokens) for lane in going]
            if strewn:
                strewn.until((min(lengths) - text.n_prompt) / text.n_tokens)
            i = next_turn(lengths, rng)
            if not going[i].turn():
                del going[i]
    finally:
        gc.enable()
    return [lane.result(block, place, text) for place, lane in enumerate(lanes)]


def warm_up(engine: LlamaEngine, text: Text, max_rows: int) -> None:
    """Some passes that do not count: weights paged in, threads awake, memory for the widest pass touched."""
    engine(Pass(0, text.tokens[: text.n_prompt], 1))
    for n in (max_rows, 1):
        rows = (text.tokens * max_rows)[:n]
        engine(Pass(text.n_prompt, rows, n))
