"""storage_align: strides of an intermediate buffer, to keep threads off each other's banks."""

from __future__ import annotations

from ..errors import refuse
from ..instruction import BlockRef, WriteIndex, primitive
from ..state import ScheduleState
from ._buffers import allocating_block

KEY = "buffer_dim_align"


@primitive("StorageAlign")
def storage_align(
    state: ScheduleState,
    block: BlockRef,
    buffer_index: WriteIndex,
    axis: int,
    factor: int,
    offset: int,
) -> None:
    """Make the stride of an axis equal to `offset` modulo `factor`, in elements.

    Args:
        buffer_index: which of the buffers the block writes: an index, a name or the buffer.
        axis: the axis; negative ones count from the last.
        factor, offset: the stride becomes k * factor + offset.

    >>> import tileloom
    >>> from tileloom import te
    >>> A = te.placeholder((4, 8), name="A")
    >>> B = te.compute((4, 8), lambda i, j: A[i, j] * 2.0, name="B")
    >>> C = te.compute((4, 8), lambda i, j: B[i, j] + 1.0, name="C")
    >>> sch = tileloom.Schedule(te.create_prim_func([A, C]))
    >>> sch.storage_align("B", 0, axis=0, factor=32, offset=1)
    >>> sch.get(sch.get_block("B")).annotations
    {'buffer_dim_align': [[0, 0, 32, 1]]}
    """
    buffer = block.block.writes[buffer_index].buffer
    if not -buffer.ndim <= axis < buffer.ndim:
        raise refuse(
            f"axis {axis} is out of range for {buffer.name!r} with {buffer.ndim} dimensions",
            at=[block],
            fast="The input axis is out of range",
        )
    if factor <= 0:
        raise refuse(
            f"the factor must be positive, got {factor}",
            at=[block],
            fast="The input factor of storage_align is expected to be a positive number",
        )
    allocating_block(block, buffer)
    place = axis % buffer.ndim
    known = [list(entry) for entry in block.block.annotations.get(KEY, [])]
    entry = [buffer_index, place, factor, offset]
    for k, old in enumerate(known):
        if old[:2] == entry[:2]:
            known[k] = entry
            break
    else:
        known.append(entry)
    annotations = {**block.block.annotations, KEY: known}
    state.replace(block, block.block.replace(annotations=annotations))
