"""The figures of the preprint's abstract, as data: what each states, for which model and workload, and where."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files

import msgspec

ROWS = 6  # R of the whole preprint


class Claim(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One figure of the abstract; the fields are explained in data/claims.toml."""

    name: str
    kind: str
    states: str
    part: str
    source: str
    speedups: tuple[float, ...] = ()
    loop: str = "fused"
    prompts: tuple[str, ...] = ()
    design: str = ""
    beside: str = ""

    @property
    def low(self) -> float:
        """The least speedup that is stated."""
        return min(self.speedups)

    @property
    def high(self) -> float:
        """The largest speedup that is stated."""
        return max(self.speedups)


@cache
def claims() -> dict[str, Claim]:
    """All claims by name, in the order of the abstract.

    >>> claims()["cap"].speedups
    (1.71,)
    """
    text = (files("costmodel") / "data" / "claims.toml").read_text(encoding="utf-8")
    return {name: msgspec.convert({"name": name} | facts, Claim) for name, facts in tomllib.loads(text).items()}
