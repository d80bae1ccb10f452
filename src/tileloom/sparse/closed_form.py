"""Index buffers that need not be stored, since their elements follow from where they stand."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..base.errors import ArgumentError, ShapeError, UnsupportedError
from ..expr import Expr, ExprLike, IndexMap, rewrite
from ..tir import (
    Block,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    PrimFunc,
    StmtRewriter,
    pre_order,
)
from .functions import Program, map_functions

ClosedForm = Callable[..., Expr | int] | IndexMap


def specialize_buffer(mod: Program, buffer_name: str, index_map: ClosedForm) -> Program:
    """The program with a closed form in place of what it loads from a buffer.

    A band needs no column indices: the `j`-th element of row `i` stands in column `i + j`. The
    buffer stays a parameter; `remove_unused_args` drops it once it is lowered.

    Args:
        mod: a function, or a module of functions.
        buffer_name: a buffer that is only read.
        index_map: the element at some indices, as a function of these or as an `IndexMap` with one
            result.

    Raises:
        ArgumentError: no buffer has this name.
        ShapeError: the buffer has another number of indices, or the map of results.
        UnsupportedError: the program writes to the buffer.

    >>> from tileloom.script import tir as T
    >>> @T.prim_func
    ... def main(a: T.Buffer((8, 4), "int32"), b: T.Buffer((8, 4), "int32")):
    ...     for i, j in T.grid(8, 4):
    ...         with T.block("copy"):
    ...             vi, vj = T.axis.remap("SS", [i, j])
    ...             b[vi, vj] = a[vi, vj]
    >>> made = specialize_buffer(main, "a", lambda i, j: i + j)
    >>> print(str(made).splitlines()[-1].strip())
    b[vi, vj] = vi + vj
    """
    found: list[str] = []

    def change(func: PrimFunc) -> PrimFunc:
        buffers = _named(func)
        found.extend(buffer.name for buffer in buffers)
        for buffer in buffers:
            if buffer.name == buffer_name:
                return _specialized(func, buffer, index_map)
        return func

    made = map_functions(mod, change)
    if buffer_name not in found:
        raise ArgumentError(f"no buffer is named {buffer_name!r}; there are {', '.join(found)}")
    return made


def _named(func: PrimFunc) -> list[Buffer]:
    """The buffers of the parameters and of blocks."""
    blocks = [node for node in pre_order(func.body) if isinstance(node, Block)]
    return [*func.buffers, *(buffer for block in blocks for buffer in block.alloc_buffers)]


def _specialized(func: PrimFunc, buffer: Buffer, closed: ClosedForm) -> PrimFunc:
    for node in pre_order(func.body):
        if isinstance(node, BufferStore) and node.buffer is buffer:
            raise UnsupportedError(f"buffer {buffer.name!r} is written to: {node}")
        if isinstance(node, Block) and any(
            match.source.buffer is buffer for match in node.match_buffers
        ):
            raise UnsupportedError(f"buffer {buffer.name!r} has another name in {node.name_hint!r}")
    domains = tuple(domain for domain in func.buffer_domains if domain.buffer is not buffer)
    body = _ClosedForms(buffer, _as_map(buffer, closed)).visit(func.body)
    return func.replace(body=body, buffer_domains=domains)


def _as_map(buffer: Buffer, closed: ClosedForm) -> IndexMap:
    made = closed
    if not isinstance(made, IndexMap):
        made = IndexMap.from_func(made, buffer.ndim, dtype=buffer.dtype)
    what = f"the closed form of {buffer.name!r}"
    if len(made.initial_indices) != buffer.ndim:
        raise ShapeError(
            f"{what} takes {len(made.initial_indices)} indices; the buffer has {buffer.ndim}"
        )
    if len(made.final_indices) != 1:
        raise ShapeError(f"{what} has {len(made.final_indices)} results; an element is one")
    return made


class _ClosedForms(StmtRewriter):
    """Puts what a map gives for the indices in place of loads from a buffer."""

    def __init__(self, buffer: Buffer, closed: IndexMap) -> None:
        self.buffer = buffer
        self.closed = closed

    def visit_expr(self, expr: Expr) -> Expr:
        return rewrite(expr, self._rule)

    def _rule(self, expr: Expr) -> Expr | None:
        if isinstance(expr, BufferLoad) and expr.buffer is self.buffer:
            return self._element(expr.indices)
        return None

    def _element(self, indices: Sequence[ExprLike]) -> Expr:
        (value,) = self.closed.map_indices(indices)
        return value.astype(self.buffer.dtype)

    def visit_Block(self, stmt: Block) -> Block:
        made = super().visit_Block(stmt)
        return self.update(made, reads=self._others(made.reads))

    def _others(self, regions: tuple[BufferRegion, ...]) -> tuple[BufferRegion, ...]:
        kept = tuple(region for region in regions if region.buffer is not self.buffer)
        return regions if len(kept) == len(regions) else kept
