"""The recorded-text file: JSON lines, one text a line, prompt first.

    {"name": "list", "n_prompt": 28, "tokens": [501, 502, ...], "stop": [2]}

Greedy output does not depend on the loop, so such a text is a complete model for every loop and drafter. A first line
with a `format` says where the texts come from; bare lines are taken as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec

from sim.penalties import NONE, Penalties

FORMAT, VERSION = "sweepcap-texts", 1


class Versioned(Protocol):
    """What says which format it is in."""

    @property
    def format(self) -> str: ...

    @property
    def version(self) -> int: ...


Head = TypeVar("Head", bound=Versioned)
Line = TypeVar("Line")


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """Where the texts come from: the model that wrote them, by name and SHA-256, and its vocabulary's size.

    penalties   what the model's logits went through: part of what wrote the text
    replays     the model's memory cannot be cut back (recurrent, hybrid): wrong drafts are undone and replayed
    """

    model: str = ""
    model_hash: str = ""
    n_vocab: int = 0
    source: str = "recorded"
    penalties: Penalties = NONE
    replays: bool = False
    format: str = FORMAT
    version: int = VERSION


class Text(msgspec.Struct, frozen=True, kw_only=True):
    """One recorded greedy text: `tokens` with the prompt's `n_prompt` first, and the ids that `stop` it.

    >>> Text(name="a", n_prompt=2, tokens=(5, 6, 7)).n_tokens
    1
    """

    name: str
    n_prompt: int
    tokens: tuple[int, ...]
    stop: tuple[int, ...] = ()
    prompt: str = ""

    def __post_init__(self) -> None:
        if not 1 <= self.n_prompt <= len(self.tokens):
            raise ValueError(
                f"n_prompt {self.n_prompt} must be between 1 and the {len(self.tokens)} tokens of the text"
            )

    @property
    def n_tokens(self) -> int:
        """How many tokens were generated."""
        return len(self.tokens) - self.n_prompt

    @property
    def stopped(self) -> bool:
        """Whether a stop token ended it, before as many tokens as were asked for perhaps."""
        return self.n_tokens > 0 and self.tokens[-1] in self.stop


def lines(path: Path) -> Iterator[tuple[int, str]]:
    """The numbered non-empty lines of a UTF-8 file, without byte-order mark or line ends; a few at a time.

    Raises ValueError naming the file, and the line where it is not UTF-8.
    """
    try:
        with path.open("rb") as file:
            for number, raw in enumerate(file, 1):
                try:
                    line = raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
                except UnicodeDecodeError as error:
                    raise ValueError(f"{path}, line {number}: the file is not UTF-8; save it as UTF-8") from error
                if line.strip():
                    yield number, line
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from error


def headed(
    path: Path, head: type[Head], line: type[Line], version: tuple[str, int], what: str
) -> tuple[Head, list[Line]]:
    """The header of a file of JSON lines, and its other lines.

    Raises ValueError, naming the line, where it is not `what`, and where the header is of another format or version.
    """
    header, found = None, list[Line]()
    for number, words in lines(path):
        try:
            if header is None:
                header = msgspec.json.decode(words, type=head)
                check_version(header, version)
            else:
                found.append(msgspec.json.decode(words, type=line))
        except (msgspec.MsgspecError, ValueError) as error:
            raise ValueError(f"{path}, line {number}: not {what}: {error}; measure again") from error
    if header is None:
        raise ValueError(f"{path} is empty; measure again")
    return header, found


def check_version(given: Versioned, ours: tuple[str, int]) -> None:
    """Raise ValueError when something is of another format or version than this program reads."""
    if (given.format, given.version) != ours:
        raise ValueError(f"format {given.format} version {given.version} is not {ours[0]} {ours[1]}")


def load(path: Path) -> tuple[Header, list[Text]]:
    """Header and texts of a file; ValueError naming the line that is broken."""
    header, texts = Header(source="given"), list[Text]()
    for number, line in lines(path):
        try:
            if not texts and '"format"' in line and "format" in msgspec.json.decode(line):
                header = msgspec.json.decode(line, type=Header)
                check_version(header, (FORMAT, VERSION))
            else:
                texts.append(msgspec.json.decode(line, type=Text))
        except (msgspec.MsgspecError, ValueError) as error:
            raise ValueError(f"{path}, line {number}: not a recorded text: {error}") from error
    if not texts:
        raise ValueError(f"{path} holds no text; record some with sweepcap record")
    names = [text.name for text in texts]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{path} holds two texts named {twice!r}; name each differently")
    return header, texts


def dumps(header: Header, texts: Iterable[Text]) -> bytes:
    """The file's bytes."""
    return b"".join(msgspec.json.encode(item) + b"\n" for item in (header, *texts))
