"""Why a program has no machine code though each statement is well formed: names without values.

Asked for when compilation has failed, so that a mistake of the program is not taken for
one of ours.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...expr import REDUCE, Var, free_vars
from ...tir import Block, IRModule, PrimFunc, all_exprs
from ...tir.analysis import undefined_vars
from ...tir.walk import collect


def scope_mistake(program: PrimFunc | IRModule) -> str | None:
    """A sentence about the first variable that has no value where it is used; None: all have."""
    functions = [program] if isinstance(program, PrimFunc) else program.functions.values()
    return next((mistake for func in functions for mistake in _mistakes(func)), None)


def _mistakes(func: PrimFunc) -> Iterator[str]:
    for var in undefined_vars(func):
        yield f"{func.name}: the variable {var.name!r} is used outside its scope"
    for block in collect(func.body, Block):
        reduced = {axis.var for axis in block.iter_vars if axis.iter_type == REDUCE}
        inits = () if block.init is None else all_exprs(block.init)
        used = {var for expr in inits for var in free_vars(expr)}
        for var in sorted(reduced & used, key=lambda var: var.name):
            name = block.name_hint
            yield f"{func.name}: the init of block {name!r} uses {var.name!r}, a reduction's"
    for buffer in func.buffers:
        if isinstance(buffer.elem_offset, Var) and buffer.elem_offset not in func.params:
            yield (
                f"{func.name}: nothing gives the offset {buffer.elem_offset.name!r} of the buffer "
                f"{buffer.name!r} a value"
            )
