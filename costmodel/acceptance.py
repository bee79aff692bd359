"""When drafts are right: laws of agreement, and how many drafts in a row they make.

A law says, position by position of the text, how likely a draft for it is the text. Regimes follow a Markov
chain over positions (Gilbert 1960, Elliott 1963: a channel that is in a good or a bad state), one regime is
the iid case (Leviathan et al. 2023, eq. 1), and a renewal law starts afresh with every draft and knows its
agreement by index:

    iid                one regime, agreement p
    Gilbert-Elliott    locked and free: a probability to stay, and an agreement, in each
    empirical          conditional agreement of the 1st, 2nd, ... draft, given the ones before were right

Everything is plain arithmetic: Fractions in, Fractions out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain, pairwise
from typing import TypeAlias

Number: TypeAlias = int | float | Fraction


@dataclass(frozen=True, slots=True)
class Law:
    """How likely a draft token is right.

    transition   [from regime][to regime], one step per position of the text
    agreement    [draft index][regime]; the last line holds for all later indices, unless the law is a renewal
    no_draft     share of look-ups that find nothing
    renewal      every draft starts afresh, and its agreement is known only as far as `agreement` reaches

    Raises ValueError for probabilities outside [0, 1] or lines that do not sum to 1. Made by `iid`,
    `gilbert_elliott`, `empirical` or `parse`.
    """

    name: str
    transition: tuple[tuple[Number, ...], ...]
    agreement: tuple[tuple[Number, ...], ...]
    no_draft: Number = 0
    renewal: bool = False

    def __post_init__(self) -> None:
        n_regimes = len(self.transition)
        if not self.agreement or any(len(line) != n_regimes for line in (*self.transition, *self.agreement)):
            raise ValueError(f"{self.name}: transition and agreement must have one number per regime")
        numbers: list[Number] = [self.no_draft, *chain(*self.transition, *self.agreement)]
        for number in numbers:
            _check_probability(self.name, number)
        for line in self.transition:
            if abs(float(sum(line)) - 1) > 1e-12:
                raise ValueError(f"{self.name}: the ways out of a regime must sum to 1, not {sum(line)}")

    @property
    def n_regimes(self) -> int:
        """Number of regimes."""
        return len(self.transition)

    def agrees(self, index: int, regime: int) -> Number:
        """Probability that the draft at this index (from 0) is right, given the ones before are; in this regime.

        Raises ValueError where a renewal law was not measured.
        """
        if index < len(self.agreement):
            return self.agreement[index][regime]
        if self.renewal:
            raise ValueError(
                f"{self.name} knows the first {len(self.agreement)} drafts only, not number {index + 1}: use fewer rows"
            )
        return self.agreement[-1][regime]

    def in_floats(self) -> Law:
        """The same law in floats: exact arithmetic over a long text is slow."""
        transition, agreement = (
            tuple(tuple(float(number) for number in line) for line in lines)
            for lines in (self.transition, self.agreement)
        )
        return Law(self.name, transition, agreement, float(self.no_draft), self.renewal)

    @property
    def stationary(self) -> tuple[Number, ...]:
        """Share of positions in each regime, in the long run."""
        if self.n_regimes == 1:
            return (1,)
        (_, out), (back, _) = self.transition
        if out + back == 0:
            raise ValueError(f"{self.name} never changes its regime: say in which one it starts")
        total = out + back
        return (_ratio(back, total), _ratio(out, total))


def iid(p: Number, no_draft: Number = 0) -> Law:
    """Every draft is right with the same probability, whatever came before.

    >>> [str(x) for x in accepted_lengths(iid(Fraction(1, 2)), 3)]
    ['1/2', '1/4', '1/8', '1/8']
    """
    return Law(f"iid {p}", ((1,),), ((p,),), no_draft)


def gilbert_elliott(
    stay_locked: Number, stay_free: Number, agree_locked: Number, agree_free: Number, no_draft: Number = 0
) -> Law:
    """Two regimes, locked (index 0) and free (1): probability to stay, and agreement, in each.

    >>> law = gilbert_elliott(Fraction(9, 10), Fraction(4, 5), 1, 0)
    >>> law.stationary, mean_accepted(law, 4) > mean_accepted(iid(Fraction(2, 3)), 4)
    ((Fraction(2, 3), Fraction(1, 3)), True)
    """
    name = f"ge {stay_locked} {stay_free} {agree_locked} {agree_free}"
    for number in (stay_locked, stay_free):
        _check_probability(name, number)
    transition = ((stay_locked, 1 - stay_locked), (1 - stay_free, stay_free))
    return Law(name, transition, ((agree_locked, agree_free),), no_draft)


def empirical(conditional: Sequence[Number], no_draft: Number = 0) -> Law:
    """What was counted: agreement of the 1st, 2nd, ... draft given the ones before, and look-ups that found nothing.

    >>> survival(empirical([0.81, 0.74 / 0.81]), 2)
    (0.81, 0.74)
    """
    return Law("empirical", ((1,),), tuple((p,) for p in conditional), no_draft, renewal=True)


def from_survival(survived: Sequence[Number], no_draft: Number = 0) -> Law:
    """The empirical law of a published table: share of drafts of which at least 1, 2, ... tokens were right.

    Raises ValueError when the shares rise.
    """
    shares = (1, *survived)
    for before, share in zip(shares, survived, strict=False):
        if not 0 <= share <= before:
            raise ValueError(f"survival must fall from 1 towards 0, but {share} comes after {before}")
    return empirical([_ratio(b, a) if a else 0 for a, b in zip(shares, survived, strict=False)], no_draft)


def parse(text: str) -> Law:
    """The law in words: "iid P", "ge STAY_LOCKED STAY_FREE AGREE_LOCKED AGREE_FREE", "survival S1 S2 ...".

    A trailing "none Q" is the share of look-ups that find nothing. Decimals are exact. Raises ValueError.

    >>> parse("iid 0.8").agrees(0, 0), parse("survival 0.8 0.6 none 0.25").no_draft
    (Fraction(4, 5), Fraction(1, 4))
    """
    words = text.split()
    no_draft: Number = 0
    try:
        if "none" in words:
            at = words.index("none")
            (word,) = words[at + 1 :]
            no_draft, words = Fraction(word), words[:at]
        kind, numbers = words[0], [Fraction(word) for word in words[1:]]
        if kind == "iid" and len(numbers) == 1:
            return iid(numbers[0], no_draft)
        if kind == "ge" and len(numbers) == 4:
            stay_locked, stay_free, agree_locked, agree_free = numbers
            return gilbert_elliott(stay_locked, stay_free, agree_locked, agree_free, no_draft)
        if kind == "survival" and numbers:
            return from_survival(numbers, no_draft)
    except (IndexError, ZeroDivisionError):
        pass
    except ValueError as error:
        if "Fraction" not in str(error) and "unpack" not in str(error):
            raise
    raise ValueError(
        f'acceptance {text!r} is none of "iid P", "ge STAY_LOCKED STAY_FREE AGREE_LOCKED AGREE_FREE", '
        '"survival S1 S2 ...", each with or without "none Q"'
    )


def accepted_lengths(law: Law, n_drafts: int, start: Sequence[Number] | None = None) -> tuple[Number, ...]:
    """Probability that 0, 1, ..., `n_drafts` drafts in a row are right, given that something was drafted.

    `start` is the distribution over regimes at the first draft; the stationary one if not given.
    """
    alive = survival(law, n_drafts, start)
    at_least = (1, *alive, 0)
    return tuple(a - b for a, b in pairwise(at_least))


def survival(law: Law, n_drafts: int, start: Sequence[Number] | None = None) -> tuple[Number, ...]:
    """Probability that at least 1, ..., `n_drafts` drafts in a row are right; what papers publish.

    >>> survival(iid(Fraction(1, 2)), 3)
    (Fraction(1, 2), Fraction(1, 4), Fraction(1, 8))
    """
    weights = tuple(law.stationary if start is None else start)
    if len(weights) != law.n_regimes:
        raise ValueError(f"start must have {law.n_regimes} numbers, not {len(weights)}")
    shares = []
    for index in range(n_drafts):
        right = [weight * law.agrees(index, regime) for regime, weight in enumerate(weights)]
        shares.append(sum(right))
        weights = moved(law, right)
    return tuple(shares)


def moved(law: Law, weights: Sequence[Number]) -> tuple[Number, ...]:
    """Weights over regimes one position later."""
    regimes = range(law.n_regimes)
    return tuple(sum(weights[a] * law.transition[a][b] for a in regimes) for b in regimes)


def mean_accepted(law: Law, n_drafts: int, start: Sequence[Number] | None = None) -> Number:
    """Expected drafts accepted per look-up that finds `n_drafts`; the bonus token not counted.

    >>> mean_accepted(iid(Fraction(1, 2)), 2)
    Fraction(3, 4)
    """
    return sum(survival(law, n_drafts, start))


def variance_accepted(law: Law, n_drafts: int, start: Sequence[Number] | None = None) -> Number:
    """Variance of the drafts accepted per look-up.

    >>> variance_accepted(iid(Fraction(1, 2)), 1)
    Fraction(1, 4)
    """
    lengths = accepted_lengths(law, n_drafts, start)
    mean = sum(i * p for i, p in enumerate(lengths))
    return sum(i * i * p for i, p in enumerate(lengths)) - mean * mean


def _ratio(a: Number, b: Number) -> Number:
    return a / b if isinstance(a, float) or isinstance(b, float) else Fraction(a) / Fraction(b)


def _check_probability(name: str, number: Number) -> None:
    if not 0 <= number <= 1:
        raise ValueError(f"{name}: probabilities are between 0 and 1, not {number}")
