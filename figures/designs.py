"""How likely a ratio above the cap is, when nothing is wrong but the machine's speed: P(measured > x) against drift.

One line a design at so many pairs, and one for a single pair of runs; the true ratio is the cap. Both axes are
logarithmic; what was never seen in n repetitions is drawn at the bottom, where its 95 % interval begins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from figures import style
from figures.terminal import emit, emit_table
from sim.designs import MOST_PAIRS, Recommended, Seen, Timing

MARKS = {
    "one pair": ("ink", "*"),
    "AABB": ("orange", "s"),
    "ABAB": ("amber", "v"),
    "ABBA": ("blue", "D"),
    "random": ("pink", "X"),
    "blocked": ("sky", "P"),
    "turns": ("green", "o"),
}


@style.styled
def draw(
    strengths: Sequence[float], one_pair: Sequence[Seen], designs: Mapping[str, Sequence[Seen]], ratio: float
) -> Figure:
    """P(measured > x) of each design at each strength of a drift; 1 is the drift as it was given or fitted."""
    figure = style.page(2.7)
    axes = figure.add_subplot()
    style.grid(axes, "y")
    lines = {"one pair": one_pair, **designs}
    least = min(seen.p_high for line in lines.values() for seen in line) / 2
    for name, line in lines.items():
        colour, marker = MARKS[name]
        chance = np.array([[seen.p_above, seen.p_low, seen.p_high] for seen in line])
        at = np.maximum(chance[:, 0], least)
        axes.errorbar(
            strengths,
            at,
            yerr=[np.maximum(at - np.maximum(chance[:, 1], least), 0), np.maximum(chance[:, 2] - at, 0)],
            color=style.LIGHT[colour],
            marker=marker,
            markersize=3.5,
            linewidth=1.0,
            elinewidth=0.6,
            capsize=1.5,
            linestyle="-" if name == "one pair" else (0, (4, 1.5)),
        )
    above = one_pair[0].above
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda chance, _: f"{chance:.3g}" if chance < 1 else "1"))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_ylim(least * 0.8, 1)
    axes.xaxis.set_major_locator(FixedLocator(list(strengths)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda strength, _: f"{strength:g}"))
    axes.set_xlabel("drift, times the one given")
    axes.set_ylabel(f"P(measured > {above:.3g}x)")
    n_pairs = next(iter(designs.values()))[0].n_pairs if designs else 1
    names = [name if name == "one pair" else f"{name}, {n_pairs} pairs" for name in lines]
    style.keys(figure, [Line2D([], [], color=style.LIGHT[MARKS[n][0]], marker=MARKS[n][1]) for n in lines], names)
    style.title(figure, finding(one_pair[_nearest(strengths)], ratio))
    return figure


def show(
    drift: str, lines: Sequence[Seen], one_pair: Seen, advice: Recommended, timing: Timing, half_width: float
) -> None:
    """Designs as a table with the advice under it."""
    names = (
        "design",
        "pairs",
        "bias",
        "spread",
        "half-width",
        "coverage of 95 %",
        f"P(> {one_pair.above:.3g}x)",
        "seconds",
    )
    emit_table(
        f"a ratio of {timing.ratio:.3g}x, runs of {timing.seconds:.3g} s and {timing.n_passes} passes, drift {drift}",
        (*names, "sound"),
        [
            (
                s.design,
                s.n_pairs,
                f"{s.bias:+.2%} ± {s.bias_error:.2%}",
                f"{s.spread:.2%}",
                "-" if s.half_width is None else f"{s.half_width:.2%}",
                "-" if s.coverage is None else f"{s.coverage:.1%} ({s.coverage_low:.1%}-{s.coverage_high:.1%})",
                f"{s.p_above:.2%}",
                f"{s.seconds:.0f}",
                "yes" if s.is_sound else "no",
            )
            for s in lines
        ],
    )
    emit("\n".join(in_words(one_pair, advice, timing, half_width)))


def in_words(one_pair: Seen, advice: Recommended, timing: Timing, half_width: float) -> list[str]:
    """What to do for a half-width, and how likely a single pair is to say too much."""

    def how(seen: Seen | None) -> str:
        if seen is None:
            return f"no sound design of up to {MOST_PAIRS} pairs"
        size = f"{seen.n_pairs} pairs, {seen.seconds:.0f} s"
        return f"{seen.design}, {size} ({seen.coverage:.1%} of its intervals are right)"

    return [
        f"for a half-width of {half_width:.2g}: {how(advice.any)}",
        *([f"of whole runs: {how(advice.whole_runs)}"] if advice.any != advice.whole_runs else []),
        finding(one_pair, timing.ratio),
    ]


def finding(one_pair: Seen, ratio: float) -> str:
    """How often a single pair measures more than `above`, in words.

    >>> from dataclasses import replace
    >>> seen = Seen("ABAB", 1, 0.0, 0.0, 0.1, None, None, None, None, 2.03, 0.004, 0.002, 0.008, 2.0)
    >>> finding(seen, 12 / 7)
    'A pair measures more than 2.03x once in 250 when the truth is 1.71x'
    >>> finding(replace(seen, p_above=0.0, p_high=0.00192), 12 / 7)
    'A pair measures more than 2.03x less than once in 521 when the truth is 1.71x'
    """
    p = one_pair.p_above
    often = (
        f"once in {1 / p:.0f}"
        if 0 < p < 0.1
        else f"in {p:.0%} of cases"
        if p
        else f"less than once in {1 / one_pair.p_high:.0f}"
    )
    return f"A pair measures more than {one_pair.above:.3g}x {often} when the truth is {ratio:.3g}x"


def _nearest(strengths: Sequence[float]) -> int:
    return min(range(len(strengths)), key=lambda i: abs(strengths[i] - 1))
