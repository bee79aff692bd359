"""What `sweepcap run` leaves in a folder, put together: profile, comparison, and what they rest on."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from costmodel.profile import Profile
from costmodel.profile import load as load_profile
from costmodel.rounds import table
from sim.trace import Text
from sim.trace import load as load_texts
from validate.blocks import is_disturbed
from validate.calibrate import Measured, load_rounds, where
from validate.compare import compare
from validate.comparison import Comparison
from validate.comparison import load as load_comparison
from validate.files import cut_half_line
from validate.models import PADDING
from validate.runs import Header, Run
from validate.runs import load as load_runs


@dataclass(frozen=True, slots=True)
class Session:
    """A folder's contents; `comparison.complete` tells whether all that was planned is there.

    Runs of another engine have no texts, and a profile only where one was put beside them.
    """

    profile: Profile | None
    comparison: Comparison
    header: Header
    runs: tuple[Run, ...]
    texts: tuple[Text, ...]


def load(folder: Path, command: str = "") -> Session:
    """The session in a folder, finished or not; made by `command`, or by the one that an earlier comparison names.

    Raises ValueError when it holds nothing that could be compared yet.
    """
    for name in ("calibration.jsonl", "runs.jsonl"):
        cut_half_line(folder / name)
    header, runs = load_runs(folder / "runs.jsonl")
    if header.source == "imported":
        beside = folder / "profile.json"
        given = load_profile(beside) if beside.exists() else None
        comparison = compare(given, (), header, runs)
        return Session(given, _made_by(comparison, command, folder), header, tuple(runs), ())
    _, texts = load_texts(folder / "texts.jsonl")
    rounds = load_rounds(folder / "calibration.jsonl")
    if not runs or not rounds:
        raise ValueError(f"{folder} holds no timed run yet: call sweepcap run --out {folder} again")
    profile = profile_of(header, texts, undisturbed(rounds, runs))
    comparison = compare(profile, texts, header, runs)
    return Session(profile, _made_by(comparison, command, folder), header, tuple(runs), tuple(texts))


def _made_by(comparison: Comparison, command: str, folder: Path) -> Comparison:
    with suppress(ValueError):  # there may be none yet
        command = command or load_comparison(folder / "comparison.json").command
    return msgspec.structs.replace(comparison, command=command)


def undisturbed(rounds: Sequence[Measured], runs: Sequence[Run]) -> list[Measured]:
    """The rounds of windows in which nothing else ran; all of them when fewer than half are."""
    bad = {(run.block, run.prompt) for run in runs if is_disturbed(run)}
    kept = [measured for measured in rounds if (measured.block, measured.prompt) not in bad]
    return kept if 2 * len(kept) >= len(rounds) else list(rounds)


def profile_of(header: Header, texts: Sequence[Text], rounds: Sequence[Measured]) -> Profile:
    """The profile that a session's calibration rounds make."""
    visit = where(texts, header.n_tokens, len(rounds[0].rounds[0].same[0]))
    measured = tuple(round_ for m in rounds for round_ in m.rounds)
    return Profile(
        source="calibrated",
        model=header.model,
        model_hash=header.model_hash,
        n_threads=header.n_threads,
        n_ctx=header.n_ctx,
        cost=table(visit.n_past, visit.n_rows, measured, padding=PADDING),
        rounds=measured,
        environment=header.environment,
    )
