"""loop_partition: the range of a loop cut into pieces, a loop for each."""

from __future__ import annotations

from collections.abc import Sequence

from ...expr import REDUCE, Expr, IntImm, Range, Var, const
from ...tir import (
    Block,
    BlockRealize,
    Buffer,
    BufferRegion,
    BufferStore,
    For,
    Stmt,
    infer_block_access,
    seq,
)
from ..analysis.affine import affine_binding
from ..analysis.blocks import leaf_store, loop_iter_type
from ..analysis.reductions import check_statements
from ..analysis.scope import accessed_buffers
from ..analysis.tree import (
    blocks_in_sight,
    child_blocks,
    is_ancestor,
    loops_above,
    require_plain_loop,
)
from ..errors import name_of, refuse
from ..instruction import IntRef, LoopRef, primitive
from ..sref import StmtSRef
from ..state import ScheduleState
from ._blockize import relaxed
from ._tensorize import Renewed
from ._threads import check_not_own


@primitive("LoopPartition", flat="factors")
def loop_partition(
    state: ScheduleState,
    loop: LoopRef,
    factors: list[IntRef | None],
    preserve_unit_iters: bool = True,
) -> list[LoopRef]:
    """Cut the range of a loop into consecutive pieces, each a loop over a copy of the body.

    Each piece is in a block `<block>_<loop><i>_partition`, all of them in `<block>_<loop>_common`.

    Args:
        loop: a serial loop over a known range.
        factors: the lengths of the pieces. One may be None and gets what is left; if none is, what
            is left becomes one more piece.
        preserve_unit_iters: has no effect here.

    Returns:
        The loops of the pieces.

    >>> import tileloom
    >>> from tileloom import te
    >>> A = te.placeholder((10,), name="A"); B = te.compute((10,), lambda i: A[i] + 1.0, name="B")
    >>> sch = tileloom.Schedule(te.create_prim_func([A, B]))
    >>> first, rest = sch.loop_partition(sch.get_loops("B")[0], [4])
    >>> (sch.get(rest).min, sch.get(rest).extent)
    (4, 6)
    """
    require_plain_loop(loop, "loop_partition")
    node = loop.loop
    ends = _ends(loop, factors)
    blocks = child_blocks(state, loop)
    if not blocks:
        raise refuse(f"{name_of(loop)} holds no block", at=[loop])
    _check_reductions(state, loop)
    for block in blocks:
        written = accessed_buffers(state, block.block)[1]
        inside = (s for s in loops_above(block) if s is loop or is_ancestor(loop, s))
        check_not_own(state, block, inside, written, "each of the pieces would use it")
    name = f"{blocks[0].block.name_hint}_{node.loop_var.name}"
    pieces: list[BlockRealize] = []
    loops: list[For] = []
    start = _number(node.min)
    for i, end in enumerate(ends):
        copy = _Piece(node, i, start, end)
        loops.append(copy.loop())
        pieces.append(_opaque(f"{name}{i}_partition", loops[-1]))
        start = end
    state.replace(loop, _opaque(f"{name}_common", seq(*pieces)))
    return [state.sref(piece) for piece in loops]


def _opaque(name: str, body: Stmt) -> BlockRealize:
    """What runs a block that declares nothing, as TVM has it; analyses look into it."""
    return BlockRealize((), const(True), Block((), (), (), name, body))


def _number(value: Expr) -> int:
    if not isinstance(value, IntImm):
        raise refuse(f"{value} is no number")
    return value.value


def _ends(loop: StmtSRef, factors: Sequence[int | Expr | None]) -> list[int]:
    """Where the pieces end."""
    node = loop.loop
    if not (isinstance(node.min, IntImm) and isinstance(node.extent, IntImm)):
        raise refuse(
            f"{name_of(loop)} runs over [{node.min}, {node.min + node.extent}); loop_partition "
            "needs numbers",
            at=[loop],
            fast="The min and extent values of the loop are required to be known at compile time",
        )
    open_ = [i for i, f in enumerate(factors) if f is None or (isinstance(f, int) and f == -1)]
    if not factors or len(open_) > 1:
        raise refuse(
            f"one length at most can be left open, got {len(open_)} of {len(factors)}",
            at=[loop],
            fast="only one factor can be specified as -1 or none",
        )
    known = [f for i, f in enumerate(factors) if i not in open_]
    if any(not isinstance(f, int) or f <= 0 for f in known):
        raise refuse(
            f"the lengths must be positive numbers, got {', '.join(map(str, known))}",
            at=[loop],
            fast="All the constant factors are required to be positive",
        )
    lengths = [f if isinstance(f, int) else 0 for f in factors]
    left = node.extent.value - sum(f for f in known if isinstance(f, int))
    if left <= 0:
        raise refuse(
            f"the lengths {', '.join(map(str, known))} leave nothing of the {node.extent} "
            f"iterations of {name_of(loop)}",
            at=[loop],
            hint="leave out the last length: it is inferred",
            fast="The sum of factors is larger than or equal to the extent of loop",
        )
    if open_:
        lengths[open_[0]] = left
    else:
        lengths.append(left)
    ends, end = [], node.min.value
    for length in lengths:
        end += length
        ends.append(end)
    return ends


def _check_reductions(state: ScheduleState, loop: StmtSRef) -> None:
    """A reduction starts in the first piece, so the loop must begin where the reduction does."""
    var = loop.loop.loop_var
    for sref in blocks_in_sight(state, loop):
        if sref.block.init is None or var not in state.realize(sref).loops_of(REDUCE):
            continue
        check_statements(state, sref)
        known = sref in child_blocks(state, loop) and affine_binding(state, sref)
        if not (known and loop_iter_type(state, loop) == REDUCE):
            raise refuse(
                f"{name_of(loop)} does more than reduce in {name_of(sref)}, so it is not known "
                "which piece starts its results",
                at=[loop, sref],
                hint="decompose_reduction first",
            )


class _Piece(Renewed):
    """A copy of a loop over a part of its range, with loops, variables and blocks of its own."""

    def __init__(self, loop: For, number: int, start: int, end: int) -> None:
        super().__init__(str(loop.loop_var.dtype))
        self.old = loop
        self.start, self.end, self.number = start, end, number
        var = loop.loop_var
        self.vars[var] = Var(f"{var.name}{number}", var.dtype)

    def loop(self) -> For:
        """The copy."""
        old, kind = self.old, self.old.loop_var.dtype
        low, extent = const(self.start, kind), const(self.end - self.start, kind)
        var = self.vars[old.loop_var]
        return old.replace(loop_var=var, min=low, extent=extent, body=self.visit(old.body))

    def visit_BlockRealize(self, stmt: BlockRealize) -> Stmt:
        new = super().visit_BlockRealize(stmt)
        if not isinstance(new, BlockRealize):
            return new
        block = new.block
        if self.number and self._reduces(stmt):
            reads = (*block.writes, *block.reads)
            block = block.replace(init=None, reads=reads)
        for i, value in enumerate(stmt.iter_values):
            if value is self.old.loop_var:
                block = self._narrowed(block, i)
                break
        name = f"{block.name_hint}_{self.vars[self.old.loop_var].name}"
        return new.replace(block=block.replace(name_hint=name))

    def _reduces(self, stmt: BlockRealize) -> bool:
        """Whether the loop reduces into results that the first piece has started."""
        return stmt.block.init is not None and self.old.loop_var in stmt.loops_of(REDUCE)

    def _narrowed(self, block: Block, i: int) -> Block:
        """The block over the piece alone; if it stores one element, it declares what all of its
        instances touch, as in TVM."""
        axes = list(block.iter_vars)
        axis, kind = axes[i], axes[i].var.dtype
        dom = Range(const(self.start, kind), const(self.end - self.start, kind))
        axes[i] = type(axis)(dom, axis.var, axis.iter_type, axis.thread_tag)
        narrow = block.replace(iter_vars=tuple(axes))
        if not isinstance(narrow.body, BufferStore):
            return narrow  # steps that follow take it at its word
        reads, writes = _accessed(narrow)
        return narrow.replace(reads=relaxed(reads, axes), writes=relaxed(writes, axes))


def _accessed(block: Block) -> tuple[Sequence[BufferRegion], Sequence[BufferRegion]]:
    """What a block declares, by its one store where it has one: programs may declare more."""
    if leaf_store(block) is None or any(key.startswith("explicit_") for key in block.annotations):
        return block.reads, block.writes
    reads, writes = infer_block_access(block)
    found: dict[Buffer, BufferRegion] = {region.buffer: region for region in (*reads, *writes)}
    return (
        [found.get(region.buffer, region) for region in block.reads],
        [found.get(region.buffer, region) for region in block.writes],
    )
