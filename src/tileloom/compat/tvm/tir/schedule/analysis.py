"""`tvm.tir.schedule.analysis`: which loops of a block an intrinsic could take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..... import schedule
from .....expr import IterVar, free_vars
from .....schedule import StmtSRef
from .....schedule.analysis.tree import loops_above, scope_root
from .....tir import Block, BlockRealize, For, PrimFunc, pre_order
from ..._names import missing
from ._auto_tensorize import AutoTensorizeMappingInfo, get_auto_tensorize_mapping_info
from ._suggest import suggest_index_map


@dataclass(frozen=True)
class TensorizeInfo:
    """How the loops of a block stand for those of an intrinsic's description.

    Attributes:
        loop_map: from references to loops of the block to loops of the description.
        desc_loop_indexer: from loops of the description to their numbers, outermost first.
        block_iter_paddings: what the domain of each iteration variable must become a multiple of;
            None where nothing has to be padded.
    """

    loop_map: Mapping[StmtSRef, For]
    desc_loop_indexer: Mapping[For, int]
    block_iter_paddings: Sequence[int] | None = None


def get_tensorize_loop_mapping(
    sch: schedule.Schedule, block: Any, desc_func: PrimFunc, allow_padding: bool = False
) -> TensorizeInfo | None:
    """The loops of a block that could run an intrinsic, found from the innermost variable outwards.

    Each variable of the description is taken for the last one of the block that is left, is of its
    kind, is run by one loop alone, and has a domain that its own divides (or could, if padded).
    None where there is no such variable for one of them.
    """
    sref = sch.get_sref(sch.get_block(block) if isinstance(block, str) else block)
    realize = sch.state.realize(sref)
    loops, desc = _loops_of(desc_func)
    found: dict[StmtSRef, For] = {}
    paddings = [1] * len(realize.block.iter_vars)
    left = list(range(len(realize.block.iter_vars)))
    wanted = zip(desc.block.iter_vars, desc.iter_values, strict=True)
    for axis, value in reversed(list(wanted)):
        run = next((loop for loop in loops if loop.loop_var is value), None)
        size = None if run is None else run.static_extent
        if run is None or size is None:
            return None
        match = next(
            (k for k in reversed(left) if _fits(sref, realize, k, axis, size, allow_padding)), None
        )
        if match is None:
            return None
        left.remove(match)
        outer = _loop_of(sref, realize, match)
        if outer is None:
            return None
        found[outer] = run
        if (outer.loop.static_extent or 0) % size:
            paddings[match] = size
    indexer = {loop: k for k, loop in enumerate(loops)}
    return TensorizeInfo(found, indexer, paddings if any(p > 1 for p in paddings) else None)


def _loops_of(func: PrimFunc) -> tuple[list[For], BlockRealize]:
    """The loops of a description, and the block in them."""
    nodes = list(pre_order(func.body))
    realizes = [node for node in nodes if isinstance(node, BlockRealize) and node.iter_values]
    return [node for node in nodes if isinstance(node, For)], realizes[-1]


def _loop_of(block: StmtSRef, realize: BlockRealize, k: int) -> StmtSRef | None:
    """The loop that an iteration variable stands for by itself."""
    value = realize.iter_values[k]
    for loop in loops_above(block):
        if loop.loop.loop_var is value:
            users = [v for v in realize.iter_values if value in free_vars(v)]
            return loop if len(users) == 1 else None
    return None


def _fits(
    block: StmtSRef, realize: BlockRealize, k: int, axis: IterVar, size: int, padded: bool
) -> bool:
    loop = _loop_of(block, realize, k)
    if loop is None or realize.block.iter_vars[k].iter_type != axis.iter_type:
        return False
    extent = loop.loop.static_extent
    return extent is not None and (extent % size == 0 or padded)


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
