"""transform_block_layout: the iterations of a block in another order, loops and all."""

from __future__ import annotations

from math import prod
from typing import Any

from ...base import dtype
from ...base.errors import UserError
from ...expr import (
    Analyzer,
    Expr,
    IndexMap,
    IntImm,
    IterVar,
    Range,
    Var,
    const,
    free_vars,
)
from ...expr.retype import retyped
from ...tir import SERIAL, Block, BlockRealize, For, Stmt, map_exprs
from ...tir.walk import substitute_stmt
from ..analysis.blocks import check_trivial_binding
from ..analysis.tree import is_zero, loops_above, only_child_chain
from ..errors import name_of, refuse
from ..index_maps import INDEX_MAP, as_index_map
from ..instruction import BlockRef, primitive
from ..sref import StmtSRef
from ..state import ScheduleState


def _front(state: ScheduleState, block: BlockRef, index_map: Any) -> dict[str, Any]:
    return {"index_map": as_index_map(index_map, len(block.block.iter_vars))}


@primitive("TransformBlockLayout", codecs={"index_map": INDEX_MAP}, front=_front)
def transform_block_layout(state: ScheduleState, block: BlockRef, index_map: IndexMap) -> None:
    """Give a block new iteration variables and loops, functions of the old ones.

    Args:
        block: a block whose iteration variables are plainly the loops around it, all from zero.
        index_map: a bijective function of its iteration variables; each result may mix only
            variables of one kind.

    >>> import tileloom
    >>> from tileloom import te
    >>> A = te.placeholder((8, 4), name="A")
    >>> B = te.compute((8, 4), lambda i, j: A[i, j] * 2.0, name="B")
    >>> sch = tileloom.Schedule(te.create_prim_func([A, B]))
    >>> sch.transform_block_layout("B", lambda i, j: (i * 4 + j,))
    >>> [sch.get(loop).extent for loop in sch.get_loops("B")]
    [32]
    """
    loops = loops_above(block)
    _check(state, block, loops)
    old = block.block
    extents = [outer.loop.extent for outer in loops]
    axes, back = _new_axes(block, index_map, extents)
    values: dict[Var, Expr] = {}
    here = [axis.var for axis in axes]
    analyzer = Analyzer({axis.var: axis.domain for axis in axes})
    for axis, value in zip(old.iter_vars, back.map_indices(list(here), analyzer), strict=True):
        values[axis.var] = value
    body = substitute_stmt(old.replace(iter_vars=()), values)
    tidy = map_exprs(body, analyzer.simplify)
    if not isinstance(tidy, Block):
        raise refuse(f"{name_of(block)} cannot be rewritten", at=[block])
    new = tidy.replace(iter_vars=tuple(axes))
    stmt: Stmt
    variables = [Var(f"ax{k}", axis.var.dtype) for k, axis in enumerate(axes)]
    stmt = BlockRealize(tuple(variables), const(True), new)
    for var, axis in zip(reversed(variables), reversed(axes), strict=True):
        stmt = For(var, const(0, var.dtype), axis.domain.extent, SERIAL, stmt)
    if loops:
        state.replace(loops[0], stmt, {old: new})
    else:
        state.replace_realize(block, stmt, {old: new})


def _check(state: ScheduleState, block: StmtSRef, loops: list[StmtSRef]) -> None:
    check_trivial_binding(state, block)
    for outer in loops:
        if not is_zero(outer.loop.min):
            raise refuse(f"{name_of(outer)} does not start at zero", at=[outer])
    if loops and not only_child_chain(loops[0], block):
        raise refuse(f"the loops around {name_of(block)} hold more than it", at=[loops[0], block])
    predicate = state.realize(block).predicate
    if not isinstance(predicate, IntImm):
        raise refuse(f"{name_of(block)} runs under a condition: {predicate}", at=[block])


def _new_axes(
    block: StmtSRef, index_map: IndexMap, extents: list[Expr]
) -> tuple[list[IterVar], IndexMap]:
    """The new iteration variables, and the map back to the old ones."""
    try:
        index_map = index_map.fitting(extents)
        back = index_map.inverse(extents)
        ranges = index_map.map_ranges([Range.from_extent(extent) for extent in extents])
    except UserError as error:
        raise refuse(
            f"the index map is not bijective on the iterations of {name_of(block)}: "
            f"{error.message}",
            at=[block],
            fast="The index map is required to be bijective affine",
        ) from None
    _check_as_many(block, extents, [domain.extent for domain in ranges])
    given = dict(zip(index_map.initial_indices, block.block.iter_vars, strict=True))
    axes = []
    for k, (final, domain) in enumerate(zip(index_map.final_indices, ranges, strict=True)):
        used = [given[v] for v in given if v in free_vars(final)]
        types = {axis.iter_type for axis in used}
        if len(types) > 1:
            raise refuse(
                f"new variable {k} mixes "
                f"{' and '.join(repr(axis.var.name) for axis in used)}, which are of two kinds",
                at=[block],
                fast="The block iters of different types are mixed",
            )
        kind = types.pop() if types else 0
        axes.append(IterVar(domain, Var(f"v{k}", final.dtype), kind))
    return axes, back


def _check_as_many(block: StmtSRef, before: list[Expr], after: list[Expr]) -> None:
    """Refuse a map that leaves out places between its results, whose iterations would repeat."""
    wide = dtype("int64")
    one = const(1, wide)
    old, new = (
        prod((retyped(e, wide, {}) for e in extents), start=one) for extents in (before, after)
    )
    # The domains bring what is known of the sizes in them.
    known = Analyzer({axis.var: axis.domain for axis in block.block.iter_vars})
    if not known.can_prove_equal(old, new):
        raise refuse(
            f"the index map is not bijective on the iterations of {name_of(block)}: it gives "
            f"{new} of {old}",
            at=[block],
            fast="The index map is required to be bijective affine",
        )
