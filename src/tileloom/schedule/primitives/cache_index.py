"""cache_index: compute index expressions once, ahead of the block that uses them."""

from __future__ import annotations

from collections.abc import Sequence

from ...expr import (
    SPATIAL,
    Broadcast,
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    IterVar,
    Mod,
    Ramp,
    Var,
    const,
    free_vars,
    is_pure,
    post_order,
    substitute,
)
from ...tir import (
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    For,
    LetStmt,
    Stmt,
    StmtRewriter,
    make_buffer,
    pre_order,
)
from ..analysis.tree import loops_above, scope_root
from ..instruction import BlockRef, primitive
from ..rewrite import nest
from ..state import ScheduleState
from ._cache import Location, UseInstead, insert_cache
from ._rebuild import index_in
from ._storage import check_scope

_DIVISIONS = (Div, Mod, FloorDiv, FloorMod)
_TRUE = const(True)


@primitive("CacheIndex")
def cache_index(
    state: ScheduleState, block: BlockRef, storage_scope: str, cse_thresh: int = 0
) -> list[BlockRef]:
    """Compute what a block's indices are made of in blocks of their own; answer these.

    Args:
        storage_scope: of the buffers that hold the results.
        cse_thresh: how often an expression must occur; 0 takes every whole index expression, more
            looks into those that do not occur as often.

    >>> import tileloom
    >>> from tileloom import te
    >>> A = te.placeholder((4,), name="A")
    >>> B = te.compute((8,), lambda i: A[i // 2] + 1.0, name="B")
    >>> sch = tileloom.Schedule(te.create_prim_func([A, B]))
    >>> (index,) = sch.cache_index("B", "global")
    >>> print(sch.get(index).body)
    index_var_0[v0] = v0 // 2
    """
    check_scope(storage_scope, block)
    scope = scope_root(block)
    made: list[Block] = []
    loops = {outer.loop.loop_var for outer in loops_above(block)}
    for number, expr in enumerate(_candidates(block.block, cse_thresh, loops)):
        stage, copy, buffer, axes = _stage(expr, block.block, number, storage_scope)
        load = BufferLoad(buffer, axes)
        rewriter = _Uses(expr, load)
        location = Location(scope, index_in(scope, block))
        insert_cache(state, scope, location, [(0, stage)], [block], rewriter, buffer)
        made.append(copy)
    return [state.sref(copy) for copy in made]


# ---------------------------------------------------------------------------- which


def _candidates(block: Block, threshold: int, loops: set[Var]) -> list[Expr]:
    """The expressions to compute ahead of loops, larger ones first.

    A block that uses loops directly computes with them what is not known ahead of them.
    """
    inside = _local_vars(block.body) | loops
    found: dict[Expr, int] = {}
    exprs: list[Expr] = []
    for stmt in pre_order(block.body):
        if isinstance(stmt, BufferStore):
            exprs += [*stmt.indices, stmt.value]
    for expr in exprs:
        _count(expr, inside, found)
    # What occurs too rarely as a whole may have parts that occur more often.
    work = sorted(found, key=_size, reverse=True)
    while work:
        expr = work.pop(0)
        times = found[expr]
        if times >= threshold:
            continue
        del found[expr]
        parts: dict[Expr, int] = {}
        for child in expr.children:
            _count(child, inside, parts)
        for part, count in parts.items():
            if part not in found:
                work.append(part)
            found[part] = found.get(part, 0) + count * times
        work.sort(key=_size, reverse=True)
    order = {e: i for i, e in enumerate(e for expr in exprs for e in _each(expr))}
    return sorted(found, key=lambda e: (-_size(e), order[e]))


def _each(expr: Expr) -> Sequence[Expr]:
    return list(post_order(expr))


def _count(expr: Expr, inside: set[Var], found: dict[Expr, int]) -> None:
    """The outermost expressions that can be computed ahead, and how often they occur."""
    if _eligible(expr, inside):
        found[expr] = found.get(expr, 0) + 1
        return
    for child in expr.children:
        _count(child, inside, found)


def _eligible(expr: Expr, inside: set[Var]) -> bool:
    """Whether it is worth it, and gives the same ahead as in place."""
    if isinstance(expr, (Ramp, Broadcast)) or expr.dtype.lanes > 1 or not expr.children:
        return False
    used = free_vars(expr)
    return (
        bool(used)
        and used.isdisjoint(inside)
        and is_pure(expr)
        and not any(var.dtype.is_handle for var in used)
        and all(_always_defined(node) for node in post_order(expr))
    )


def _always_defined(node: Expr) -> bool:
    """Whether it can be computed also where a condition around it does not hold."""
    if isinstance(node, BufferLoad):
        return False
    if isinstance(node, _DIVISIONS) and not node.dtype.is_float:
        return isinstance(node.b, IntImm) and node.b.value != 0
    return True


def _local_vars(body: Stmt) -> set[Var]:
    """The variables that the body itself defines."""
    found: set[Var] = set()
    for stmt in pre_order(body):
        if isinstance(stmt, For):
            found.add(stmt.loop_var)
        elif isinstance(stmt, LetStmt):
            found.add(stmt.var)
        elif isinstance(stmt, Block):
            found.update(axis.var for axis in stmt.iter_vars)
    return found


def _size(expr: Expr) -> int:
    known = expr.memo.get("schedule.size")
    if known is None:
        known = expr.memo["schedule.size"] = 1 + sum(map(_size, expr.children))
    return int(known)


# ---------------------------------------------------------------------------- the blocks


def _stage(
    expr: Expr, block: Block, number: int, storage_scope: str
) -> tuple[Stmt, Block, Buffer, list[Var]]:
    """Loops and a block that compute an expression for all values of what it depends on."""
    domains = {axis.var: axis.domain for axis in block.iter_vars}
    order = [e for e in post_order(expr) if isinstance(e, Var) and e in domains]
    loops: list[tuple[Var, Expr]] = []
    axes: list[IterVar] = []
    values: list[Expr] = []
    for i, var in enumerate(order):
        domain = domains[var]
        loop = Var(f"ax{i}", var.dtype)
        loops.append((loop, domain.extent))
        values.append(domain.min + loop)
        axes.append(IterVar(domain, Var(f"v{i}", var.dtype), SPATIAL))
    shape = [domains[var].min + domains[var].extent for var in order]
    buffer = make_buffer(shape, str(expr.dtype), f"index_var_{number}", scope=storage_scope)
    own = [axis.var for axis in axes]
    value = substitute(expr, dict(zip(order, own, strict=True)))
    stage = Block(
        tuple(axes),
        (),
        (BufferRegion.point(buffer, own),),
        f"index_{number}",
        BufferStore(buffer, value, tuple(own)),
    )
    return nest(loops, BlockRealize(tuple(values), _TRUE, stage)), stage, buffer, order


class _Uses(UseInstead):
    """Puts an element of a buffer in place of an expression, and says that it is read."""

    def __init__(self, expr: Expr, load: BufferLoad) -> None:
        super().__init__(load.buffer, load.buffer)
        self.expr, self.load = expr, load

    def visit_expr(self, expr: Expr) -> Expr:
        return _replaced(expr, self.expr, self.load)

    def visit_region(self, region: BufferRegion) -> BufferRegion:
        return region

    def visit_Block(self, stmt: Block) -> Block:
        new = StmtRewriter.visit_Block(self, stmt)
        if new is stmt:
            return new
        new = new.replace(
            reads=(*stmt.reads, BufferRegion.point(self.load.buffer, self.load.indices))
        )
        self.block_map[stmt] = new
        return new


def _replaced(expr: Expr, old: Expr, new: Expr) -> Expr:
    """`expr` with one part replaced; from outside in, so that parts of that part stay."""
    if expr is old:
        return new
    return expr.with_children([_replaced(child, old, new) for child in expr.children])
