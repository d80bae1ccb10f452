"""sparse_reorder: change the order of the axes of a sparse iteration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...tir import SpIterVar
from ...tir.sparse import FusedAxis
from ..errors import name_of, refuse
from ..instruction import IterationRef, primitive
from ..sref import StmtSRef
from ..state import ScheduleState
from ._iterations import (
    by_name,
    enclosing_variables,
    named_variables,
    positions_from,
    same_group,
)


def _front(
    state: ScheduleState, sparse_iteration: IterationRef, new_order: Sequence[Any]
) -> dict[str, Any]:
    return {"new_order": named_variables(sparse_iteration, new_order)}


@primitive("SparseReorder", coordinates=True, front=_front)
def sparse_reorder(
    state: ScheduleState, sparse_iteration: IterationRef, new_order: Sequence[str]
) -> None:
    """Put the variables of a sparse iteration into a new order, that of the loops to come.

    An axis stays behind its parent, and parts of fused axes stay together.

    Args:
        new_order: all variables, outermost first: as `get_sp_iters` gives them, or by name.

    >>> import tileloom
    >>> from tileloom.script import tir as T
    >>> @T.prim_func
    ... def ragged(a: T.handle, indptr: T.handle, n: T.int32, nnz: T.int32):
    ...     I = T.dense_fixed(n)
    ...     J = T.dense_variable(I, (n, nnz), indptr)
    ...     K = T.dense_fixed(32)
    ...     A = T.match_sparse_buffer(a, (I, J, K))
    ...     with T.sp_iter([I, J, K], "SSS", "fill") as [i, j, k]:
    ...         A[i, j, k] = 1.0
    >>> sch = tileloom.Schedule(ragged)
    >>> fill = sch.get_sparse_iteration("fill")
    >>> i, j, k = sch.get_sp_iters(fill)
    >>> sch.sparse_reorder(fill, [k, i, j])
    >>> [part.var.name for part in sch.get_sp_iters(fill)]
    ['k', 'i', 'j']
    """
    old = sparse_iteration.iteration
    order = by_name(sparse_iteration, new_order)
    missing = [part.var.name for part in old.sp_iter_vars if part not in order]
    if missing:
        raise refuse(
            f"the order of {name_of(old)} lacks the variables {', '.join(missing)}",
            at=[sparse_iteration],
            hint="give all variables, each once",
        )
    _check_groups(sparse_iteration, order)
    _check_parents(sparse_iteration, order)
    state.replace(sparse_iteration, old.replace(sp_iter_vars=tuple(order)))


def _check_groups(iteration: StmtSRef, order: Sequence[SpIterVar]) -> None:
    """Refuse parts of fused axes that are no longer one after the other."""
    for place, part in enumerate(order):
        axis = part.axis
        if not isinstance(axis, FusedAxis) or axis.index == 0:
            continue
        before = order[place - 1].axis if place else axis
        if not same_group(before, axis) or getattr(before, "index", -1) != axis.index - 1:
            raise refuse(
                f"{part.var.name!r} is a part of axes that are fused, which stay together in their "
                "order",
                at=[iteration],
                hint="move all parts of a fused axis as one",
            )


def _check_parents(iteration: StmtSRef, order: Sequence[SpIterVar]) -> None:
    """Refuse an order in which positions would be counted from others than before."""
    around = enclosing_variables(iteration)
    before = positions_from(iteration.iteration.sp_iter_vars, around)
    after = positions_from(order, around)
    for part in order:
        for (axis, known), (_, now) in zip(before[part], after[part]):
            if known is now or known is None:
                continue
            if known in order:
                raise refuse(
                    f"the positions of {part.var.name!r} on axis {part.axis.name} are below those "
                    f"of {known.var.name!r} on axis {axis.name}, which would come after it",
                    at=[iteration],
                    hint=f"put {known.var.name!r} before {part.var.name!r}",
                    fast="The sparse reorder breaks dependency between axes",
                )
            other = "" if now is None else repr(now.var.name)
            raise refuse(
                f"{other} on axis {axis.name} would come before {part.var.name!r}, "
                "whose positions are below the same axis in an iteration around",
                at=[iteration],
                hint=f"leave {other} behind {part.var.name!r}",
            )
