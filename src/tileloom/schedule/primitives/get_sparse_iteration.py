"""get_sparse_iteration: find an iteration over coordinates by its name."""

from __future__ import annotations

from typing import Any

from ...tir import SparseIteration
from ..errors import refuse
from ..instruction import IterationRef, primitive
from ..state import ScheduleState
from .get_block import chosen_function


def _front(state: ScheduleState, name: str, func_name: str | None = None) -> dict[str, Any]:
    return {"func_name": chosen_function(state, f"sparse iteration {name!r}", func_name)}


@primitive("GetSparseIteration", pure=True, coordinates=True, front=_front)
def get_sparse_iteration(state: ScheduleState, name: str, func_name: str) -> IterationRef:
    """The sparse iteration with a name, in a function over coordinates; nested ones are found too.

    >>> import tileloom
    >>> from tileloom.script import tir as T
    >>> @T.prim_func
    ... def rows(a: T.handle, b: T.handle, indptr: T.handle, n: T.int32, nnz: T.int32):
    ...     I = T.dense_fixed(n)
    ...     J = T.dense_variable(I, (n, nnz), indptr)
    ...     A = T.match_sparse_buffer(a, (I, J))
    ...     B = T.match_sparse_buffer(b, (I,))
    ...     with T.sp_iter([I, J], "SR", "rows") as [i, j]:
    ...         with T.init():
    ...             B[i] = 0.0
    ...         B[i] = B[i] + A[i, j]
    >>> sch = tileloom.Schedule(rows)
    >>> sch.get_sp_iters(sch.get_sparse_iteration("rows"))
    [SpIterVar(i: I, S), SpIterVar(j: J, R)]
    """
    iterations = [s for stmt, s in state.sref_of.items() if isinstance(stmt, SparseIteration)]
    inside = [sref for sref in iterations if state.function_of(sref) == func_name]
    found = [sref for sref in inside if sref.iteration.name == name]
    if len(found) == 1:
        return found[0]
    if found:
        raise refuse(
            f"{len(found)} sparse iterations have the name {name!r}",
            at=found,
            hint="give the iterations different names",
        )
    known = ", ".join(sref.iteration.name for sref in inside)
    lowered = "the function has none: its iterations may be loops and blocks by now"
    raise refuse(
        f"Cannot find a sparse iteration with the name: {name}",
        hint=f"the sparse iterations are {known}" if known else lowered,
    )
