"""What functions of tensor IR take, as the runtime checks it."""

from __future__ import annotations

from typing import Any, Literal

from ..base.errors import UserError
from ..expr import Expr, Var, free_vars
from ..runtime.params import ParamSpec
from ..target.instructions import MAP_SCOPE
from ..tir import PrimFunc
from ..tir.atomics import written_pointers


def with_symbols(func: PrimFunc) -> PrimFunc:
    """The function with the symbols of its shapes as further parameters.

    Callers do not pass them: they are read off the arguments' shapes.
    """
    symbols: dict[Var, None] = {}
    for buffer in func.buffer_map.values():
        for extent in (*buffer.shape, *buffer.strides):
            if isinstance(extent, Var) and extent not in func.params:
                symbols[extent] = None
    return func.replace(params=(*func.params, *symbols)) if symbols else func


def parameters(func: PrimFunc, passed: int) -> list[ParamSpec]:
    """What a function takes, as the runtime checks it; callers pass the first `passed`."""
    written = written_pointers(func.body)
    specs = []
    for k, param in enumerate(func.params):
        buffer = func.buffer_map.get(param)
        if buffer is None:
            kind: Literal["scalar", "map"] = "map" if _is_map(param) else "scalar"
            specs.append(ParamSpec(param.name, kind, param.dtype, implicit=k >= passed))
            continue
        shape = tuple(_extent(extent, func) for extent in buffer.shape)
        access: Literal["r", "rw"] = "rw" if buffer.data in written else "r"
        strides = tuple(_extent(stride, func) for stride in buffer.strides) or None
        specs.append(ParamSpec(buffer.name, "buffer", buffer.dtype, shape, strides, access))
    return specs


def _is_map(param: Var) -> bool:
    return param.pointee is not None and param.pointee[1] == MAP_SCOPE


def _extent(extent: Any, func: PrimFunc) -> int | str:
    if isinstance(extent, Var):
        return extent.name
    if isinstance(extent, Expr) and free_vars(extent) and free_vars(extent) <= {*func.params}:
        return str(extent)  # the same wherever it stands; who passes the numbers knows its value
    if not hasattr(extent, "value"):
        raise UserError(f"the extent {extent} of a parameter is neither a number nor a variable")
    return int(extent.value)
