"""The shapes in which other programs log token ids and conversations, and the recorded text that each line is.

ids     {"tokens": [...], "n_prompt": 12}, {"prompt": [...], "completion": [...]} or [...]
chat    {"messages": [...]}, {"request": {...}, "response": {...}} or {"prompt": "...", "completion": "..."}
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from sim.trace import Text

if TYPE_CHECKING:
    from validate.llama import Model


class Turn(msgspec.Struct, frozen=True):
    """One message; its content may come in parts, of which those of text count."""

    role: str
    content: str | list[dict[str, Any]] | None = None

    @property
    def text(self) -> str:
        """What it says."""
        if isinstance(self.content, list):
            return "".join(str(part.get("text", "")) for part in self.content)
        return self.content or ""


class Reply(msgspec.Struct, frozen=True):
    """One choice of a response."""

    message: Turn | None = None
    text: str = ""
    finish_reason: str | None = None


class Asked(msgspec.Struct, frozen=True):
    """A request: messages or a plain prompt."""

    messages: list[Turn] = []
    prompt: str = ""


class Response(msgspec.Struct, frozen=True):
    """A response, of which the first choice counts."""

    choices: list[Reply] = []


class Logged(msgspec.Struct, frozen=True):
    """A line of a chat log, in any of the shapes above."""

    name: str = ""
    request: Asked | None = None
    response: Response | None = None
    messages: list[Turn] = []
    prompt: str = ""
    completion: str = ""


class Numbered(msgspec.Struct, frozen=True):
    """A line of token ids."""

    tokens: list[int] = []
    prompt: list[int] = []
    completion: list[int] = []
    n_prompt: int | None = None
    name: str = ""
    stop: list[int] = []


def of_ids(line: str, name: str, n_prompt: int | None) -> Text:
    numbered = msgspec.json.decode(line, type=Numbered | list[int])
    if isinstance(numbered, list):
        numbered = Numbered(tokens=numbered)
    ids = numbered.tokens or [*numbered.prompt, *numbered.completion]
    given = len(numbered.prompt) or numbered.n_prompt or n_prompt
    if given is None:
        raise ValueError("it does not say where the prompt ends: give n_prompt in the line, or --prompt-tokens")
    return made_text(numbered.name or name, ids, given, tuple(numbered.stop))


def of_chat(logged: Logged, name: str, vocabulary: Model, end: int) -> Text:
    """The text of a logged conversation: all before the last reply is the prompt."""
    asked = logged.request or Asked(logged.messages, logged.prompt)
    turns, prompt, reply, finished = list(asked.messages), asked.prompt, logged.completion, False
    if logged.response is not None and logged.response.choices:
        choice = logged.response.choices[0]
        reply = choice.message.text if choice.message else choice.text
        finished = choice.finish_reason == "stop"
    elif not reply and turns and turns[-1].role == "assistant":
        reply = turns.pop().text
    if not reply:
        raise ValueError("there is no reply in it, no text of the assistant's behind the prompt")
    if not turns and not prompt:
        raise ValueError("there is no prompt in it: neither messages nor a prompt before the reply")
    shown = vocabulary.chat([{"role": turn.role, "content": turn.text} for turn in turns]) if turns else prompt
    ids = vocabulary.tokenize(shown, special=bool(turns))
    start = vocabulary.tokenize("")
    rest = vocabulary.tokenize(reply)
    rest = rest[len(start) :] if rest[: len(start)] == start else rest
    stop = tuple(sorted(vocabulary.stops))
    return made_text(logged.name or name, [*ids, *rest, *([end] if finished else [])], len(ids), stop)


def made_text(name: str, ids: list[int], n_prompt: int, stop: tuple[int, ...]) -> Text:
    if len(ids) <= n_prompt or n_prompt < 1:
        raise ValueError(f"the text {name!r} has {len(ids)} tokens and is no longer than its prompt of {n_prompt}")
    if any(token < 0 for token in ids):
        raise ValueError(f"the text {name!r} holds {min(ids)}, which is no token id")
    return Text(name=name, n_prompt=n_prompt, tokens=tuple(ids), stop=stop)


def end_of_turn(vocabulary: Model) -> int:
    """The token that ends a reply: what the chat template puts behind one, or the first of the stop tokens."""
    try:
        shown = vocabulary.chat([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}])
    except ValueError:
        shown = ""
    ids = vocabulary.tokenize(shown[shown.rfind("b") :], special=True) if shown else []
    after = [token for token in ids if token in vocabulary.stops]
    return after[0] if after else min(vocabulary.stops, default=0)
