"""Calls that take memory as a pointer and an index: where their arguments say so."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from ..expr import Call, Expr, Var, const, free_vars, rewrite

ACCESS_PTR = "tir.tvm_access_ptr"
LDMATRIX, MMA = "tir.ptx_ldmatrix", "tir.ptx_mma"
MMA_STORE, MMA_FILL = "tir.mma_store", "tir.mma_fill"
CP_ASYNC, COMMIT_GROUP, WAIT_GROUP = (
    "tir.ptx_cp_async",
    "tir.ptx_commit_group",
    "tir.ptx_wait_group",
)

#: By op: (pointer, index) argument numbers. A pointer may also be an access pointer, which has an
#: index of its own.
POINTERS: Mapping[str, tuple[tuple[int, int], ...]] = {
    ACCESS_PTR: ((1, 2),),
    LDMATRIX: ((3, 4), (5, 6)),
    MMA: ((6, 7), (8, 9), (10, 11)),
    MMA_STORE: ((3, 4),),
    MMA_FILL: ((1, 2),),
    CP_ASYNC: ((0, 1), (2, 3)),
}


def pointers(call: Call) -> Iterator[tuple[Var, Expr]]:
    """The pointers that a call takes, each with the index beside it."""
    for data, index in POINTERS.get(call.op, ()):
        pointer = call.args[data]
        if isinstance(pointer, Var):
            yield pointer, call.args[index]


def redirected(call: Call, change: Callable[[Var, Expr], tuple[Expr, Expr] | None]) -> Call:
    """The call with other pointers and indices; None leaves a pair as it is."""
    args = list(call.args)
    for data, index in POINTERS.get(call.op, ()):
        pointer = args[data]
        changed = change(pointer, args[index]) if isinstance(pointer, Var) else None
        if changed is not None:
            args[data], args[index] = changed
    return call if tuple(args) == call.args else Call(call.dtype, call.op, args)


def bare_pointers(expr: Expr) -> frozenset[Var]:
    """The pointers in an expression that no index beside them could redirect."""

    def without(node: Expr) -> Expr | None:
        if not isinstance(node, Call) or node.op not in POINTERS:
            return None
        return redirected(node, lambda _, index: (const(0), index))

    if not any(var.dtype.is_handle for var in free_vars(expr)):
        return frozenset()
    return frozenset(var for var in free_vars(rewrite(expr, without)) if var.dtype.is_handle)
