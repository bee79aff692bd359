"""Predicted against measured speedups, cell by cell.

measured    per block: log of (baseline's seconds a token / the loop's seconds a token);
            the ratio is the mean over blocks, its interval a bootstrap over blocks. Nothing is pooled over blocks.
predicted   the same ratio from replayed texts and the cost table; its interval from resampled calibration rounds.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from math import log

import numpy as np
from numpy.typing import NDArray

from costmodel.passcost import PassCost
from costmodel.profile import Profile
from sim.loops import LOOPS
from sim.predict import price, walk
from sim.setting import Setting
from sim.trace import Header as TextsHeader
from sim.trace import Text
from validate.comparison import Cell, Comparison, Parity
from validate.design import interval
from validate.runs import Header, Run

N_DRAWS = 100


def own_text(run: Run, text: Text) -> Text:
    """The text that a run really wrote, as something to replay."""
    return Text(
        name=text.name,
        n_prompt=text.n_prompt,
        tokens=text.tokens[: text.n_prompt] + run.tokens,
        stop=text.stop,
    )


def check_same_model(profile: Profile, texts: TextsHeader, runs: Header | None = None) -> None:
    """Raise ValueError when files of different models or thread counts are put together."""
    for what, theirs in (("texts", texts.model_hash), ("runs", runs.model_hash if runs else "")):
        if theirs and profile.model_hash and theirs != profile.model_hash:
            raise ValueError(f"the {what} and the profile are of different models: calibrate the model of the {what}")
    if runs and runs.penalties != texts.penalties:
        raise ValueError(
            f"the texts were recorded with penalties {texts.penalties}, the runs timed with {runs.penalties}: give the"
            " texts that the runs were timed over"
        )
    if runs and profile.n_threads and runs.n_threads != profile.n_threads:
        raise ValueError(
            f"the profile is of {profile.n_threads} threads, the runs of {runs.n_threads}: calibrate with --threads"
            f" {runs.n_threads}"
        )


def seconds_per_token(runs: Sequence[Run]) -> float:
    """Mean seconds a token behind the prefill, over some runs."""
    return sum(run.seconds for run in runs) / sum(run.n_tokens for run in runs)


def block_log_ratios(baseline: Sequence[Run], other: Sequence[Run]) -> list[float]:
    """One log speedup for each block in which both settings ran."""
    blocks: dict[int, tuple[list[Run], list[Run]]] = defaultdict(lambda: ([], []))
    for side, runs in enumerate((baseline, other)):
        for run in runs:
            blocks[run.block][side].append(run)
    return [log(seconds_per_token(a) / seconds_per_token(b)) for _, (a, b) in sorted(blocks.items()) if a and b]


def compare(profile: Profile, texts: Sequence[Text], header: Header, runs: Sequence[Run]) -> Comparison:
    """All cells of the runs: each guessing setting over greedy, and over `gated` at equal rows.

    Raises ValueError when a run's prompt is not among the texts.
    """
    by_name = {text.name: text for text in texts}
    groups: dict[tuple[str, Setting], list[Run]] = defaultdict(list)
    for run in runs:
        if run.prompt not in by_name:
            raise ValueError(f"the runs hold a prompt {run.prompt!r} that is not among the texts: give their own texts")
        groups[run.prompt, Setting(run.loop, run.rows, run.drafter)].append(run)
    rng = np.random.default_rng(0)
    costs: list[PassCost] = [profile.cost, *(profile.resampled(rng) for _ in range(N_DRAWS))]
    predictions = {key: _predicted(group[0], by_name[key[0]], key[1], costs, header) for key, group in groups.items()}
    cells = []
    order = {name: i for i, name in enumerate(by_name)}, {name: i for i, name in enumerate(LOOPS)}
    for (prompt, setting), group in sorted(
        groups.items(), key=lambda item: (order[0][item[0][0]], order[1][item[0][1].loop])
    ):
        if setting.loop == "greedy" or not group[0].n_tokens:
            continue
        for baseline in ("greedy", "gated"):
            base = next((k for k in groups if k[0] == prompt and _is_baseline(k[1], baseline, setting)), None)
            if base is not None and setting.loop != baseline:
                cells.append(
                    _cell(header, groups[base], group, predictions[base], predictions[prompt, setting], baseline)
                )
    wall = sum(run.wall_seconds for run in runs)
    return Comparison(
        environment=header.environment | {"model_hash": header.model_hash, "n_threads": header.n_threads},
        cells=tuple(cells),
        warnings=(*profile.caveats, *_unfinished(header, runs), *_warnings(cells, groups)),
        complete=not any(_missing(header, runs)),
        host_share=1 - sum(run.seconds for run in runs) / wall if wall else 0.0,
        n_blocks=len({run.block for run in runs}),
    )


def _is_baseline(candidate: Setting, baseline: str, setting: Setting) -> bool:
    if candidate.loop != baseline:
        return False
    return baseline == "greedy" or (candidate.rows, candidate.drafter) == (setting.rows, setting.drafter)


def _predicted(
    run: Run, text: Text, setting: Setting, costs: Sequence[PassCost], header: Header
) -> NDArray[np.float64]:
    """Seconds a token of the setting over the text that its run wrote, at every cost."""
    records = walk(own_text(run, text), setting, header.n_tokens or None, replays=header.replays)
    return np.array([price(records, cost).sum() for cost in costs]) / max(run.n_tokens, 1)


def _cell(
    header: Header,
    base_runs: Sequence[Run],
    runs: Sequence[Run],
    base: NDArray[np.float64],
    own: NDArray[np.float64],
    baseline: str,
) -> Cell:
    measured, low, high = interval(block_log_ratios(base_runs, runs))
    ratios = base / own
    predicted_low, predicted_high = np.quantile(ratios[1:], (0.025, 0.975))
    run = runs[0]
    parity = run.parity or Parity(same=True, noise=header.noise)
    return Cell(
        model=header.model,
        prompt=run.prompt,
        loop=run.loop,
        rows=run.rows,
        drafter=run.drafter,
        baseline=baseline,
        n_tokens=run.n_tokens,
        n_passes=len(run.decode),
        n_rows=sum(record.n_rows for record in run.decode),
        predicted=float(ratios[0]),
        predicted_low=float(min(predicted_low, ratios[0])),
        predicted_high=float(max(predicted_high, ratios[0])),
        measured=measured,
        low=low,
        high=high,
        parity=parity,
        text="greedy" if parity.same else "own",
    )


def _missing(header: Header, runs: Sequence[Run]) -> Iterator[tuple[int, str]]:
    """The prompts of begun blocks that lack runs."""
    n_places = len(header.plan.get("settings", ()))
    places = Counter((run.block, run.prompt) for run in runs)
    for block in range(max((run.block for run in runs), default=0) + 1):
        for prompt in header.plan.get("prompts", ()):
            if places[block, prompt] < n_places:
                yield block, prompt


def _unfinished(header: Header, runs: Sequence[Run]) -> list[str]:
    warnings = []
    if missing := len(list(_missing(header, runs))):
        warnings.append(
            f"this run is unfinished: {missing} prompts of its blocks lack runs; the same command goes on from here"
        )
    n_blocks = len({run.block for run in runs})
    if n_blocks < header.n_blocks:
        warnings.append(
            f"{n_blocks} of {header.n_blocks} planned blocks were measured: the intervals are wider than planned"
        )
    return warnings


def _warnings(cells: Sequence[Cell], groups: dict[tuple[str, Setting], list[Run]]) -> list[str]:
    warnings = []
    for (prompt, setting), group in groups.items():
        if any(run.tokens != group[0].tokens for run in group):
            warnings.append(
                f"{setting} did not write the same text every time on {prompt!r}: its first text is replayed"
            )
    bugs = sorted({(cell.prompt, cell.loop) for cell in cells if cell.parity.verdict == "bug"})
    for prompt, loop in bugs:
        warnings.append(
            f"{loop} left the greedy text of {prompt!r} where its lead exceeds the measured numerical noise: a bug of"
            " the loop or of the engine, not a tie"
        )
    return warnings
