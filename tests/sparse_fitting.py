"""Arguments in the shapes that the buffers of a lowered sparse program have."""

from __future__ import annotations

from typing import Any

from sparse_inputs import Arguments
from tileloom.expr import IntImm, const, simplify, substitute
from tileloom.tir import PrimFunc


def fitting(func: PrimFunc, arguments: Arguments) -> list[Any]:
    """The arguments in order, each array in the shape of its buffer."""
    sizes = {
        param: const(int(arguments[param.name]), param.dtype)
        for param in func.params
        if param not in func.buffer_map
    }
    found = []
    for param in func.params:
        value, buffer = arguments[param.name], func.buffer_map.get(param)
        if buffer is not None:
            extents = [simplify(substitute(extent, sizes)) for extent in buffer.shape]
            value = value.reshape([e.value for e in extents if isinstance(e, IntImm)])
        found.append(value)
    return found
