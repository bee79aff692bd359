"""What a sweep has finished, line by line beside its table, so that a killed one goes on where it was."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from sim.sweep import Done, Work
from sim.trace import lines
from validate.files import append, cut_half_line

FORMAT, VERSION = "sweepcap-sweep-part", 1


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """Which work the lines belong to."""

    fingerprint: str
    format: str = FORMAT
    version: int = VERSION


def journal_of(out: Path) -> Path:
    """Where the journal of a table lies, while the table is not there."""
    return out.with_name(out.name + ".part")


def resumed(path: Path, work: Work) -> list[Done]:
    """What was finished of this work; starts the journal when there is none.

    Raises ValueError, naming the file, when it belongs to other work or is damaged.
    """
    head = Head(fingerprint=work.fingerprint)
    if not path.exists():
        append(path, msgspec.json.encode(head))
        return []
    cut_half_line(path)
    try:
        kept = [line for _, line in lines(path)]
        if not kept:
            append(path, msgspec.json.encode(head))
            return []
        if msgspec.json.decode(kept[0], type=Head) != head:
            raise ValueError(f"{path} holds the beginnings of another sweep: remove it, or choose another --out")
        return [msgspec.json.decode(line, type=Done) for line in kept[1:]]
    except msgspec.MsgspecError as error:
        raise ValueError(f"{path} is damaged: {error}; remove it and sweep again") from error


def keeping(path: Path) -> Callable[[Done], None]:
    """Told of what is finished, writes it down at once."""
    return lambda done: append(path, msgspec.json.encode(done))


def forget(out: Path) -> None:
    """Drop the journal of a table that is there."""
    journal_of(out).unlink(missing_ok=True)
