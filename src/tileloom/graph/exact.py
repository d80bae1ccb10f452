"""Kernels of elementwise ops alone that round as NumPy does: every operator by itself.

Elsewhere a product is fused with the sum that it goes into, which rounds once less. That is more
accurate, and faster where much is multiplied and added up; but where an expression makes much of a
rounding (it divides by a difference of nearly equal numbers) its result is then another than that
of the operators one by one.
"""

from __future__ import annotations

from ..expr import post_order
from ..tir import BufferLoad, BufferStore, IRModule, PrimFunc, pre_order, stmt_exprs
from .program import Program

#: The attribute of functions in which no roundings are left out.
EXACT = "tir.exact"


def keep_roundings(program: Program) -> None:
    """Mark the kernels that accumulate nothing."""
    functions = {
        name: func if accumulates(func) else func.replace(attrs={**func.attrs, EXACT: True})
        for name, func in program.module.functions.items()
    }
    program.module = IRModule(functions, program.module.attrs)


def accumulates(func: PrimFunc) -> bool:
    """Whether a function adds to what it has stored."""
    for stmt in pre_order(func.body):
        if isinstance(stmt, BufferStore):
            for expr in stmt_exprs(stmt):
                for part in post_order(expr):
                    if isinstance(part, BufferLoad) and part.buffer is stmt.buffer:
                        return True
    return False
