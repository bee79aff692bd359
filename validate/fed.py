"""Passes executed for their time alone: a recorded text gives the answers, the model only the seconds.

A dense model does the same work whatever its weights and its tokens are, so a model of random weights costs what a
trained one of its shapes costs. What it would write is noise, though: the loops are fed what another model wrote.
"""

from __future__ import annotations

from collections.abc import Sequence

from sim.answers import Answers, recorded
from sim.machine import Pass
from sim.trace import Text
from validate.llama import LlamaEngine


class FedEngine(LlamaEngine):
    """A `LlamaEngine` whose answers are those of the text that it follows."""

    _answers: Answers | None = None

    def follow(self, text: Text) -> None:
        """Answer from this text from now on; ValueError when the model has no such tokens."""
        if max(text.tokens) >= self.model.n_vocab:
            raise ValueError(
                f"the text {text.name!r} has the token {max(text.tokens)}, and {self.model.path.name} only"
                f" {self.model.n_vocab}: follow the text of a model with a smaller vocabulary"
            )
        self._answers = recorded(text.tokens)
        self.model.stops = frozenset(text.stop)

    def __call__(self, pass_: Pass) -> tuple[list[int], float]:
        """What the text says, and the seconds the pass took, the argmax that is thrown away included."""
        answer, seconds = super().__call__(pass_)
        told: Sequence[int] = self._answers(pass_) if self._answers else answer
        return list(told), seconds
