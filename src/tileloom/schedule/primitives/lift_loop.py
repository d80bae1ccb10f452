"""lift_loop: move a loop out of the block that it is in."""

from __future__ import annotations

from ...expr import SPATIAL, Expr, IterVar, Var, free_vars, post_order
from ...tir import Block, BufferLoad, BufferRegion, For, infer_block_access, substitute_stmt
from ..analysis.scope import is_silent
from ..analysis.tree import loops_above, scope_root
from ..errors import name_of, refuse
from ..instruction import LoopRef, primitive
from ..sref import StmtSRef
from ..state import ScheduleState, copy_loop
from ._threads import check_together
from .reorder import reorder

Regions = tuple[BufferRegion, ...]


@primitive("LiftLoop")
def lift_loop(state: ScheduleState, loop: LoopRef) -> None:
    """Move a data-parallel loop out of its block, around it; the block gets a variable for it.

    Loops of the block around this one stay inside (SparseTIR).

    Args:
        loop: holds, together with the loops around it, all of the block's body.

    >>> import tileloom
    >>> from tileloom.script import tir as T
    >>> @T.prim_func
    ... def rows(A: T.Buffer((8, 4)), B: T.Buffer((8, 4))):
    ...     for i in range(8):
    ...         with T.block("row"):
    ...             vi = T.axis.spatial(8, i)
    ...             for j in range(4):
    ...                 with T.block("element"):
    ...                     vj = T.axis.spatial(4, j)
    ...                     B[vi, vj] = A[vi, vj] + 1.0
    >>> sch = tileloom.Schedule(rows); (j,) = sch.get_loops("element")
    >>> sch.lift_loop(j); row = sch.get(sch.get_block("row"))
    >>> [axis.var.name for axis in row.iter_vars], row.writes[0].region
    (['vi', 'v_j'], (Range(vi, vi + 1), Range(v_j, v_j + 1)))
    """
    block = scope_root(loop)
    around = loops_above(loop)
    _check_block(block, [*around, loop])
    _check_range(block, loop, around)
    check_together(state, loop)
    if around:
        reorder(state, loop, *around)
    old, stmt = block.block, loop.loop
    var = Var(f"v_{stmt.loop_var.name}", stmt.loop_var.dtype)
    axis = IterVar(stmt.domain, var, SPATIAL)
    body = substitute_stmt(stmt.body, {stmt.loop_var: var})
    new = _narrowed(old.replace(iter_vars=(*old.iter_vars, axis), body=body))
    realize = state.realize(block)
    values = (*realize.iter_values, stmt.loop_var)
    lifted = copy_loop(stmt, realize.replace(iter_values=values, block=new))
    state.replace_realize(block, lifted, {old: new})


def _check_block(block: StmtSRef, chain: list[StmtSRef]) -> None:
    """Refuse a block that is not all in a loop, or starts results that several iterations would."""
    if block.parent is None:
        raise refuse(
            f"{name_of(chain[-1])} is in no block but the root",
            at=[chain[-1]],
            fast="Loop already at top level block, cannot lift further",
        )
    if is_silent(block.block):
        raise refuse(
            f"{name_of(block)} does not declare what it reads and writes",
            at=[block],
            hint="lift loops before loop_partition",
        )
    stmt: Block | For = block.block
    for sref in chain:
        if stmt.body is not sref.stmt:
            raise refuse(
                f"{name_of(stmt)} holds more than {name_of(sref)}, so that cannot leave it alone",
                at=[block, sref],
            )
        stmt = sref.loop
    if block.block.init is not None:
        raise refuse(
            f"{name_of(block)} has a T.init(), which each iteration of {name_of(chain[-1])} would "
            "do then",
            at=[block, chain[-1]],
            hint="decompose_reduction first",
        )


def _check_range(block: StmtSRef, loop: StmtSRef, around: list[StmtSRef]) -> None:
    """Refuse a loop whose range is not known outside of the block."""
    inside = {axis.var for axis in block.block.iter_vars}
    inside |= {sref.loop.loop_var for sref in around}
    for expr in (loop.loop.min, loop.loop.extent):
        if not free_vars(expr).isdisjoint(inside) or _is_data(expr):
            raise refuse(
                f"the range of {name_of(loop)}, {expr}, is not known outside of {name_of(block)}",
                at=[block, loop],
                hint="split it into parts of known length, and lift one of these",
            )


def _is_data(expr: Expr) -> bool:
    return any(isinstance(node, BufferLoad) for node in post_order(expr))


def _narrowed(block: Block) -> Block:
    """The block with what it still reads and writes, of all that it declares."""
    reads, writes = infer_block_access(block)
    return block.replace(reads=_still(block.reads, reads), writes=_still(block.writes, writes))


def _still(declared: Regions, found: Regions) -> Regions:
    now = {region.buffer: region for region in found}
    return tuple(now.get(region.buffer, region) for region in declared)
