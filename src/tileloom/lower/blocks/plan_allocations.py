"""Buffers are allocated where they are needed, no further out."""

from __future__ import annotations

from ...expr import SPATIAL, Expr, Max, Min, const, free_vars, post_order
from ...expr.analyzer import Analyzer
from ...expr.linear import Linear
from ...tir import Block, BlockRealize, Buffer, For, PrimFunc, Stmt, StmtRewriter, While
from ..analysis.linear import linear, number
from ..analysis.regions import Accesses, Interval, RegionAccess, Scope, hulls
from ..common import on_body


def plan_and_update_buffer_allocation_location(func: PrimFunc) -> PrimFunc:
    """Every buffer that a block allocates moves to the innermost place around all its accesses.

    Needs: the blocks stage.
    Ensures: an allocation stands in the innermost block or loop body (wrapped in a block without
    iteration variables) that holds every access, outside the loops that carry its value: those of
    a reduction that writes it, a `while`, and a loop of which one iteration reads what another
    has written. Global memory stays outside of thread loops. A parallel loop thus gets buffers
    for each iteration wherever that is right.
    """
    found = Accesses.of(func.body)
    places: dict[Scope, list[Buffer]] = {}
    for buffer, accesses in found.by_buffer.items():
        place = _place(found.owners[buffer], accesses, found.bounds) if accesses else None
        if place is not None:
            places.setdefault(place, []).append(buffer)
    return on_body(func, _Move(places).visit) if places else func


def _place(
    owner: tuple[Scope, ...], accesses: list[RegionAccess], bounds: Analyzer
) -> Scope | None:
    """The scope inside which to allocate; None to leave it with its block."""
    path = accesses[0].scopes
    for access in accesses:
        path = _common(path, access.scopes[: _limit(access, len(owner))])
    depth = len(path)
    while depth > len(owner):
        scope = path[depth - 1]
        if isinstance(scope, For | BlockRealize) and _self_contained(
            accesses, path[len(owner) : depth], depth, bounds
        ):
            return scope
        depth -= 1
    return None


def _common(a: tuple[Scope, ...], b: tuple[Scope, ...]) -> tuple[Scope, ...]:
    for k, (x, y) in enumerate(zip(a, b, strict=False)):
        if x is not y:
            return a[:k]
    return a[: min(len(a), len(b))]


def _limit(access: RegionAccess, start: int) -> int:
    """How deep the allocation may go for the sake of one access."""
    carriers = _carriers(access)
    for depth in range(start, len(access.scopes)):
        scope = access.scopes[depth]
        if isinstance(scope, While):
            return depth
        if isinstance(scope, For) and (
            scope.loop_var in carriers or _shared_by_threads(access.buffer, scope)
        ):
            return depth
    return len(access.scopes)


def _carriers(access: RegionAccess) -> set[object]:
    """The loop variables over which a written buffer carries its value."""
    result: set[object] = set()
    if not access.is_write:
        return result
    for scope in reversed(access.scopes):
        if isinstance(scope, BlockRealize):
            pairs = zip(scope.block.iter_vars, scope.iter_values, strict=True)
            for axis, value in pairs:
                if axis.iter_type != SPATIAL or axis.var in result:
                    result |= free_vars(value)
    return result


def _shared_by_threads(buffer: Buffer, loop: For) -> bool:
    """Whether the loop's threads have the buffer in common, and it must exist before them.

    Memory of a block of threads is one piece wherever in the block's code it is allocated.
    """
    return loop.thread_binding is not None and buffer.scope == "global"


def _self_contained(
    accesses: list[RegionAccess], around: tuple[Scope, ...], depth: int, bounds: Analyzer
) -> bool:
    """Whether an iteration of the loops around `depth` reads only what it has written itself."""
    if not any(isinstance(scope, For) for scope in around):
        return True
    writes = [access for access in accesses if access.is_write]
    reads = [access for access in accesses if not access.is_write]
    if not writes or not reads:
        return True
    if min(a.order for a in reads) < min(a.order for a in writes):
        return False  # it reads what an iteration before has left
    written, read = hulls(writes, depth, bounds), hulls(reads, depth, bounds)
    shape = accesses[0].buffer.shape
    return all(_covers(w, r, e) for w, r, e in zip(written, read, shape, strict=True))


def _covers(written: Interval | None, read: Interval | None, extent: Expr) -> bool:
    """Whether what is read of an axis has been written.

    Bounds that were clipped (min, max) are taken to be clipped alike on both sides, as regions
    that `compute_at` works out are.
    """
    if written is None:
        return False
    if read is None:
        read = number(0), linear(extent).shifted(-1)
    low, high = read[0].plus(written[0], -1), read[1].plus(written[1], -1)
    return _not_negative(low) and _not_negative(-high)


def _not_negative(value: Linear) -> bool:
    if not value.terms:
        return value.const >= 0
    return any(isinstance(part, Min | Max) for atom in value.terms for part in post_order(atom))


class _Move(StmtRewriter):
    def __init__(self, places: dict[Scope, list[Buffer]]) -> None:
        self.places = places
        self.moved = {buffer for buffers in places.values() for buffer in buffers}

    def visit_Block(self, stmt: Block) -> Block:
        kept = tuple(buffer for buffer in stmt.alloc_buffers if buffer not in self.moved)
        if len(kept) == len(stmt.alloc_buffers):
            kept = stmt.alloc_buffers
        return self.update(super().visit_Block(stmt), alloc_buffers=kept)

    def visit_BlockRealize(self, stmt: BlockRealize) -> Stmt:
        result = super().visit_BlockRealize(stmt)
        buffers = self.places.get(stmt)
        if buffers is None or not isinstance(result, BlockRealize):
            return result
        block = result.block
        return result.replace(block=block.replace(alloc_buffers=(*block.alloc_buffers, *buffers)))

    def visit_For(self, stmt: For) -> Stmt:
        result = super().visit_For(stmt)
        buffers = self.places.get(stmt)
        if buffers is None or not isinstance(result, For):
            return result
        block = Block((), (), (), "", result.body, alloc_buffers=tuple(buffers))
        return result.replace(body=BlockRealize((), const(True), block))
