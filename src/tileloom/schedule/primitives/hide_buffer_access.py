"""hide_buffer_access: SparseTIR's name of `unsafe_hide_buffer_access`."""

from __future__ import annotations

from collections.abc import Sequence

from ..instruction import BlockRef, primitive
from ..state import ScheduleState
from .unsafe_hide_buffer_access import unsafe_hide_buffer_access


@primitive("HideBufferAccess")
def hide_buffer_access(
    state: ScheduleState, block: BlockRef, buf_type: str, buf_index_array: Sequence[int]
) -> None:
    """`unsafe_hide_buffer_access`, as SparseTIR calls it."""
    unsafe_hide_buffer_access(state, block, buf_type, buf_index_array)
