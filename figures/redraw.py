"""All figures again, from the committed records or from a run's own folder.

python -m figures.redraw [--out DIR] [--format svg] [--run RUN_FOLDER] [--claims CLAIMS_FOLDER]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from figures import (
    agreement,
    caprows,
    claim,
    designs,
    errors,
    maps,
    passcost,
    records,
    slotgain,
    style,
    survival,
    timeline,
)
from figures.terminal import say
from validate.claims import judge
from validate.evidence import Evidence, gather
from validate.evidence import load as load_evidence

FORMATS = ("svg", "pdf", "png")
CONTOUR = 0.74
"""The preprint's figure for chaining after partly wrong guesses."""

OF_RUN: dict[str, Callable[[records.Records], Figure]] = {
    "passcost": lambda r: passcost.draw(r.cost, 6, r.n_past),
    "cap": lambda r: caprows.draw(r.cost, r.n_past, r.cells),
    "map-fused": lambda r: maps.draw([r.part]),
    "map-partial": lambda r: maps.draw([r.part], "fused-partial", CONTOUR),
    "survival": lambda r: survival.draw(r.drafts),
    "timeline": lambda r: timeline.draw(*r.pair),
    "agreement": lambda r: agreement.draw(r.cells),
    "errors": lambda r: errors.draw(r.errors),
    "drift": lambda r: _drift(r.drift),
}
"""The figures of a run, by file name."""


def _drift(seen: records.UnderDrift | None) -> Figure:
    if seen is None:
        return style.nothing(style.page(2.0), "No drift was fitted yet", "The runs hold too few passes to tell.")
    return designs.draw(seen.strengths, seen.one_pair, seen.designs, seen.ratio)


def of_claims(evidence: Evidence) -> Iterator[tuple[str, Figure]]:
    """One figure a claim."""
    for line in judge(evidence):
        yield f"claim-{line.claim.name}", claim.draw(line)


def draw_all(out: Path, run: records.Records, evidence: Evidence, formats: Sequence[str] = FORMATS) -> list[Path]:
    """Write every figure in every format; the files."""
    made = [(name, draw(run)) for name, draw in OF_RUN.items()]
    made += list(of_claims(evidence))
    if cells := records.load_slots():
        made.append(("slots", slotgain.draw(cells)))
    return [path for name, figure in made for path in style.save(figure, out / name, tuple(formats))]


def main(words: Sequence[str] | None = None) -> None:
    """Draw what the words say."""
    parser = argparse.ArgumentParser(prog="python -m figures.redraw", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("figures-out"), help="Where to write.")
    parser.add_argument("--format", action="append", choices=FORMATS, help="Again for more; all without it.")
    parser.add_argument("--run", type=Path, help="A folder of sweepcap run, instead of the committed records.")
    parser.add_argument("--claims", type=Path, help="A folder of sweepcap claims, instead of the committed records.")
    given = parser.parse_args(words)
    run = records.take(given.run) if given.run else records.load()
    if given.claims:
        from validate.parts import PARTS

        evidence = gather(given.claims, list(PARTS))
    else:
        evidence = load_evidence(records.FOLDER / "claims.json")
    paths = draw_all(given.out, run, evidence, given.format or FORMATS)
    say(f"{len(paths)} files in {given.out}")


if __name__ == "__main__":
    main()
