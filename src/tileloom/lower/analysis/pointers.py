"""Calls that take memory as a pointer and an index: where their arguments say so."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from ...expr import Call, Expr, IntImm, Var, const, free_vars, rewrite
from ...target.instructions import MAP_SCOPE, PATTERNED, SELF_ORDERED
from ...tir import BufferLoad, Stmt, collect_exprs
from ..common import loaded_buffers

ACCESS_PTR = "tir.tvm_access_ptr"
LDMATRIX, MMA = "tir.ptx_ldmatrix", "tir.ptx_mma"
MMA_STORE, MMA_FILL = "tir.mma_store", "tir.mma_fill"
CP_ASYNC, COMMIT_GROUP, WAIT_GROUP = (
    "tir.ptx_cp_async",
    "tir.ptx_commit_group",
    "tir.ptx_wait_group",
)
BULK, BULK_STORE = "tir.ptx_cp_async_bulk", "tir.ptx_cp_async_bulk_store"

#: By op: (pointer, index) argument numbers. A pointer may also be an access pointer, which has an
#: index of its own.
POINTERS: Mapping[str, tuple[tuple[int, int], ...]] = {
    ACCESS_PTR: ((1, 2),),
    LDMATRIX: ((3, 4), (5, 6)),
    MMA: ((6, 7), (8, 9), (10, 11)),
    MMA_STORE: ((3, 4),),
    MMA_FILL: ((1, 2),),
    CP_ASYNC: ((0, 1), (2, 3)),
    BULK: ((0, 1), (2, 3)),
    BULK_STORE: ((0, 1), (2, 3)),
    "tir.ptx_cp_async_bulk_tensor": ((0, 1),),
    "tir.ptx_cp_async_bulk_tensor_store": ((1, 2),),
    "tir.ptx_wgmma": ((4, 5), (7, 8)),
}
_WRITES = 2  # the bit of an access pointer's mask


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


def loaded_pointers(stmt: Stmt) -> set[Var]:
    """The pointers of the buffers that are read element by element."""
    return {load.buffer.data for load in collect_exprs(stmt, BufferLoad)}


def written_through(stmt: Stmt) -> set[Var]:
    """The pointers of what calls write: by access pointers that say so, and by copies in bulk."""
    return {var for call in collect_exprs(stmt, Call) if (var := _written(call)) is not None}


def _written(call: Call) -> Var | None:
    if call.op == BULK_STORE:
        data = call.args[0]
    elif call.op == ACCESS_PTR:
        mask, data = call.args[4], call.args[1]
        if not isinstance(mask, IntImm) or not mask.value & _WRITES:
            return None
    else:
        return None
    return data if isinstance(data, Var) else None


def self_ordered_pointers(stmt: Stmt) -> set[Var]:
    """The pointers that instructions take which no barriers are set for."""
    found: set[Var] = set()
    for call in collect_exprs(stmt, Call):
        if call.op in SELF_ORDERED:
            found.update(var for var in free_vars(call) if var.dtype.is_handle)
            found.update(buffer.data for buffer in loaded_buffers(call))
    return found


def uses_patterns(stmt: Stmt) -> bool:
    """Whether instructions lay tiles out in shared memory by a pattern of addresses."""
    return any(call.op in PATTERNED for call in collect_exprs(stmt, Call))


def is_map(var: Var) -> bool:
    """Whether a variable is a map of a tensor, which a kernel is passed by value."""
    return var.pointee is not None and var.pointee[1] == MAP_SCOPE


def bare_pointers(expr: Expr) -> frozenset[Var]:
    """The pointers in an expression that no index beside them could redirect."""

    def without(node: Expr) -> Expr | None:
        if not isinstance(node, Call) or node.op not in POINTERS:
            return None
        return redirected(node, lambda _, index: (const(0), index))

    if not any(var.dtype.is_handle for var in free_vars(expr)):
        return frozenset()
    return frozenset(var for var in free_vars(rewrite(expr, without)) if var.dtype.is_handle)
