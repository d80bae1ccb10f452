"""The sizes of functions that a trace names: index maps may be made of them."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from ..expr import IndexMap, Var, free_vars, free_vars_of, substitute
from ..tir import IRModule, PrimFunc


def in_sizes_of(mod: IRModule, value: IndexMap, but: Container[Any] = ()) -> IndexMap:
    """An index map over the sizes that the functions of a module have under the same names.

    Index maps that were read from JSON have variables of their own, and those of a trace that was
    recorded elsewhere have the variables of another function. Variables in `but` stay.

    >>> from tileloom import te
    >>> n = Var("n")
    >>> A = te.placeholder((8, n), name="A")
    >>> func = te.create_prim_func([A, te.compute((8, n), lambda i, j: A[i, j], name="B")])
    >>> flat = IndexMap.from_func(lambda i, j: i * Var("n") + j)
    >>> found = in_sizes_of(IRModule({"main": func}), flat)
    >>> n in free_vars(found.final_indices[0]), n in free_vars(flat.final_indices[0])
    (True, False)
    """
    own = {var for index in value.final_indices for var in free_vars(index)}
    own = {var for var in own - set(value.initial_indices) if var not in but}
    if not own:
        return value
    known = {var for func in mod.functions.values() for var in _sizes(func)}
    by_name = {(var.name, var.dtype): var for var in known}
    other = {var: by_name.get((var.name, var.dtype), var) for var in own - known}
    finals = [substitute(index, other) for index in value.final_indices]
    back = value.inverse_index_map
    return IndexMap(
        value.initial_indices, finals, None if back is None else in_sizes_of(mod, back, but)
    )


def _sizes(func: PrimFunc) -> set[Var]:
    """Parameters that are numbers, and what the shapes of buffers are made of."""
    numbers = {param for param in func.params if param not in func.buffer_map}
    shapes = [size for buffer in func.buffers for size in (*buffer.shape, *buffer.strides)]
    return numbers | free_vars_of(shapes)
