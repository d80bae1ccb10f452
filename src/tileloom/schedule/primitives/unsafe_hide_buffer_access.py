"""unsafe_hide_buffer_access: drop what a block says that it reads or writes."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import name_of, refuse
from ..instruction import BlockRef, primitive
from ..state import ScheduleState


@primitive("UnsafeHideBufferAccess")
def unsafe_hide_buffer_access(
    state: ScheduleState, block: BlockRef, buf_type: str, buf_index_array: Sequence[int]
) -> None:
    """Take regions out of a block's declared reads or writes (unsafe: analyses trust them).

    Args:
        buf_type: "read" or "write".
        buf_index_array: which of the regions.

    >>> import tileloom
    >>> from tileloom import te
    >>> A = te.placeholder((4,), name="A"); B = te.compute((4,), lambda i: A[i] + 1.0, name="B")
    >>> sch = tileloom.Schedule(te.create_prim_func([A, B]))
    >>> sch.unsafe_hide_buffer_access("B", "read", [0])
    >>> sch.get(sch.get_block("B")).reads
    ()
    """
    if buf_type not in ("read", "write"):
        raise refuse(
            f"the kind of access is {buf_type!r}", at=[block], hint='say "read" or "write"',
            fast="Unrecognized buffer type",
        )  # fmt: skip
    regions = block.block.reads if buf_type == "read" else block.block.writes
    bad = [k for k in buf_index_array if not 0 <= k < len(regions)]
    if bad:
        raise refuse(
            f"{name_of(block)} has {len(regions)} {buf_type} regions, there is no {bad[0]}",
            at=[block],
            fast="The buffer index is out of range",
        )
    kept = tuple(region for k, region in enumerate(regions) if k not in set(buf_index_array))
    change = {"reads": kept} if buf_type == "read" else {"writes": kept}
    state.replace(block, block.block.replace(**change))
