"""The meaning of tensor IR: a reference interpreter on NumPy arrays, for programs at all stages.

A function becomes one Python function, compiled once and kept. Loops of every kind run serially, so
a program needs no barriers to be run, and one that has them is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from ..base.dtype import wrap_int
from ..base.errors import ArgumentError, UserError, VerifyError
from ..expr import Expr, Var, free_vars
from ..expr.effects import CALL_FUNCTION
from ..expr.evaluate import evaluate
from . import run_support as support
from .nodes import Buffer, IRModule, PrimFunc
from .run_stmts import compile_func, head_variables

Array = np.ndarray[Any, Any]


def run(
    func: PrimFunc | IRModule,
    *args: Any,
    name: str | None = None,
    strict: bool = False,
    values: Mapping[Var, int] | None = None,
) -> Any:
    """Run a function on arrays and numbers, writing results into the arrays given.

    Args:
        func: a function, or a module and the `name` of the function in it.
        args: one for each parameter: an array for a buffer, a number for a scalar. Where a buffer
            has an offset, or is a flattened one, the array is the memory from its pointer on.
        strict: refuse to read memory that the program has not written; without it such memory
            holds NaN or 0xCD bytes.
        values: sizes that the arguments do not tell, as in flattened programs.

    Raises:
        ArgumentError: for arguments that do not fit the parameters.
        VerifyError: for accesses outside of a buffer and for broken programs.
        UnsupportedError: for calls without a meaning here, barriers among them.

    >>> from tileloom.expr import const
    >>> from tileloom.tir import BufferStore, For, make_buffer
    >>> A, i, p = make_buffer((4,), "int32", "A"), Var("i"), Var("p", "handle")
    >>> loop = For(i, const(0), const(4), "serial", BufferStore(A, i * i, (i,)))
    >>> f = PrimFunc((p,), loop, {p: A})
    >>> a = np.zeros(4, "int32"); run(f, a); a
    array([0, 1, 4, 9], dtype=int32)
    """
    chosen = _choose(func, name)
    main = _compiled(chosen, strict)
    with np.errstate(all="ignore"):
        given = match_arguments(chosen, args, values or {})
        given[CALL_FUNCTION] = lambda other, *numbers: run(
            func, *numbers, name=other, strict=strict
        )
        try:
            return main(given)
        except support.Return as result:
            return result.value
        except ZeroDivisionError as error:
            raise UserError(f"integer division by zero in {chosen.name!r}") from error
        except ValueError as error:
            raise ArgumentError(f"in {chosen.name!r}: {error}") from error


@lru_cache(maxsize=128)
def _compiled(func: PrimFunc, strict: bool) -> Callable[[Mapping[Any, Any]], Any]:
    return compile_func(func, strict)


def _choose(func: PrimFunc | IRModule, name: str | None) -> PrimFunc:
    if isinstance(func, PrimFunc):
        return func
    if name is None and len(func.functions) == 1:
        return next(iter(func.functions.values()))
    found = func.functions.get(name or "main")
    if found is None:
        names = ", ".join(sorted(func.functions))
        raise ArgumentError(f"no function {name or 'main'!r} in the module, which has: {names}")
    return found


# ---------------------------------------------------------------------------- arguments


def match_arguments(
    func: PrimFunc, args: tuple[Any, ...], values: Mapping[Var, int]
) -> dict[Any, Any]:
    """What `compile_func` wants: values of variables, memory of pointers, arrays of buffers."""
    if len(args) != len(func.params):
        raise ArgumentError(
            f"{func.name!r} takes {len(func.params)} arguments, got {len(args)}",
            hint=f"its parameters are {', '.join(p.name for p in func.params)}",
        )
    given: dict[Any, Any] = dict(values)
    arrays: list[tuple[Buffer, Array]] = []
    for param, arg in zip(func.params, args, strict=True):
        buffer = func.buffer_map.get(param)
        if buffer is not None:
            arrays.append((buffer, _check_array(buffer, arg)))
        elif param.dtype.is_handle:
            given[param] = support.flat_memory(np.asarray(arg))
        else:
            given[param] = _scalar(param, arg)
    # First what names sizes, then what uses them.
    raw = [_bind(buffer, array, given) for buffer, array in arrays]
    for (buffer, array), is_raw in zip(arrays, raw, strict=True):
        given[buffer] = _array_of(buffer, array, is_raw, given)
        memory = support.flat_memory(array)
        lanes = buffer.dtype.lanes
        given[buffer.data] = memory if lanes == 1 else memory.reshape(-1, lanes)
    for var in head_variables(func):
        if var not in given:
            raise ArgumentError(
                f"the arguments of {func.name!r} do not tell the value of {var.name!r}",
                hint="give it with `values={var: ...}`",
            )
    return given


def _scalar(param: Var, arg: Any) -> Any:
    kind = param.dtype
    try:
        if kind.is_float:
            return kind.numpy.type(arg)
        return bool(arg) if kind.is_bool else wrap_int(int(arg), kind)
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"parameter {param.name!r} is a {kind}, got {arg!r}") from error


def _check_array(buffer: Buffer, arg: Any) -> Array:
    if not isinstance(arg, np.ndarray):
        raise ArgumentError(f"buffer {buffer.name!r} needs an array, got {type(arg).__name__}")
    if arg.dtype != buffer.dtype.numpy:
        raise ArgumentError(
            f"buffer {buffer.name!r} has elements of {buffer.dtype}, got an array of {arg.dtype}"
        )
    if buffer.dtype.lanes > 1 and arg.shape[-1:] != (buffer.dtype.lanes,):
        raise ArgumentError(
            f"buffer {buffer.name!r} of {buffer.dtype} needs an array whose last axis has"
            f" {buffer.dtype.lanes} elements, got shape {arg.shape}"
        )
    return arg


def _shape(buffer: Buffer, array: Array) -> tuple[int, ...]:
    shape: tuple[int, ...] = array.shape
    return shape if buffer.dtype.lanes == 1 else shape[:-1]


def _bind(buffer: Buffer, array: Array, given: dict[Any, Any]) -> bool:
    """Bind sizes to the variables that name them; whether the array is memory, not the view."""
    shape = _shape(buffer, array)
    offset = buffer.elem_offset
    if isinstance(offset, Var):
        given.setdefault(offset, 0)
    if len(shape) != buffer.ndim or (offset is not None and _value(offset, given) != 0):
        if buffer.ndim != 1 and len(shape) != 1:
            raise _misfit(buffer, shape)
        return True
    for extent, size in zip(buffer.shape, shape, strict=True):
        if isinstance(extent, Var):
            given.setdefault(extent, size)
    steps = support.element_strides(array, buffer.ndim, buffer.dtype.lanes)
    for stride, step in zip(buffer.strides, steps):
        if isinstance(stride, Var):
            given.setdefault(stride, step)
    return False


def _misfit(buffer: Buffer, shape: tuple[int, ...]) -> ArgumentError:
    declared = ", ".join(str(extent) for extent in buffer.shape)
    return ArgumentError(f"buffer {buffer.name!r} has shape ({declared}), got {shape}")


def _value(expr: Expr, given: Mapping[Any, Any]) -> int:
    missing = [var.name for var in free_vars(expr) if var not in given]
    if missing:
        raise ArgumentError(
            f"the arguments do not tell the value of {', '.join(sorted(missing))}",
            hint="give it with `values={var: ...}`",
        )
    return int(evaluate(expr, given))


def _array_of(buffer: Buffer, array: Array, raw: bool, given: Mapping[Any, Any]) -> Array:
    """The array behind a buffer's elements, its shape and strides checked."""
    kind = buffer.dtype
    shape = tuple(_value(extent, given) for extent in buffer.shape)
    strides = tuple(_value(stride, given) for stride in buffer.strides) or None
    if raw:
        offset = 0 if buffer.elem_offset is None else _value(buffer.elem_offset, given)
        memory = support.flat_memory(array)
        memory = memory if kind.lanes == 1 else memory.reshape(-1, kind.lanes)
        try:
            return support.view(memory, kind, shape, strides, offset, buffer.name)
        except VerifyError as error:
            raise ArgumentError(error.message) from error
    if shape != _shape(buffer, array):
        raise _misfit(buffer, _shape(buffer, array))
    if strides is None:
        if not array.flags.c_contiguous:
            raise ArgumentError(
                f"buffer {buffer.name!r} is compact, got an array with strides {array.strides}",
                hint="pass a contiguous array, or declare strides for the buffer",
            )
        return array
    steps = support.element_strides(array, buffer.ndim, kind.lanes)
    if any(n > 1 and s != t for n, s, t in zip(shape, steps, strides, strict=True)):
        raise ArgumentError(f"buffer {buffer.name!r} has strides {strides}, got {steps}")
    return array
