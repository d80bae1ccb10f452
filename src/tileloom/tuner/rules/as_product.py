"""A block given the axes of a matrix product, through copies of its operands and its result."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Literal

from ...expr import Expr, IndexMap, Var
from ...schedule.analysis.auto_tensorize import AutoTensorizeMappingInfo
from ...schedule.rv import BlockRV
from ...schedule.schedule import Schedule
from ...tir import Block, BufferRegion

Access = tuple[Literal["read", "write"], int]
_ACCESSES: tuple[Access, ...] = (("read", 0), ("read", 1), ("write", 0))


def as_product(
    sch: Schedule,
    block: BlockRV,
    mapping: AutoTensorizeMappingInfo,
    as_they_are: Collection[Access] = (),
) -> dict[Access, BlockRV]:
    """Let a block read and write buffers with the axes of an intrinsic.

    Args:
        mapping: the axes of the block that become those of the intrinsic.
        as_they_are: accesses to buffers that have these axes already (`has_axes_of_product`).

    Returns:
        The copies of what it reads and writes.
    """
    before = sch.get_sref(block).block
    (index_map,) = mapping.mappings
    accesses = [access for access in _ACCESSES if access not in as_they_are]
    copies = {
        access: sch.reindex(block, access)
        for access in sorted(accesses, key=lambda access: access[0], reverse=True)
    }
    maps: dict[Access, IndexMap] = {}
    for access in accesses:
        old = _region(before, access).buffer
        now = sch.get_sref(block).block
        own = dict(zip([axis.var for axis in now.iter_vars], index_map.initial_indices))
        indices = mapping.rhs_buffer_indices[mapping.lhs_buffer_map[old]]
        maps[access] = _part_of_map(mapping, indices, _region(now, access), own)
        sch.transform_layout(block, access, maps[access], assume_injective_transform=True)
    for access, copy in copies.items():
        sch.transform_block_layout(copy, maps[access])
    sch.transform_block_layout(block, index_map)
    return copies


def has_axes_of_product(block: Block, access: Access, mapping: AutoTensorizeMappingInfo) -> bool:
    """Whether a buffer has the axes of the intrinsic already, in their order."""
    (index_map,) = mapping.mappings
    region = _region(block, access)
    own = dict(zip((axis.var for axis in block.iter_vars), index_map.initial_indices))
    indices = mapping.rhs_buffer_indices[mapping.lhs_buffer_map[region.buffer]]
    count = len(mapping.rhs_iters)
    finals = index_map.final_indices
    made = dict(zip((axis.var for axis in mapping.rhs_iters), finals[-count:], strict=True))
    wanted = [*finals[:-count], *(made[index] for index in indices if isinstance(index, Var))]
    found = [own.get(part.min) if isinstance(part.min, Var) else None for part in region.region]
    return len(found) == len(wanted) and all(a is b for a, b in zip(found, wanted))


def _region(block: Block, access: Access) -> BufferRegion:
    side, index = access
    return (block.reads if side == "read" else block.writes)[index]


def _part_of_map(
    mapping: AutoTensorizeMappingInfo,
    indices: Sequence[Expr],
    region: BufferRegion,
    own: Mapping[Var, Var],
) -> IndexMap:
    """The part of a map of axes that concerns the axes of one buffer.

    Args:
        indices: the description's indices of the buffer.
        region: what the block accesses of it: an element, at axes of the block.
        own: from axes of the block to the variables of the map.
    """
    (whole,) = mapping.mappings
    kept = len(whole.final_indices) - len(mapping.rhs_iters)
    outer = set(whole.final_indices[:kept])
    made = {a.var: e for a, e in zip(mapping.rhs_iters, whole.final_indices[kept:], strict=True)}
    variables = [own[part.min] for part in region.region if isinstance(part.min, Var)]
    finals = [var for var in variables if var in outer]
    return IndexMap(
        variables, [*finals, *(made[index] for index in indices if isinstance(index, Var))]
    )
