"""Texts from what users have: plain text, token ids, chat logs; a line or a piece at a time, whatever the size.

    text    a plain text, cut into pieces; each piece's first tokens are its prompt
    ids     JSON lines of token ids
    chat    JSON lines as OpenAI-style servers log them      (both: validate.logs)

Text and chats are tokenised by a GGUF's own vocabulary: the counts of a log belong to another tokenizer. A stop token
is put behind a reply only where the log says that it ended by one (`finish_reason` stop). Such a text was not written
greedily by this model: what is predicted from it holds for texts like it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from sim.trace import Header, Text, lines
from validate.files import writing
from validate.logs import Logged, end_of_turn, made_text, of_chat, of_ids
from validate.models import model_hash
from validate.progress import Advance, quiet

if TYPE_CHECKING:
    from validate.llama import Model

KINDS = ("text", "ids", "chat")
SOURCE = "imported"
LOOKED_AT = 1 << 20
IDS = re.compile(rb'(\{(\s*"\w+"\s*:\s*("[^"]*"|\d+)\s*,)*\s*"(tokens|prompt)"\s*:\s*)?\[\s*\d+\s*,')
"""How a line of token ids begins, for one that is broken or longer than what is looked at."""


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """What came in."""

    kind: str
    n_texts: int
    n_tokens: int
    n_skipped: int


def kind_of(path: Path) -> str:
    """What a file holds, by its first line, or as much of it as is looked at."""
    try:
        with path.open("rb") as file:
            first = file.read(LOOKED_AT).removeprefix(b"\xef\xbb\xbf").lstrip().partition(b"\n")[0]
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from error
    try:
        value = msgspec.json.decode(first)
    except msgspec.MsgspecError:
        if IDS.match(first):
            return "ids"
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
    if kind not in (None, *KINDS):
        raise ValueError(f"{kind!r} is no kind of log: it is one of {', '.join(KINDS)}")
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

    with _vocabulary(model if kind != "ids" else None) as vocabulary, writing(out) as file:
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
            yield made_text(f"{path.stem} {number}", ids, n_prompt or 64, tuple(sorted(vocabulary.stops))), read
        return
    end = end_of_turn(vocabulary) if vocabulary is not None else 0
    for number, line in lines(path):
        read += len(line) + 1
        name = f"{path.stem} {number}"
        try:
            if vocabulary is None:
                text = of_ids(line, name, n_prompt)
            else:
                text = of_chat(msgspec.json.decode(line, type=Logged), name, vocabulary, end)
        except (msgspec.MsgspecError, ValueError) as error:
            broken(number, error)
            continue
        yield text, read


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
