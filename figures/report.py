"""The report page: one self-contained file that opens with the answer, then shows what it rests on.

Everything that comes from users is text: it goes through `figures.text.plain` and the template escapes it.
The page needs no network; its content security policy says so too. Pictures are inline SVG whose colours are
the page's variables, so they turn dark with it.
"""

from __future__ import annotations

import inspect
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from costmodel.profile import Profile
from figures import style
from figures.answer import Answer, answer
from figures.pictures import Picture, pictures, typical_past
from figures.text import percent, plain, times
from sim.loops import LOOPS
from sim.trace import Text
from validate.comparison import Cell, Comparison, Parity
from validate.files import write as write_whole
from validate.files import write_json
from validate.runs import Header, Run
from validate.session import Session
from validate.session import load as load_session

WIDTH = 300
OTHER_WORDS = {"replay": "A loop on memory that cannot be cut back: a partly wrong pass is undone and fed again."}


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the table: a loop on a prompt, against whichever baselines it was measured."""

    cell: Cell
    over: dict[str, Cell]
    parity: Parity


def render(
    comparison: Comparison,
    profile: Profile | None = None,
    runs: Sequence[Run] = (),
    texts: Sequence[Text] = (),
    *,
    header: Header | None = None,
    command: str = "",
) -> str:
    """The page as HTML; `command` is how to get it again, `header` that of the runs' file."""
    drawn = pictures(comparison, profile.cost if profile else None, runs)
    svgs = [style.rendered(picture.figure, "svg") for picture in drawn]
    return _page(drawn, svgs, comparison, profile, runs, texts, header, command)


def write(
    folder: Path,
    comparison: Comparison,
    profile: Profile | None = None,
    runs: Sequence[Run] = (),
    texts: Sequence[Text] = (),
    *,
    header: Header | None = None,
    command: str = "",
) -> Path:
    """Write `report.html` and `figures/` (each picture as SVG, PDF and PNG) into `folder`; the page's path.

    Raises ValueError when the folder cannot be written.
    """
    drawn = pictures(comparison, profile.cost if profile else None, runs)
    svgs = [style.rendered(picture.figure, "svg") for picture in drawn]
    for picture, svg in zip(drawn, svgs, strict=True):
        stem = folder / "figures" / picture.name
        write_whole(stem.with_suffix(".svg"), svg)
        style.save(picture.figure, stem, ("pdf", "png"))
    path = folder / "report.html"
    page = _page(drawn, svgs, comparison, profile, runs, texts, header, command)
    write_whole(path, page.encode("utf-8", "replace"))
    return path


def finished(folder: Path, command: str = "") -> Session:
    """What a run's folder holds, put together and written there: profile, comparison, figures and page.

    Raises ValueError as `validate.session.load` does.
    """
    session = load_session(folder, command)
    if session.header.source != "imported":
        write_json(folder / "profile.json", session.profile)
    write_json(folder / "comparison.json", session.comparison)
    write(
        folder, session.comparison, session.profile, session.runs, session.texts,
        header=session.header, command=session.comparison.command,
    )  # fmt: skip
    return session


def answered(comparison: Comparison, profile: Profile | None = None, runs: Sequence[Run] = ()) -> Answer:
    """The answer in words, as the page opens with it."""
    cost = profile.cost if profile else None
    return answer(comparison, cost, typical_past(cost, runs) if cost else 0)


def _page(
    drawn: Sequence[Picture],
    svgs: Sequence[bytes],
    comparison: Comparison,
    profile: Profile | None,
    runs: Sequence[Run],
    texts: Sequence[Text],
    header: Header | None,
    command: str,
) -> str:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(plain=plain, times=times, percent=percent)
    cells = comparison.cells
    models = list(dict.fromkeys([cell.model for cell in cells] or [header.model if header else ""]))
    return environment.get_template("report.html.jinja").render(
        answer=answered(comparison, profile, runs),
        comparison=comparison,
        models=models,
        lines=lines(cells),
        baselines=[name for name in ("greedy", "gated") if any(cell.baseline == name for cell in cells)],
        overall=[line for line in comparison.overall if line.n_prompts > 1],
        predicted=any(cell.predicted is not None for cell in cells),
        several_models=len(models) > 1,
        several_rows=len({cell.rows for cell in cells}) > 1,
        several_drafters=len({cell.drafter for cell in cells}) > 1,
        words=loop_words(dict.fromkeys(name for cell in cells for name in (cell.baseline, cell.loop))),
        pictures=[
            (picture, Markup(style.inline(svg.decode("utf-8"), picture.name, picture.caption)))
            for picture, svg in zip(drawn, svgs, strict=True)
        ],
        facts=list(facts(environment_of(comparison, profile, header))),
        warnings=warnings(comparison, profile),
        texts=texts,
        command=plain(command or _command(models[0]), 2000),
        light=style.LIGHT,
        dark=style.DARK,
        width=WIDTH,
    )


def lines(cells: Sequence[Cell]) -> list[Line]:
    """The table's lines, prompt by prompt in the order of the cells."""
    found: dict[tuple[str, str, str, int, str], dict[str, Cell]] = {}
    for cell in cells:
        if not cell.measured > 0:
            continue  # nothing was timed: there is no speedup to show
        key = (cell.model, cell.prompt, cell.loop, cell.rows, cell.drafter)
        found.setdefault(key, {})[cell.baseline] = cell
    return [
        Line(next(iter(over.values())), over, max((cell.parity for cell in over.values()), key=_gravity))
        for over in found.values()
    ]


def _gravity(parity: Parity) -> int:
    return ("same", "unknown", "tie", "bug").index(parity.verdict)


def loop_words(loops: Iterable[str]) -> dict[str, str]:
    """Plain words for each loop: the first sentence of its docstring.

    >>> loop_words(["greedy"])["greedy"].startswith("Plain decoding, one row a pass")
    True
    """
    words = {}
    for loop in loops:
        told = (inspect.getdoc(LOOPS[loop]) or "") if loop in LOOPS else OTHER_WORDS.get(loop, "")
        first = re.match(r".*?\.(?=\s|$)", told, re.DOTALL)
        words[loop] = " ".join((first[0] if first else told).replace("`", "").split())
    return words


def environment_of(comparison: Comparison, profile: Profile | None, header: Header | None) -> dict[str, Any]:
    """What was seen of the machine, and what the files say of the model."""
    seen = dict(header.environment) if header else {}
    seen |= comparison.environment
    if header is not None:
        seen |= {"threads": header.n_threads, "context": header.n_ctx, "model SHA-256": header.model_hash}
    elif profile is not None:
        seen |= {"threads": profile.n_threads, "context": profile.n_ctx, "model SHA-256": profile.model_hash}
    if profile is not None:
        seen["pass costs"] = profile.source
    if "model SHA-256" in seen:
        seen = {key: value for key, value in seen.items() if key not in ("model_hash", "n_threads")}  # said already
    seen["blocks measured"] = comparison.n_blocks
    seen["noise floor (A/A)"] = noise_floor(comparison)
    if moved := comparison.drift:
        told = [f"{tilt - 1:+.1%}" for tilt in moved.tilt]
        seen["c(most)/c(1) between the calibration brackets"] = ", ".join(told)
    return {key: value for key, value in seen.items() if value not in ("", None, 0)}


def noise_floor(comparison: Comparison) -> str:
    """What lanes that ran the same passes came to, in words; empty without any.

    >>> noise_floor(Comparison(environment={}, cells=()))
    ''
    """
    twins = comparison.twins
    if not twins:
        return ""
    far = max(abs(twin.ratio - 1) for twin in twins)
    inside = sum(twin.covers for twin in twins)
    return (
        f"{len(twins)} comparisons of lanes that ran the same passes: ratios up to {percent(far)} from 1,"
        f" {inside} of {len(twins)} intervals hold 1"
    )


def facts(tree: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    """The leaves of a nested description, each with its path.

    >>> list(facts({"cpu": {"cores": 2, "flags": ["avx", "fma"]}}))
    [('cpu cores', '2'), ('cpu flags', 'avx, fma')]
    """
    for key, value in tree.items():
        name = f"{above} {key}".strip().replace("_", " ")
        if isinstance(value, Mapping):
            yield from facts(value, name)
        elif isinstance(value, list | tuple):
            yield plain(name, 60), plain(", ".join(map(str, value)), WIDTH)
        elif name.endswith(" bytes"):
            yield plain(name.removesuffix(" bytes"), 60), f"{value / 2**30:.1f} GiB"
        else:
            yield plain(name, 60), plain(f"{value:.4g}" if isinstance(value, float) else value, WIDTH)


def warnings(comparison: Comparison, profile: Profile | None = None) -> list[str]:
    """What the reader must be told, the gravest first; that a run is unfinished stands above it all."""
    bugs = [cell for cell in comparison.cells if cell.parity.verdict == "bug"]
    told = [
        f"{plain(cell.loop, 40)} on {plain(cell.prompt, 60)} wrote another text than {cell.baseline}, "
        f"from generated token {cell.parity.first_difference} on, beyond the numerical noise: its speedup is void."
        for cell in bugs
    ]
    told += [*comparison.warnings, *(profile.caveats if profile else ())]
    return [plain(line, WIDTH) for line in dict.fromkeys(told) if line.strip()]


def _command(model: str) -> str:
    return f"sweepcap run --model {shlex.quote(plain(model))}" if model else "sweepcap run"
