"""Decoding loops as choices of rows.

A loop looks at a state and names the rows of the next pass. Everything else, what is right, what stays
cached, when the text ends, is the one rule of `sim.machine`. `n_rows` (R) is the most rows a guessing pass
may have; compare loops at equal R. A loop is made by `make(propose, n_rows, clip=..., prompt=...)`:

    propose  the drafter, a pure function of the tokens so far
    clip     which part of a guess is fed: `useful` (default), `before_goal`, `before_stop` or `uncut`
    prompt   how the prompt goes in: `alone` (default), `together` with a guess, or the `last_apart`

The defaults never feed a row that cannot lead to a token. `replay(make)` is the same loop on memory that
cannot be cut. What each loop does with no, wrong, partly and fully right guesses: docs/loops.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Protocol, TypeAlias

from sim.machine import Loop, Pass, State

Propose: TypeAlias = "Callable[[Sequence[int]], Sequence[int]]"
Clip: TypeAlias = "Callable[[State, Sequence[int]], Sequence[int]]"
Prompt: TypeAlias = "Callable[[State], Pass | None]"
Choice: TypeAlias = "Callable[[State, Propose, int, Clip], Pass]"


class MakeLoop(Protocol):
    """A loop by its drafter and its row bound; clipping and prompt style have exact defaults."""

    def __call__(self, propose: Propose, n_rows: int, *, clip: Clip = ..., prompt: Prompt = ...) -> Loop:
        """The loop, a function from a state to the next pass."""
        ...


# Clipping: which part of a guess, the tokens behind all that is known, is fed.


def uncut(state: State, guess: Sequence[int]) -> Sequence[int]:
    """All of it (llama-cpp-python, llama.cpp `lookup`, SGLang)."""
    return guess


def before_goal(state: State, guess: Sequence[int]) -> Sequence[int]:
    """No row for the last wanted token, the answer of the row before it (llama-server's `remaining - 1`)."""
    return guess[: max(state.remaining - 1, 0)]


def before_stop(state: State, guess: Sequence[int]) -> Sequence[int]:
    """Only what stands before a stop token, and nothing when one token remains (HF transformers)."""
    if state.remaining <= 1:
        return ()
    if state.stops:
        for i, token in enumerate(guess):
            if token in state.stops:
                return guess[:i]
    return guess


def useful(state: State, guess: Sequence[int]) -> Sequence[int]:
    """Only rows that can lead to a token: before the goal and before a stop token."""
    return before_stop(state, before_goal(state, guess))


# Prompt styles: the pass of a state whose prompt is not all cached; None leaves it to the loop.


def alone(state: State) -> Pass | None:
    """The whole prompt in one pass, without a guess (llama-cpp-python, llama-server, vLLM)."""
    return _feed(state)


def together(state: State) -> Pass | None:
    """The prompt and the first guess in one pass (HF transformers, the original prompt-lookup code)."""
    return None


def last_apart(state: State) -> Pass | None:
    """All but the prompt's last token without an answer, then that token alone (llama.cpp `lookup`)."""
    last = state.prompt - 1
    if state.cached < last:
        return Pass(state.cached, tuple(state.tokens.items[state.cached : last]), 0)
    return _feed(state)


def _feed(state: State, guess: Sequence[int] = ()) -> Pass:
    """The pass that feeds what is due and, behind it, a guess."""
    due = state.tokens.items[state.cached : state.tokens.length]
    return Pass(state.cached, (*due, *guess), 1 + len(guess))


PADDING = 0
DUMMY = 100

# The loops: each a choice of the next pass once the prompt is in.


def _loop(least_rows: int) -> Callable[[Choice], MakeLoop]:
    """The maker of a loop from its choice of rows; the least R with which it can guess."""

    def making(choice: Choice) -> MakeLoop:
        @wraps(choice)
        def make(propose: Propose, n_rows: int, *, clip: Clip = useful, prompt: Prompt = alone) -> Loop:
            if n_rows < least_rows:
                raise ValueError(f"n_rows must be at least {least_rows} for this loop, not {n_rows}")

            def loop(state: State) -> Pass:
                first = prompt(state) if state.cached < state.prompt else None
                return first or choice(state, propose, n_rows, clip)

            return loop

        return make

    return making


def _ahead(state: State, propose: Propose, n_rows: int, clip: Clip) -> Sequence[int]:
    """A guess behind all that is known, as long as fits behind one due row."""
    return clip(state, propose(state.tokens)[: n_rows - 1])


def _behind_cache(state: State, propose: Propose, n_rows: int) -> Sequence[int]:
    """A guess from the cached text alone, which what is due has not been looked at for."""
    return propose(state.tokens[: state.cached])[:n_rows] if state.cached else ()


def _pre_checked(state: State, propose: Propose, n_rows: int, clip: Clip) -> Sequence[int]:
    """The gate: a guess from the cached text is kept, less what is due, if it starts with what is due."""
    due = state.tokens.items[state.cached : state.tokens.length]
    guess = _behind_cache(state, propose, n_rows)
    n_due = len(due)
    return clip(state, guess[n_due:]) if list(guess[:n_due]) == due else ()


@_loop(1)
def greedy(state: State, propose: Propose, n_rows: int, clip: Clip) -> Pass:
    """Plain decoding, one row a pass: everyone's baseline.

    Never guesses: `propose` is not looked at, and any R will do.
    """
    return _feed(state)


@_loop(2)
def gated(state: State, propose: Propose, n_rows: int, clip: Clip) -> Pass:
    """Pre-check, verify R rows, then a 1-row correction.

    The preprint's baseline (Zenodo 23990528; Aegean-TGE `--no-fuse`), R = 6.
    """
    return _feed(state, () if state.guessed else _pre_checked(state, propose, n_rows, clip))


@_loop(2)
def fused(state: State, propose: Propose, n_rows: int, clip: Clip) -> Pass:
    """As `gated`, but after a fully right guess the bonus token is row 0 of the next verify.

    The preprint's loop (Zenodo 23990528; Aegean-TGE), R = 6: 1 bonus and 5 drafts.
    """
    if not state.guessed:
        return _feed(state, _pre_checked(state, propose, n_rows, clip))
    return _feed(state, _ahead(state, propose, n_rows, clip) if state.accepted == state.guessed else ())


@_loop(2)
def fused_partial(state: State, propose: Propose, n_rows: int, clip: Clip) -> Pass:
    """As `fused`, but chained after any guess, right or wrong.

    The preprint's mixed-partial chaining, which it measured at 0.74x (Zenodo 23990528), R = 6.
    """
    choose = _ahead if state.guessed else _pre_checked
    return _feed(state, choose(state, propose, n_rows, clip))


@_loop(2)
def gated_held(state: State, propose: Propose, n_rows: int, clip: Clip) -> Pass:
    """As `gated` without a correction: the bonus is not emitted early, its logits wait for the next gate.

    No program's loop, R = 6: what a gate costs when nothing is thrown away.
    """
    return _feed(state, _pre_checked(state, propose, n_rows, clip))


@_loop(2)
def carry(state: State, propose: Propose, n_rows: int, clip: Clip) -> Pass:
    """The bonus token always rides as row 0 of the next pass.

    HF transformers 5.24.0 (generation/utils.py, `_assisted_decoding`; 10 drafts, R = 11), llama-cpp-python
    0.3.36 (`Llama.generate`; 10 drafts, R = 11), llama.cpp @0c1e57098 (examples/lookup; 3 drafts, R = 4,
    and llama-server since #17808), vLLM @adce4e9a (v1/spec_decode), TensorRT-LLM and mlx-lm.
    """
    return _feed(state, _ahead(state, propose, n_rows, clip))


@_loop(2)
def decode_then_speculate(state: State, propose: Propose, n_rows: int, clip: Clip) -> Pass:
    """After every guessing pass one row alone, else as `carry`.

    llama-server from November 2024 to December 2025 (tools/server/server.cpp @aa6192d3, before #17808): each
    turn decodes the sampled token, then verifies the one behind it with drafts; 16 drafts, R = 17.
    """
    return _feed(state, () if state.guessed else _ahead(state, propose, n_rows, clip))


@_loop(2)
def padded(state: State, propose: Propose, n_rows: int, clip: Clip) -> Pass:
    """As `carry`, but always R rows: the shape is fixed, so nothing is cut and zeros fill what was not found.

    SGLang n-gram speculation (ngram_worker @0037c142), R = its `draft_token_num`.
    """
    guess = _ahead(state, propose, n_rows, uncut)
    return _feed(state, (*guess, *[PADDING] * (n_rows - 1 - len(guess))))


@_loop(2)
def dummy(state: State, propose: Propose, n_rows: int, clip: Clip) -> Pass:
    """As `carry`, but at least 2 rows: where nothing is guessed, token 100 is.

    The original prompt-lookup code (@cada4fe6; 10 drafts, R = 11) and REST (@50a5fc19).
    """
    return _feed(state, _ahead(state, propose, n_rows, clip) or (DUMMY,))


@_loop(2)
def re_anchor(state: State, propose: Propose, n_rows: int, clip: Clip) -> Pass:
    """Verify a guess from the cached text without a gate, then the last token alone.

    ONNX Runtime GenAI's legacy path (speculative_decoding_strategy.cpp @016cf0ba; 4 drafts, R = 4): the
    logits for the first draft are in hand, but it is judged after the pass, so a wrong one wastes all of
    it.
    """
    if state.guessed:
        return _feed(state)
    n_due = state.tokens.length - state.cached
    guess = _behind_cache(state, propose, n_rows)
    if len(guess) < n_due:
        return _feed(state)
    behind = clip(state, guess[n_due:])
    return Pass(state.cached, (*guess[:n_due], *behind), 1 + len(behind))


LOOPS: dict[str, MakeLoop] = {
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


def replay(make: MakeLoop) -> MakeLoop:
    """The same loop on memory that cannot be cut: a partly wrong pass is undone, its right rows fed again.

    Recurrent and hybrid models in llama.cpp @0c1e57098 (examples/speculative-simple, tools/server:
    checkpoint, restore, replay). The memory goes back to where it was before the pass (`State.checkpoint`),
    and is fed all that is known from there on, which brings one token more.
    """

    @wraps(make)
    def made(propose: Propose, n_rows: int, *, clip: Clip = useful, prompt: Prompt = alone) -> Loop:
        loop = make(propose, n_rows, clip=clip, prompt=prompt)

        def replaying(state: State) -> Pass:
            if state.accepted == state.guessed:
                return loop(state)
            return Pass(state.checkpoint, tuple(state.tokens.items[state.checkpoint : state.tokens.length]), 1)

        return replaying

    return made
