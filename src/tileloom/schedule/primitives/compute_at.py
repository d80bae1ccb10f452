"""compute_at, reverse_compute_at: compute a block where it is used, or where its input is made."""

from __future__ import annotations

from functools import partial

from ..instruction import BlockRef, LoopRef, primitive
from ..sref import INLINE_MARK, ROOT_MARK
from ..state import ScheduleState
from ._move import plan_move
from .compute_inline import compute_inline
from .reverse_compute_inline import reverse_compute_inline


@primitive("ComputeAt", int_bools=True, check=partial(plan_move, forward=True))
def compute_at(
    state: ScheduleState,
    block: BlockRef,
    loop: LoopRef,
    preserve_unit_loops: bool = False,
    index: int = -1,
) -> None:
    """Move a block under a loop that holds all its consumers, to make there what they need.

    New loops run over just the part of the block that one iteration of the loop needs. What
    several iterations need is computed several times.

    Args:
        block: a complete or reduction block whose results are not seen outside of its scope.
        loop: in the same scope, not around the block.
        preserve_unit_loops: make loops of extent one too.
        index: where in the loop's body: -1 as late as possible, -2 as early as possible, or the
            index of the statement that it becomes.

    >>> import tileloom
    >>> from tileloom import te
    >>> A = te.placeholder((8, 8), name="A")
    >>> B = te.compute((8, 8), lambda i, j: A[i, j] + 1.0, name="B")
    >>> C = te.compute((8, 8), lambda i, j: B[i, j] * 2.0, name="C")
    >>> sch = tileloom.Schedule(te.create_prim_func([A, C]))
    >>> i, j = sch.get_loops("C"); sch.compute_at("B", i)
    >>> [sch.get(loop).loop_var.name for loop in sch.get_loops("B")]
    ['i', 'ax0']
    """
    if loop is INLINE_MARK:
        compute_inline(state, block)
    elif loop is not ROOT_MARK:
        move = plan_move(state, block, loop, preserve_unit_loops, index, forward=True)
        state.replace(*move)


@primitive("ReverseComputeAt", int_bools=True, check=partial(plan_move, forward=False))
def reverse_compute_at(
    state: ScheduleState,
    block: BlockRef,
    loop: LoopRef,
    preserve_unit_loops: bool = False,
    index: int = -1,
) -> None:
    """Move a block under a loop that holds all its producers, to use there what they have made.

    Args:
        block: a complete or reduction block.
        loop: in the same scope, not around the block.
        preserve_unit_loops: make loops of extent one too.
        index: where in the loop's body, as for `compute_at`.

    >>> import tileloom
    >>> from tileloom import te
    >>> A = te.placeholder((8, 8), name="A")
    >>> B = te.compute((8, 8), lambda i, j: A[i, j] + 1.0, name="B")
    >>> C = te.compute((8, 8), lambda i, j: B[i, j] * 2.0, name="C")
    >>> sch = tileloom.Schedule(te.create_prim_func([A, C]))
    >>> i, j = sch.get_loops("B"); sch.reverse_compute_at("C", i)
    >>> [sch.get(loop).loop_var.name for loop in sch.get_loops("C")]
    ['i', 'ax0']
    """
    if loop is INLINE_MARK:
        reverse_compute_inline(state, block)
    elif loop is not ROOT_MARK:
        move = plan_move(state, block, loop, preserve_unit_loops, index, forward=False)
        state.replace(*move)
