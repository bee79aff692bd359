"""A grid of settings: loops x rows x drafters and their parameters, from words or from a TOML file.

    rows        "2..6,8"                              2, 3, 4, 5, 6, 8
    drafters    "ngram n_max=2..4 pick=latest,earliest"    six drafters

What the file may hold: loops, rows, drafters, prompts, profiles, texts, baseline. Combinations that a drafter
refuses (n_max below n_min) are left out and told of; a grid of which nothing is left is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from pathlib import Path

import msgspec

from sim.setting import Setting, canonical, parameters

MOST = 1_000_000
"""Settings in a grid, unless more are allowed."""


class GridFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A grid as a TOML file tells it; what is empty is left to the command line or its defaults."""

    loops: list[str] = []
    rows: str | list[int] | int = ""
    drafters: list[str] = []
    prompts: list[str] = []
    profiles: list[str] = []
    texts: list[str] = []
    baseline: str = ""


@dataclass(frozen=True, slots=True)
class Grid:
    """Settings, each once, and sentences about the combinations that were left out."""

    settings: tuple[Setting, ...]
    left_out: tuple[str, ...] = ()


def load(path: Path) -> GridFile:
    """The grid in a TOML file; ValueError naming the file and what is wrong with it."""
    try:
        return msgspec.toml.decode(path.read_bytes(), type=GridFile)
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is no grid: {error}; it may hold {', '.join(GridFile.__struct_fields__)}") from error


def numbers(words: str) -> tuple[int, ...]:
    """Whole numbers from a list of numbers and ranges; ValueError for anything else.

    >>> numbers("2..4,8")
    (2, 3, 4, 8)
    """
    return tuple(int(value) for part in words.split(",") for value in _expanded(part.strip(), words))


def _expanded(part: str, words: str) -> Sequence[str]:
    low, dots, high = part.partition("..")
    if dots and not (low.isdecimal() and high.isdecimal() and int(low) <= int(high)):
        raise ValueError(f"{words!r} holds no range {part!r}: write LOW..HIGH, as in 2..8")
    if not dots:
        if not part.lstrip("-").isdecimal():
            raise ValueError(f"{words!r} is no list of whole numbers, as 2..6,8 is")
        return [part]
    if int(high) - int(low) >= MOST:
        raise ValueError(f"{part} is a range of {int(high) - int(low) + 1:,} numbers, more than {MOST:,}")
    return [str(value) for value in range(int(low), int(high) + 1)]


def drafters(words: str) -> tuple[list[str], list[str]]:
    """The drafters that a pattern stands for, and why any combination is left out.

    Raises ValueError for an unknown drafter or parameter, and when the drafter refuses all combinations.

    >>> drafters("ngram n_max=1..3 n_min=2")[0]
    ['ngram n_max=2 n_min=2', 'ngram n_min=2']
    """
    made: list[str] = []
    left_out: list[str] = []
    known = set(parameters(words.split()[0] if words.split() else ""))
    for combination in product(*_choices(words)):
        spec = " ".join(combination)
        try:
            made.append(canonical(spec))
        except ValueError as error:
            if not {word.partition("=")[0] for word in combination[1:]} <= known:
                raise
            left_out.append(f"{spec}: {error}")
    if not made:
        raise ValueError(f"the grid is empty: {left_out[0]}")
    return list(dict.fromkeys(made)), left_out


def _choices(words: str) -> list[list[str]]:
    """What each word of a pattern may be: its name as it is, a parameter with each of its values."""
    name, *given = words.split() or [""]
    choices = [[name]]
    for word in given:
        key, equals, values = word.partition("=")
        listed = [
            value for part in values.split(",") for value in (_expanded(part, values) if ".." in part else [part])
        ]
        choices.append([key + equals + value for value in listed])
    return choices


def grid(loops: Sequence[str], rows: Sequence[int], patterns: Sequence[str], most: int = MOST) -> Grid:
    """All settings of some loops, rows and drafter patterns; `greedy`, which has no R and no drafter, once.

    Raises ValueError for a grid that is empty or has more than `most` settings, saying how many.

    >>> len(grid(["greedy", "carry"], range(2, 6), ["ngram n_max=2..4"]).settings)
    13
    """
    guessing = [loop for loop in dict.fromkeys(loops) if loop != "greedy"]
    many_rows = list(dict.fromkeys(rows))
    n_drafters = sum(prod(map(len, _choices(pattern))) for pattern in patterns)
    n = len(guessing) * len(many_rows) * n_drafters + ("greedy" in loops)
    if n > most:
        raise ValueError(f"the grid stands for {n:,} settings, more than {most:,}: ask for fewer, or raise --limit")
    if n == 0:
        raise ValueError("the grid is empty: give it a loop, a number of rows and a drafter")
    found = [drafters(pattern) for pattern in patterns]
    specs = list(dict.fromkeys(spec for made, _ in found for spec in made))
    left_out = [sentence for _, refused in found for sentence in refused]
    settings = [Setting("greedy", 2)] if "greedy" in loops else []
    settings += [Setting(loop, r, spec) for spec in specs for r in many_rows for loop in guessing]
    return Grid(tuple(settings), tuple(left_out))
