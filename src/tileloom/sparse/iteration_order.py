"""Which order of its variables suits a sparse iteration."""

from __future__ import annotations

from collections.abc import Sequence

from ..schedule import Schedule, ScheduleError
from ..tir import (
    COORDINATES,
    BufferStore,
    IRModule,
    PrimFunc,
    SparseIteration,
    SpIterVar,
    collect,
    sparse_level,
)
from ..tir.sparse import DENSE_FIXED, Axis, FusedAxis


def with_columns_innermost(mod: IRModule) -> IRModule:
    """The iterations of a module with the columns of their results innermost.

    A dense axis that a result has last comes last; before it what is combined over, elements first;
    before these everything else. So the elements of a row are read once, and the loop that is left
    inside runs over what is next to each other. An iteration that cannot be put into this order,
    or whose results have no dense axis last, stays as it is.
    """
    sch = Schedule(mod)
    for name, func in mod.functions.items():
        if not isinstance(func, PrimFunc) or sparse_level(func) != COORDINATES:
            continue
        for iteration in collect(func.body, SparseIteration):
            order = _wanted_order(iteration)
            if order is None or order == list(iteration.sp_iter_vars):
                continue
            try:
                found = sch.get_sparse_iteration(iteration.name, name)
                sch.sparse_reorder(found, [part.var.name for part in order])
            except ScheduleError:
                continue
    return sch.mod


def _wanted_order(iteration: SparseIteration) -> list[SpIterVar] | None:
    parts = iteration.sp_iter_vars
    columns = _columns(iteration)
    if columns is None or not any(part.is_reduction for part in parts):
        return None
    if any(isinstance(part.axis, FusedAxis) for part in parts):
        return None

    def rank(part: SpIterVar) -> int:
        if part is columns:
            return 3
        if not part.is_reduction:
            return 0
        return 2 if _is_free(part, parts) else 1

    if sum(rank(part) == 1 for part in parts) > 1:
        return None  # the start of a result would be a nest of its own
    return sorted(parts, key=rank)


def _columns(iteration: SparseIteration) -> SpIterVar | None:
    """The variable of a dense axis that is the last index of all stores."""
    stores = collect(iteration.body, BufferStore)
    last = {store.indices[-1] for store in stores if store.indices}
    if len(last) != 1:
        return None
    (index,) = last
    parts = iteration.sp_iter_vars
    for part in parts:
        if part.var is index and not part.is_reduction and _is_free(part, parts):
            return part
    return None


def _is_free(part: SpIterVar, parts: Sequence[SpIterVar]) -> bool:
    """Whether an axis is dense and no other of these is below it."""
    axis = part.axis
    is_dense = type(axis) is Axis and axis.kind == DENSE_FIXED
    return is_dense and not any(other.axis.parent is axis for other in parts)
