"""How many drafts in a row are right: counted, and by the laws that are fitted to the counts.

A draft is looked at up to its first wrong token or its end, so the counted share is that of Kaplan and Meier (1958):
the product of the shares right at each place, among those that got there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, PercentFormatter
from numpy.typing import NDArray

from costmodel.acceptance import survival
from costmodel.fitlaw import Fitted, Seen, fit_empirical, fit_gilbert_elliott, fit_iid
from figures import style
from figures.text import percent

LAWS: dict[str, tuple[str, Any]] = {"iid": ("orange", (0, (3, 2))), "Gilbert-Elliott": ("blue", "-")}


@style.styled
def draw(drafts: Sequence[tuple[int, int, float]]) -> Figure:
    """The share of drafts of which at least 1, 2, ... tokens are right; `drafts` are (right, looked at, how often)."""
    figure = style.page(2.6)
    seen = [Seen((1,) * right + (0,) * (looked - right), times) for right, looked, times in drafts]
    if not any(len(item.agreements) > 1 for item in seen):
        return style.nothing(figure, "There are no drafts to follow", "Nothing was drafted, or one token at a time.")
    counted = fit_empirical(seen)
    most = len(counted.law.agreement)
    places = np.arange(1, most + 1)
    shares = np.array([float(s) for s in survival(counted.law, most)])
    low, high = _bounds(seen, shares)
    fits = {"iid": fit_iid(seen), "Gilbert-Elliott": fit_gilbert_elliott(seen)}
    axes = figure.add_subplot()
    style.grid(axes, "y")
    curves = {name: _told(fit, most) for name, fit in fits.items()}
    for name, curve in curves.items():
        colour, line = LAWS[name]
        axes.plot([0, *places], [1, *curve], color=style.LIGHT[colour], linestyle=line, gid=name)
    axes.errorbar(
        places,
        shares,
        yerr=np.maximum([shares - low, high - shares], 0),
        linestyle="none",
        marker="o",
        markersize=3.5,
        color=style.LIGHT["ink"],
        capsize=2,
        elinewidth=0.9,
        zorder=3,
    )
    axes.set_xlabel("drafts in a row that are right, at least")
    axes.set_ylabel("share of drafts")
    axes.set_xlim(0, most + 0.4)
    axes.set_ylim(0, 1.02)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.xaxis.set_major_locator(MaxNLocator(nbins=9, integer=True))
    handles = [Line2D([], [], linestyle="none", marker="o", markersize=3.5, color=style.LIGHT["ink"])]
    handles += [Line2D([], [], color=style.LIGHT[colour], linestyle=line) for colour, line in LAWS.values()]
    axes.legend(handles, ["counted, 95 % interval", *LAWS], loc="upper right", handlelength=1.8)
    misses = {name: float(np.max(np.abs(curve - shares))) for name, curve in curves.items()}
    style.title(figure, _finding(misses, fits))
    return figure


def _told(fit: Fitted, most: int) -> NDArray[np.float64]:
    start = None if fit.law.n_regimes == 1 else fit.start
    return np.array([float(share) for share in survival(fit.law, most, start)])


def _bounds(seen: Sequence[Seen], shares: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """95 % interval by Greenwood's variance (1926) of log(-log share)."""
    at_risk = np.array([sum(s.times for s in seen if len(s.agreements) > i) for i in range(len(shares))])
    right = np.array(
        [sum(s.times * s.agreements[i] for s in seen if len(s.agreements) > i) for i in range(len(shares))]
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = np.cumsum((at_risk - right) / (at_risk * right)) / np.log(shares) ** 2
        half = 1.96 * np.sqrt(variance)
        low, high = shares ** np.exp(half), shares ** np.exp(-half)
    return np.where(np.isfinite(low), low, shares), np.where(np.isfinite(high), high, shares)


def _finding(misses: dict[str, float], fits: dict[str, Fitted]) -> str:
    best = min(fits, key=lambda name: fits[name].aic)
    other = next(name for name in fits if name != best)
    if best == "iid":
        return f"Drafts fail independently: iid meets their survival within {percent(misses[best])}"
    return (
        f"Drafts come in regimes: {best} meets their survival within {percent(misses[best])}, {other} misses by"
        f" {percent(misses[other])}"
    )
