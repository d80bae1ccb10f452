"""set_scope: the storage scope of an intermediate buffer."""

from __future__ import annotations

from ...expr import Var
from ..instruction import BlockRef, WriteIndex, primitive
from ..state import ScheduleState
from ._buffers import ReplaceBuffer, allocating_block
from ._storage import check_scope


@primitive("SetScope")
def set_scope(
    state: ScheduleState, block: BlockRef, buffer_index: WriteIndex, storage_scope: str
) -> None:
    """Put a buffer that a block writes into another storage scope.

    Args:
        buffer_index: which of the buffers it writes: an index, a name or the buffer.
        storage_scope: "global", "shared", "local", ...

    >>> import tileloom
    >>> from tileloom import te
    >>> A = te.placeholder((4,), name="A")
    >>> B = te.compute((4,), lambda i: A[i] * 2.0, name="B")
    >>> C = te.compute((4,), lambda i: B[i] + 1.0, name="C")
    >>> sch = tileloom.Schedule(te.create_prim_func([A, C]))
    >>> sch.set_scope("B", 0, "shared")
    >>> sch.get(sch.get_block("B")).writes[0].buffer.scope
    'shared'
    """
    check_scope(storage_scope, block)
    old = block.block.writes[buffer_index].buffer
    owner = allocating_block(block, old)
    if old.scope == storage_scope:
        return
    pointer = Var(old.data.name, "handle", (str(old.dtype), storage_scope))
    rewriter = ReplaceBuffer({old: old.replace(data=pointer, scope=storage_scope)})
    new = rewriter.visit_Block(owner.block)
    state.replace(owner, new, rewriter.block_map)
