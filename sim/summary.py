"""What a sweep found, as a table: one row per setting and profile, over all prompts, against a baseline.

Three speed-ups are in use, and differ: with B and S the seconds of the baseline and of the setting, T the tokens,

    total_time   sum B / sum S                      seconds for the same tokens
    mean_rate    mean (T / S) / mean (T / B)        of mean tokens per second
    mean_ratio   mean (B / S)                       of the prompts' own speed-ups

Their 95 % intervals come from resampling prompts (Efron's percentile bootstrap), the same draws for every setting.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from sim.loops import LOOPS
from sim.setting import Setting
from sim.sweep import Result, together

Floats = NDArray[np.float64]

GREEDY = Setting("greedy", 2)
N_DRAWS = 500
SPEEDUPS = ("total_time", "mean_rate", "mean_ratio")
AT_ONCE = 2000


def baseline_of(setting: Setting, baseline: str) -> Setting:
    """What a setting is compared with: `greedy`, another loop with its own R and drafter, or one setting in words.

    >>> print(baseline_of(Setting("carry", 6), "gated"), "|", baseline_of(Setting("carry", 6), "fused rows=4"))
    gated R=6 | fused R=4
    """
    if baseline == "greedy":
        return GREEDY
    if baseline not in LOOPS:
        return Setting.parse(baseline)
    return replace(setting, loop=baseline) if setting.loop != "greedy" else GREEDY


def with_baselines(settings: Sequence[Setting], baseline: str) -> tuple[Setting, ...]:
    """The settings and what they are compared with, each once, those of one drafter together."""
    return together([*settings, *(baseline_of(setting, baseline) for setting in settings)])


def draws(n_texts: int, n_draws: int = N_DRAWS, seed: int = 0) -> NDArray[np.int64]:
    """How often each prompt is in each resample: [draw, prompt]; the same for the same seed."""
    return np.random.default_rng(seed).multinomial(n_texts, [1 / n_texts] * n_texts, size=n_draws)


def frame(
    result: Result, settings: Sequence[Setting], baseline: str, profiles: Sequence[str], by_prompt: bool = False
) -> pl.DataFrame:
    """The table of some settings of a result; `by_prompt` adds a row for each prompt, without an interval."""
    place = {setting: i for i, setting in enumerate(result.work.settings)}
    rows = np.array([place[s] for s in settings], dtype=np.intp)
    base = np.array([place[baseline_of(s, baseline)] for s in settings], dtype=np.intp)
    every = np.arange(len(result.work.texts))
    parts = [("all", every)]
    if by_prompt:
        parts += [(text.name, every[i : i + 1]) for i, text in enumerate(result.work.texts)]
    tables = [
        _table(result, settings, rows, base, texts, k, name, profile)
        for name, texts in parts
        for k, profile in enumerate(profiles)
    ]
    return pl.concat(tables)


def _table(
    result: Result,
    settings: Sequence[Setting],
    rows: NDArray[np.intp],
    base: NDArray[np.intp],
    texts: NDArray[np.intp],
    cost: int,
    prompt: str,
    profile: str,
) -> pl.DataFrame:
    sums = result.sums[rows][:, texts].sum(axis=1).T
    n_passes, n_rows, n_tokens, guessed, accepted, guessing = sums
    own, other = result.seconds[cost, rows][:, texts], result.seconds[cost, base][:, texts]
    tokens = result.sums[rows][:, texts, 2]
    with np.errstate(divide="ignore", invalid="ignore"):
        columns = {
            "loop": [s.loop for s in settings],
            "rows": [1 if s.loop == "greedy" else s.rows for s in settings],
            "drafter": ["" if s.loop == "greedy" else s.drafter for s in settings],
            "profile": [profile] * len(settings),
            "prompt": [prompt] * len(settings),
            "n_passes": n_passes,
            "n_rows": n_rows,
            "n_tokens": n_tokens,
            "tokens_per_pass": n_tokens / n_passes,
            "mean_accepted_tokens": 1 + accepted / guessing,
            "acceptance": accepted / guessed,
            "seconds": own.sum(axis=1),
            **speedups(tokens, other, own),
            "oracle": other.sum(axis=1) / result.oracle[cost, rows][:, texts].sum(axis=1),
            "perfect": other.sum(axis=1) / result.perfect[cost, rows][:, texts].sum(axis=1),
        }
    return pl.DataFrame(columns).with_columns(pl.selectors.float().fill_nan(None))


def speedups(tokens: NDArray[np.int64], base: Floats, own: Floats) -> dict[str, Floats]:
    """The three speed-ups of each setting, with `_low` and `_high`; arrays are [setting, prompt].

    A prompt whose prefill yielded its only token counts nowhere; where nothing is left, all speed-ups are 1.
    """
    active = tokens.min(axis=0, initial=2**62) > 0
    if not active.any():
        ones, none = np.ones(len(own)), np.full(len(own), np.nan)
        return {name + end: ones if not end else none for name in SPEEDUPS for end in ("", "_low", "_high")}
    tokens, base, own = tokens[:, active], base[:, active], own[:, active]
    found = dict(zip(SPEEDUPS, _ratios(np.ones((1, own.shape[1]), dtype=np.int64), tokens, base, own), strict=True))
    made: dict[str, Floats] = {}
    for name in SPEEDUPS:
        made[name] = found[name][0]
        made[name + "_low"], made[name + "_high"] = (np.full(len(own), np.nan) for _ in range(2))
    if own.shape[1] < 2:
        return made
    weights = draws(own.shape[1])
    for at in range(0, len(own), AT_ONCE):
        some = slice(at, at + AT_ONCE)
        for name, ratios in zip(SPEEDUPS, _ratios(weights, tokens[some], base[some], own[some]), strict=True):
            made[name + "_low"][some], made[name + "_high"][some] = np.quantile(ratios, (0.025, 0.975), axis=0)
    return made


def _ratios(
    weights: NDArray[np.int64], tokens: NDArray[np.int64], base: Floats, own: Floats
) -> tuple[Floats, Floats, Floats]:
    """The three speed-ups of each setting in each draw: [draw, setting]."""
    total: Floats = (weights @ base.T) / (weights @ own.T)
    rate: Floats = (weights @ (tokens / own).T) / (weights @ (tokens / base).T)
    ratio: Floats = (weights @ (base / own).T) / weights.sum(axis=1, keepdims=True)
    return total, rate, ratio
