"""One step rule for every decoding loop: what is known, what is cached, and what a pass adds.

A pass cuts the KV cache back to `keep`, feeds `rows`, and is answered with the model's argmax after each of
its last `want` rows. Then

    a row that is the text stays in the cache, and its answer continues the text;
    the first row that is not the text ends the pass.

Decode, verify, pre-check, correction, prefill and replay are all this rule. There is no model, clock,
randomness or I/O here; a loop (`sim.loops`) is nothing but a choice of rows. The rule for drafted rows is
greedy verification (Stern et al. 2018, "Blockwise Parallel Decoding", section 3; Leviathan et al. 2023 at
temperature 0).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from sim.tokens import Tokens

Loop: TypeAlias = "Callable[[State], Pass]"


@dataclass(frozen=True, slots=True)
class State:
    """What is known and what is cached, between two passes.

    tokens    all ids known to be the model's own greedy text, the prompt first
    cached    how many of them have a KV row; `due` are the others, never empty before the end
    goal      the length at which the text is long enough
    prompt    how many of the tokens were given; stop tokens count only behind them
    stops     ids that end the text
    overrun   the end is looked for only between passes, as llama.cpp's `lookup` does; otherwise inside them
    checkpoint  the cached length before the last pass: all that memory which cannot be cut can go back to
    guessed, accepted  speculative rows of the last pass, and how many of them were right

    >>> State.start([7, 8, 9], n_tokens=2)
    State(tokens=Tokens([7, 8, 9]), cached=0, goal=5, prompt=3, stops=frozenset(), overrun=False, \
checkpoint=0, guessed=0, accepted=0)
    """

    tokens: Tokens
    cached: int
    goal: int
    prompt: int = 0
    stops: frozenset[int] = frozenset()
    overrun: bool = False
    checkpoint: int = 0
    guessed: int = 0
    accepted: int = 0

    def __post_init__(self) -> None:
        if self.tokens.__class__ is not Tokens:
            object.__setattr__(self, "tokens", Tokens(self.tokens))
        known = self.tokens.length
        if not (
            0 <= self.prompt <= known
            and self.prompt <= self.goal
            and 0 <= self.checkpoint <= self.cached <= known
            and 0 <= self.accepted <= self.guessed
            and (self.cached < known or self.ended)
        ):
            raise ValueError(self._fault())

    def _fault(self) -> str:
        """Why this state cannot be."""
        known = self.tokens.length
        if self.goal < self.prompt:
            return f"goal {self.goal} is below the prompt's length {self.prompt}"
        if not 0 <= self.prompt <= known:
            return f"prompt {self.prompt} must be between 0 and the {known} known tokens"
        if not 0 <= self.cached <= known:
            return f"cached {self.cached} must be between 0 and the {known} known tokens"
        if not 0 <= self.checkpoint <= self.cached:
            return f"checkpoint {self.checkpoint} must be between 0 and the {self.cached} cached tokens"
        if not 0 <= self.accepted <= self.guessed:
            return f"accepted {self.accepted} must be between 0 and guessed {self.guessed}"
        return f"all {known} tokens are cached, but the text has not ended: the answer behind them is lost"

    @classmethod
    def start(
        cls,
        prompt: Iterable[int],
        n_tokens: int,
        stops: Iterable[int] = (),
        *,
        overrun: bool = False,
        n_vocab: int | None = None,
    ) -> State:
        """The state before the first pass: a prompt, nothing cached, `n_tokens` to come.

        The prompt is copied: each run writes a list of its own, by which a drafter tells runs apart.
        Raises ValueError for an empty prompt, a negative number of tokens, and for anything in the prompt or
        among the stop tokens that is no token id, or is outside a vocabulary of `n_vocab` where one is given.
        """
        tokens, stops = Tokens(list(prompt)), frozenset(stops)
        if not tokens:
            raise ValueError("the prompt is empty: a model needs at least one token to answer")
        if n_tokens < 0:
            raise ValueError(f"n_tokens must be at least 0, not {n_tokens}")
        _check_ids("prompt", tokens, n_vocab)
        _check_ids("stop", stops, n_vocab)
        return cls(tokens, 0, len(tokens) + n_tokens, len(tokens), stops, overrun)

    @property
    def due(self) -> Tokens:
        """The known tokens that have no KV row yet."""
        return self.tokens[self.cached :]

    @property
    def remaining(self) -> int:
        """How many tokens are still wanted; below zero when a pass overran the goal."""
        return self.goal - self.tokens.length

    @property
    def prefilling(self) -> bool:
        """Whether part of the prompt has no KV row yet."""
        return self.cached < self.prompt

    @property
    def ended(self) -> bool:
        """Whether the goal is reached or the last pass yielded a stop token."""
        known = self.tokens.length
        # lookup.cpp stops when n_predict > n, one token later than everybody else (tests/goldens/README.md).
        if known >= self.goal + self.overrun or self.goal == self.prompt:
            return True
        if not self.stops:
            return False
        # A pass adds one token more than it accepts; what the prompt holds ends nothing.
        fresh = max(self.prompt, known - self.accepted - 1)
        return not self.stops.isdisjoint(self.tokens.items[fresh:known])


@dataclass(frozen=True, slots=True)
class Pass:
    """One forward pass: cut the cache back to `keep`, feed `rows`, answer after the last `want` of them."""

    keep: int
    rows: tuple[int, ...]
    want: int

    def __post_init__(self) -> None:
        if not self.rows:
            raise ValueError("a pass needs at least one row")
        if self.keep < 0:
            raise ValueError(f"keep must be at least 0, not {self.keep}")
        if not 0 <= self.want <= len(self.rows):
            raise ValueError(f"want {self.want} must be between 0 and the {len(self.rows)} rows")
        for row in self.rows:
            if row.__class__ is not int or row < 0:
                raise ValueError(f"row {row!r} is no token id: a token id is an int and at least 0")


def _check_ids(what: str, ids: Iterable[int], n_vocab: int | None) -> None:
    for token in ids:
        if token.__class__ is not int or token < 0 or (n_vocab is not None and token >= n_vocab):
            allowed = "at least 0" if n_vocab is None else f"between 0 and {n_vocab - 1}"
            raise ValueError(f"{what} token {token!r} is no token id: a token id is an int and {allowed}")


def next_pass(loop: Loop, state: State) -> Pass | None:
    """The pass that `loop` runs in `state`; None when the text has ended."""
    return None if state.ended else loop(state)


def known_rows(state: State, pass_: Pass) -> int:
    """How many leading rows of the pass repeat known text, and so are not guesses."""
    known = state.tokens.items[pass_.keep : state.tokens.length]
    if pass_.rows[: len(known)] == tuple(known):  # nearly always, and quicker than counting
        return len(known)
    n = 0
    for row, token in zip(pass_.rows, known, strict=False):
        if row != token:
            break
        n += 1
    return n


def step(state: State, pass_: Pass, answer: Sequence[int]) -> State:
    """The state after `pass_` was answered with the argmax after each of its last `want` rows.

    Raises ValueError, and changes nothing, when the text has ended, when the pass keeps rows that are not
    cached, when the number of answers is not `want`, when the answer behind the last known token was not
    wanted, when it is no token, or when the pass gets nowhere: it adds no token and no cached row, and is
    not the first wrong guess in a row.

    >>> state = State.start([7, 8], n_tokens=4)
    >>> state = step(state, Pass(0, (7, 8), 1), [1])
    >>> state = step(state, Pass(2, (1, 2, 5), 3), [2, 3, 9])  # 2 was right, 5 should have been 3
    >>> state.tokens, state.cached, state.guessed, state.accepted
    (Tokens([7, 8, 1, 2, 3]), 4, 2, 1)
    """
    keep, rows, want = pass_.keep, pass_.rows, pass_.want
    tokens, known = state.tokens, state.tokens.length
    unanswered = len(rows) - want
    if state.ended:
        raise ValueError("the text has ended: no pass can follow")
    if keep > state.cached:
        raise ValueError(f"the pass keeps {keep} cached rows, but only {state.cached} are there")
    if len(answer) != want:
        raise ValueError(f"{want} answers were wanted, {len(answer)} were given")
    if keep + unanswered >= known:
        raise ValueError(f"the answer after position {known - 1} continues the text, but is not wanted")

    sure = right = known_rows(state, pass_)
    fresh: list[int] = []
    if keep + sure == known:  # all that is known is cached: from here on each answer continues the text
        token = answer[right - 1 - unanswered]
        fresh.append(token)
        while right < len(rows) and rows[right] == token:
            right += 1
            if not state.overrun and (known + len(fresh) >= state.goal or token in state.stops):
                break
            token = answer[right - 1 - unanswered]
            fresh.append(token)
        if token < 0 and not state.overrun:
            raise ValueError(f"the answer {token} is no token: does the text end before the goal {state.goal}?")
    # A first wrong guess may waste its pass, as `re-anchor` does; so every run ends.
    elif keep + right <= state.cached and (state.guessed or sure == len(rows)):
        raise ValueError(f"the pass {pass_} gets nowhere")
    return State(
        tokens.extended(fresh) if fresh else tokens,
        keep + right,
        state.goal,
        state.prompt,
        state.stops,
        state.overrun,
        keep,
        len(rows) - sure,
        right - sure,
    )
