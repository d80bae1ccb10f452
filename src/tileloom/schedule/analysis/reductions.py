"""What makes the statements of a block with an init a reduction, whatever stands around it."""

from __future__ import annotations

from ...expr import REDUCE, SPATIAL, Analyzer, Range, Var, free_vars, free_vars_of
from ...tir import (
    Block,
    Buffer,
    BufferRegion,
    BufferStore,
    Stmt,
    access_regions,
    collect_exprs,
    pre_order,
)
from ..errors import name_of, refuse
from ..sref import StmtSRef
from ..state import ScheduleState
from .memo import memoised
from .tree import is_one


@memoised
def statement_fault(state: ScheduleState, block: Block) -> str | None:
    """Why the statements of a block are no reduction; None if they are one.

    The init starts the very elements that the body updates. Data-parallel variables alone say
    which these are, all of them do, and the values that the init stores depend on no others.
    """
    return _update_fault(block) or _start_fault(block) or _place_fault(block)


def check_statements(state: ScheduleState, block: StmtSRef) -> None:
    """Refuse a block with an init whose statements are no reduction; nothing for other blocks."""
    stmt = block.block
    fault = None if stmt.init is None else statement_fault(state, stmt)
    if fault is not None:
        raise refuse(f"{name_of(block)} is no reduction: {fault}", at=[block])


def _reduced(block: Block) -> set[Var]:
    return {axis.var for axis in block.iter_vars if axis.iter_type == REDUCE}


def _update_fault(block: Block) -> str | None:
    """Whether reduction variables say where results are stored."""
    written = {region.buffer for region in block.writes}
    for node in pre_order(block):
        if isinstance(node, BufferStore) and node.buffer in written:
            for index in node.indices:
                bad = free_vars(index) & _reduced(block)
                if bad:
                    names = ", ".join(sorted(repr(var.name) for var in bad))
                    return f"the reduction variable {names} is in the index of what it writes"
    return None


def _start_fault(block: Block) -> str | None:
    """Whether the init leaves out elements that the body updates, or starts others."""
    if block.init is None:
        return "it has no T.init()"
    used = _variables(block.init) & _reduced(block)
    if used:
        names = ", ".join(sorted(repr(var.name) for var in used))
        return f"its T.init() depends on the reduction variable {names}"
    known = Analyzer({axis.var: axis.domain for axis in block.iter_vars})
    started, updated = _written(block, block.init), _written(block, block.body)
    for buffer in (*started, *(b for b in updated if b not in started)):
        if buffer in block.alloc_buffers:
            continue
        if buffer not in started:
            return f"its T.init() does not start {buffer.name!r}, which it writes"
        if buffer not in updated:
            return f"its T.init() starts {buffer.name!r}, which it does not update"
        if not _same(known, started[buffer], updated[buffer]):
            places = f"{_shown(started[buffer])}, and what it updates is {_shown(updated[buffer])}"
            return f"its T.init() starts {places}"
    return None


def _shown(region: BufferRegion) -> str:
    return f"{region.buffer.name}[{', '.join(map(_extent_shown, region.region))}]"


def _extent_shown(part: Range) -> str:
    return str(part.min) if is_one(part.extent) else f"{part.min}:{part.min + part.extent}"


def _variables(stmt: Stmt) -> set[Var]:
    return set(collect_exprs(stmt, Var))


def _written(block: Block, stmt: Stmt) -> dict[Buffer, BufferRegion]:
    domains = {axis.var: axis.domain for axis in block.iter_vars}
    views = {match.buffer: match.source for match in block.match_buffers}
    regions = (views.get(r.buffer, r) for r in access_regions(stmt, domains)[1])
    return {r.buffer: r for r in regions}


def _same(known: Analyzer, a: BufferRegion, b: BufferRegion) -> bool:
    def equal(x: Range, y: Range) -> bool:
        return known.can_prove_equal(x.min, y.min) and known.can_prove_equal(x.extent, y.extent)

    return all(equal(x, y) for x, y in zip(a.region, b.region, strict=True))


def _place_fault(block: Block) -> str | None:
    """Whether instances of several values of a data-parallel variable have one result."""
    written = _written(block, block.body).values()
    placing = free_vars_of(part.min for region in written for part in region.region)
    for axis in block.iter_vars:
        if axis.iter_type == SPATIAL and axis.var not in placing and not is_one(axis.domain.extent):
            return (
                f"its data-parallel variable {axis.var.name!r} is in no index of what it writes, "
                "so its iterations start and update the same results"
            )
    return None
