"""InlineConstantScalars: a number that is made by a block of its own."""

from __future__ import annotations

from dataclasses import dataclass

from ...schedule.instruction import can
from ...schedule.rv import BlockRV
from ...schedule.schedule import Schedule
from ..context import TuneContext


@dataclass(frozen=True, slots=True)
class InlineConstantScalars:
    """Inline a block that makes a tensor without dimensions out of nothing.

    >>> from tileloom import te
    >>> from tileloom.expr import const
    >>> from tileloom.target import target
    >>> one = te.compute((), lambda: const(1.0, "float32"), name="one")
    >>> A = te.placeholder((8,), name="A"); B = te.compute((8,), lambda i: A[i] + one(), name="B")
    >>> sch = Schedule(te.create_prim_func([A, B]))
    >>> context = TuneContext(sch.mod, target("cpu"))
    >>> [sch] = InlineConstantScalars().apply(sch, sch.get_block("one"), context)
    >>> print(sch.get(sch.get_block("B")).body)
    B[v_i] = A[v_i] + T.float32(1.0)
    """

    def apply(self, sch: Schedule, block: BlockRV, context: TuneContext) -> list[Schedule]:
        """The schedule, the block inlined if it is such a one."""
        stmt = sch.get(block)
        is_scalar = len(stmt.writes) == 1 and stmt.writes[0].buffer.ndim == 0
        if is_scalar and not stmt.reads and can(sch.state, "ComputeInline", sch.get_sref(block)):
            sch.compute_inline(block)
        return [sch]
