"""Dot products of bytes in offset binary as those of unsigned bytes times signed ones.

A byte whose sign bit is flipped is 128 too much, or 128 too little, in the other kind of bytes. In
a sum of products with such bytes that makes 128 times the sum of the other factors, which loops
over further left factors have in common: it is summed beside the products, and taken off once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from ...expr import Add, Call, Expr, IntImm, const, free_vars
from ...expr.dot_ops import DOT_INT8, DOT_OFFSET, FLIP_SIGNS, is_bare_dot
from ...tir import (
    SERIAL,
    Buffer,
    BufferLoad,
    BufferStore,
    For,
    PrimFunc,
    Stmt,
    StmtRewriter,
    loop_nest,
    make_buffer,
    seq,
    under_loops,
)
from ..blocks import allocate
from ..common import fresh_copy, loaded_buffers, on_body

#: So many sums of right factors may be kept beside those of products.
MOST = 128

_PLAIN = {op: DOT_INT8[not signed, signed] for signed, op in DOT_OFFSET.items()}


def offset_sums(func: PrimFunc) -> PrimFunc:
    """Sums of `dot_o8s8` and `dot_o8u8` become sums of `dot_u8s8` and `dot_s8u8`.

    Needs: flat code whose loops are not vectorised yet. A serial loop around nothing but one store
    of a sum, perhaps in loops of its own, is concerned.

    Ensures: the same results, as sums wrap around.
    """
    return on_body(func, _Offset().visit)


class _Offset(StmtRewriter):
    def visit_For(self, stmt: For) -> Stmt:
        found = _sum_of(stmt) if stmt.kind == SERIAL else None
        return super().visit_For(stmt) if found is None else found.by_plain_dots()


@dataclass(frozen=True)
class _Sum:
    """`for loop: for loops: store`, where the store adds a dot product to an element.

    Attributes:
        shared: those of the loops that the right factor depends on.
    """

    loop: For
    loops: tuple[For, ...]
    store: BufferStore
    dot: Call
    shared: tuple[For, ...]

    def by_plain_dots(self) -> Stmt:
        """The sum, and beside it one of the right factors alone, which is taken off."""
        kind = self.store.value.dtype
        count = prod(loop.static_extent or 0 for loop in self.shared)
        excess = make_buffer((count,), kind, "excess", scope="local")
        place = self._place()
        zero, total, right = self.dot.args

        def added(store: Sequence[Expr], buffer: Buffer, left: Expr) -> BufferStore:
            term = Call(kind, _PLAIN[self.dot.op], (zero, left, right))
            return BufferStore(buffer, BufferLoad(buffer, store) + term, tuple(store))

        signs = const(FLIP_SIGNS, "int32")
        body = seq(
            _nest(self.shared, added([place], excess, signs)),
            _nest(self.loops, added(self.store.indices, self.store.buffer, total)),
        )
        stmt = seq(
            _nest(self.shared, BufferStore(excess, const(0, kind), (place,))),
            self.loop.replace(body=body),
            _nest(self.loops, self._less(BufferLoad(excess, [place]))),
        )
        return allocate(excess, stmt)

    def _place(self) -> Expr:
        place: Expr = const(0)
        for loop in self.shared:
            place = place * (loop.static_extent or 0) + loop.loop_var
        return place

    def _less(self, excess: Expr) -> BufferStore:
        store = self.store
        return store.replace(value=BufferLoad(store.buffer, store.indices) - excess)


def _sum_of(loop: For) -> _Sum | None:
    loops, store = loop_nest(loop.body)
    if not isinstance(store, BufferStore) or store.predicate is not None:
        return None
    dot = _added(store)
    if dot is None or store.buffer in loaded_buffers(dot):
        return None
    own = {one.loop_var for one in (loop, *loops)}
    fixed = loop.loop_var not in free_vars(store.indices[0])
    box = all(_begins_at_zero(one) and own.isdisjoint(free_vars(one.extent)) for one in loops)
    shared = tuple(one for one in loops if one.loop_var in free_vars(dot.args[2]))
    sizes = [one.static_extent or 0 for one in shared]
    few = all(sizes) and prod(sizes) <= MOST
    return _Sum(loop, tuple(loops), store, dot, shared) if fixed and box and few else None


def _added(store: BufferStore) -> Call | None:
    """The dot product that a store adds to its element."""
    old = BufferLoad(store.buffer, store.indices)
    match store.value:
        case Add(x, Call() as dot) if x is old and dot.op in _PLAIN and is_bare_dot(dot):
            return dot
    return None


def _begins_at_zero(loop: For) -> bool:
    return isinstance(loop.min, IntImm) and loop.min.value == 0 and loop.thread_binding is None


def _nest(loops: Sequence[For], body: Stmt) -> Stmt:
    return fresh_copy(under_loops(loops, body), {})
