"""`docs/accuracy.md`: what an accuracy run found, beside what was asked, in plain tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from validate.effects import HOST, TEXT, Judged
from validate.verdict import Errors, Verdict, ablations, errors

MEAN, P95, WORST, HALF_WIDTH, COVERAGE, FLOOR, HOST_SHARE = 0.01, 0.025, 0.04, 0.01, 0.90, 0.93, 0.01
"""What was asked of held-out cells, of the measurement, of the prediction's interval, and of the noise floor."""

SPLITS = {
    "developed on": {""},
    "held out, all": {"prompt", "variant", "both"},
    "held out by prompt": {"prompt"},
    "held out by variant": {"variant"},
    "held out by both": {"both"},
}


def page(verdict: Verdict, command: str, figure: str) -> str:
    """The page in Markdown; `command` made it, `figure` is its picture's file name."""
    held = verdict.split(True)
    return "\n".join(
        [
            "# Accuracy: predicted against measured speedups",
            "",
            f"Written by `{command}` from raw records, not by hand. {_told(verdict)}",
            "",
            f"![errors of all cells by variant]({figure})",
            "",
            "## Asked and found",
            "",
            *_table(("what", "asked", "found", "held"), _asked(verdict, errors(held))),
            "",
            "Half-widths and shares are of all cells; a cell is a loop at an R over `greedy` or `gated` on a prompt.",
            *_more(verdict),
            "",
            "## Errors by split",
            "",
            "|predicted/measured - 1|. Developed on: the default model as it is, on the three prompts of the suite that"
            " were run over and over. Held out by prompt: three prompts first run here. Held out by variant:"
            " requantised models.",
            "",
            *_table(("cells", "n", "mean", "95th percentile", "worst"), _splits(verdict.cells)),
            "",
            "By variant:",
            "",
            *_table(("variant", "blocks", "n", "mean", "95th percentile", "worst"), _variants(verdict)),
            "",
            "## Each effect switched off",
            "",
            "Reckoned from the same records. An effect that buys nothing on any model does not belong in the model.",
            "",
            *_table(("without", "mean, all cells", "worst", "mean, held out", "worst"), _effects(verdict)),
            "",
            f"The host's time between passes is {1e6 * verdict.host:.0f} us a pass (from cells developed on). It is no"
            " part of the cost model, which prices what happens inside llama.cpp: its lines are by the wall clock, and"
            " say what leaving it out costs there.",
            "",
            "## The largest errors",
            "",
            *_table(
                ("variant", "prompt", "loop", "R", "over", "predicted", "95 %", "measured", "95 %", "error"),
                _largest(verdict.cells),
            ),
            "",
            *_warnings(verdict),
        ]
    )


def _told(verdict: Verdict) -> str:
    where = verdict.environment
    blocks = ", ".join(f"{name} {n}" for name, n in verdict.blocks.items())
    return (
        f"Model {verdict.model} on {where.get('cpu', 'an unknown CPU')}, {where.get('n_threads', '?')} threads,"
        f" {len(verdict.cells)} cells; blocks: {blocks}."
    )


def _more(verdict: Verdict) -> list[str]:
    """What intervals as narrow as asked would take, where they are wider."""
    if verdict.half_width <= HALF_WIDTH:
        return []
    n = verdict.blocks_for(HALF_WIDTH)
    return [
        f"At the scatter of these runs half of the intervals would be within +-{HALF_WIDTH:.0%} with {n} blocks, about"
        f" {n * verdict.seconds / 3600:.0f} hours of measuring."
    ]


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    lines = [head, ["---"] * len(head), *rows]
    return ["| " + " | ".join(str(item).replace("|", "\\|") for item in line) + " |" for line in lines]


def _percent(value: float, digits: int = 2) -> str:
    return f"{100 * value:.{digits}f} %"


def _asked(verdict: Verdict, held: Errors) -> list[tuple[str, str, str, str]]:
    def line(what: str, asked: float, found: float, least: bool = False, n: int = 1) -> tuple[str, str, str, str]:
        sign, holds = (">=", found >= asked) if least else ("<=", found <= asked)
        if not n:
            return what, f"{sign} {_percent(asked, 1)}", "nothing measured", "-"
        return what, f"{sign} {_percent(asked, 1)}", _percent(found), "yes" if holds else "no"

    n = held.n
    return [
        line("mean error, held out", MEAN, held.mean, n=n),
        line("95th percentile, held out", P95, held.p95, n=n),
        line("worst error, held out", WORST, held.worst, n=n),
        line("median half-width of the measured 95 % intervals", HALF_WIDTH, verdict.half_width, n=len(verdict.cells)),
        line("measured inside the prediction's own interval, held out", COVERAGE, verdict.coverage, True, n),
        line(
            f"A/A: 1 inside the interval ({len(verdict.twins)} comparisons)",
            FLOOR, verdict.noise_floor, True, len(verdict.twins),
        ),
        line("time outside llama.cpp, worst cell", HOST_SHARE, verdict.host_share, n=len(verdict.cells)),
    ]  # fmt: skip


def _splits(cells: Sequence[Judged]) -> list[tuple[object, ...]]:
    found = [(name, errors([cell for cell in cells if cell.held_out in wanted])) for name, wanted in SPLITS.items()]
    return [(name, e.n, _percent(e.mean), _percent(e.p95), _percent(e.worst)) for name, e in found if e.n]


def _variants(verdict: Verdict) -> list[tuple[object, ...]]:
    lines: list[tuple[object, ...]] = []
    for variant, n_blocks in zip(
        dict.fromkeys(c.variant for c in verdict.cells), verdict.blocks.values(), strict=False
    ):
        e = errors([cell for cell in verdict.cells if cell.variant == variant])
        lines.append((variant, n_blocks, e.n, _percent(e.mean), _percent(e.p95), _percent(e.worst)))
    return lines


def _effects(verdict: Verdict) -> list[tuple[object, ...]]:
    cells, held = verdict.cells, verdict.split(True)

    def line(name: str, whole: Errors, part: Errors) -> tuple[object, ...]:
        return name, _percent(whole.mean), _percent(whole.worst), _percent(part.mean), _percent(part.worst)

    every, out = ablations(cells), ablations(held)
    left = sum(cell.cell.text == "own" for cell in cells)
    names = {TEXT: f"{TEXT} ({left} cells left the greedy text)", HOST: f"{HOST}, by the wall clock"}
    return [
        line("nothing: the whole model", errors(cells), errors(held)),
        *(line(names.get(name, name), every[name], out[name]) for name in every),
        line("nothing, by the wall clock", errors(cells, wall=True), errors(held, wall=True)),
    ]


def _largest(cells: Sequence[Judged], n: int = 10) -> list[tuple[object, ...]]:
    worst = sorted(cells, key=lambda judged: -abs(judged.error()))[:n]
    return [
        (
            j.variant, c.prompt, c.loop, c.rows, c.baseline, f"{c.predicted:.3f}",
            f"{c.predicted_low:.3f}-{c.predicted_high:.3f}", f"{c.measured:.3f}", f"{c.low:.3f}-{c.high:.3f}",
            f"{100 * j.error():+.1f} %",
        )
        for j in worst
        for c in [j.cell]
    ]  # fmt: skip


def _warnings(verdict: Verdict) -> list[str]:
    told = [f"- {name}: {warning}" for name, warnings in verdict.warnings.items() for warning in warnings]
    told += [f"- {name}: {n} speedups are not stated" for name, n in verdict.refused.items() if n]
    return ["## What the runs say of themselves", "", *told, ""] if told else []
