"""A small run for the figures' tests: texts driven through `sim.run` at a price a pass, no model needed."""

from __future__ import annotations

import random
from collections.abc import Sequence

import msgspec

from costmodel.passcost import Table
from costmodel.profile import Profile
from sim.answers import recorded
from sim.loops import LOOPS
from sim.machine import Pass, State
from sim.run import Record, run
from sim.trace import Text
from validate.comparison import Cell, Comparison, Parity
from validate.runs import Header, Run

N_PROMPT, N_ROWS = 20, 6
LOOPS_RUN = ("greedy", "gated", "fused", "carry")
CURVE = (0.0080, 0.0096, 0.0111, 0.0126, 0.0142, 0.0156, 0.0183, 0.0172)
HOSTILE = (
    "<script>alert(1)</script><img src=x onerror=alert(2)>",
    "$x_1^2$ and $\\frac{unclosed",
    "}}{{ 7 * 7 }}{% raw %}",
    "line\nbreak\ttab\x00nul\x1b[31mred\x7f\u202eturned",
    "word" * 3000,
    "W" * 400,
    '" onmouseover="alert(3)\' --> <!-- ]]>',
    "\u4f60\u597d \U0001f600 a" + "\u0301" * 500,
    "\ud800 half",
    "",
)


def curve(n_rows: int, n_past: int) -> float:
    """Seconds of a pass: the measured shape of a small model, a little dearer with every cached token."""
    return CURVE[n_rows - 1] * (1 + n_past / 4000)


def table(lengths: Sequence[int] = (64, 256)) -> Table:
    """The same as a cost table, with intervals of 3 %."""
    grid = [[curve(n, past) for n in range(1, 9)] for past in lengths]
    around = [tuple(tuple(f * s for s in line) for line in grid) for f in (1, 0.97, 1.03)]
    return Table(tuple(range(1, 9)), tuple(lengths), *around)


def lookup(tokens: Sequence[int]) -> list[int]:
    """What followed the last place where the two last tokens stood, copied on and on."""
    text = list(tokens)
    for start in range(len(text) - 2, 1, -1):
        if text[start - 2 : start] == text[-2:]:
            return [text[start + i % (len(text) - start)] for i in range(12)]
    return []


def ids(regime: str, n_tokens: int = 120, seed: int = 0) -> list[int]:
    """A text that repeats itself always, now and then, or never."""
    rng = random.Random(seed)
    if regime == "locked":
        return [i % 12 for i in range(N_PROMPT + n_tokens)]
    if regime == "free":
        return list(range(N_PROMPT + n_tokens))
    text = [rng.randrange(900) for _ in range(N_PROMPT)]
    while len(text) < N_PROMPT + n_tokens:
        start = rng.randrange(len(text) - 12)
        text += [*text[start : start + rng.randrange(4, 12)], rng.randrange(900)]
    return text[: N_PROMPT + n_tokens]


def walk(loop: str, text: Sequence[int]) -> list[Record]:
    """The records of a loop over a text."""
    answers = recorded(text)

    def engine(pass_: Pass) -> tuple[Sequence[int], float]:
        n_rows = len(pass_.rows)
        return answers(pass_), 0.05 if n_rows > len(CURVE) else curve(n_rows, pass_.keep)

    start = State.start(text[:N_PROMPT], len(text) - N_PROMPT)
    return run(LOOPS[loop](lookup, N_ROWS), start, engine)[1]


def runs(prompts: dict[str, str], loops: Sequence[str] = LOOPS_RUN) -> list[Run]:
    """One timed run a prompt and loop."""
    return [
        Run(
            block=0,
            place=place,
            prompt=prompt,
            loop=loop,
            rows=N_ROWS,
            drafter="ngram",
            tokens=tuple(text[N_PROMPT:]),
            wall_seconds=1.004 * sum(record.seconds for record in passes if record.kind != "prefill"),
            passes=tuple(passes),
        )
        for prompt, regime in prompts.items()
        for text in [ids(regime)]
        for place, loop in enumerate(loops)
        for passes in [walk(loop, text)]
    ]


def cells(timed: Sequence[Run], model: str = "small.gguf") -> list[Cell]:
    """Each loop against greedy and against gated, with a prediction that is 1 % too high."""
    seconds = {(run.prompt, run.loop): run.seconds for run in timed}
    return [
        Cell(
            model=model,
            prompt=run.prompt,
            loop=run.loop,
            rows=run.rows,
            drafter=run.drafter,
            baseline=baseline,
            n_tokens=run.n_tokens,
            n_passes=len(run.decode),
            n_rows=sum(record.n_rows for record in run.decode),
            predicted=1.01 * ratio,
            predicted_low=ratio,
            predicted_high=1.02 * ratio,
            measured=ratio,
            low=0.98 * ratio,
            high=1.03 * ratio,
            parity=Parity(same=True),
        )
        for run in timed
        for baseline in ("greedy", "gated")
        if run.loop not in ("greedy", baseline) and (run.prompt, baseline) in seconds
        for ratio in [seconds[run.prompt, baseline] / run.seconds]
    ]


PROMPTS = {"locked repetition": "locked", "now and then": "mixed", "free text": "free"}


def comparison(some: Sequence[Cell], **more: object) -> Comparison:
    """A comparison of these cells on a made-up machine."""
    environment = {"cpu": "Some CPU", "cores": 2, "memory_bytes": 8 * 2**30, "load": {"before": [0.1, 0.2]}}
    whole = Comparison(environment=environment, cells=tuple(some), host_share=0.0042, n_blocks=6)
    return msgspec.structs.replace(whole, **more)


def profile(**more: object) -> Profile:
    """A profile around `table`."""
    return msgspec.structs.replace(
        Profile(source="calibrated", model="small.gguf", cost=table(), n_threads=2, n_ctx=1024), **more
    )


def header(**more: object) -> Header:
    """What the runs share."""
    return msgspec.structs.replace(Header(model="small.gguf", model_hash="ab" * 32, n_threads=2, n_ctx=1024), **more)


def texts(prompts: dict[str, str]) -> list[Text]:
    """The recorded texts, each with the words of its prompt."""
    return [
        Text(name=name, n_prompt=N_PROMPT, tokens=tuple(ids(regime)), prompt=f"Please: {name}")
        for name, regime in prompts.items()
    ]
