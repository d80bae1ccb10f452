"""reindex: a copy of a buffer whose axes are the iteration variables of a block."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...expr import (
    SPATIAL,
    Analyzer,
    And,
    Call,
    Expr,
    IterVar,
    Or,
    Range,
    Select,
    Var,
    const,
    free_vars,
    free_vars_of,
    post_order,
    substitute,
)
from ...tir import (
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferStore,
    For,
    Stmt,
    make_buffer,
    pre_order,
    stmt_exprs,
)
from ..analysis.blocks import holds_blocks, leaf_store, simplified_indices
from ..analysis.cover import check_stage_pipeline
from ..analysis.regions import path_domains, sure_writes
from ..analysis.scope import block_scope
from ..analysis.starts import check_starts
from ..analysis.tree import loops_above, only_child_chain, scope_root
from ..errors import name_of, refuse
from ..instruction import BlockRef, primitive
from ..sref import StmtSRef
from ..state import ScheduleState
from ._boxes import accessed_box, covers, made_whole, runs_all
from ._cache import (
    Location,
    UseInstead,
    copy_block,
    domains_around,
    insert_cache,
    parts_make_whole,
    region_of,
)
from ._domains import covering
from ._rebuild import index_in
from .transform_layout import accessed_region, find_access, shown_access

_TRUE = const(True)
_WRITE = 1
_CHOICE = "tir.if_then_else"


def _front(state: ScheduleState, block: BlockRef, buffer: Any) -> dict[str, Any]:
    return find_access(block, buffer)


@primitive("ReIndex", front=_front, shown=shown_access)
def reindex(
    state: ScheduleState, block: BlockRef, buffer_index: int, buffer_index_type: int
) -> BlockRef:
    """Let a block access a buffer by its iteration variables, through a copy; answer the copy.

    The new buffer has an axis for each iteration variable of the block that the access uses. The
    copy comes before the block where it reads the buffer, and after it where it writes it.

    Args:
        buffer: ("read" or "write", index), the name of the buffer, or the buffer.

    >>> import tileloom
    >>> from tileloom import te
    >>> A = te.placeholder((8, 4), name="A")
    >>> B = te.compute((4, 8), lambda i, j: A[j, i] + 1.0, name="B")
    >>> sch = tileloom.Schedule(te.create_prim_func([A, B])); copy = sch.reindex("B", ("read", 0))
    >>> print(sch.get(copy).body); print(sch.get(sch.get_block("B")).body)
    A_reindex[v0, v1] = A[v1, v0]
    B[v_i, v_j] = A_reindex[v_i, v_j] + T.float32(1.0)
    """
    stmt, scope = block.block, scope_root(block)
    writes = buffer_index_type == _WRITE
    buffer = accessed_region(block, buffer_index, buffer_index_type).buffer
    check_stage_pipeline(state, scope)
    top = _check_chain(block)
    indices = simplified_indices(stmt, _only_access(block, buffer))
    _check_use(state, block, buffer, indices, writes)
    used = free_vars_of(indices)
    covered = [axis for axis in stmt.iter_vars if axis.var in used]
    cache = make_buffer(
        [axis.domain.min + axis.domain.extent for axis in covered],
        str(buffer.dtype),
        f"{buffer.name}_reindex",
        scope=buffer.scope,
        data_alignment=buffer.data_alignment,
    )
    stage, copy = _stage(buffer, cache, covered, indices, writes)
    rewriter = UseInstead.at(buffer, cache, [axis.var for axis in covered], writes=True)
    location = Location(scope, index_in(scope, top))
    insert_cache(state, scope, location, [(int(writes), stage)], [block], rewriter, cache)
    return state.sref(copy)


# ---------------------------------------------------------------------------- checks


def _check_chain(block: StmtSRef) -> StmtSRef:
    """The outermost loop around the block; every loop must hold nothing but the next."""
    loops = loops_above(block)
    if loops and not only_child_chain(loops[0], block):
        raise refuse(
            f"the loops around {name_of(block)} hold other blocks too",
            at=[block, loops[0]],
            hint="reindex before other blocks are moved under these loops",
        )
    return loops[0] if loops else block


def _only_access(block: StmtSRef, buffer: Buffer) -> Sequence[Expr]:
    """The indices of all accesses of a buffer, which must be the same."""
    stmt = block.block
    if holds_blocks(stmt):
        raise refuse(
            f"{name_of(block)} holds other blocks",
            at=[block],
            fast="The target block is not a leaf block.",
        )
    found: dict[tuple[Expr, ...], None] = {}
    for node in (stmt, *pre_order(stmt.body)):
        if isinstance(node, BufferStore) and node.buffer is buffer:
            found[node.indices] = None
        for expr in () if node is stmt else stmt_exprs(node):
            if buffer.data in free_vars(expr):
                raise _access_refusal(block, buffer, "it uses its pointer")
            for part in post_order(expr):
                if isinstance(part, BufferLoad) and part.buffer is buffer:
                    found[part.indices] = None
    if len(found) != 1:
        raise _access_refusal(block, buffer, f"it does so with {len(found)} different indices")
    (indices,) = found
    inside = {node.loop_var for node in pre_order(stmt.body) if isinstance(node, For)}
    if any(not free_vars(index).isdisjoint(inside) for index in indices):
        raise _access_refusal(block, buffer, "its indices change inside the block")
    return indices


def _access_refusal(block: StmtSRef, buffer: Buffer, why: str) -> Exception:
    return refuse(
        f"{name_of(block)} cannot access {buffer.name!r} by its iteration variables: {why}",
        at=[block],
        fast="The target buffer should be accessed via BufferLoad or BufferStore. The indices "
        "should be the same if there are multiple accesses to the target buffer.",
    )


def _check_use(
    state: ScheduleState, block: StmtSRef, buffer: Buffer, indices: Sequence[Expr], writes: bool
) -> None:
    """Refuse what a copy of all that the iterations reach would break."""
    stmt = block.block
    both = region_of(stmt.reads, buffer), region_of(stmt.writes, buffer)
    if both[0] is not None and both[1] is not None and not (writes and stmt.init is not None):
        raise refuse(f"{name_of(block)} both reads and writes {buffer.name!r}", at=[block])
    check_inside(block, buffer, indices, instances=runs_all(state, block))
    if writes:
        check_starts(state, block, buffer, "a copy")
    elif not (_is_unguarded(stmt, buffer) and runs_all(state, block)):
        _check_made(state, block, buffer, indices)
    if writes and not (runs_all(state, block) and parts_make_whole(state, block, buffer)):
        raise refuse(
            f"{name_of(block)} and the loops around it may leave out some elements of "
            f"{buffer.name!r}, but the copy would write all that its instances reach",
            at=[block],
        )


def _check_made(
    state: ScheduleState, block: StmtSRef, buffer: Buffer, indices: Sequence[Expr]
) -> None:
    """Refuse where the copy would read what the block does not, and nobody may have written."""
    scope = scope_root(block)
    if not any(s.is_block and buffer in s.block.alloc_buffers for s in block.ancestors()):
        return
    running = {axis.var: axis.domain for axis in block.block.iter_vars}
    points = [Range(index, const(1, index.dtype)) for index in indices]
    known = Analyzer()
    wanted = [
        covering(known, interval, Range.from_extent(size))
        for interval, size in zip(
            accessed_box(points, running, _TRUE, {}), buffer.shape, strict=True
        )
    ]
    for writer in block_scope(state, scope.block).writers.get(buffer, ()):
        sref = state.sref(writer)
        declared = region_of(sure_writes(state, writer), buffer)
        if declared is None or not parts_make_whole(state, sref, buffer):
            continue
        made = made_whole(state, sref, declared, path_domains(sref, scope), domains_around(scope))
        if covers(made, wanted, known):
            return
    raise refuse(
        f"{name_of(block)} may read only some of the elements of {buffer.name!r} that all values "
        "of its iteration variables reach, and the copy others before they are made",
        at=[block],
    )


def check_inside(block: StmtSRef, buffer: Buffer, indices: Sequence[Expr], instances: bool) -> None:
    """Refuse indices that may leave the buffer, which the block may guard but a copy does not.

    Args:
        instances: whether the copy has just the instances that the block has.
    """
    if instances and _is_unguarded(block.block, buffer):
        return
    analyzer = Analyzer({axis.var: axis.domain for axis in block.block.iter_vars})
    for index, size in zip(indices, buffer.shape, strict=True):
        if not analyzer.can_prove(index >= 0) or not analyzer.can_prove(index < size):
            raise refuse(
                f"the index {index} of {buffer.name!r} may be outside of [0, {size}), so the copy "
                f"would access what {name_of(block)} does not",
                at=[block],
                hint="inline the padding, or pad the buffer in a block of its own",
            )


def _is_unguarded(block: Block, buffer: Buffer) -> bool:
    """Whether every instance of a block accesses a buffer, under no condition."""
    store = leaf_store(block)
    if store is None:
        return False
    work = [store.value, *store.indices]
    if store.buffer is buffer:
        return True
    while work:
        node = work.pop()
        if isinstance(node, BufferLoad) and node.buffer is buffer:
            return True
        if isinstance(node, (And, Or, Select)) or (isinstance(node, Call) and node.op == _CHOICE):
            work.append(node.children[0])
        else:
            work.extend(node.children)
    return False


# ---------------------------------------------------------------------------- the copy


def _stage(
    buffer: Buffer,
    cache: Buffer,
    covered: Sequence[IterVar],
    indices: Sequence[Expr],
    writes: bool,
) -> tuple[Stmt, Block]:
    axes = [
        IterVar(axis.domain, Var(f"v{i}", axis.var.dtype), SPATIAL)
        for i, axis in enumerate(covered)
    ]
    values: dict[Var, Expr] = {old.var: new.var for old, new in zip(covered, axes, strict=True)}
    there = [substitute(index, values) for index in indices]
    here = [axis.var for axis in axes]
    name = f"{(buffer if writes else cache).name}_reindex"
    if writes:
        block = copy_block(axes, cache, here, buffer, there, name)
    else:
        block = copy_block(axes, buffer, there, cache, here, name)
    loops = [Var(f"ax{i}", axis.var.dtype) for i, axis in enumerate(axes)]
    stmt: Stmt = BlockRealize(tuple(loops), _TRUE, block)
    for var, axis in reversed(list(zip(loops, axes, strict=True))):
        stmt = For(var, axis.domain.min, axis.domain.extent, "serial", stmt)
    return stmt, block
