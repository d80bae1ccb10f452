"""unsafe_set_dtype: store an intermediate buffer in another data type."""

from __future__ import annotations

from ...base import DType
from ...base import dtype as make_dtype
from ...expr import Expr, Var, cast, rewrite
from ...tir import Buffer, BufferLoad, BufferStore, Stmt
from ..instruction import BlockRef, WriteIndex, primitive
from ..state import ScheduleState
from ._buffers import ReplaceBuffer, allocating_block


@primitive("UnsafeSetDType")
def unsafe_set_dtype(
    state: ScheduleState, block: BlockRef, buffer_index: WriteIndex, dtype: str
) -> None:
    """Keep an intermediate buffer in another type, converting on every access (unsafe: it rounds).

    Args:
        buffer_index: which of the buffers the block writes: an index, a name or the buffer.
        dtype: the new type.

    >>> import tileloom
    >>> from tileloom import te
    >>> A = te.placeholder((4,), name="A")
    >>> B = te.compute((4,), lambda i: A[i] * 2.0, name="B")
    >>> C = te.compute((4,), lambda i: B[i] + 1.0, name="C")
    >>> sch = tileloom.Schedule(te.create_prim_func([A, C]))
    >>> sch.unsafe_set_dtype("B", 0, "float16")
    >>> sch.get(sch.get_block("B")).writes[0].buffer.dtype
    'float16'
    """
    old = block.block.writes[buffer_index].buffer
    owner = allocating_block(block, old)
    kind = make_dtype(dtype)
    if kind is old.dtype:
        return
    pointer = Var(old.data.name, "handle", (str(kind), old.scope))
    rewriter = _Retype(old, old.replace(data=pointer, dtype=kind))
    new = rewriter.visit_Block(owner.block)
    state.replace(owner, new, rewriter.block_map)


class _Retype(ReplaceBuffer):
    """Loads give the old type again; stores convert to the new one."""

    def __init__(self, old: Buffer, new: Buffer) -> None:
        super().__init__({old: new})
        self.old_type: DType = old.dtype

    def visit_expr(self, expr: Expr) -> Expr:
        return rewrite(expr, self._convert)

    def _convert(self, expr: Expr) -> Expr | None:
        found = self._rule(expr)
        return cast(self.old_type, found) if isinstance(found, BufferLoad) else found

    def visit_BufferStore(self, stmt: BufferStore) -> Stmt:
        new = super().visit_BufferStore(stmt)
        if isinstance(new, BufferStore) and new.buffer is not stmt.buffer:
            return new.replace(value=cast(new.buffer.dtype, new.value))
        return new
