"""set_axis_separator: which axes of a buffer form one physical dimension."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import refuse
from ..instruction import BlockRef, primitive
from ..state import ScheduleState
from ._buffers import ReplaceBuffer
from .transform_layout import _owner, _with_buffer, accessed_region, find_access, shown_access


def _front(
    state: ScheduleState, block: BlockRef, buffer: Any, axis_separators: Sequence[int] | None
) -> dict[str, Any]:
    separators = [int(k) for k in axis_separators or ()]
    return {**find_access(block, buffer), "axis_separators": separators}


@primitive("SetAxisSeparator", front=_front, shown=shown_access)
def set_axis_separator(
    state: ScheduleState,
    block: BlockRef,
    buffer_index: int,
    buffer_index_type: int,
    axis_separators: Sequence[int],
) -> None:
    """Say where the axes of a buffer split into physical dimensions.

    Args:
        buffer: which one: ("read" or "write", index), its name, or the buffer.
        axis_separators: positions between axes, in increasing order.

    >>> import tileloom
    >>> from tileloom import te
    >>> A = te.placeholder((8, 4), name="A")
    >>> B = te.compute((8, 4), lambda i, j: A[i, j] * 2.0, name="B")
    >>> C = te.compute((8, 4), lambda i, j: B[i, j] + 1.0, name="C")
    >>> sch = tileloom.Schedule(te.create_prim_func([A, C]))
    >>> sch.set_axis_separator("B", ("write", 0), [1])
    >>> sch.get(sch.get_block("B")).writes[0].buffer.axis_separators
    (1,)
    """
    old = accessed_region(block, buffer_index, buffer_index_type).buffer
    wanted = tuple(int(k) for k in axis_separators)
    if list(wanted) != sorted(wanted) or any(not 0 <= k <= old.ndim for k in wanted):
        raise refuse(
            f"{list(wanted)} are no positions between the {old.ndim} axes of {old.name!r}",
            at=[block],
            hint="increasing positions from 0 to the number of axes",
        )
    owner, is_param = _owner(state, block, old)
    new = old.replace(axis_separators=wanted)
    rewriter = ReplaceBuffer({old: new})
    changed = rewriter.visit_Block(owner.block)
    name = state.function_of(owner)
    state.replace(owner, changed, rewriter.block_map)
    if is_param:
        state.update_function(name, _with_buffer(state.mod[name], old, new))
