"""`tvm.tir.schedule.transform`: loops put in place for an intrinsic."""

from __future__ import annotations

from typing import Any

from ..... import schedule
from .....schedule import LoopRV
from .....schedule.tensor_intrin import TensorIntrin
from ..._names import missing
from .analysis import get_tensorize_loop_mapping


def tile_with_tensor_intrin(
    sch: schedule.Schedule, block: Any, intrin_name: str, allow_padding: bool = False
) -> LoopRV | None:
    """Split and reorder the loops of a block so that the innermost are those of an intrinsic.

    Answers the outermost of them, which `tensorize` takes; None where the loops do not fit.
    """
    block = sch.get_block(block) if isinstance(block, str) else block
    intrin = TensorIntrin.get(intrin_name)
    info = None
    if intrin is not None:
        info = get_tensorize_loop_mapping(sch, block, intrin.desc, allow_padding)
    if info is None:
        return None
    if info.block_iter_paddings is not None:
        sch.pad_einsum(block, info.block_iter_paddings)
        info = get_tensorize_loop_mapping(sch, block, intrin.desc)  # type: ignore[union-attr]
        if info is None:
            return None
    wanted = {loop.loop.loop_var: desc for loop, desc in info.loop_map.items()}
    inner: dict[int, LoopRV] = {}
    for loop in sch.get_loops(block):
        desc = wanted.get(sch.get(loop).loop_var)
        if desc is None:
            continue
        place = info.desc_loop_indexer[desc]
        _, inner[place] = sch.split(loop, [None, desc.static_extent])
    ordered = [inner[place] for place in sorted(inner)]
    chosen = {sch.get(loop).loop_var for loop in ordered}
    every = sch.get_loops(block)
    outer = [loop for loop in every if sch.get(loop).loop_var not in chosen]
    names = {sch.get(loop).loop_var: loop for loop in every}
    sch.reorder(*outer, *(names[sch.get(loop).loop_var] for loop in ordered))
    return ordered[0]


__all__ = ["tile_with_tensor_intrin"]
__getattr__ = missing(__name__)
