"""The decorator `jit`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, overload

from ...base.errors import ArgumentError
from .dynamic import DynamicCompiled
from .public import COMPILE, Fixed, with_fixed
from .trace import Compiled

if TYPE_CHECKING:

    @overload
    def jit(
        function: None = None,
        *,
        target: Any = "cpu",
        static_argnames: str | Sequence[str] = (),
        device: str | None = None,
        dynamic_shapes: Any = None,
        dynamic: bool = False,
        tune: int | None = None,
    ) -> Callable[[Callable[..., Any]], Any]: ...

    @overload
    def jit(
        function: Callable[..., Any],
        *,
        target: Any = "cpu",
        static_argnames: str | Sequence[str] = (),
        device: str | None = None,
        dynamic_shapes: Any = None,
        dynamic: bool = False,
        tune: int | None = None,
    ) -> Any: ...


def jit(
    function: Callable[..., Any] | None = None,
    *,
    target: Any = "cpu",
    static_argnames: str | Sequence[str] = (),
    device: str | None = None,
    dynamic_shapes: Any = None,
    dynamic: bool = False,
    tune: int | None = None,
) -> Any:
    """Compile a NumPy-style function.

    The function is traced once for each combination of shapes and types: it may use Python
    freely, as long as no decision depends on the values of arrays. Arrays may come as NumPy
    arrays, PyTorch CPU tensors or anything with `__dlpack__` or `__array_interface__`, in nested
    tuples, lists and dictionaries; results are NumPy arrays (tensors, if tensors came in).
    Python floats are traced; integers, strings, booleans and None are part of the program.

    Args:
        function: of arrays and Python values.
        target: what to compile for.
        static_argnames: parameters that are part of the program: a new value compiles anew.
        device: "emulator" runs code for the target "cuda" on the CPU; see `tileloom.simt`.
        dynamic_shapes: dimensions that one program serves all sizes of, by parameter:
            `{"x": {0: batch, 1: seq}}`, with a `Dim` for each; or in the order of the parameters.
            See `Dim` and docs/dynamic.md.
        dynamic: every dimension of every array is such a dimension, but for those of size 0 or 1;
            dimensions that agree in the first call have to agree.
        tune: candidates to measure for each program before it is compiled, over all of its kernels
            of which nothing was tuned yet; see docs/tuning.md.

    >>> import numpy as np, tileloom
    >>> @tileloom.jit
    ... def scale(x, by):
    ...     return tileloom.numpy.exp(x) * by
    >>> scale(np.zeros(3, "float32"), 2.0)
    array([2., 2., 2.], dtype=float32)
    """
    names = (static_argnames,) if isinstance(static_argnames, str) else tuple(static_argnames)

    def compiled(inner: Callable[..., Any]) -> Compiled:
        if dynamic or dynamic_shapes is not None:
            if tune is not None:
                raise ArgumentError("kernels of open sizes cannot be tuned", hint="leave tune out")
            return DynamicCompiled(inner, target, names, device, dynamic_shapes)
        return Compiled(inner, target, names, device, tune)

    return compiled if function is None else compiled(function)


@lru_cache(4096)
def _eager(function: Callable[..., Any], fixed: tuple[Fixed, ...]) -> Compiled:
    """An array function of its arrays, with all other arguments fixed."""
    return Compiled(with_fixed(function, fixed), "cpu", ())


COMPILE[:] = [_eager]
