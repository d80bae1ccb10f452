"""match_to_alloc: memory of the function's own for what it writes to a parameter."""

from __future__ import annotations

from ...expr import Var
from ...tir import Buffer
from ..analysis.cover import region_cover_fault
from ..analysis.scope import accessed_buffers, producers
from ..analysis.tree import child_blocks
from ..errors import name_of, refuse
from ..instruction import BlockRef, WriteIndex, primitive
from ..sref import StmtSRef
from ..state import ScheduleState
from ._buffers import ReplaceBuffer


@primitive("MatchToAlloc")
def match_to_alloc(state: ScheduleState, block: BlockRef, buffer_index: WriteIndex) -> None:
    """Write to memory of the function's own instead of to a parameter; callers no longer see it.

    The new buffer is called `<name>_tmp`; the parameter stays one, and nobody uses it (SparseTIR).

    Args:
        buffer_index: which of the buffers that the block writes.

    >>> import tileloom
    >>> from tileloom import te
    >>> A = te.placeholder((4,), name="A"); B = te.compute((4,), lambda i: A[i] * 2.0, name="B")
    >>> C = te.compute((4,), lambda i: B[i] + 1.0, name="C")
    >>> sch = tileloom.Schedule(te.create_prim_func([A, B, C]))
    >>> sch.match_to_alloc("B", 0)
    >>> sch.set_scope("B", 0, "shared"); print(sch.get(sch.get_block("C")).body)
    C[v_i] = B_tmp[v_i] + T.float32(1.0)
    """
    old = block.block.writes[buffer_index].buffer
    name = state.function_of(block)
    if old not in state.mod[name].buffers:
        raise refuse(
            f"the buffer {old.name!r} is no parameter of the function {name!r}",
            at=[block],
            hint="set_scope works on buffers that blocks allocate",
            fast="The buffer to transform must be a top-level matched buffer",
        )
    root = state.root(name)
    for reader in child_blocks(state, root):
        _check_made(state, reader, old)
    pointer = Var(f"{old.data.name}_tmp", "handle", (str(old.dtype), old.scope))
    rewriter = ReplaceBuffer({old: old.replace(name=f"{old.name}_tmp", data=pointer)})
    body = rewriter.visit_Block(root.block)
    new = body.replace(alloc_buffers=(*body.alloc_buffers, rewriter.buffers[old]))
    state.replace(root, new, {**rewriter.block_map, root.block: new})


def _check_made(state: ScheduleState, reader: StmtSRef, buffer: Buffer) -> None:
    """Refuse a block that reads what callers have put into a buffer."""
    if buffer not in accessed_buffers(state, reader.block)[0]:
        return
    makers = [g for g in producers(state, reader) if buffer in accessed_buffers(state, g.block)[1]]
    fault = region_cover_fault(state, reader) if makers else "nothing is written to it before"
    if fault is not None:
        raise refuse(
            f"{name_of(reader)} may read what callers have put into {buffer.name!r}: {fault}",
            at=[reader],
            fast="The buffer holds an argument",
        )
