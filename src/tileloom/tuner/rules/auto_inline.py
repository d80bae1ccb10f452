"""AutoInline: elementwise work goes where it is used, or where its input is made."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...expr import SPATIAL, Call, Expr, Select, post_order
from ...schedule.analysis.scope import consumers, producers
from ...schedule.analysis.tree import is_one
from ...schedule.instruction import can
from ...schedule.rv import BlockRV
from ...schedule.schedule import Schedule
from ...schedule.sref import StmtSRef
from ...schedule.state import ScheduleState
from ...tir import Block, BlockRealize, BufferRegion, IfThenElse, PrimFunc, pre_order, stmt_exprs
from ..annotations import AUTO_TENSORIZE
from ..context import TuneContext
from .analysis import access_pattern

INLINE_RULE = "meta_schedule.inline_rule"  # annotation: "disable" keeps a block as it is


@dataclass(frozen=True, slots=True)
class AutoInline:
    """Inline a block into its consumers, or else into its producer.

    Attributes:
        into_producer: whether a block may go where its one input is made.
        into_consumer: whether a block may go where it is used.
        inline_const_tensor: inline what reads nothing, whatever it computes.
        disallow_if_then_else: keep a block that decides between values, as padding does.
        require_injective: keep a block that reads an element for several results, or at other
            indices than its results', shifted by numbers.
        require_ordered: keep a block that reads with its results' indices in another order.
        disallow_op: keep a block that calls one of these, such as "tir.exp".

    The conditions from `disallow_if_then_else` on hold in programs that reduce somewhere: where
    nothing does, there is no better place for anything.

    >>> from tileloom import te
    >>> from tileloom.target import target
    >>> A = te.placeholder((8,), name="A"); B = te.compute((8,), lambda i: A[i] + 1.0, name="B")
    >>> C = te.compute((8,), lambda i: B[i] * 2.0, name="C")
    >>> sch = Schedule(te.create_prim_func([A, C]))
    >>> context = TuneContext(sch.mod, target("cpu"))
    >>> [sch] = AutoInline().apply(sch, sch.get_block("B"), context)
    >>> print(sch.get(sch.get_block("C")).body)
    C[v_i] = (A[v_i] + T.float32(1.0)) * T.float32(2.0)
    """

    into_producer: bool = False
    into_consumer: bool = True
    inline_const_tensor: bool = True
    disallow_if_then_else: bool = True
    require_injective: bool = True
    require_ordered: bool = True
    disallow_op: tuple[str, ...] = ("tir.exp",)

    def apply(self, sch: Schedule, block: BlockRV, context: TuneContext) -> list[Schedule]:
        """The schedule, the block inlined if it may be."""
        sref = sch.get_sref(block)
        if sref.parent is None or len(sref.block.writes) != 1:
            return [sch]
        state = sch.state
        is_constant = self.inline_const_tensor and not sref.block.reads
        if is_constant and _has_way_forward(state, sref):
            sch.compute_inline(block)
        elif not self.allows(state, sref):
            return [sch]
        elif self.into_consumer and _has_way_forward(state, sref):
            sch.compute_inline(block)
        elif self.into_producer and _has_way_back(state, sref):
            sch.reverse_compute_inline(block)
        return [sch]

    def allows(self, state: ScheduleState, block: StmtSRef) -> bool:
        """Whether no attribute of the rule keeps the block where it is."""
        if block.block.annotations.get(INLINE_RULE) == "disable":
            return False
        if is_spatial_function(state.mod[state.function_of(block)]):
            return True
        realize = state.realize(block)
        if any(call.op in self.disallow_op for call in _calls(realize)):
            return False
        if self.disallow_if_then_else and _decides(realize):
            return False
        return all(self._is_plain(read, block.block.writes[0]) for read in block.block.reads)

    def _is_plain(self, read: BufferRegion, write: BufferRegion) -> bool:
        if not self.require_injective and not self.require_ordered:
            return True
        found = access_pattern(read, write)
        return (
            found is not None
            and (found.injective or not self.require_injective)
            and (found.ordered or not self.require_ordered)
        )


def is_spatial_function(func: PrimFunc) -> bool:
    """Whether no block of a function has iterations that are not data-parallel."""
    blocks = (stmt for stmt in pre_order(func.body) if isinstance(stmt, Block))
    return all(axis.iter_type == SPATIAL for block in blocks for axis in block.iter_vars)


def _has_way_forward(state: ScheduleState, block: StmtSRef) -> bool:
    return bool(consumers(state, block)) and can(state, "ComputeInline", block)


def _has_way_back(state: ScheduleState, block: StmtSRef) -> bool:
    made_by = producers(state, block)
    for_intrinsic = any(AUTO_TENSORIZE in found.block.annotations for found in made_by)
    return not for_intrinsic and can(state, "ReverseComputeInline", block)


def _parts(realize: BlockRealize) -> Iterator[Expr]:
    for stmt in pre_order(realize):
        for expr in stmt_exprs(stmt):
            yield from post_order(expr)


def _calls(realize: BlockRealize) -> Iterator[Call]:
    return (part for part in _parts(realize) if isinstance(part, Call))


def _decides(realize: BlockRealize) -> bool:
    """Whether something in a block, or the block itself, depends on a condition."""
    for stmt in pre_order(realize):
        if isinstance(stmt, IfThenElse):
            return True
        if isinstance(stmt, BlockRealize) and not is_one(stmt.predicate):
            return True
    return any(
        isinstance(part, Select) or (isinstance(part, Call) and part.op == "tir.if_then_else")
        for part in _parts(realize)
    )
