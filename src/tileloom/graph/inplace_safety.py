"""What a kernel may do when a result lies where one of its operands was; see `inplace`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..expr import (
    Analyzer,
    Call,
    Expr,
    IntImm,
    Range,
    const,
    detect_iter_map,
    post_order,
    substitute,
)
from ..tir import (
    Block,
    Buffer,
    BufferLoad,
    BufferStore,
    For,
    IfThenElse,
    PrimFunc,
    SeqStmt,
    Stmt,
    While,
    stmt_children,
    stmt_exprs,
)
from ..tir.walk import StmtRewriter


@dataclass(frozen=True)
class Site:
    """A statement of a kernel with the loops and the conditions around it, outermost first."""

    stmt: Stmt
    order: int
    loops: tuple[For, ...] = ()
    guards: tuple[IfThenElse, ...] = ()

    def is_after(self, other: Site) -> bool:
        """Whether the other has run to its end before this begins, whatever the iteration."""
        share = self.loops and other.loops and self.loops[0] is other.loops[0]
        return other.order < self.order and not share


def is_safe(func: PrimFunc, source: Buffer, sink: Buffer, once: bool = False) -> bool:
    """Whether a kernel computes the same when `sink` is where `source` is.

    Args:
        once: whether it is known that no element is stored twice.

    >>> from tileloom.expr import Var
    >>> from tileloom.tir import make_buffer
    >>> a, b, i = make_buffer((8,), name="a"), make_buffer((8,), name="b"), Var("i")
    >>> def doubled(place):
    ...     store = BufferStore(b, BufferLoad(a, [place]) * 2.0, [i])
    ...     return PrimFunc((), For(i, IntImm("int32", 0), IntImm("int32", 8), "serial", store))
    >>> is_safe(doubled(i), a, b), is_safe(doubled(7 - i), a, b)
    (True, False)
    """
    if source.dtype != sink.dtype or not (
        _same(source.shape, sink.shape) and _same(source.strides, sink.strides)
    ):
        return False
    sites = sites_of(func)
    if any(isinstance(site.stmt, (Block, While)) for site in sites):
        return False
    if any(_is_opaque(site.stmt, (source, sink)) for site in sites):
        return False
    stores = [s for s in sites if isinstance(s.stmt, BufferStore) and s.stmt.buffer is sink]
    if any(isinstance(s.stmt, BufferStore) and s.stmt.buffer is source for s in sites):
        return False
    readers = [site for site in sites if next(loads_of(site.stmt, source), None) is not None]
    early = [site for site in readers if all(store.is_after(site) for store in stores)]
    if len(early) == len(readers):
        return True
    return (once or _writes_once(stores, sink)) and all(
        any(_same_element(site, store, source) for store in stores)
        for site in readers
        if site not in early
    )


def sites_of(func: PrimFunc) -> list[Site]:
    """All statements of a kernel in program order."""
    found: list[Site] = []

    def visit(stmt: Stmt, loops: tuple[For, ...], guards: tuple[IfThenElse, ...]) -> None:
        found.append(Site(stmt, len(found), loops, guards))
        if isinstance(stmt, For):
            loops = (*loops, stmt)
        if isinstance(stmt, IfThenElse):
            guards = (*guards, stmt)
        for child in stmt_children(stmt):
            visit(child, loops, guards)

    visit(func.body, (), ())
    return found


def loads_of(stmt: Stmt, buffer: Buffer) -> Iterator[BufferLoad]:
    for expr in stmt_exprs(stmt):
        for part in post_order(expr):
            if isinstance(part, BufferLoad) and part.buffer is buffer:
                yield part


def _is_opaque(stmt: Stmt, buffers: Sequence[Buffer]) -> bool:
    """Whether a statement uses the address of a buffer, or a part of it at once."""
    addresses = {buffer.data for buffer in buffers}
    for expr in stmt_exprs(stmt):
        for part in post_order(expr):
            if part in addresses or (isinstance(part, Call) and part.op == "tir.address_of"):
                return True
            if isinstance(part, BufferLoad) and part.buffer in buffers and part.dtype.is_vector:
                return True
    if isinstance(stmt, BufferStore) and stmt.buffer in buffers:
        return stmt.value.dtype.is_vector
    node: Any = getattr(stmt, "node", None)
    buffer: Any = getattr(stmt, "buffer_var", None)
    return node in addresses or buffer in addresses


def _same_element(site: Site, store: Site, source: Buffer) -> bool:
    """Whether all that is read at a site is the element that is then stored."""
    if (
        not _same(site.loops, store.loops)
        or site.order > store.order
        or not isinstance(store.stmt, BufferStore)
    ):
        return False
    return all(_same(load.indices, store.stmt.indices) for load in loads_of(site.stmt, source))


def _same(a: Sequence[Any], b: Sequence[Any]) -> bool:
    """Whether these are the same objects (expressions that are equal are the same object)."""
    return len(a) == len(b) and all(x is y for x, y in zip(a, b, strict=True))


def _writes_once(stores: Sequence[Site], sink: Buffer) -> bool:
    """Whether no element is stored twice."""
    size = _elements(sink)
    counts = [_iterations(store.loops) for store in stores]
    if size is not None and None not in counts and sum(c or 0 for c in counts) == size:
        # Every element is stored, so there is no iteration left to store one again.
        return not any(store.guards for store in stores)
    if len(stores) != 1 or not isinstance(stores[0].stmt, BufferStore):
        return False
    domains = {loop.loop_var: Range(loop.min, loop.extent) for loop in stores[0].loops}
    return bool(detect_iter_map(stores[0].stmt.indices, domains, check_level="bijective"))


def _iterations(loops: Sequence[For]) -> int | None:
    total = 1
    for loop in loops:
        if not isinstance(loop.extent, IntImm):
            return None
        total *= loop.extent.value
    return total


# ---------------------------------------------------------------------------- tails


def guard_tail(func: PrimFunc, sink: Buffer) -> PrimFunc | None:
    """The kernel with no element of `sink` stored twice by a tail that overlaps what is before it.

    Rows whose length is no multiple of a register's are ended by a register that reaches back: its
    first lanes store again what has been stored. They are masked. None if this is not how the
    kernel is made.
    """
    sites = sites_of(func)
    stores = [s for s in sites if isinstance(s.stmt, BufferStore) and s.stmt.buffer is sink]
    if len(stores) != 2 or stores[0].guards:
        return None
    head, tail = stores
    shared = sum(a is b for a, b in zip(head.loops, tail.loops, strict=False))
    if len(tail.loops) != shared + 1 or len(head.loops) <= shared or not _is_simple(tail):
        return None
    lane, inner = tail.loops[-1], head.loops[shared:]
    counts = [_iterations(loops) for loops in (tail.loops[:shared], inner, (lane,))]
    start = _distance(head, tail, inner)
    if start is None or None in counts:
        return None
    outer, length, width = (count or 0 for count in counts)
    size = _elements(sink)
    if not start <= length < start + width or outer * (start + width) != size:
        return None
    keep = lane.loop_var >= const(length - start, lane.loop_var.dtype)
    if tail.guards:  # by this function, for another result
        return func if len(tail.guards) == 1 and tail.guards[0].condition is keep else None
    return func.replace(body=_Guard(lane, keep).visit(func.body))


class _Guard(StmtRewriter):
    def __init__(self, loop: For, condition: Expr) -> None:
        self.loop = loop
        self.condition = condition

    def visit_For(self, stmt: For) -> Stmt:
        if stmt is self.loop:
            return stmt.replace(body=IfThenElse(self.condition, stmt.body))
        return super().visit_For(stmt)


def _is_simple(tail: Site) -> bool:
    """Whether the loop of a tail does nothing but store elements of results at one place."""
    own = tail.stmt
    body = tail.guards[-1].then_case if tail.guards else tail.loops[-1].body
    stores = body.seq if isinstance(body, SeqStmt) else (body,)
    return isinstance(own, BufferStore) and all(
        isinstance(stmt, BufferStore)
        and stmt.buffer.scope == "global"
        and _same(stmt.indices, own.indices)
        for stmt in stores
    )


def _distance(head: Site, tail: Site, inner: Sequence[For]) -> int | None:
    """How far after the first element of a row its tail begins; None if that is not constant.

    The head must store the row's elements from the first on, each once.
    """
    if not (isinstance(head.stmt, BufferStore) and isinstance(tail.stmt, BufferStore)):
        return None
    if len(head.stmt.indices) != 1:
        return None
    loops = {loop.loop_var: Range(loop.min, loop.extent) for loop in (*head.loops, *tail.loops)}
    analyzer = Analyzer(loops)
    row, end = (
        substitute(store.indices[0], {loop.loop_var: loop.min for loop in varying})
        for store, varying in ((head.stmt, inner), (tail.stmt, tail.loops[-1:]))
    )
    lane = tail.loops[-1]
    steps = analyzer.simplify(tail.stmt.indices[0] - end - lane.loop_var)
    offset = analyzer.simplify(head.stmt.indices[0] - row)
    distance = analyzer.simplify(end - row)
    domains = {loop.loop_var: loops[loop.loop_var] for loop in inner}
    # As many different numbers as lie between the least and the greatest are all of these.
    bound, length = analyzer.const_int_bound(offset), _iterations(inner)
    whole = bound.min_value == 0 and bound.max_value + 1 == length
    contiguous = whole and bool(detect_iter_map([offset], domains, check_level="bijective"))
    plain = contiguous and isinstance(steps, IntImm) and steps.value == 0
    if not plain or not isinstance(distance, IntImm) or not _from_zero((*inner, lane)):
        return None
    return distance.value


def _from_zero(loops: Sequence[For]) -> bool:
    return all(isinstance(loop.min, IntImm) and loop.min.value == 0 for loop in loops)


def _elements(buffer: Buffer) -> int | None:
    """The number of elements, if it is known."""
    total = 1
    for extent in buffer.shape:
        if not isinstance(extent, IntImm):
            return None
        total *= extent.value
    return total
