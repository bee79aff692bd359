"""How every drafter reads: by identity, once, and only what is new."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from sim.tokens import Tokens

Draft = tuple[int, ...]


class Drafter(ABC):
    """A function of the tokens so far that indexes only what is new since the call before.

    A text that continues the one before (the same shared list, longer) is read on; the same text again gets
    the same draft; any other text is read afresh, as if by a new drafter, so nothing is remembered from one
    run to the next. A drafter is `_restart`, which forgets everything, and `_draft`, which reads up to
    `length` and drafts.
    """

    def __init__(self) -> None:
        self._text = Tokens()
        self._last: Draft = ()
        self._restart()

    def __call__(self, tokens: Sequence[int]) -> Draft:
        """The draft behind `tokens`; empty where there is none."""
        text = tokens if isinstance(tokens, Tokens) else Tokens(tokens)
        if not text.shares(self._text) or text.length < self._text.length:
            self._restart()
        elif text.length == self._text.length:
            return self._last
        self._last = self._draft(text.items, text.length)
        self._text = text
        return self._last

    @abstractmethod
    def _restart(self) -> None:
        """Forget the text read so far."""

    @abstractmethod
    def _draft(self, items: list[int], length: int) -> Draft:
        """Read on to the first `length` of `items` (there may be more: they are not ours), and draft."""


class Judged(Drafter):
    """A drafter that learns from what became of its last draft, and from where the prompt ended.

    Both are seen in the text. All before the last token of the first text asked about is the prompt, since a
    loop first drafts when the prompt's pass has yielded a token; and `_judge` is told how many tokens of the
    last draft were accepted. `judged=False` tells that drafts are dropped unverified, so that there is
    nothing to learn.
    """

    def __init__(self, judged: bool) -> None:
        self._is_judged = judged
        super().__init__()

    def _restart(self) -> None:
        self._read = 0

    def _draft(self, items: list[int], length: int) -> Draft:
        if not self._read:
            self._begin(items, length - 1)  # -1 of no text at all: there is another beginning then
        elif self._last and self._is_judged:
            # A pass yields its accepted tokens and one more.
            self._judge(_agree(self._last, items, self._read, length - 1))
        self._read = length
        return self._look_up(items, length)

    @abstractmethod
    def _begin(self, items: list[int], prompt: int) -> None:
        """A run begins with a prompt of this length."""

    @abstractmethod
    def _judge(self, accepted: int) -> None:
        """The last draft, not empty, was verified, and this many of its tokens were right."""

    @abstractmethod
    def _look_up(self, items: list[int], length: int) -> Draft:
        """The draft behind the first `length` of `items`."""


def _agree(draft: Draft, items: list[int], start: int, stop: int) -> int:
    """How many tokens of a draft the text repeated, from `start` up to `stop`."""
    n = 0
    for token, actual in zip(draft, items[start:stop], strict=False):
        if token != actual:
            break
        n += 1
    return n


def at_least(least: int, **values: int) -> None:
    """Raise ValueError naming the first of the values that is not an int of at least `least`."""
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ValueError(f"{name} must be a whole number of at least {least}, not {value!r}")
