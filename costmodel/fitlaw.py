"""Acceptance laws from counts: maximum likelihood, and how sure it is.

What is seen is a string of agreements: one for each position of a recorded text, or one draft, seen up to its
first wrong token. The iid fit is the share of right ones (Clopper and Pearson 1934); the Gilbert-Elliott fit
is the Baum-Welch recursion (Baum et al. 1970) of a hidden chain of two regimes; intervals of the latter are
from the curvature of the likelihood in log-odds. Compare laws by AIC: it counts parameters.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from costmodel.acceptance import Law, empirical, gilbert_elliott, iid

EDGE = 1e-6  # probabilities are kept this far from 0 and 1 while a likelihood is climbed


@dataclass(frozen=True, slots=True)
class Seen:
    """A string of agreements (1 right, 0 wrong), and how often it was seen."""

    agreements: tuple[int, ...]
    times: float = 1.0

    def __post_init__(self) -> None:
        if not self.agreements or set(self.agreements) - {0, 1} or self.times < 0:
            raise ValueError(f"agreements are 0 or 1, at least one, seen 0 times or more, not {self}")


@dataclass(frozen=True, slots=True)
class Fitted:
    """A law, its log-likelihood, its number of parameters, and their 95 % intervals by name."""

    law: Law
    log_likelihood: float
    n_parameters: int
    intervals: dict[str, tuple[float, float]]
    start: tuple[float, ...] = (1.0,)

    @property
    def aic(self) -> float:
        """Akaike's criterion: lower is better."""
        return 2 * self.n_parameters - 2 * self.log_likelihood


def drafts_seen(survived: Sequence[float], n_drafts: float) -> list[Seen]:
    """The drafts behind a published table: of `n_drafts`, the share whose first 1, 2, ..., k tokens were right.

    >>> [(seen.agreements, seen.times) for seen in drafts_seen([0.75, 0.5], 8)]
    [((0,), 2.0), ((1, 0), 2.0), ((1, 1), 4.0)]
    """
    if not survived or any(not 0 <= b <= a for a, b in zip((1.0, *survived), survived, strict=False)):
        raise ValueError(f"survival must fall from 1 towards 0, not {list(survived)}")
    shares = (1.0, *survived)
    seen = [Seen((1,) * a + (0,), n_drafts * (shares[a] - shares[a + 1])) for a in range(len(survived))]
    return [*seen, Seen((1,) * len(survived), n_drafts * survived[-1])]


def fit_iid(seen: Iterable[Seen], no_draft: float = 0.0) -> Fitted:
    """The share of right drafts among those looked at.

    >>> fit_iid(drafts_seen([0.75, 0.5], 8)).law.agrees(0, 0)
    0.7142857142857143
    """
    seen = list(seen)
    right = sum(item.times * sum(item.agreements) for item in seen)
    total = sum(item.times * len(item.agreements) for item in seen)
    p = right / total
    likelihood = sum(n * math.log(share) for n, share in ((right, p), (total - right, 1 - p)) if n)
    return Fitted(iid(p, no_draft), likelihood, 1, {"agree": _binomial_interval(right, total)})


def fit_empirical(seen: Iterable[Seen], no_draft: float = 0.0) -> Fitted:
    """Conditional agreement by index in the draft: as many parameters as the longest draft has tokens.

    >>> fit_empirical(drafts_seen([0.75, 0.5], 8)).law.agreement
    ((0.75,), (0.6666666666666666,))
    """
    right, total = _by_index(seen)
    conditional = [r / n for r, n in zip(right, total, strict=True)]
    likelihood = 0.0
    for r, n in zip(right, total, strict=True):
        likelihood += sum(count * math.log(count / n) for count in (r, n - r) if count > 0)
    intervals = {f"agree {i + 1}": _binomial_interval(r, n) for i, (r, n) in enumerate(zip(right, total, strict=True))}
    return Fitted(empirical(conditional, no_draft), likelihood, len(conditional), intervals)


def fit_gilbert_elliott(seen: Iterable[Seen], no_draft: float = 0.0, most_rounds: int = 400) -> Fitted:
    """Stay probabilities and agreements of a locked and a free regime, and the share of starts in each, by EM.

    Raises ValueError for fewer than two agreements: there is no chain to see.
    """
    seen = list(seen)
    if sum(len(item.agreements) for item in seen) < 2:
        raise ValueError("a chain of regimes needs at least two agreements to be seen")
    best: tuple[float, NDArray[np.float64]] | None = None
    for guess in ((0.95, 0.8, 0.95, 0.2, 0.7), (0.8, 0.8, 0.8, 0.4, 0.5), (0.99, 0.5, 0.9, 0.05, 0.8)):
        fit = _climb(seen, np.array(guess), most_rounds)
        if best is None or fit[0] > best[0]:
            best = fit
    assert best is not None
    likelihood, theta = best
    if theta[2] < theta[3]:  # the locked regime is the one that agrees more
        theta = np.array([theta[1], theta[0], theta[3], theta[2], 1 - theta[4]])
    stay_locked, stay_free, agree_locked, agree_free, start = theta.tolist()
    law = gilbert_elliott(stay_locked, stay_free, agree_locked, agree_free, no_draft)
    names = ("stay_locked", "stay_free", "agree_locked", "agree_free", "start_locked")
    intervals = dict(zip(names, _curvature(seen, theta), strict=True))
    return Fitted(law, likelihood, 5, intervals, (start, 1 - start))


def _climb(seen: Sequence[Seen], theta: NDArray[np.float64], most_rounds: int) -> tuple[float, NDArray[np.float64]]:
    """EM from a guess until a round gains less than a millionth of a nat per thousand tokens, or for so many rounds."""
    before = -math.inf
    enough = 1e-9 * sum(item.times * len(item.agreements) for item in seen)
    for _ in range(most_rounds):
        likelihood, counts = 0.0, np.zeros(10)
        for item in seen:
            found, expected = _expected(item.agreements, theta)
            likelihood += item.times * found
            counts += item.times * expected
        if likelihood - before < enough:
            break
        before = likelihood
        stayed_l, left_l, left_f, stayed_f, right_l, total_l, right_f, total_f, start_l, starts = counts
        shares = [(stayed_l, left_l), (stayed_f, left_f)]
        theta = np.array(
            [a / (a + b) if a + b > 0 else 0.5 for a, b in shares]
            + [right_l / total_l, right_f / total_f, start_l / starts]
        ).clip(EDGE, 1 - EDGE)
    return likelihood, theta


def _expected(agreements: Sequence[int], theta: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
    """Log-likelihood of one string, and its expected counts: 4 steps, right and all in each regime, locked starts."""
    stay_l, stay_f, agree_l, agree_f, start = theta.tolist()
    emit = ((1 - agree_l, 1 - agree_f), (agree_l, agree_f))
    forward: list[tuple[float, float]] = []
    likelihood, a, b = 0.0, start, 1 - start
    for bit in agreements:
        a, b = a * emit[bit][0], b * emit[bit][1]
        scale = a + b
        likelihood += math.log(scale)
        a, b = a / scale, b / scale
        forward.append((a, b))
        a, b = a * stay_l + b * (1 - stay_f), a * (1 - stay_l) + b * stay_f
    counts = [0.0] * 8
    x = y = 1.0  # what follows, seen from each regime
    for i in range(len(agreements) - 1, -1, -1):
        (a, b), bit = forward[i], agreements[i]
        in_l = a * x / (a * x + b * y)
        counts[4] += bit * in_l
        counts[5] += in_l
        counts[6] += bit * (1 - in_l)
        counts[7] += 1 - in_l
        if i:
            a, b = forward[i - 1]
            to_l, to_f = emit[bit][0] * x, emit[bit][1] * y
            ll, lf, fl, ff = (
                a * stay_l * to_l,
                a * (1 - stay_l) * to_f,
                b * (1 - stay_f) * to_l,
                b * stay_f * to_f,
            )
            total = ll + lf + fl + ff
            for place, step in enumerate((ll, lf, fl, ff)):
                counts[place] += step / total
            x, y = stay_l * to_l + (1 - stay_l) * to_f, (1 - stay_f) * to_l + stay_f * to_f
            x, y = x / (x + y), y / (x + y)
    return likelihood, np.array([*counts, in_l, 1.0])


def _curvature(seen: Sequence[Seen], theta: NDArray[np.float64]) -> list[tuple[float, float]]:
    """95 % intervals from the second differences of the log-likelihood in log-odds; (0, 1) where it is flat."""
    center = np.log(theta / (1 - theta))
    size, h = len(theta), 1e-3

    def likelihood(odds: NDArray[np.float64]) -> float:
        probabilities = (1 / (1 + np.exp(-odds))).clip(EDGE / 10, 1 - EDGE / 10)
        return sum(item.times * _expected(item.agreements, probabilities)[0] for item in seen)

    unit = np.eye(size) * h
    bend = np.empty((size, size))
    for i in range(size):
        for j in range(i + 1):
            corners = [likelihood(center + s * unit[i] + t * unit[j]) for s in (1, -1) for t in (1, -1)]
            bend[i, j] = bend[j, i] = -(corners[0] - corners[1] - corners[2] + corners[3]) / (4 * h * h)
    values, vectors = np.linalg.eigh(bend)
    known = values > 1e-3
    spread = (vectors[:, known] ** 2 / values[known]).sum(axis=1)
    blind = (vectors[:, ~known] ** 2).sum(axis=1) > 1e-3
    half = np.where(blind, np.inf, 1.96 * np.sqrt(spread))
    low, high = 1 / (1 + np.exp(-(center - half))), 1 / (1 + np.exp(-(center + half)))
    return list(zip(low.tolist(), high.tolist(), strict=True))


def _by_index(seen: Iterable[Seen]) -> tuple[list[float], list[float]]:
    """Right and all drafts at each index; an index behind a wrong one is a new draft's, so none may be there."""
    right: list[float] = []
    total: list[float] = []
    for item in seen:
        if 0 in item.agreements[:-1]:
            raise ValueError("an empirical law is of drafts, which end at their first wrong token")
        for i, bit in enumerate(item.agreements):
            if i == len(total):
                right.append(0.0)
                total.append(0.0)
            right[i] += item.times * bit
            total[i] += item.times
    return right, total


def _binomial_interval(right: float, total: float) -> tuple[float, float]:
    from scipy.special import betaincinv

    low = float(betaincinv(right, total - right + 1, 0.025)) if right > 0 else 0.0
    high = float(betaincinv(right + 1, total - right, 0.975)) if right < total else 1.0
    return low, high
