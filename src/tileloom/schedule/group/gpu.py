"""Groups on a GPU: every block tiled alike, in one kernel.

Each block gets the loops [block, row thread, reduction thread, inner]; the outermost loops of all
blocks become one, so that a thread block makes a row, or a few, from beginning to end. All blocks
deal positions out to threads in the same way. So what a thread reads it has stored itself, and
intermediates stay in its registers; results of reductions reach every thread that shared in them.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...base import Target
from ...expr import REDUCE, Call, Div, Expr, Var, post_order
from ...tir import Block, IRModule, PrimFunc
from ..analysis.blocks import is_output, leaf_store
from ..errors import ScheduleError
from ..instruction import can
from ..library import auto_inline
from ..rv import BlockRV, LoopRV
from ..schedule import Schedule
from .domain import Domain, GroupAxis, GroupRefused, find_domain
from .tile import KEPT, Tile, alternatives, choose_tile

_CHEAP = frozenset({"tir.if_then_else", "tir.likely", "tir.abs", "tir.fabs"})


def schedule_gpu(mod: IRModule | PrimFunc, target: Target) -> Schedule:
    """A group as one kernel for a GPU.

    Args:
        mod: a function of blocks that are bound to nothing yet.
        target: a GPU.

    Returns:
        The schedule, whose trace holds the steps that were taken.

    Raises:
        GroupRefused: the blocks share no iteration domain.

    >>> from tileloom import te
    >>> from tileloom.base import target
    >>> A, k = te.placeholder((64, 100), name="A"), te.reduce_axis((0, 100), name="k")
    >>> B = te.compute((64,), lambda i: te.sum(A[i, k], axis=k), name="B")
    >>> C = te.compute((64, 100), lambda i, j: A[i, j] / B[i], name="C")
    >>> sch = schedule_gpu(te.create_prim_func([A, C]), target("cuda -arch=sm_80"))
    >>> [sch.get(loop).thread_tag for loop in sch.get_loops("C")][:2]
    ['blockIdx.x', 'threadIdx.y']
    """
    sch = Schedule(mod)
    auto_inline(sch, into_producers=False)
    domain = find_domain(sch)
    blocks = _blocks(sch).values()
    first = choose_tile(
        domain.rows,
        domain.depth,
        reduces=any(map(_reduces, blocks)),
        innermost=domain.reduces_innermost,
        bits=max((_bits(block) for block in blocks), default=32),
        target=target,
    )
    for tile in alternatives(first, domain.rows, domain.depth):
        trial = sch.copy()
        try:
            _apply(trial, domain.copy(), tile)
        except ScheduleError as error:
            reason = error
        else:
            return trial
    raise GroupRefused(f"no tile fits the group: {reason.message}")


def _apply(sch: Schedule, domain: Domain, tile: Tile) -> None:
    _inline_the_rest(sch, domain, tile)
    _keep_outputs_that_are_read(sch, domain)
    for name in _blocks(sch):
        _flatten(sch, name, domain)
    outermost = [_tile_block(sch, name, domain, tile) for name in _blocks(sch)]
    block = sch.merge(*outermost) if len(outermost) > 1 else outermost[0]
    sch.bind(block, "blockIdx.x")


def _blocks(sch: Schedule) -> dict[str, Block]:
    """The blocks by name, in order."""
    found = (sch.get(rv) for rv in sch.get_child_blocks(sch.get_block("root")))
    return {block.name_hint: block for block in found}


def _reduces(block: Block) -> bool:
    return any(axis.iter_type == REDUCE for axis in block.iter_vars)


def _bits(block: Block) -> int:
    return max(region.buffer.dtype.bits for region in (*block.reads, *block.writes))


def _is_output(sch: Schedule, block: Block) -> bool:
    return is_output(sch.state, sch.get_sref(block))


# ---------------------------------------------------------------------------- registers


def _inline_the_rest(sch: Schedule, domain: Domain, tile: Tile) -> None:
    """Compute again what costs less than keeping it; the rest stays in registers."""
    for name, block in reversed(_blocks(sch).items()):
        if _reduces(block) or _is_output(sch, block):
            continue
        rv = sch.get_block(name)
        full = any(axis is not None and axis.reduced for axis in domain.axes[name])
        many = len(sch.get_consumers(rv)) > 1 or not full
        if many and _is_costly(block) and (not full or tile.reduce_inner <= KEPT):
            continue
        if can(sch.state, "ComputeInline", sch.get_sref(rv)):
            sch.compute_inline(rv)


def _is_costly(block: Block) -> bool:
    store = leaf_store(block)
    return store is None or any(
        (isinstance(node, Call) and node.op not in _CHEAP)
        or (isinstance(node, Div) and node.dtype.is_float)
        for node in post_order(store.value)
    )


def _keep_outputs_that_are_read(sch: Schedule, domain: Domain) -> None:
    """An output that other blocks read stays in registers too; they read it there."""
    for name in _blocks(sch):
        block = sch.get(sch.get_block(name))
        if not _is_output(sch, block):
            continue
        made = {region.buffer for region in block.writes}
        readers = [
            other
            for other, its in _blocks(sch).items()
            if other != name and made & {region.buffer for region in its.reads}
        ]
        if readers:
            copy = sch.cache_write(sch.get_block(name), 0, "local", consumer_blocks=readers)
            domain.axes[sch.get(copy).name_hint] = _axes_of_copy(block, domain)


def _axes_of_copy(block: Block, domain: Domain) -> list[GroupAxis | None]:
    """The axes of a block that copies what another one writes, dimension by dimension."""
    by_var = dict(zip((i.var for i in block.iter_vars), domain.axes[block.name_hint], strict=True))
    return [
        by_var.get(dim.min) if isinstance(dim.min, Var) else None for dim in block.writes[0].region
    ]


def _flatten(sch: Schedule, name: str, domain: Domain) -> None:
    """Store an intermediate by row and by position in the row."""
    block = sch.get(sch.get_block(name))
    if _is_output(sch, block) or len(block.writes) != 1:
        return
    shape = [int(n) for n in block.writes[0].buffer.shape]
    axes = _axes_of_copy(block, domain)

    def position(index: Sequence[Var], kept: Sequence[GroupAxis]) -> Expr | int:
        total: Expr | int = 0
        for axis in kept:
            if axis in axes:
                total = total * axis.extent + index[axes.index(axis)]
        return total

    full = any(axis is not None and axis.reduced for axis in axes)

    def index_map(*index: Var) -> list[Expr | int]:
        row = position(index, domain.spatial)
        return [row, position(index, domain.reduced)] if full else [row]

    if len(shape) > 1 + full:
        sch.transform_layout(name, ("write", 0), index_map)


# ---------------------------------------------------------------------------- tiles


def _tile_block(sch: Schedule, name: str, domain: Domain, tile: Tile) -> LoopRV:
    """Tile a block and bind its threads; its outermost loop, which is not bound yet."""
    rv = sch.get_block(name)
    output = _is_output(sch, sch.get(rv))
    rows, depth = _two_loops(sch, rv, name, domain)
    if domain.reduces_innermost or not any(map(_reduces, _blocks(sch).values())):
        row_tag, depth_tag = "threadIdx.y", "threadIdx.x"
    else:
        row_tag, depth_tag = "threadIdx.x", "threadIdx.y"
    if depth is None and not domain.reduced:
        return _plain(sch, rows, tile)
    if depth is None and output and tile.reduce_thread > 1:
        # A result of the whole row: one of the threads that have it writes it.
        rows, depth = _with_unit_loop(sch, rv, rows)
    block: LoopRV
    block, row = sch.split(rows, [None, tile.spatial_thread])
    if depth is not None:
        inner, thread = sch.split(depth, [None, tile.reduce_thread])
        sch.reorder(block, row, thread, inner)
        if tile.reduce_thread > 1:
            sch.bind(thread, depth_tag)
    if tile.spatial_thread > 1:
        sch.bind(row, row_tag)
    if not output:
        sch.set_scope(rv, 0, "local")
    return block


def _plain(sch: Schedule, rows: LoopRV, tile: Tile) -> LoopRV:
    """A formula of a group that reduces nothing."""
    block: LoopRV
    block, thread, inner = sch.split(rows, [None, tile.spatial_thread, tile.spatial_inner])
    sch.bind(thread, "threadIdx.x")
    if tile.vector > 1:
        sch.vectorize(inner)
    return block


def _two_loops(
    sch: Schedule, rv: BlockRV, name: str, domain: Domain
) -> tuple[LoopRV, LoopRV | None]:
    """The loops over the rows and over the reduction axes (None for a formula of rows)."""
    loops = sch.get_loops(rv)
    axes = domain.axes[name]
    if len(loops) != len(axes):
        raise GroupRefused(f"block {name!r} has {len(loops)} loops for {len(axes)} axes")
    by_axis = {axis: loop for axis, loop in zip(axes, loops, strict=True) if axis is not None}
    missing = [axis for axis in domain.spatial if axis not in by_axis]
    if missing:
        raise GroupRefused(f"block {name!r} does not run over all rows of the group")
    units = [loop for axis, loop in zip(axes, loops, strict=True) if axis is None]
    rows = [by_axis[axis] for axis in domain.spatial]
    depth = [by_axis[axis] for axis in domain.reduced if axis in by_axis]
    if depth and len(depth) < len(domain.reduced):
        raise GroupRefused(f"block {name!r} runs over some of the reduction axes only")
    if not rows:
        rows = [sch.add_unit_loop(sch.get_loops(rv)[0] if loops else rv)]
    order = [*rows, *depth, *units]
    if len(order) > 1:
        sch.reorder(*order)
    return _fused(sch, rows), _fused(sch, depth) if depth else None


def _fused(sch: Schedule, loops: Sequence[LoopRV]) -> LoopRV:
    return loops[0] if len(loops) == 1 else sch.fuse(*loops)


def _with_unit_loop(sch: Schedule, rv: BlockRV, rows: LoopRV) -> tuple[LoopRV, LoopRV]:
    return rows, sch.add_unit_loop(rv)


__all__ = ["GroupAxis", "schedule_gpu"]
