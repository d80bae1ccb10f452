"""reorder_block_iter_var: the iteration variables of a block in another order."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import name_of, refuse
from ..instruction import BlockRef, primitive
from ..state import ScheduleState


@primitive("ReorderBlockIterVar")
def reorder_block_iter_var(state: ScheduleState, block: BlockRef, new_order: Sequence[int]) -> None:
    """Put the iteration variables of a block in another order; the loops stay.

    Args:
        new_order: for each new place, the variable's old one.

    >>> import tileloom
    >>> from tileloom import te
    >>> A = te.placeholder((4, 8), name="A")
    >>> B = te.compute((4, 8), lambda i, j: A[i, j] + 1.0, name="B")
    >>> sch = tileloom.Schedule(te.create_prim_func([A, B]))
    >>> sch.reorder_block_iter_var("B", [1, 0])
    >>> [axis.var.name for axis in sch.get(sch.get_block("B")).iter_vars]
    ['v_j', 'v_i']
    """
    count = len(block.block.iter_vars)
    order = [int(k) for k in new_order]
    if sorted(order) != list(range(count)):
        raise refuse(
            f"{order} is no order of the {count} iteration variables of {name_of(block)}",
            at=[block],
            hint=f"give each of 0 to {count - 1} once" if count else "",
            fast="The block iter var reorder is not a valid permutation",
        )
    realize = state.realize(block)
    old = realize.block
    new = old.replace(iter_vars=tuple(old.iter_vars[k] for k in order))
    values = tuple(realize.iter_values[k] for k in order)
    state.replace_realize(block, realize.replace(iter_values=values, block=new), {old: new})
