"""The loops told a second time, straight down the page, sharing nothing with `sim` but its values.

A tale is a generator of passes (cached rows kept, rows fed, answers wanted) over a text that grows as it
goes on. It knows the model, so it needs no answers. One generator per loop, in the words of the systems
themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from math import inf

from sim.penalties import Penalties

Fed = tuple[int, tuple[int, ...], int]
Outcome = str  # of a pass: "plain" without a guess, "all" or "some" guesses right, "replayed" after "some"


def plainly(logits: list[float], prefix: list[int], p: Penalties, n_prompt: int) -> list[float]:
    """llama.cpp's loop over all candidates, with a count for each."""
    out = []
    for token, logit in enumerate(logits):
        logit += p.bias.get(token, 0.0)
        seen = prefix if p.last_n == -1 else prefix[-p.last_n :] if p.last_n else []
        count = seen.count(token)
        if count > 0:
            if logit <= 0:
                logit *= p.repeat
            else:
                logit /= p.repeat
            logit -= count * p.frequency + p.presence
        if token in p.stops and len(prefix) - n_prompt < p.min_tokens:
            logit = -inf
        out.append(logit)
    return out


@dataclass
class Tale:
    """What the teller knows: the model, the wishes, and the text so far."""

    model: Callable[[Sequence[int]], int]
    text: list[int]
    n_tokens: int
    stops: frozenset[int]
    propose: Callable[[Sequence[int]], Sequence[int]]
    n_rows: int
    clip: str = "useful"
    prompt: str = "alone"
    overrun: bool = False
    recurrent: bool = False

    def __post_init__(self) -> None:
        self.n_prompt = len(self.text)
        self.over = self.n_tokens == 0

    def left(self) -> int:
        return self.n_prompt + self.n_tokens - len(self.text)

    def cut(self, draft: Sequence[int]) -> list[int]:
        """The part of a draft that is fed."""
        draft = list(draft)
        if self.clip in ("useful", "before_goal"):
            draft = draft[: self.left() - 1] if self.left() > 1 else []
        if self.clip in ("useful", "before_stop"):
            kept = []
            while draft and draft[0] not in self.stops and self.left() > 1:
                kept.append(draft.pop(0))
            draft = kept
        return draft

    def ahead(self) -> list[int]:
        """A draft that follows the whole text."""
        return self.cut(list(self.propose(tuple(self.text)))[: self.n_rows - 1])

    def checked(self) -> list[int]:
        """A draft made before the last token was looked at, less that token; nothing if that was wrong."""
        draft = list(self.propose(tuple(self.text[:-1])))[: self.n_rows]
        return self.cut(draft[1:]) if draft and draft[0] == self.text[-1] else []

    def says(self) -> int:
        """The model's next token, written down."""
        token = self.model(self.text)
        self.text.append(token)
        if not self.overrun and (self.left() == 0 or token in self.stops):
            self.over = True
        return token

    def verify(self, draft: Sequence[int], keep: int | None = None) -> Generator[Fed, None, Outcome]:
        """Feed what is not cached (the last token, unless said otherwise) and a draft; take what is right."""
        keep = len(self.text) - 1 if keep is None else keep
        before = len(self.text)
        yield keep, (*self.text[keep:], *draft), 1 + len(draft)
        outcome = "all" if draft else "plain"
        for guess in draft:
            if self.says() != guess:
                outcome = "some"
                break
            if self.over:
                return outcome
        else:
            self.says()
        self.look_back(before)
        if outcome == "some" and self.recurrent and not self.over:
            before = len(self.text)
            yield keep, tuple(self.text[keep:]), 1
            self.says()
            self.look_back(before)
            outcome = "replayed"
        return outcome

    def look_back(self, before: int) -> None:
        """llama.cpp's `lookup` asks whether the text is over between passes only."""
        if self.overrun:
            self.over = self.left() < 0 or any(token in self.stops for token in self.text[before:])

    def read_prompt(self, draft: Sequence[int] = ()) -> Generator[Fed, None, Outcome]:
        """The prompt, in the style of the house."""
        if self.over:
            return "plain"
        if self.prompt == "last_apart" and self.n_prompt > 1:
            yield 0, tuple(self.text[:-1]), 0
            return (yield from self.verify((), self.n_prompt - 1))
        return (yield from self.verify(draft if self.prompt == "together" else (), 0))


def greedy(tale: Tale) -> Iterator[Fed]:
    yield from tale.read_prompt()
    while not tale.over:
        yield from tale.verify(())


def carry(tale: Tale) -> Iterator[Fed]:
    yield from tale.read_prompt(tale.ahead() if tale.prompt == "together" else ())
    while not tale.over:
        yield from tale.verify(tale.ahead())


def gated(tale: Tale) -> Iterator[Fed]:
    yield from tale.read_prompt()
    while not tale.over:
        outcome = yield from tale.verify(tale.checked())
        if outcome in ("all", "some") and not tale.over:
            yield from tale.verify(())  # the correction


def fused(tale: Tale) -> Iterator[Fed]:
    yield from tale.read_prompt()
    while not tale.over:
        outcome = yield from tale.verify(tale.checked())
        while outcome == "all" and not tale.over:
            outcome = yield from tale.verify(tale.ahead())
        if outcome == "some" and not tale.over:
            yield from tale.verify(())


def fused_partial(tale: Tale) -> Iterator[Fed]:
    yield from tale.read_prompt()
    while not tale.over:
        outcome = yield from tale.verify(tale.checked())
        while outcome in ("all", "some") and not tale.over:
            outcome = yield from tale.verify(tale.ahead())


def gated_held(tale: Tale) -> Iterator[Fed]:
    yield from tale.read_prompt()
    while not tale.over:
        yield from tale.verify(tale.checked())


def decode_then_speculate(tale: Tale) -> Iterator[Fed]:
    outcome = yield from tale.read_prompt(tale.ahead() if tale.prompt == "together" else ())
    while not tale.over:
        if outcome in ("all", "some"):
            yield from tale.verify(())
            if tale.over:
                return
        outcome = yield from tale.verify(tale.ahead())


def padded(tale: Tale) -> Iterator[Fed]:
    tale.clip = "uncut"

    def full() -> list[int]:
        draft = tale.ahead()
        while len(draft) < tale.n_rows - 1:
            draft.append(0)
        return draft

    yield from tale.read_prompt(full() if tale.prompt == "together" else ())
    while not tale.over:
        yield from tale.verify(full())


def dummy(tale: Tale) -> Iterator[Fed]:
    yield from tale.read_prompt((tale.ahead() or [100]) if tale.prompt == "together" else ())
    while not tale.over:
        yield from tale.verify(tale.ahead() or [100])


def re_anchor(tale: Tale) -> Iterator[Fed]:
    yield from tale.read_prompt()
    while not tale.over:
        draft = list(tale.propose(tuple(tale.text[:-1])))[: tale.n_rows]
        if draft and draft[0] != tale.text[-1]:
            rows = (draft[0], *tale.cut(draft[1:]))
            yield len(tale.text) - 1, rows, len(rows)  # nothing of it can be right
            outcome = "some"
        else:
            outcome = yield from tale.verify(tale.cut(draft[1:]))
        if outcome in ("all", "some") and not tale.over:
            yield from tale.verify(())


TALES: dict[str, Callable[[Tale], Iterator[Fed]]] = {
    "greedy": greedy,
    "gated": gated,
    "fused": fused,
    "fused-partial": fused_partial,
    "gated-held": gated_held,
    "carry": carry,
    "decode-then-speculate": decode_then_speculate,
    "padded": padded,
    "dummy": dummy,
    "re-anchor": re_anchor,
}
