"""Functions without the parameters that they do not use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ..base.errors import UnsupportedError
from ..expr import Expr, IterVar, Var, free_vars
from ..tir import (
    PLAIN,
    AttrStmt,
    Block,
    Buffer,
    DeclBuffer,
    For,
    PrimFunc,
    Stmt,
    buffer_accesses,
    buffer_exprs,
    pre_order,
    sparse_level,
    stmt_exprs,
)
from .functions import Program, map_functions


def remove_unused_args(mod: Program) -> Program:
    """The program without the parameters that it does not use.

    A scalar is used where its value is: in a statement, or in the shape of a buffer that is used. A
    buffer is used where it is accessed or a region of it named, or where its pointer is. Those that
    stay keep their order.

    Args:
        mod: a function, or a module of functions, of plain buffers (level 0).

    Raises:
        UnsupportedError: there are still sparse buffers, whose axes use parameters.

    >>> from tileloom.script import tir as T
    >>> @T.prim_func
    ... def main(a: T.handle, b: T.handle, c: T.handle, m: T.int32, n: T.int32):
    ...     A = T.match_buffer(a, (m,), "float32")
    ...     B = T.match_buffer(b, (n,), "float32")
    ...     C = T.match_buffer(c, (8,), "float32")
    ...     for i in range(8):
    ...         with T.block("copy"):
    ...             vi = T.axis.spatial(8, i)
    ...             C[vi] = B[vi]
    >>> [param.name for param in remove_unused_args(main).params]
    ['b', 'c', 'n']
    """
    return map_functions(mod, _without_unused)


def RemoveUnusedArgs() -> Callable[[Any], Any]:
    """`remove_unused_args` as a pass, as TVM names it."""
    return remove_unused_args


def _without_unused(func: PrimFunc) -> PrimFunc:
    if func.sp_axes or sparse_level(func) != PLAIN:
        raise UnsupportedError(
            f"function {func.name!r} still has sparse buffers, whose axes use its parameters",
            hint="lower_sparse_buffer comes first",
        )
    buffers, names = _used(func.body)
    kept = {
        param: buffer
        for param, buffer in func.buffer_map.items()
        if buffer in buffers or buffer.data in names or param in names
    }
    domains = tuple(
        domain
        for domain in func.buffer_domains
        if domain.buffer in buffers or domain.buffer in kept.values()
    )
    for buffer in kept.values():
        names |= _names(buffer_exprs(buffer))
    for domain in domains:
        names |= _names((domain.low, domain.high))
    params = tuple(param for param in func.params if param in kept or param in names)
    return func.replace(params=params, buffer_map=kept, buffer_domains=domains)


def _used(stmt: Stmt) -> tuple[set[Buffer], set[Var]]:
    """The buffers and the variables that statements use."""
    buffers = {buffer for buffer, _ in buffer_accesses(stmt)}
    names: set[Var] = set()
    for node in pre_order(stmt):
        names |= _names(stmt_exprs(node))
        for value in _attached(node):
            if isinstance(value, Expr):
                names |= free_vars(value)
            elif isinstance(value, Buffer):
                buffers.add(value)
            elif isinstance(value, IterVar) and value.dom is not None:
                names |= _names((value.dom.min, value.dom.extent))
    for buffer in buffers:
        names |= _names(buffer_exprs(buffer)) | {buffer.data}
    return buffers, names


def _attached(node: Stmt) -> Iterator[Any]:
    """What a statement names other than in its expressions."""
    match node:
        case AttrStmt():
            yield node.node
        case DeclBuffer():
            yield node.buffer
        case Block():
            yield from node.alloc_buffers
            yield from [match.buffer for match in node.match_buffers]
            matched = [match.source for match in node.match_buffers]
            yield from [region.buffer for region in (*node.reads, *node.writes, *matched)]
            yield from node.annotations.values()
        case For():
            yield node.thread_binding
            yield from node.annotations.values()
        case _:
            pass


def _names(exprs: Iterable[Expr]) -> set[Var]:
    return {var for expr in exprs for var in free_vars(expr)}
