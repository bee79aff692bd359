"""Files that are there whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, TypeVar

import msgspec

from sim.trace import Versioned, check_version

Document = TypeVar("Document", bound=Versioned)


def check_writable(path: Path) -> None:
    """Raise ValueError, naming the folder, when `path` could not be written; makes its folder if need be."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise ValueError(f"{path.parent} cannot be written: {error.strerror}; choose another --out") from error
    if path.is_dir():
        raise ValueError(f"{path} is a folder: name a file for --out")


@contextmanager
def writing(path: Path) -> Iterator[IO[bytes]]:
    """A file beside its place, moved there when all is written, so that no half file is ever seen; or nothing."""
    check_writable(path)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def write(path: Path, data: bytes) -> None:
    """Write a whole file, or nothing."""
    with writing(path) as file:
        file.write(data)


def write_json(path: Path, value: Any) -> None:
    """Write a value as a JSON document that people can read, too."""
    write(path, msgspec.json.format(msgspec.json.encode(value), indent=1))


def document(path: Path, kind: type[Document], version: tuple[str, int], what: str, cure: str) -> Document:
    """The JSON document in a file; ValueError naming the file, and the cure, when it is not `what` of this version."""
    try:
        found = msgspec.json.decode(path.read_bytes(), type=kind)
        check_version(found, version)
    except (OSError, msgspec.MsgspecError, ValueError) as error:
        raise ValueError(f"{path} cannot be read as {what}: {error}; {cure}") from error
    return found


def append(path: Path, line: bytes) -> None:
    """Add one line and see it on disk before anything else is done; cuts what a killed writer left half-written."""
    with path.open("r+b" if path.exists() else "w+b") as file:
        file.seek(_whole(path) if path.exists() else 0)
        file.truncate()
        file.write(line + b"\n")
        file.flush()
        os.fsync(file.fileno())


def _whole(path: Path) -> int:
    """The length of a file up to its last line end."""
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        while end:
            begin = max(end - 65536, 0)
            file.seek(begin)
            if (at := file.read(end - begin).rfind(b"\n")) >= 0:
                return begin + at + 1
            end = begin
    return 0


def cut_half_line(path: Path) -> None:
    """Drop a last line without a line end: a writer was killed in the middle of it."""
    if path.exists() and (end := _whole(path)) < path.stat().st_size:
        os.truncate(path, end)
