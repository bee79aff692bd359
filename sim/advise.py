"""Which loop, R and drafter to use for some texts at some pass costs, and whether to speculate at all.

The best of many settings looks better on the texts it was chosen by than it will elsewhere. So three numbers are
given: its gain on these texts; the interval from resampling prompts and, where the profile keeps its rounds, pass
costs; and the gain on each prompt of the setting that is best on the others (leave one out).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import msgspec
import numpy as np
from numpy.typing import NDArray

from costmodel.passcost import PassCost
from costmodel.profile import Profile
from sim.setting import Setting
from sim.summary import GREEDY, draws
from sim.sweep import Result, Work, sweep, together
from sim.systems import SYSTEMS

Floats = NDArray[np.float64]

WORTH = 1.01
"""A gain below this is not worth a change."""
LOOPS = ("carry", "gated", "fused", "fused-partial", "gated-held", "decode-then-speculate")
DRAFTERS = ("ngram n_max=1..5 n_min=1,2,3", "ngram n_max=3,5 n_min=1,3 pick=earliest")
N_DRAWS = 400
N_COSTS = 50
MOST_ROWS = 32


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """A setting and its `total_time` speed-up over greedy on these texts, with a 95 % interval where there is one."""

    loop: str
    rows: int
    drafter: str
    gain: float
    low: float | None = None
    high: float | None = None
    tokens_per_pass: float | None = None

    @property
    def words(self) -> str:
        """The setting as it is written."""
        return "greedy" if self.loop == "greedy" else f"{self.loop} rows={self.rows} {self.drafter}"


class Today(msgspec.Struct, frozen=True, kw_only=True):
    """What is run today, and what changing only one thing would give; `lost`: the best one's gain over that, less 1."""

    today: Choice
    gain_over_today: float
    low: float | None
    high: float | None
    only_rows: Choice
    lost_with_only_rows: float
    only_drafter: Choice
    lost_with_only_drafter: float


class ForSystem(msgspec.Struct, frozen=True, kw_only=True):
    """The best that a program can reach, and the flags for it; None where it had better not speculate."""

    system: str
    best: Choice | None
    flags: str


class Advice(msgspec.Struct, frozen=True, kw_only=True):
    """What to do.

    speculate       whether to
    sure            share of resamples in which the same is right; None with one prompt, where there are none
    best            the best setting that guesses
    elsewhere       gain over greedy on prompts that the choice did not see; None with one prompt
    oracle, perfect what the cleverest choice of rows could gain with the best one's drafter, with perfect drafts
    """

    speculate: bool
    sure: float | None
    best: Choice
    elsewhere: float | None
    oracle: float | None
    perfect: float | None
    today: Today | None
    systems: tuple[ForSystem, ...]
    n_settings: int
    n_prompts: int
    speedup: str = "total_time"


def covered_rows(profile: Profile) -> tuple[int, ...]:
    """Every R of which the profile has all passes, from one row up; ValueError when there is none above 1."""
    measured = set(profile.cost.n_rows)
    most = next(n for n in range(1, max(measured) + 2) if n not in measured) - 1
    if most < 2:
        raise ValueError("the profile does not cover passes of 1 and 2 rows: calibrate with --rows 2 or more")
    return tuple(range(2, min(most, MOST_ROWS) + 1))


def cost_draws(profile: Profile) -> list[PassCost]:
    """Draws of the profile's pass cost under its own uncertainty, the same every time."""
    rng = np.random.default_rng(0)
    made = [profile.resampled(rng) for _ in range(N_COSTS if len(profile.rounds) > 1 else 1)]
    return [replace(cost, extrapolate=profile.cost.extrapolate) for cost in made]


def candidates(settings: Sequence[Setting], n_rows: Sequence[int], today: Setting | None) -> tuple[Setting, ...]:
    """All settings to look at: those asked for, what the known programs can reach, and today's neighbours."""
    every = dict.fromkeys([GREEDY, *settings])
    for system in SYSTEMS.values():
        every |= dict.fromkeys(system.settings(n_rows))
    if today is not None and today.loop != "greedy":
        drafters = dict.fromkeys(s.drafter for s in every if s.loop != "greedy")
        every |= dict.fromkeys([today, *(replace(today, rows=r) for r in n_rows)])
        every |= dict.fromkeys(replace(today, drafter=drafter) for drafter in drafters)
    return together(every)


def advise(result: Result, today: Setting | None = None, costs: Sequence[PassCost] = ()) -> Advice:
    """The advice that a result of `candidates` supports; `costs` are draws of the pass cost, for the intervals.

    Raises ValueError when no text has a token behind its prefill's.
    """
    settings, seconds = result.work.settings, result.seconds[0]
    active = np.flatnonzero(result.sums[0, :, 2] > 0)
    if not len(active):
        raise ValueError("the texts end with the prefill's token: there is nothing to speed up; give longer ones")
    seconds = seconds[:, active]
    total = seconds.sum(axis=1)
    place = {setting: i for i, setting in enumerate(settings)}
    guessing = [i for i, s in enumerate(settings) if s.loop != "greedy"]
    best = _best(total, guessing)
    gain = total[place[GREEDY]] / total[best]
    elsewhere = _elsewhere(seconds, place[GREEDY]) if len(active) > 1 else None
    speculate = bool(gain >= WORTH and (elsewhere is None or elsewhere > 1))

    reached = {
        name: [place[s] for s in system.settings(_rows(settings)) if s in place] for name, system in SYSTEMS.items()
    }
    of_system = {name: _best(total, some) for name, some in reached.items() if some}
    rest: dict[str, int] = {}
    if today is not None and today.loop == "greedy":  # it has neither R nor a drafter to change
        rest = dict.fromkeys(("today", "rows", "drafter"), place[GREEDY])
    elif today is not None:
        mine = [i for i in guessing if (settings[i].loop, settings[i].drafter) == (today.loop, today.drafter)]
        same = [i for i in guessing if (settings[i].loop, settings[i].rows) == (today.loop, today.rows)]
        rest = {"today": place[today], "rows": _best(total, mine), "drafter": _best(total, same)}
    chosen = dict.fromkeys([place[GREEDY], best, *of_system.values(), *rest.values()])
    ratios = _drawn(
        replace(
            result.work,
            settings=tuple(settings[i] for i in chosen),
            texts=tuple(result.work.texts[t] for t in active),
            costs=tuple(costs),
            with_bounds=False,
        )
    )
    drawn = {i: ratios[:, k] for k, i in enumerate(chosen)} if ratios is not None else {}

    def choice(i: int) -> Choice:
        low, high = _interval(drawn[place[GREEDY]] / drawn[i]) if drawn else (None, None)
        n_passes, _, n_tokens, *_ = result.sums[i].sum(axis=0).tolist()
        s = settings[i]
        return Choice(
            loop=s.loop, rows=s.rows, drafter=s.drafter, gain=float(total[place[GREEDY]] / total[i]),
            low=low, high=high, tokens_per_pass=n_tokens / n_passes,
        )  # fmt: skip

    return Advice(
        speculate=speculate,
        sure=_sure(seconds, drawn, place[GREEDY], best, speculate),
        best=choice(best),
        elsewhere=elsewhere,
        oracle=_bound(result.oracle[0][:, active], total, place[GREEDY], settings, settings[best].drafter),
        perfect=_bound(result.perfect[0][:, active], total, place[GREEDY], settings, None),
        today=_today(total, best, rest, drawn, choice) if rest else None,
        systems=tuple(
            ForSystem(
                system=name,
                best=choice(i) if total[place[GREEDY]] / total[i] >= WORTH else None,
                flags=SYSTEMS[name].flags(settings[i]) if total[place[GREEDY]] / total[i] >= WORTH else "",
            )
            for name, i in of_system.items()
        ),
        n_settings=len(settings),
        n_prompts=len(active),
    )


def _rows(settings: Sequence[Setting]) -> list[int]:
    return sorted({s.rows for s in settings if s.loop != "greedy"})


def _best(total: Floats, some: Sequence[int]) -> int:
    """The quickest; of equal ones that with fewer rows, which comes first."""
    return min(some, key=lambda i: (total[i], i))


def _elsewhere(seconds: Floats, greedy: int) -> float:
    """The gain over greedy when each prompt is run with what is best on the others."""
    total = seconds.sum(axis=1)
    spent = [seconds[np.argmin(total - seconds[:, t]), t] for t in range(seconds.shape[1])]
    return float(total[greedy] / sum(spent))


def _drawn(work: Work) -> Floats | None:
    """Seconds of some settings in draws of prompts and of pass costs: [draw, setting]; None with one prompt."""
    if len(work.texts) < 2 or not work.costs:
        return None
    weights = draws(len(work.texts), N_DRAWS)
    seconds = sweep(work).seconds[np.arange(N_DRAWS) % len(work.costs)]
    drawn: Floats = np.einsum("kst,kt->ks", seconds, weights.astype(float))
    return drawn


def _interval(ratios: Floats) -> tuple[float, float]:
    low, high = np.quantile(ratios, (0.025, 0.975))
    return float(low), float(high)


def _sure(seconds: Floats, drawn: dict[int, Floats], greedy: int, best: int, speculate: bool) -> float | None:
    """How often the verdict holds: of the chosen setting, or, against speculating, of whatever would be chosen."""
    if not drawn:
        return None
    if speculate:
        return float(np.mean(drawn[greedy] / drawn[best] >= WORTH))
    totals = draws(seconds.shape[1], N_DRAWS) @ seconds.T
    return float(np.mean(totals[:, greedy] / totals.min(axis=1) < WORTH))


def _bound(least: Floats, total: Floats, greedy: int, settings: Sequence[Setting], drafter: str | None) -> float | None:
    """The largest gain that a bound allows over all R, with this drafter or with any."""
    some = [i for i, s in enumerate(settings) if s.loop != "greedy" and drafter in (None, s.drafter)]
    spent = least.sum(axis=1)[some]
    spent = spent[np.isfinite(spent)]
    return float(total[greedy] / spent.min()) if len(spent) else None


def _today(
    total: Floats, best: int, rest: dict[str, int], drawn: dict[int, Floats], choice: Callable[[int], Choice]
) -> Today:
    today, rows, drafter = rest["today"], rest["rows"], rest["drafter"]
    low, high = _interval(drawn[today] / drawn[best]) if drawn else (None, None)
    return Today(
        today=choice(today),
        gain_over_today=float(total[today] / total[best]),
        low=low,
        high=high,
        only_rows=choice(rows),
        lost_with_only_rows=float(total[rows] / total[best] - 1),
        only_drafter=choice(drafter),
        lost_with_only_drafter=float(total[drafter] / total[best] - 1),
    )
