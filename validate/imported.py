"""Texts from what users have: plain text, token ids, chat logs; a line or a piece at a time, whatever the size.

    text    a plain text, cut into pieces; each piece's first tokens are its prompt
    ids     JSON lines {"tokens": [...], "n_prompt": 12}, {"prompt": [...], "completion": [...]} or [...]
    chat    JSON lines {"messages": [...]} or {"request": {...}, "response": {...}}, as OpenAI-style servers log them

Text and chats are tokenised by a GGUF's own vocabulary: the counts of a log belong to another tokenizer. A stop token
is put behind a reply only where the log says that it ended by one (`finish_reason` stop). Such a text was not written
greedily by this model: what is predicted from it holds for texts like it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import msgspec

from sim.trace import Header, Text, lines
from validate.files import check_writable
from validate.models import model_hash
from validate.progress import Advance, quiet

if TYPE_CHECKING:
    from validate.llama import Model

KINDS = ("text", "ids", "chat")
SOURCE = "imported"
LOOKED_AT = 1 << 20


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


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """What came in."""

    kind: str
    n_texts: int
    n_tokens: int
    n_skipped: int


def kind_of(path: Path) -> str:
    """What a file holds, by its first line."""
    try:
        with path.open("rb") as file:
            first = file.read(LOOKED_AT).removeprefix(b"\xef\xbb\xbf").lstrip().partition(b"\n")[0]
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from error
    try:
        value = msgspec.json.decode(first)
    except msgspec.MsgspecError:
        return "chat" if first.startswith(b'{"') else "text"
    if isinstance(value, list) or (
        isinstance(value, dict) and isinstance(value.get("tokens", value.get("prompt")), list)
    ):
        return "ids"
    return "chat" if isinstance(value, dict) else "text"


def import_texts(
    path: Path,
    out: Path,
    model: Path | None,
    *,
    kind: str | None = None,
    n_prompt: int | None = None,
    n_characters: int = 16_384,
    skip_broken: bool = False,
    advance: Advance = quiet,
) -> Imported:
    """Import a file; the text file is there whole or not at all.

    Raises ValueError naming the line that is broken (skipped and counted if asked), when a model is needed and not
    given, when a text is no longer than its prompt, and when nothing comes in.
    """
    looks_like = kind_of(path)
    kind = kind or looks_like
    if kind != "ids" and model is None:
        raise ValueError(f"{path} holds {kind}, whose tokens are a model's: give its GGUF with --model")
    counts = {"texts": 0, "tokens": 0, "skipped": 0}
    size = max(path.stat().st_size, 1)

    def broken(number: int, error: Exception) -> None:
        if not skip_broken:
            raise ValueError(f"{path}, line {number}: {error} (--skip-broken leaves such lines out)") from error
        counts["skipped"] += 1

    with _vocabulary(model if kind != "ids" else None) as vocabulary, _written(out) as file:
        header = Header(source=SOURCE)
        if vocabulary is not None and model is not None:
            header = Header(model=model.name, model_hash=model_hash(model), n_vocab=vocabulary.n_vocab, source=SOURCE)
        file.write(msgspec.json.encode(header) + b"\n")
        names: set[str] = set()
        for text, done in _texts(path, kind, vocabulary, n_prompt, n_characters, broken):
            if text.name in names:
                raise ValueError(f"{path} holds two texts named {text.name!r}; name each differently")
            names.add(text.name)
            file.write(msgspec.json.encode(text) + b"\n")
            counts["texts"] += 1
            counts["tokens"] += len(text.tokens)
            advance(f"importing {path.name}", min(done, size), size)
        if not counts["texts"]:
            raise ValueError(f"{path} holds no text that could be imported")
    return Imported(kind=kind, n_texts=counts["texts"], n_tokens=counts["tokens"], n_skipped=counts["skipped"])


def _texts(
    path: Path,
    kind: str,
    vocabulary: Model | None,
    n_prompt: int | None,
    n_characters: int,
    broken: Callable[[int, Exception], None],
) -> Iterator[tuple[Text, int]]:
    """The texts of a file, each with about how many bytes were read."""
    read = 0
    if kind == "text":
        assert vocabulary is not None
        for number, piece in enumerate(pieces(path, n_characters), 1):
            read += len(piece)
            ids = vocabulary.tokenize(piece)
            if len(ids) <= (n_prompt or 64) and number > 1:
                continue  # the rest of the file, too short to be a text
            yield _text(f"{path.stem} {number}", ids, n_prompt or 64, tuple(sorted(vocabulary.stops))), read
        return
    end = _end_of_turn(vocabulary) if vocabulary is not None else 0
    for number, line in lines(path):
        read += len(line) + 1
        name = f"{path.stem} {number}"
        try:
            if vocabulary is None:
                text = _of_ids(line, name, n_prompt)
            else:
                text = _of_chat(msgspec.json.decode(line, type=Logged), name, vocabulary, end)
        except (msgspec.MsgspecError, ValueError) as error:
            broken(number, error)
            continue
        yield text, read


def _of_ids(line: str, name: str, n_prompt: int | None) -> Text:
    numbered = msgspec.json.decode(line, type=Numbered | list[int])
    if isinstance(numbered, list):
        numbered = Numbered(tokens=numbered)
    ids = numbered.tokens or [*numbered.prompt, *numbered.completion]
    given = len(numbered.prompt) or numbered.n_prompt or n_prompt
    if given is None:
        raise ValueError("it does not say where the prompt ends: give n_prompt in the line, or --prompt-tokens")
    return _text(numbered.name or name, ids, given, tuple(numbered.stop))


def _of_chat(logged: Logged, name: str, vocabulary: Model, end: int) -> Text:
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
    return _text(logged.name or name, [*ids, *rest, *([end] if finished else [])], len(ids), stop)


def _text(name: str, ids: list[int], n_prompt: int, stop: tuple[int, ...]) -> Text:
    if len(ids) <= n_prompt or n_prompt < 1:
        raise ValueError(f"the text {name!r} has {len(ids)} tokens and is no longer than its prompt of {n_prompt}")
    if any(token < 0 for token in ids):
        raise ValueError(f"the text {name!r} holds {min(ids)}, which is no token id")
    return Text(name=name, n_prompt=n_prompt, tokens=tuple(ids), stop=stop)


def _end_of_turn(vocabulary: Model) -> int:
    """The token that ends a reply: what the chat template puts behind one, or the first of the stop tokens."""
    try:
        shown = vocabulary.chat([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}])
    except ValueError:
        shown = ""
    ids = vocabulary.tokenize(shown[shown.rfind("b") :], special=True) if shown else []
    after = [token for token in ids if token in vocabulary.stops]
    return after[0] if after else min(vocabulary.stops, default=0)


def pieces(path: Path, n_characters: int) -> Iterator[str]:
    """A text file in pieces of about so many characters, cut at a line's end, or else a word's, where there is one.

    Raises ValueError when it is not UTF-8.
    """
    try:
        with path.open(encoding="utf-8-sig") as file:
            left = ""
            while more := file.read(n_characters):
                left += more
                while len(left) >= n_characters:
                    cut = max(left.rfind("\n", 0, n_characters), 0) or max(left.rfind(" ", 0, n_characters), 0)
                    yield left[: cut + 1 or n_characters] if cut else left[:n_characters]
                    left = left[cut + 1 :] if cut else left[n_characters:]
            if left.strip():
                yield left
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: the file is not UTF-8; save it as UTF-8") from error
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from error


@contextmanager
def _vocabulary(path: Path | None) -> Iterator[Model | None]:
    if path is None:
        yield None
        return
    from validate.llama import Model
    from validate.models import check_gguf

    check_gguf(path)
    with Model(path) as model:
        yield model


@contextmanager
def _written(path: Path) -> Iterator[IO[bytes]]:
    """A file that takes its place when all is written, and leaves nothing when that fails."""
    check_writable(path)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
