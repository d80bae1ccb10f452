"""sparse_fuse: iterate over axes in one loop over all stored positions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from ...tir import SpIterVar
from ...tir.sparse import DENSE_FIXED, MERGED, AttachedAxis, FusedAxis, fuse
from ..errors import name_of, refuse
from ..instruction import IterationRef, primitive
from ..sref import StmtSRef
from ..state import ScheduleState
from ._iterations import by_name, named_variables


def _front(
    state: ScheduleState, sparse_iteration: IterationRef, iters: Sequence[Any]
) -> dict[str, Any]:
    return {"iters": named_variables(sparse_iteration, iters)}


@primitive("SparseFuse", coordinates=True, front=_front)
def sparse_fuse(state: ScheduleState, sparse_iteration: IterationRef, iters: Sequence[str]) -> None:
    """Iterate over an axis, its child, and so on in one loop over the positions of the last.

    The variables stay coordinates; those of all axes but the last follow from the position.

    Args:
        iters: variables one after the other, from a root axis down, all data-parallel or all
            reductions: as `get_sp_iters` gives them, or by name.

    >>> import tileloom
    >>> from tileloom.script import tir as T
    >>> @T.prim_func
    ... def ragged(a: T.handle, indptr: T.handle, n: T.int32, nnz: T.int32):
    ...     I = T.dense_fixed(n)
    ...     J = T.dense_variable(I, (n, nnz), indptr)
    ...     A = T.match_sparse_buffer(a, (I, J))
    ...     with T.sp_iter([I, J], "SS", "fill") as [i, j]:
    ...         A[i, j] = 1.0
    >>> sch = tileloom.Schedule(ragged)
    >>> fill = sch.get_sparse_iteration("fill")
    >>> sch.sparse_fuse(fill, ["i", "j"])
    >>> sch.get_sp_iters(fill)
    [SpIterVar(i: fused_IJ_I, S), SpIterVar(j: fused_IJ_J, S)]
    """
    old = sparse_iteration.iteration
    parts = by_name(sparse_iteration, iters)
    first = _check_row(sparse_iteration, parts)
    for part in parts:
        _check_plain(sparse_iteration, part)
    _check_chain(sparse_iteration, parts)
    _check_kinds(sparse_iteration, parts)
    axes = fuse([part.axis for part in parts])
    new = [part.replace(axis=axis) for part, axis in zip(parts, axes, strict=True)]
    row = list(old.sp_iter_vars)
    row[first : first + len(new)] = new
    state.replace(sparse_iteration, old.replace(sp_iter_vars=tuple(row)))


def _check_row(iteration: StmtSRef, parts: Sequence[SpIterVar]) -> int:
    """Where variables start that stand one after the other; others are refused."""
    if len(parts) < 2:
        raise refuse("sparse_fuse joins two variables or more", at=[iteration])
    row = iteration.iteration.sp_iter_vars
    first = row.index(parts[0])
    if row[first : first + len(parts)] != tuple(parts):
        names, order = (", ".join(p.var.name for p in some) for some in (parts, row))
        raise refuse(
            f"the variables {names} do not stand one after the other in {name_of(iteration)}, "
            f"which has {order}",
            at=[iteration],
            hint="sparse_reorder first",
            fast="The sparse iter vars to fuse do not match those of the sparse iteration",
        )
    return first


def _check_plain(iteration: StmtSRef, part: SpIterVar) -> None:
    """Refuse an axis that was made of others."""
    for kind, word in ((FusedAxis, "fused"), (AttachedAxis, "attached"), (MERGED, "merged")):
        if isinstance(part.axis, kind):
            raise refuse(
                f"the axis {part.axis.name} of {part.var.name!r} is {word} already",
                at=[iteration],
            )


def _check_chain(iteration: StmtSRef, parts: Sequence[SpIterVar]) -> None:
    """Refuse axes that are not each the parent of the next, from a root on."""
    root = parts[0]
    if root.axis.parent is not None or root.axis.kind != DENSE_FIXED:
        above = root.axis.parent
        below = "" if above is None else f" below {above.name}"
        raise refuse(
            f"the first axis to fuse is a dense_fixed one without a parent, but {root.axis.name} "
            f"of {root.var.name!r} is {root.axis.kind}{below}",
            at=[iteration],
            hint="" if above is None else f"fuse from the root {root.axis.root.name} on",
        )
    for outer, inner in pairwise(parts):
        if inner.axis.parent is not outer.axis:
            raise refuse(
                f"axis {inner.axis.name} of {inner.var.name!r} is not below axis "
                f"{outer.axis.name} of {outer.var.name!r}",
                at=[iteration],
                hint="positions can be counted along a chain of parents only",
            )


def _check_kinds(iteration: StmtSRef, parts: Sequence[SpIterVar]) -> None:
    """Refuse one loop that says both where results are and what is combined in them."""
    reduced = [part.var.name for part in parts if part.is_reduction]
    placing = [part.var.name for part in parts if not part.is_reduction]
    if reduced and placing:
        raise refuse(
            f"{', '.join(reduced)} would be combined in the loop of {', '.join(placing)}, which "
            "says where results are",
            at=[iteration],
            hint="fuse variables that are all data-parallel or all reductions",
        )
