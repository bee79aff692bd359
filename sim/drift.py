"""How a machine's speed wanders: a pass that starts at t and would take p seconds takes p * factor(t).

    constant    factor
    linear      1 + per_second t                                   the drift of design theory
    windows     `factor` in slow windows, 1 between them; both lengths exponential, so a two-state Markov chain
    ou          exp(x), x an Ornstein-Uhlenbeck process: mean 0, standard deviation `sd`, correlation exp(-t / seconds)
    recorded    a series of (seconds, factor), straight lines between its points

All are sampled exactly at whatever times they are asked for (Gillespie 1996, "Exact numerical simulation of the
Ornstein-Uhlenbeck process", for `ou`): no grid, and no error of a step. A drift is a value; `path(rng)` starts one
history of it, `path(rng, n)` n independent ones at once.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from pathlib import Path as File
from typing import Any, Protocol

import numpy as np
from numpy.random import Generator

__all__ = [
    "DRIFTS",
    "Constant",
    "Drift",
    "Linear",
    "OrnsteinUhlenbeck",
    "Path",
    "Product",
    "Recorded",
    "Windows",
    "parse",
    "scaled",
]


class Path(Protocol):
    """One history of a drift (or n at once)."""

    def factor(self, at_seconds: Any, /) -> Any:
        """The factor at a time, or at n times for n histories; no time may be earlier than the last one asked for."""
        ...


class Drift(Protocol):
    """What can start histories."""

    def path(self, rng: Generator, n: int | None = None) -> Path:
        """A history whose factors are floats; with `n`, n independent ones whose factors are arrays of n."""
        ...


@dataclass(frozen=True, slots=True)
class Constant:
    """One factor for ever.

    >>> Constant(1.5).path(np.random.default_rng(0)).factor(9.0)
    1.5
    """

    factor: float = 1.0

    def __post_init__(self) -> None:
        _positive(self, "factor")

    def path(self, rng: Generator, n: int | None = None) -> Path:
        """See `Drift`."""
        return _Function(lambda at: self.factor if n is None else np.full(n, self.factor))


@dataclass(frozen=True, slots=True)
class Linear:
    """A machine that slows down (or speeds up) by `per_second` of its first speed every second.

    Its path raises ValueError at the time when no positive factor is left.

    >>> Linear(0.01).path(np.random.default_rng(0)).factor(50.0)
    1.5
    """

    per_second: float

    def __post_init__(self) -> None:
        if not math.isfinite(self.per_second):
            raise ValueError(f"per_second of a linear drift must be a finite number, not {self.per_second}")

    def path(self, rng: Generator, n: int | None = None) -> Path:
        """See `Drift`."""

        def factor(at: Any) -> Any:
            value = 1 + self.per_second * at
            if np.min(value) <= 0:
                raise ValueError(
                    f"a linear drift of {self.per_second:g} per second comes to a factor <= 0 after"
                    f" {-1 / self.per_second:g} seconds: choose a smaller one, or simulate less"
                )
            return value

        return _Function(factor)


@dataclass(frozen=True, slots=True)
class Windows:
    """Slow windows: `factor` while one is open, on average for `seconds`, and 1 for `quiet_seconds` between two.

    >>> drift = Windows(factor=3.0, seconds=1.0, quiet_seconds=3.0)
    >>> drift.share
    0.25
    >>> path = drift.path(np.random.default_rng(0))
    >>> [path.factor(t) for t in (0.0, 1.0, 2.0, 3.0, 4.0, 5.0)]
    [1.0, 3.0, 3.0, 1.0, 1.0, 1.0]
    """

    factor: float
    seconds: float
    quiet_seconds: float

    def __post_init__(self) -> None:
        _positive(self, "factor", "seconds", "quiet_seconds")

    @property
    def share(self) -> float:
        """The share of the time that is slow."""
        return self.seconds / (self.seconds + self.quiet_seconds)

    def path(self, rng: Generator, n: int | None = None) -> Path:
        """See `Drift`; begins anywhere in the middle of a long history."""
        return _WindowsPath(self, rng, n)


@dataclass(frozen=True, slots=True)
class OrnsteinUhlenbeck:
    """A log speed that wanders around 0: standard deviation `sd`, correlation e^(-t / `seconds`) over a time t.

    >>> path = OrnsteinUhlenbeck(sd=0.1, seconds=0.4).path(np.random.default_rng(0))
    >>> [round(path.factor(t), 3) for t in (0.0, 0.01, 10.0)]
    [1.013, 1.027, 1.011]
    """

    sd: float
    seconds: float

    def __post_init__(self) -> None:
        if not 0 <= self.sd < math.inf:
            raise ValueError(f"sd of the drift {_name(self)} must be at least 0 and finite, not {self.sd}")
        _positive(self, "seconds")

    def path(self, rng: Generator, n: int | None = None) -> Path:
        """See `Drift`; begins anywhere in the middle of a long history."""
        return _OrnsteinUhlenbeckPath(self, rng, n)


@dataclass(frozen=True, slots=True)
class Recorded:
    """A recorded series of factors at ascending seconds from 0 on, straight lines between them.

    Its path raises ValueError when it is asked for a time behind the last one: the series ends early.

    >>> Recorded((0.0, 1.0), (1.0, 2.0)).path(np.random.default_rng(0)).factor(0.25)
    1.25
    """

    seconds: tuple[float, ...]
    factors: tuple[float, ...]

    def __post_init__(self) -> None:
        seconds, factors = (tuple(float(v) for v in getattr(self, name)) for name in ("seconds", "factors"))
        object.__setattr__(self, "seconds", seconds)
        object.__setattr__(self, "factors", factors)
        if len(seconds) != len(factors) or not seconds:
            raise ValueError(
                f"a recorded drift needs a factor for each of its times: {len(seconds)} times and {len(factors)}"
                " factors were given"
            )
        if seconds[0] != 0 or not all(b > a for a, b in pairwise(seconds)):
            raise ValueError("the times of a recorded drift must begin at 0 and ascend")
        for at, factor in zip(seconds, factors, strict=True):
            if not 0 < factor < math.inf:
                raise ValueError(f"the factor of a recorded drift must be positive and finite, not {factor} at {at} s")
        if not math.isfinite(seconds[-1]):
            raise ValueError(f"the times of a recorded drift must be finite, not {seconds[-1]}")

    def path(self, rng: Generator, n: int | None = None) -> Path:
        """See `Drift`; every history is the recorded one."""

        def factor(at: Any) -> Any:
            if np.max(at) > self.seconds[-1]:
                raise ValueError(
                    f"the recorded drift ends early, at {self.seconds[-1]:g} seconds, before {np.max(at):g}: record a"
                    " longer one, or simulate less"
                )
            value = np.interp(at, self.seconds, self.factors)
            return float(value) if n is None else value

        return _Function(factor)


@dataclass(frozen=True, slots=True)
class Product:
    """Several drifts at once, each with a history of its own."""

    parts: tuple[Drift, ...]

    def path(self, rng: Generator, n: int | None = None) -> Path:
        """See `Drift`."""
        paths = [part.path(rng, n) for part in self.parts]
        return _Function(lambda at: math.prod(path.factor(at) for path in paths))


DRIFTS: dict[str, type[Any]] = {
    "constant": Constant,
    "linear": Linear,
    "windows": Windows,
    "ou": OrnsteinUhlenbeck,
}
"""The drifts that a few numbers describe, by name."""


def scaled(drift: Drift, strength: float) -> Drift:
    """The same drift, more or less of it: `strength` times its logarithm (its slope, of a linear one).

    Raises ValueError for a strength that is not positive, or a drift of another kind.

    >>> scaled(Windows(2.0, 1.0, 9.0), 2.0), scaled(OrnsteinUhlenbeck(0.1, 0.4), 0.5)
    (Windows(factor=4.0, seconds=1.0, quiet_seconds=9.0), OrnsteinUhlenbeck(sd=0.05, seconds=0.4))
    """
    if not 0 < strength < math.inf:
        raise ValueError(f"the strength of a drift must be positive and finite, not {strength}")
    match drift:
        case Constant() | Windows():
            return replace(drift, factor=drift.factor**strength)
        case Linear():
            return Linear(drift.per_second * strength)
        case OrnsteinUhlenbeck():
            return replace(drift, sd=drift.sd * strength)
        case Recorded():
            return Recorded(drift.seconds, tuple(factor**strength for factor in drift.factors))
        case Product():
            return Product(tuple(scaled(part, strength) for part in drift.parts))
    raise ValueError(f"{drift} cannot be made stronger")


def parse(words: str) -> Drift:
    """A drift in words: a name of `DRIFTS` and its numbers, `recorded FILE`, or several joined by " + ".

    Raises ValueError, with the words that would do, for anything else.

    >>> parse("ou sd=0.1 seconds=0.4")
    OrnsteinUhlenbeck(sd=0.1, seconds=0.4)
    >>> len(parse("ou sd=0.1 seconds=0.4 + windows factor=3 seconds=1 quiet_seconds=30").parts)
    2
    """
    parts = [_parse_one(part.split()) for part in words.split(" + ")]
    return parts[0] if len(parts) == 1 else Product(tuple(parts))


def _parse_one(words: Sequence[str]) -> Drift:
    name, *given = words or [""]
    if name == "recorded" and len(given) == 1:
        return load(File(given[0]))
    if name not in DRIFTS:
        raise ValueError(
            f"{' '.join(words)!r} is no drift: write {', '.join(map(_usage, DRIFTS))} or 'recorded FILE', several"
            " joined by ' + '"
        )
    wanted = {field.name for field in fields(DRIFTS[name])}
    values: dict[str, float] = {}
    for word in given:
        key, _, value = word.partition("=")
        try:
            values[key] = float(value)
        except ValueError:
            raise ValueError(f"{word!r} of the drift {name} is no number: write {_usage(name)}") from None
    if set(values) != wanted:
        raise ValueError(f"the drift {name} takes {', '.join(sorted(wanted))}: write {_usage(name)}")
    made: Drift = DRIFTS[name](**values)
    return made


def load(file: File) -> Recorded:
    """A recorded drift of a text file: a line `seconds,factor` each, further lines may begin with #.

    Raises ValueError naming the file when it is none.
    """
    try:
        with warnings.catch_warnings(action="ignore"):  # an empty file is an error here, said below
            table = np.loadtxt(file, delimiter=",", ndmin=2)
        if table.size == 0 or table.shape[1] != 2:
            raise ValueError(f"{table.shape[1] if table.size else 0} numbers in a line")
        return Recorded(tuple(table[:, 0].tolist()), tuple(table[:, 1].tolist()))
    except (OSError, ValueError) as error:
        raise ValueError(
            f"{file} holds no recorded drift: {error}; write a line 'seconds,factor' for each point"
        ) from None


class _Function:
    """A history that is a function of the time."""

    def __init__(self, factor: Any) -> None:
        self.factor = factor


class _OrnsteinUhlenbeckPath:
    """x(t + dt) = x(t) k + sd sqrt(1 - k^2) z, k = exp(-dt / seconds), z a standard normal draw."""

    def __init__(self, drift: OrnsteinUhlenbeck, rng: Generator, n: int | None) -> None:
        self._rng, self._n, self._sd, self._seconds = rng, n, drift.sd, drift.seconds
        self._maths: Any = math if n is None else np  # the same names in both
        self._at: Any = 0.0
        self._log: Any = drift.sd * rng.standard_normal(n)

    def factor(self, at_seconds: Any) -> Any:
        maths = self._maths
        kept = maths.exp((self._at - at_seconds) / self._seconds)
        noise = self._sd * maths.sqrt(1 - kept * kept)  # not a number when the time goes back
        self._log = self._log * kept + noise * self._rng.standard_normal(self._n)
        self._at = at_seconds
        return maths.exp(self._log)


class _WindowsPath:
    """P(slow at t + dt) = share + (slow at t - share) exp(-dt (1 / seconds + 1 / quiet_seconds))."""

    def __init__(self, drift: Windows, rng: Generator, n: int | None) -> None:
        self._rng, self._n, self._slower, self._share = rng, n, drift.factor - 1, drift.share
        self._rate = 1 / drift.seconds + 1 / drift.quiet_seconds
        self._exp: Any = math.exp if n is None else np.exp
        self._at: Any = 0.0
        self._slow: Any = rng.random(n) < self._share

    def factor(self, at_seconds: Any) -> Any:
        kept = self._exp((self._at - at_seconds) * self._rate)
        self._slow = self._rng.random(self._n) < self._share + (self._slow - self._share) * kept
        self._at = at_seconds
        return 1.0 + self._slower * self._slow


def _positive(drift: Any, *names: str) -> None:
    for name in names:
        value = getattr(drift, name)
        if not 0 < value < math.inf:
            raise ValueError(f"{name} of the drift {_name(drift)} must be positive and finite, not {value}")


def _name(drift: Any) -> str:
    return next(name for name, kind in DRIFTS.items() if kind is type(drift))


def _usage(name: str) -> str:
    examples = {"factor": "1.3", "per_second": "0.01", "seconds": "0.4", "quiet_seconds": "20", "sd": "0.1"}
    return repr(" ".join([name, *(f"{field.name}={examples[field.name]}" for field in fields(DRIFTS[name]))]))
