"""tensorize: a tensor intrinsic in place of what it computes."""

from __future__ import annotations

from ...base.errors import UserError
from ...expr import Analyzer, Expr, IntImm, Range, const
from ...tir import (
    Block,
    Buffer,
    BufferRegion,
    MatchBufferRegion,
)
from ..errors import name_of, refuse
from ..instruction import PlaceRef, primitive
from ..sref import StmtSRef
from ..state import ScheduleState
from ..tensor_intrin import TensorIntrin, root_block
from ._blockize import blockized
from ._buffers import check_views
from ._cache import domains_around
from ._tensorize import Match, Mismatch, Renewed

#: Bounds that are less than this are known.
LARGEST = 1 << 62


@primitive("Tensorize")
def tensorize(
    state: ScheduleState,
    block_or_loop: PlaceRef,
    tensor_intrin: str,
    preserve_unit_iters: bool = True,
) -> None:
    """Compute the part of a program inside of a block or loop by a tensor intrinsic.

    The loops become a block (see `blockize`), which must compute exactly what the intrinsic's
    description says; its body becomes the implementation, over views of the program's buffers. So
    does its init, if the description's root block has one; else that stays.

    Args:
        block_or_loop: a block whose body matches, or the outermost loop of what matches.
        tensor_intrin: the name of an intrinsic, see `TensorIntrin.register`.
        preserve_unit_iters: keep loops of extent one in the values of blocks.

    >>> import tileloom
    >>> from tileloom import te
    >>> A = te.placeholder((8, 64), name="A"); B = te.placeholder((8, 64), name="B")
    >>> k = te.reduce_axis((0, 64), "k")
    >>> C = te.compute((8, 8), lambda i, j: te.sum(A[i, k] * B[j, k], axis=k), name="C")
    >>> sch = tileloom.Schedule(te.create_prim_func([A, B, C]))
    >>> i, j, k = sch.get_loops("C")
    >>> outer, inner = sch.split(k, [None, 4])
    >>> init = sch.decompose_reduction("C", outer)
    >>> sch.tensorize(inner, "dot_4_f32")
    >>> [match.buffer.name for match in sch.get(sch.get_block("C_update_o")).match_buffers]
    ['A', 'B', 'C']
    """
    try:
        intrin = TensorIntrin.get(tensor_intrin)
    except UserError as error:
        raise refuse(error.message, at=[block_or_loop], hint=error.hint) from None
    if intrin is None:
        raise refuse(f"no tensor intrinsic is called {tensor_intrin!r}")
    if block_or_loop.is_block:
        realize = state.realize(block_or_loop)
        new = _implemented(realize.block, intrin, tensor_intrin, block_or_loop)
        state.replace(block_or_loop, new, {realize.block: new})
        return
    realize, _ = blockized(state, block_or_loop, preserve_unit_iters)
    new = _implemented(realize.block, intrin, tensor_intrin, block_or_loop)
    state.replace(block_or_loop, realize.replace(block=new))


def _implemented(block: Block, intrin: TensorIntrin, name: str, at: StmtSRef) -> Block:
    """The block with the implementation in it."""
    kind = _index_type(block)
    desc, impl = Renewed(kind).func(intrin.desc), Renewed(kind).func(intrin.impl)
    match = Match(desc)
    try:
        match.root(block, root_block(desc))
    except Mismatch as error:
        raise refuse(
            f"what {name_of(at)} computes is not what the intrinsic {name!r} computes: "
            f"{error.message}",
            at=[at],
            hint=f"its description is\n{intrin.desc}",
            fast="The block does not match the description of the tensor intrinsic",
        ) from None
    views = tuple(
        _view(theirs, ours, match) for ours, theirs in zip(desc.buffers, impl.buffers, strict=True)
    )
    for match_region in views:
        _check_inside(block, match_region.source, at)
    made = root_block(impl)
    begins = root_block(desc).init is not None
    new = block.replace(
        init=None if begins else block.init,
        body=made.body,
        alloc_buffers=made.alloc_buffers,
        match_buffers=(*views, *made.match_buffers),
        annotations={**block.annotations, **made.annotations},
    )
    check_views(new)
    return new


def _index_type(block: Block) -> str:
    """The widest type of an index of the block's regions."""
    kinds = [part.min.dtype for r in (*block.reads, *block.writes) for part in r.region]
    return "int64" if any(kind.bits == 64 for kind in kinds) else "int32"


def _check_inside(block: Block, region: BufferRegion, at: StmtSRef) -> None:
    """Refuse a view that surely reaches out of its buffer, as where a block guards its accesses."""
    own = {axis.var: axis.domain for axis in block.iter_vars}
    known = Analyzer({**domains_around(at), **own})
    for part, size in zip(region.region, region.buffer.shape, strict=True):
        first = known.const_int_bound(part.min)
        end = known.const_int_bound(part.min + part.extent)
        if first.min_value >= 0 and not _beyond(end.max_value, size):
            continue
        if first.min_value > -LARGEST and end.max_value < LARGEST:
            raise refuse(
                f"the intrinsic needs a view of {region.buffer.name!r} from {part.min} to "
                f"{part.min + part.extent}, which is not all in [0, {size})",
                at=[at],
                hint="pad the buffer in a block of its own first",
            )


def _beyond(end: int, size: Expr) -> bool:
    return isinstance(size, IntImm) and end > size.value


def _view(view: Buffer, desc: Buffer, match: Match) -> MatchBufferRegion:
    base = match.bases[desc]
    lead = len(base) - view.ndim
    one = [const(1, start.dtype) for start in base[:lead]]
    extents: list[Expr] = [*one, *view.shape]
    parts = tuple(Range(a, e.astype(a.dtype)) for a, e in zip(base, extents, strict=True))
    return MatchBufferRegion(view, BufferRegion(match.buffers[desc], parts))
