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
from llvmlite import ir as _ir
from numba.core import cgutils as _cgutils
from numba.core import types
from numba.extending import intrinsic

ir: Any = _ir  # neither tells its types
cgutils: Any = _cgutils

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def compiled(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """The function as machine code, made at its first call and kept on disk."""
    return cast("Callable[Parameters, Result]", numba.njit(cache=True, nogil=True)(function))


def _prefetch(_: Any, array: Any, index: Any) -> Any:

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        made = context.make_array(signature.args[0])(context, builder, arguments[0])
        first = [arguments[1], *[context.get_constant(types.intp, 0)] * (signature.args[0].ndim - 1)]
        place = cgutils.get_item_pointer(context, builder, signature.args[0], made, first, wraparound=False)
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [place.type, number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch", [place.type], kind)
        builder.call(function, [place, number(0), number(3), number(1)])  # to read, and to keep in all caches: data
        return context.get_dummy_value()

    return types.void(array, types.intp), code


prefetch = cast("Callable[[Any, Any], None]", intrinsic(_prefetch))
"""`prefetch(array, i)`, in compiled code: have the cache line fetched where line i of an array begins.

A table larger than the caches is waited for at every look-up, unless those to come are asked for in time.
"""


def is_ready(*functions: Callable[..., Any]) -> bool:
    """Whether each was called before, or lies on disk, made from its source as it is now."""
    return all(_is_ready(cast("Any", function)) for function in functions)


def _is_ready(function: Any) -> bool:
    if function.signatures:
        return True
    source = Path(function.py_func.__code__.co_filename)
    kept = Path(function.stats.cache_path).glob(f"{source.stem}.{function.__name__}-*.nbi")
    return any(file.stat().st_mtime >= source.stat().st_mtime for file in kept)
