"""numba, in one place: how a function is compiled, and whether that is still to be done.

What is compiled is kept on disk (beside the module, or in numba's own cache folder where that cannot be
written), so only the very first use after an installation pays for it. What a compiled function calls lies in
its own file: numba looks at no other to see whether what it kept is still right.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import numba

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def compiled(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """The function as machine code, made at its first call and kept on disk."""
    return cast("Callable[Parameters, Result]", numba.njit(cache=True, nogil=True)(function))


def is_ready(*functions: Callable[..., Any]) -> bool:
    """Whether each was called before, or lies on disk, made from its source as it is now."""
    return all(_is_ready(cast("Any", function)) for function in functions)


def _is_ready(function: Any) -> bool:
    if function.signatures:
        return True
    source = Path(function.py_func.__code__.co_filename)
    kept = Path(function.stats.cache_path).glob(f"{source.stem}.{function.__name__}-*.nbi")
    return any(file.stat().st_mtime >= source.stat().st_mtime for file in kept)
