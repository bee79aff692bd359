"""Is this a whole GGUF model? Header, keys and tensor table walked byte by byte, so that damage has a name.

The format is that of ggml's docs/gguf.md: magic, version, counts; keys with typed values; a tensor table with names,
shapes, types and offsets; the weights. Nothing is read that the file does not hold, and no weight is read at all.
"""

from __future__ import annotations

import mmap
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

PART = re.compile(r"^(.*-)(\d{5})-of-(\d{5})\.gguf$")
VERSIONS = (2, 3)
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9
MAX_DIMENSIONS, MAX_ALIGNMENT = 4, 1 << 20


@dataclass(slots=True)
class _Walk:
    """A place in a file's bytes; ValueError past their end."""

    data: mmap.mmap | bytes
    at: int = 0

    def number(self, code: str) -> Any:
        (value,) = struct.unpack_from("<" + code, self._next(struct.calcsize("<" + code)))
        return value

    def string(self) -> bytes:
        return bytes(self._next(self.number("Q")))

    def _next(self, size: int) -> bytes:
        if size > len(self.data) - self.at:
            raise ValueError("it is cut short in its header")
        self.at += size
        return self.data[self.at - size : self.at]

    def value(self, kind: int) -> Any:
        """A key's value; of an array only its length."""
        if kind == STRING:
            return self.string().decode("utf-8", "replace")
        if kind != ARRAY:
            if kind not in SCALARS:
                raise ValueError(f"a key has a value of type {kind}, which does not exist")
            return self.number(SCALARS[kind])
        item, count = self.number("I"), self.number("Q")
        if item == STRING:
            for _ in range(self._fits(count, 8)):
                self._next(self.number("Q"))
        elif item in SCALARS:
            self._next(count * struct.calcsize("<" + SCALARS[item]))
        else:
            raise ValueError(f"a key has an array of type {item}, which does not exist")
        return count

    def _fits(self, count: int, size: int) -> int:
        if count * size > len(self.data) - self.at:
            raise ValueError("it is cut short in its header")
        return count


@dataclass(slots=True)
class Header:
    """What a file says of itself: its keys (of arrays the length), its tensors' names, and where its weights end."""

    keys: dict[str, Any] = field(default_factory=dict)
    tensors: list[str] = field(default_factory=list)
    end: int = 0


def parts(path: Path) -> list[Path]:
    """The files of a model: the one named, or all parts of `NAME-00001-of-00002.gguf` and its like."""
    match = PART.match(path.name)
    if match is None:
        return [path]
    stem, _, count = match.groups()
    return [path.with_name(f"{stem}{i + 1:05}-of-{count}.gguf") for i in range(int(count))]


def check_model(path: Path) -> None:
    """Raise ValueError, naming the file and what is wrong, when it is not a whole GGUF model, with all its parts."""
    files = parts(path)
    if len(files) > 1 and (missing := [part.name for part in files if not part.exists()]):
        raise ValueError(f"{path} is in {len(files)} parts, and {missing[0]} is not beside it")
    if path.name != files[0].name:
        raise ValueError(f"{path} is not the first part of its model: give {files[0].name}")
    headers = [read_header(part) for part in files]
    keys = headers[0].keys
    architecture = keys.get("general.architecture")
    if not architecture:
        raise ValueError(f"{path} names no architecture: it is not a model")
    if (n := int(keys.get("split.count", 1))) > len(files):
        raise ValueError(f"{path} holds one part of a model that is in {n} parts: name the first")
    if f"{architecture}.block_count" not in keys:
        raise ValueError(f"{path} has no {architecture}.block_count: its shapes cannot be known")
    if not any(name.startswith("blk.") for header in headers for name in header.tensors):
        raise ValueError(f"{path} has no layers: it holds a vocabulary without weights, give a model")


def read_header(path: Path) -> Header:
    """The header of one file; ValueError when the file is damaged."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            header = _walked(_Walk(data))
            if data[header.end : header.end + 4] == b"GGUF":
                raise ValueError("it is several files one behind the other: merge parts with llama-gguf-split --merge")
            return header
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror or error}") from None
    except ValueError as error:
        raise ValueError(f"{path} is not a whole GGUF file of known tensor types: {error}") from None


def _walked(walk: _Walk) -> Header:
    if len(walk.data) < 4 or walk.data[:4] != b"GGUF":
        raise ValueError("it does not start with GGUF")
    walk.at = 4
    version = walk.number("I")
    if version and version % (1 << 16) == 0:
        raise ValueError("it is of the other byte order: convert it to little-endian")
    if version not in VERSIONS:
        raise ValueError(f"its version is {version}, known are {' and '.join(map(str, VERSIONS))}: convert it again")
    n_tensors, n_keys = walk.number("Q"), walk.number("Q")
    room = len(walk.data) - walk.at
    for what, count, least in (("keys", n_keys, 13), ("tensors", n_tensors, 24)):
        if count * least > room:
            raise ValueError(f"its header counts {count} {what}, more than the file has room for")
    header = Header()
    for _ in range(n_keys):
        name = walk.string().decode("utf-8", "replace")
        if name in header.keys:
            raise ValueError(f"the key {name} is there twice")
        header.keys[name] = walk.value(walk.number("I"))
    tensors = list(_tensors(walk, n_tensors))
    header.tensors = [name for name, _, _ in tensors]
    if len(set(header.tensors)) < n_tensors:
        raise ValueError("two tensors have the same name")
    header.end = _end(walk, header.keys.get("general.alignment", 32), tensors)
    return header


def _tensors(walk: _Walk, n_tensors: int) -> Iterator[tuple[str, int, int]]:
    """Name, bytes and offset of each tensor."""
    try:
        from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
    except ImportError:
        raise ValueError("reading a GGUF needs the gguf package: pip install gguf") from None
    sizes = {int(kind): GGML_QUANT_SIZES[kind] for kind in GGMLQuantizationType}
    for _ in range(n_tensors):
        name = walk.string().decode("utf-8", "replace")
        rank = walk.number("I")
        if not 1 <= rank <= MAX_DIMENSIONS:
            raise ValueError(f"the tensor {name} has {rank} dimensions")
        shape = [walk.number("Q") for _ in range(rank)]
        kind, offset = walk.number("I"), walk.number("Q")
        if kind not in sizes:
            raise ValueError(f"the tensor {name} is of type {kind}")
        block, size = sizes[kind]
        if min(shape) < 1 or shape[0] % block:
            raise ValueError(f"the tensor {name} of shape {shape} cannot be: its rows are no whole blocks of {block}")
        yield name, prod(shape) // block * size, offset


def _end(walk: _Walk, alignment: Any, tensors: list[tuple[str, int, int]]) -> int:
    """Where the weights end."""
    if alignment.__class__ is not int or not 1 <= alignment <= MAX_ALIGNMENT or alignment & (alignment - 1):
        raise ValueError(f"its alignment {alignment!r} is no power of two")
    begin = end = -(-walk.at // alignment) * alignment
    for name, size, offset in tensors:
        if offset % alignment:
            raise ValueError(f"the tensor {name} does not lie on a multiple of {alignment} bytes")
        if begin + offset + size > len(walk.data):
            missing = begin + offset + size - len(walk.data)
            raise ValueError(f"it is cut short: the tensor {name} reaches {missing} bytes past its end")
        end = max(end, begin + -(-(offset + size) // alignment) * alignment)
    return end
