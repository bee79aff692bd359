"""The page about the preprint's claims, in Markdown: written from evidence alone, by `sweepcap claims`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from costmodel.claims import ROWS
from figures import style
from figures.claim import draw
from figures.text import listed, times
from validate.claimed import LOCKED, Line, label
from validate.evidence import Evidence, Part, Ratio
from validate.files import write as write_whole

LEFT_OUT: dict[str, tuple[str, int]] = {
    "equal rows, `carry` R = 6": ("carry", ROWS),
    "equal tokens, `carry` R = 7": ("carry", ROWS + 1),
    "the same gate, `gated-held`": ("gated-held", ROWS),
}
"""What fused is compared with, that the preprint leaves out."""


def write(path: Path, evidence: Evidence, lines: Sequence[Line]) -> None:
    """The page at `path`, and its pictures in `figures/` beside it."""
    for line in lines:
        style.save(draw(line), path.parent / "figures" / f"claim-{line.claim.name}", ("svg",))
    write_whole(path, page(evidence, lines).encode())


def page(evidence: Evidence, lines: Sequence[Line], figures: str = "figures") -> str:
    """The whole page; `figures` is where its pictures lie, seen from the page."""
    parts = [
        "# The preprint, claim by claim",
        "Written by `sweepcap claims`; the verdicts follow from the evidence by rules (`validate/claims.py`), and"
        " anybody can get them for another machine. Source of the claims: Fused Correction,"
        " [doi:10.5281/zenodo.23990528](https://doi.org/10.5281/zenodo.23990528), abstract.",
        _tally(lines),
        _table(
            ["claim", "predicted here", "measured here", "verdict"],
            [[_linked(line), line.predicted, line.measured, f"**{line.verdict}**"] for line in lines],
        ),
        "Speedups are `total_time` over `gated` at R = 6, behind the prefill; in brackets the 95 % interval of blocks.",
        "## What was measured",
        _parts(evidence),
        "## What the preprint leaves out",
        *left_out(evidence),
        "## One by one",
    ]
    for line in lines:
        parts += [
            f'### <a id="{line.claim.name}"></a>{line.claim.states}',
            f"**{line.verdict.capitalize()}.** {_sentence(line.reason)}",
            f"What it implies: {_sentence(line.implies)}",
            f"![{line.claim.name}]({figures}/claim-{line.claim.name}.svg)",
            f"Source: {line.claim.source}.",
        ]
    return "\n\n".join(parts) + "\n"


def left_out(evidence: Evidence) -> list[str]:
    """What fusing is worth to someone who does not have the gate and its correction, in sentences and as a table."""
    rows: list[list[str]] = []
    locked: list[Ratio] = []
    free: list[Ratio] = []
    for name, part in evidence.parts.items():
        for prompt in part.agreement:
            cells = [part.find(prompt, ("fused", ROWS), other) for other in LEFT_OUT.values()]
            if any(cells):
                rows.append([label(name, part), prompt, *map(_cell, cells)])
            for ratio in (cell for cell in cells if cell and not part.fed):
                (locked if prompt == LOCKED else free).append(ratio)
    sentences = [_worth(locked, free)] if locked else []
    return [*sentences, _table(["part", "prompt", *(f"fused over: {name}" for name in LEFT_OUT)], rows)]


def _worth(locked: Sequence[Ratio], free: Sequence[Ratio]) -> str:
    """The paragraph that the README says too."""

    def over(ratios: Sequence[Ratio], loop: str, rows: int) -> str:
        """The measured ends over one setting, in words; empty where it was not run."""
        values = [r.measured for r in ratios if (r.baseline, r.baseline_rows) == (loop, rows)]
        if not values:
            return ""
        ends = sorted({times(min(values)), times(max(values))})
        return " to ".join(ends)

    words = "Fusing is worth something to whoever pays the correction, and to nobody else."
    if any(ratio.low > 1.02 for ratio in locked):
        words = "Fusing is worth something beyond the correction that it deletes."
    words += f" On locked repetition `fused` runs at {over(locked, 'carry', ROWS) or '?'} `carry` at equal rows"
    if at := over(locked, "carry", ROWS + 1):
        words += f", at {at} `carry` at equal tokens (R = {ROWS + 1})"
    if at := over(locked, "gated-held", ROWS):
        words += f" and at {at} `gated-held`, the same gate with the bonus kept in hand"
    if at := over(free, "carry", ROWS):
        words += f". On the other prompts it runs at {at} `carry` at equal rows"
        if held := over(free, "gated-held", ROWS):
            words += f" and at {held} `gated-held`: what is gained there is the gate's, not the fusing's"
    return words + "."


def _parts(evidence: Evidence) -> str:
    def line(name: str, part: Part) -> list[str]:
        texts = "followed from the default model's" if part.fed else "its own"
        if part.penalty != 1:
            texts += f", repeat penalty {part.penalty:g}"
        return [
            label(name, part),
            part.model,
            texts,
            f"{part.n_tokens}",
            f"{part.n_blocks}",
            f"{1e3 * part.seconds(1):.2f}",
            f"{part.ratio6:.2f}",
        ]

    cpu = evidence.environment.get("cpu", "an unknown CPU")
    threads = next(iter(evidence.parts.values())).n_threads
    about = (
        f"{cpu}, {threads} threads. A model of random weights (shapes only) costs what a trained one of its shapes"
        " costs, but writes noise: there the loops are timed while they follow the default model's text (its answers"
        " are fed to them), so the passes are those of that text and the seconds those of the shapes. How repetitive"
        " the named models' own texts are is not measured."
    )
    if evidence.drift:
        about += f" How the machine's speed wandered meanwhile: {evidence.drift}."
    head = ["part", "model", "texts", "tokens", "blocks", "c(1), ms", "c(6)/c(1)"]
    return f"{about}\n\n{_table(head, [line(name, part) for name, part in evidence.parts.items()])}"


def _tally(lines: Sequence[Line]) -> str:
    counts = {verdict: sum(line.verdict == verdict for line in lines) for verdict in _VERDICTS}
    told = listed(f"{n} {verdict}" for verdict, n in counts.items())
    return f"{len(lines)} claims: {told}."


_VERDICTS = ("reproduced", "explained", "not reproduced")


def _linked(line: Line) -> str:
    return f"[{line.claim.states}](#{line.claim.name})"


def _cell(ratio: Ratio | None) -> str:
    if ratio is None:
        return "-"
    return f"{times(ratio.measured)} ({ratio.low:.2f}-{ratio.high:.2f}), predicted {times(ratio.predicted)}"


def _sentence(words: str) -> str:
    return (words if words.startswith("c(") else words[0].upper() + words[1:]) + "."


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
