"""tile_with_tensor_intrin: the innermost loops of a block made those of an intrinsic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...tir import PrimFunc
from ..analysis import scope
from ..analysis.auto_tensorize import TensorizeInfo, tensorize_loop_mapping
from ..rv import BlockRV, LoopRV
from ..tensor_intrin import TensorIntrin

if TYPE_CHECKING:
    from ..schedule import Schedule


def tile_with_tensor_intrin(
    sch: Schedule, block: BlockRV, intrin_name: str, allow_padding: bool = False
) -> LoopRV | None:
    """Split and reorder the loops of a block so that the innermost are those of an intrinsic.

    Answers the outermost of them, which `tensorize` and `blockize` take; None where the loops do
    not fit. With `allow_padding` domains are rounded up where they must be.

    >>> from tileloom import te
    >>> A = te.placeholder((64, 32), "uint8", name="A")
    >>> B = te.placeholder((48, 32), "int8", name="B")
    >>> k = te.reduce_axis((0, 32), "k")
    >>> def product(i, j):
    ...     return te.sum(A[i, k].astype("int32") * B[j, k].astype("int32"), axis=k)
    >>> C = te.compute((64, 48), product, name="C")
    >>> from tileloom import Schedule
    >>> sch = Schedule(te.create_prim_func([A, B, C]))
    >>> loop = tile_with_tensor_intrin(sch, sch.get_block("C"), "dot_16x4_vnni")
    >>> [sch.get(loop).static_extent for loop in sch.get_loops(sch.get_block("C"))]
    [64, 3, 8, 16, 4]
    """
    intrin = TensorIntrin.get(intrin_name)
    if intrin is None:
        return None
    info = _mapping(sch, block, intrin.desc, allow_padding)
    if info is not None and info.block_iter_paddings is not None:
        _pad(sch, block, info.block_iter_paddings)
        info = _mapping(sch, block, intrin.desc)
    return None if info is None else _split(sch, block, info)


def _mapping(
    sch: Schedule, block: BlockRV, desc: PrimFunc, allow_padding: bool = False
) -> TensorizeInfo | None:
    return tensorize_loop_mapping(sch.state, sch.get_sref(block), desc, allow_padding)


def _pad(sch: Schedule, block: BlockRV, paddings: Sequence[int]) -> None:
    """Round domains up, and make padding part of what made the operands and uses the result."""
    sref = sch.get_sref(block)
    makers, users = scope.producers(sch.state, sref), scope.consumers(sch.state, sref)
    sch.pad_einsum(block, paddings)
    inlined: list[BlockRV] = []
    for pad in sch.get_producers(block):
        if sch.get_sref(pad) not in makers:
            inlined += sch.get_producers(pad)
    for crop in sch.get_consumers(block):
        if sch.get_sref(crop) not in users and sch.get_consumers(crop):
            inlined.append(crop)
    for found in inlined:
        sch.compute_inline(found)


def _split(sch: Schedule, block: BlockRV, info: TensorizeInfo) -> LoopRV:
    """Split the loops of an intrinsic off, and put them innermost."""
    loop_of = {sch.get_sref(loop): loop for loop in sch.get_loops(block)}
    inner: dict[int, LoopRV] = {}
    for sref, desc in info.loop_map.items():
        _, part = sch.split(loop_of[sref], [None, desc.static_extent])
        inner[info.desc_loop_indexer[desc]] = part
    ordered = [inner[place] for place in sorted(inner)]
    chosen = {sch.get_sref(loop) for loop in ordered}
    every = sch.get_loops(block)
    first = next(k for k, loop in enumerate(every) if sch.get_sref(loop) in chosen)
    rest = [loop for loop in every[first:] if sch.get_sref(loop) not in chosen]
    sch.reorder(*rest, *ordered)
    return ordered[0]
