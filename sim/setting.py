"""A setting: which loop, how many rows a pass, which drafter. What is compared, priced and timed.

A drafter is written as on the command line: its name, and what differs from its defaults.

    ngram          hf-prompt-lookup n_max=3          ngram n_max=4 n_min=2 pick=earliest
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from sim.drafters import DRAFTERS, Drafter
from sim.loops import LOOPS, replay
from sim.machine import Loop

DEFAULT_DRAFTER = "ngram"
IMPURE = frozenset({"ngram-map-k", "ngram-map-k4v", "ngram-mod", "ngram-cache"})
"""Drafters that learn from what became of their drafts, or from when they were asked: each loop has its own drafts."""

STUDY = ("greedy", "gated", "fused", "fused-partial", "gated-held", "carry")
"""The loops of the study: what is compared when no loop is named."""

Value: TypeAlias = int | float | str


@dataclass(frozen=True, slots=True, order=True)
class Setting:
    """A loop of `LOOPS`, its R, and a drafter of `DRAFTERS` with its parameters.

    Raises ValueError listing the known ones for any other loop, drafter or parameter, and for a value that the
    drafter refuses.

    >>> print(Setting("carry", 6))
    carry R=6
    >>> print(Setting("carry", 6, "ngram  n_min=2 n_max=4"))
    carry R=6 ngram n_max=4 n_min=2
    """

    loop: str
    rows: int
    drafter: str = DEFAULT_DRAFTER

    def __post_init__(self) -> None:
        if self.loop not in LOOPS:
            raise ValueError(f"unknown loop {self.loop!r}: the loops are {', '.join(LOOPS)}")
        object.__setattr__(self, "drafter", canonical(self.drafter))
        if self.rows < 2:
            raise ValueError(f"rows must be at least 2 (one known, one guessed), not {self.rows}")

    @classmethod
    def parse(cls, words: str) -> Setting:
        """A setting in words: a loop, its R, and a drafter; ValueError for words that are none.

        >>> Setting.parse("carry rows=11 hf-prompt-lookup n_max=3")
        Setting(loop='carry', rows=11, drafter='hf-prompt-lookup n_max=3')
        """
        loop, *others = words.split() or [""]
        rows = [word.removeprefix("rows=") for word in others if word.startswith("rows=")]
        if loop not in LOOPS:
            raise ValueError(f"unknown loop {loop!r}: the loops are {', '.join(LOOPS)}")
        if loop != "greedy" and (len(rows) != 1 or not rows[0].isdecimal()):
            raise ValueError(f"{words!r} is no setting: write LOOP rows=R DRAFTER, as in 'carry rows=6 ngram n_max=3'")
        drafter = " ".join(word for word in others if not word.startswith("rows="))
        return cls(loop, int(rows[0]) if rows else 2, drafter or DEFAULT_DRAFTER)

    def make(self, *, replays: bool = False) -> Loop:
        """A fresh loop with a fresh drafter: one for every run, so that nothing is remembered.

        With `replays` for memory that cannot be cut back (`sim.loops.replay`).
        """
        making = replay(LOOPS[self.loop]) if replays else LOOPS[self.loop]
        return making(make_drafter(self.drafter), self.rows)

    def __str__(self) -> str:
        drafter = "" if self.drafter == DEFAULT_DRAFTER else f" {self.drafter}"
        return f"{self.loop} R={self.rows}{drafter}"


def settings(loops: Sequence[str], rows: Sequence[int], drafter: str = DEFAULT_DRAFTER) -> tuple[Setting, ...]:
    """The settings asked for, with the baselines `greedy` and `gated` that speedups need.

    >>> [str(s) for s in settings(["carry"], [6, 8])]
    ['greedy R=6', 'gated R=6', 'carry R=6', 'gated R=8', 'carry R=8']
    """
    names = dict.fromkeys(("greedy", "gated", *loops))
    made = [Setting(name, n, drafter) for n in rows for name in names]
    # Greedy has one row whatever R is: one setting of it is enough.
    return tuple(s for i, s in enumerate(made) if s.loop != "greedy" or i == 0)


def parse_drafter(words: str) -> tuple[str, dict[str, Value]]:
    """A drafter's name and the parameters given for it; ValueError listing the known ones for any other.

    >>> parse_drafter("ngram n_max=4 run_on=false")
    ('ngram', {'n_max': 4, 'run_on': False})
    """
    name, *given = words.split() or [""]
    known = parameters(name)
    values: dict[str, Value] = {}
    for word in given:
        key, equals, value = word.partition("=")
        if key not in known or not equals:
            raise ValueError(
                f"unknown parameter {word!r} of the drafter {name}: its parameters are {', '.join(known)},"
                f" written as in '{name} {next(iter(known))}=2'"
            )
        values[key] = _value(value)
    return name, values


def is_pure(words: str) -> bool:
    """Whether a drafter in words is a function of the text alone."""
    return parse_drafter(words)[0] not in IMPURE


def parameters(drafter: str) -> dict[str, object]:
    """The parameters of a drafter that a word can give, with their defaults; ValueError for an unknown drafter."""
    if drafter not in DRAFTERS:
        raise ValueError(f"unknown drafter {drafter!r}: the drafters are {', '.join(DRAFTERS)}")
    given = inspect.signature(DRAFTERS[drafter]).parameters.values()
    # Collections (stop tokens, earlier texts) belong to a run, not to a setting.
    collections = ("Collection", "Seq")
    return {p.name: p.default for p in given if not any(word in str(p.annotation) for word in collections)}


def make_drafter(words: str) -> Drafter:
    """A fresh drafter; ValueError when it refuses its parameters."""
    name, values = parse_drafter(words)
    return DRAFTERS[name](**values)


@lru_cache(maxsize=4096)
def canonical(words: str) -> str:
    """A drafter's one way of being written: parameters in its own order, defaults left out; ValueError as above."""
    make_drafter(words)
    name, values = parse_drafter(words)
    changed = {key: values[key] for key, usual in parameters(name).items() if values.get(key, usual) != usual}
    return " ".join([name, *(f"{key}={_word(value)}" for key, value in changed.items())])


def _value(word: str) -> Value:
    if word in ("true", "false"):
        return word == "true"
    for number in (int, float):
        try:
            return number(word)
        except ValueError:
            continue
    return word


def _word(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
