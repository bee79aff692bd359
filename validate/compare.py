"""Predicted against measured speedups, cell by cell.

measured    per block: log of (baseline's seconds a token / the loop's seconds a token);
            the ratio is the mean over blocks, its interval a bootstrap over blocks. Nothing is pooled over blocks.
predicted   the same ratio from replayed texts and the cost table; its interval is what so many blocks would measure:
            the table under resampled calibration rounds, the noise of single passes, and the tilt of c(wide)/c(1) in
            the seconds of a block. Another engine's passes are priced as they stand: their texts are not known.

The error of a prediction made beforehand is (1 + error of the pass cost) (1 + error of the text) - 1: the first is that
of replaying what was really written, the second what another text than the recorded one changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log, sqrt
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from costmodel.drift import drift, pass_noise, tilt_noise
from costmodel.passcost import PassCost
from costmodel.profile import Profile
from sim.loops import LOOPS
from sim.predict import price, walk
from sim.run import Record
from sim.setting import Setting
from sim.trace import Header as TextsHeader
from sim.trace import Text
from validate import blocks, quality
from validate.blocks import Group, Groups
from validate.comparison import Cell, Comparison, Parity, Refused
from validate.design import interval
from validate.overall import overall
from validate.runs import Header, Run
from validate.watch import during

Seconds: TypeAlias = NDArray[np.float64]

N_DRAWS = 100
BASELINES = ("greedy", "gated")


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
    if runs and profile.n_threads and runs.n_threads and runs.n_threads != profile.n_threads:
        raise ValueError(
            f"the profile is of {profile.n_threads} threads, the runs of {runs.n_threads}: calibrate with --threads"
            f" {runs.n_threads}"
        )


def compare(profile: Profile | None, texts: Sequence[Text], header: Header, runs: Sequence[Run]) -> Comparison:
    """All cells of the runs: each guessing setting over greedy, and over `gated` at equal rows.

    Runs of another engine need no texts, and without a profile there is no prediction. Raises ValueError when a run's
    prompt is not among the texts, or when the runs hold no baseline.
    """
    groups = _sorted(blocks.grouped(runs), _prompts(header, texts, runs))
    by_name = {text.name: text for text in texts if header.source != "imported"}
    rng = np.random.default_rng(0)
    costs = [] if profile is None else [profile.cost, *(profile.resampled(rng) for _ in range(N_DRAWS))]
    noises = {prompt: _noise(profile, rng) for prompt in dict.fromkeys(p for p, _ in groups)} if profile else {}
    predictions = {
        key: priced(blocks.clean(group) or group, by_name.get(key[0]), costs, header, noises.get(key[0]))
        for key, group in groups.items()
    }
    before = {key: _beforehand(key, by_name[key[0]], costs[0], header) for key in groups if costs and key[0] in by_name}
    cells: list[Cell] = []
    refused: list[Refused] = []
    stated: list[tuple[Group, Group]] = []
    for base, key in blocks.pairs(groups):
        if not groups[key][0].n_tokens:
            continue
        if reason := quality.refusal(groups[base], groups[key]):
            refused.append(_refused(base, key, reason))
            continue
        stated.append((base, key))
        first = before[base] / before[key] if before else None
        speeds = blocks.speeds([run for run in runs if run.prompt == key[0]])
        cells.append(_cell(header, groups[base], groups[key], predictions[base] / predictions[key], first, speeds))
    wall = sum(run.wall_seconds for run in runs)
    moved = drift(profile.cost.n_rows, profile.rounds) if profile else None
    return Comparison(
        environment=header.environment | {"model_hash": header.model_hash, "n_threads": header.n_threads},
        cells=tuple(cells),
        overall=overall({key: blocks.clean(group) for key, group in groups.items()}, stated),
        source=header.source,
        twins=tuple(quality.twins(groups)),
        refused=tuple(refused),
        drift=moved,
        warnings=tuple(
            dict.fromkeys(
                [
                    *header.notes,
                    *(moved.warnings() if moved else ()),
                    *(profile.caveats if profile else ()),
                    *quality.unfinished(header, runs),
                    *quality.warnings(cells, refused, groups),
                    *during([seen for seen in {(r.block, r.prompt): r.machine for r in runs}.values() if seen]),
                ]
            )
        ),
        complete=not any(quality.missing(header, runs)),
        host_share=1 - sum(run.seconds for run in runs) / wall if wall else 0.0,
        n_blocks=len({run.block for run in runs}),
    )


def _prompts(header: Header, texts: Sequence[Text], runs: Sequence[Run]) -> list[str]:
    """The prompts in order: of the texts, or of another engine's runs; ValueError for runs that cannot be compared."""
    if header.source == "imported":
        if not any(run.loop in blocks.BASELINES for run in runs):
            named = " or ".join(blocks.BASELINES)
            raise ValueError(f"no run is of a loop named {named}: there is nothing to compare with")
        return list(dict.fromkeys(run.prompt for run in runs))
    names = [text.name for text in texts]
    for run in runs:
        if run.prompt not in names:
            raise ValueError(f"the runs hold a prompt {run.prompt!r} that is not among the texts: give their own texts")
    return names


@dataclass(frozen=True, slots=True)
class Noise:
    """What the runs of one prompt add to their price at every drawn cost.

    single  log standard deviation of one pass about its moment's cost
    tilts   log c(widest)/c(1) of one block, a draw each: the same for all lanes, which ran side by side
    widest  the rows that the tilt is told for
    rng     draws the noise of single passes
    """

    single: float
    tilts: Seconds
    widest: int
    rng: np.random.Generator


def _noise(profile: Profile, rng: np.random.Generator) -> Noise:
    n_rows = profile.cost.n_rows
    tilts = rng.normal(0, tilt_noise(n_rows, profile.rounds), N_DRAWS)
    return Noise(pass_noise(profile.rounds), tilts, max(2, *n_rows), rng)


def _refused(base: Group, key: Group, reason: str) -> Refused:
    prompt, (loop, rows, drafter) = key
    return Refused(prompt=prompt, loop=loop, rows=rows, drafter=drafter, baseline=base[1].loop, reason=reason)


def _sorted(groups: Groups, prompts: Sequence[str]) -> Groups:
    """Prompts in the order given, loops in that of the registry, others behind them."""
    places = {name: place for place, name in enumerate(LOOPS)}
    at = {name: place for place, name in enumerate(prompts)}
    return dict(sorted(groups.items(), key=lambda item: (at[item[0][0]], places.get(item[0][1].loop, len(places)))))


def priced(
    runs: Sequence[Run],
    text: Text | None,
    costs: Sequence[PassCost],
    header: Header,
    noise: Noise | None = None,
) -> Seconds:
    """Predicted seconds a token of a setting over the text that its runs wrote, at every cost.

    Without a text, another engine's passes are priced as they stand.
    With `noise` every cost but the first also draws what so many runs add.
    """
    records: Sequence[Record] = runs[0].passes
    if text is not None:
        records = walk(own_text(runs[0], text), runs[0].setting, header.n_tokens or None, replays=header.replays)
    passes = np.array([price(records, cost) for cost in costs]) if costs else np.zeros((0, 0))
    if noise and passes.size:
        n_blocks = len({run.block for run in runs})
        lean = [log(r.n_rows) / log(noise.widest) for r in records if r.kind != "prefill"]
        passes[1:] *= np.exp(np.outer(noise.tilts / sqrt(n_blocks), lean))
        share = sqrt(float((passes[0] ** 2).sum())) / float(passes[0].sum())
        passes[1:] *= np.exp(noise.rng.normal(0, noise.single * share / sqrt(len(runs)), (len(costs) - 1, 1)))
    seconds: Seconds = passes.sum(axis=-1) / max(runs[0].n_tokens, 1)
    return seconds


def _beforehand(key: Group, text: Text, cost: PassCost, header: Header) -> float:
    """Predicted seconds a token of a setting over the recorded text."""
    records = walk(text, Setting(*key[1]), header.n_tokens or None, replays=header.replays)
    n_tokens = sum(record.n_tokens for record in records if record.kind != "prefill")
    return float(price(records, cost).sum()) / max(n_tokens, 1)


def _cell(
    header: Header,
    base_runs: Sequence[Run],
    runs: Sequence[Run],
    ratios: Seconds,
    before: float | None,
    speeds: Mapping[int, float],
) -> Cell:
    base, own = blocks.clean(base_runs), blocks.clean(runs)
    logs = blocks.block_log_ratios(base, own)
    measured, low, high = interval(logs)
    predicted, predicted_low, predicted_high = _with_interval(ratios)
    imported = header.source == "imported"
    unseen = Parity(same=None, verdict="unknown") if imported else Parity(same=True, noise=header.noise)
    run = next((run for run in runs if run.parity), runs[0])
    parity = run.parity or unseen
    return Cell(
        model=header.model,
        prompt=run.prompt,
        loop=run.loop,
        rows=run.rows,
        drafter=run.drafter,
        baseline=base_runs[0].loop,
        n_tokens=run.n_tokens,
        n_passes=len(run.decode),
        n_rows=sum(record.n_rows for record in run.decode),
        predicted=predicted,
        predicted_low=predicted_low,
        predicted_high=predicted_high,
        measured=measured,
        low=low,
        high=high,
        parity=parity,
        text="passes" if imported else "greedy" if parity.same else "own",
        predicted_before=before,
        # Another engine's lanes need not have run side by side: no speed of a block is known.
        pass_medians=None if imported else blocks.pass_medians(base, own, speeds),
        n_blocks=len(logs),
        odd_blocks=blocks.odd_blocks(base, own),
        disturbed_blocks=tuple(sorted({run.block for run in runs if blocks.is_disturbed(run)})),
        host_share=1 - sum(r.seconds for r in runs) / sum(r.wall_seconds for r in runs),
    )


def _with_interval(ratios: Seconds) -> tuple[float, float, float] | tuple[None, None, None]:
    """The first ratio, and the interval of the others around it; Nones where there was nothing to price with."""
    if not len(ratios):
        return None, None, None
    low, high = np.quantile(ratios[1:], (0.025, 0.975))
    return float(ratios[0]), float(min(low, ratios[0])), float(max(high, ratios[0]))
