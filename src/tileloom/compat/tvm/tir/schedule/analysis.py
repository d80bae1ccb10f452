"""`tvm.tir.schedule.analysis`: which loops of a block an intrinsic could take."""

from __future__ import annotations

from typing import Any

from ..... import schedule
from .....schedule.analysis.auto_tensorize import (
    AutoTensorizeMappingInfo,
    TensorizeInfo,
    auto_tensorize_mapping,
    tensorize_loop_mapping,
)
from .....schedule.analysis.tree import scope_root
from .....tir import Block, PrimFunc, pre_order
from ..._names import missing
from ._suggest import suggest_index_map


def get_tensorize_loop_mapping(
    sch: schedule.Schedule, block: Any, desc_func: PrimFunc, allow_padding: bool = False
) -> TensorizeInfo | None:
    """The loops of a block that could run an intrinsic; None where there are none."""
    sref = sch.get_sref(sch.get_block(block) if isinstance(block, str) else block)
    return tensorize_loop_mapping(sch.state, sref, desc_func, allow_padding)


def get_auto_tensorize_mapping_info(
    sch: schedule.Schedule, block: Any, desc_func: PrimFunc
) -> AutoTensorizeMappingInfo | None:
    """How a block's axes could be fused into those of a description; None if it is another sum."""
    sref = sch.get_sref(sch.get_block(block) if isinstance(block, str) else block)
    return auto_tensorize_mapping(sref.block, desc_func)


def is_output_block(sch: schedule.Schedule, block: Any) -> bool:
    """Whether a block writes a buffer that its scope does not allocate."""
    sref = sch.get_sref(sch.get_block(block) if isinstance(block, str) else block)
    local = scope_root(sref).block.alloc_buffers
    return any(region.buffer not in local for region in sref.block.writes)


def has_block(sch: schedule.Schedule, block_name: str) -> bool:
    """Whether the function that is worked on has a block of that name."""
    body = sch.mod[sch.func_working_on or "main"].body
    return any(isinstance(n, Block) and n.name_hint == block_name for n in pre_order(body))


__all__ = [
    "AutoTensorizeMappingInfo", "TensorizeInfo", "get_auto_tensorize_mapping_info",
    "get_tensorize_loop_mapping", "has_block", "is_output_block", "suggest_index_map",
]  # fmt: skip
__getattr__ = missing(__name__)
