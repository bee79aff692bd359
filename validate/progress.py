"""How long work tells what it is doing, without knowing who listens."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

Say: TypeAlias = Callable[[str], None]
"""Told a sentence that the person should read."""

Advance: TypeAlias = Callable[[str, int, int], None]
"""Told what is being done, how many steps are done, and how many there are."""


def quiet(*_: object) -> None:
    """Tell nobody."""
