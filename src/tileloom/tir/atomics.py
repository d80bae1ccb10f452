"""Calls that read and change memory at once: which there are, and what they touch.

`tir.atomic_add(pointer, value)` and its kin read an element through a pointer, change it, and give
what it was before; no other thread's access comes between. `pointer` is
`tir.address_of(A[i])` or `tir.tvm_access_ptr(...)`. A last argument may name how the call orders
the accesses around it ("acquire", "release", "acq_rel"); without one it orders none ("relaxed").

They stand for all threads of a device. A fence, `tir.memory_fence(scope)`, orders what its thread
does before and after it, as "block", "gpu" or "system" sees it.
"""

from __future__ import annotations

from ..base.errors import VerifyError
from ..base.late import TYPE_CHECKING
from ..base.record import Record
from ..expr import Call, Expr, StringImm, Var, const
from ..expr.atomic_ops import ATOMIC_ORDERS, ATOMIC_VALUES
from ..expr.effects import CALL_FUNCTION
from .nodes import Block, Buffer, BufferLoad, BufferStore, Stmt
from .walk import pre_order, stmt_exprs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..base import DType

ADDRESS_OF, ACCESS_PTR = "tir.address_of", "tir.tvm_access_ptr"
_LOAD, _STORE = "tir.atomic_load", "tir.atomic_store"
_INTEGERS_ONLY = ("tir.atomic_and", "tir.atomic_or", "tir.atomic_xor")


class AtomicPlace(Record):
    """The element that an atomic call touches.

    Attributes:
        data: the pointer of the memory.
        dtype: the type of the element.
        index: in elements from the pointer on; None where the buffer is not flat yet.
        load: how a plain program would read it, where the call says so.
    """

    data: Var
    dtype: DType
    index: Expr | None
    load: BufferLoad | None = None


def is_atomic(expr: Expr) -> bool:
    """Whether the node itself is an atomic call."""
    return isinstance(expr, Call) and expr.op in ATOMIC_VALUES


def has_atomic(expr: Expr) -> bool:
    """Whether an atomic call, or one of a function of the module, is inside (memoised).

    Such an expression counts as often as it is written.
    """
    children = expr.children
    if not children:
        return False
    known = expr.memo.get("has_atomic")
    if known is None:
        counts = is_atomic(expr) or (isinstance(expr, Call) and expr.op == CALL_FUNCTION)
        known = expr.memo["has_atomic"] = counts or any(map(has_atomic, children))
    return bool(known)


def atomic_place(call: Call) -> AtomicPlace:
    """What an atomic call touches.

    Raises:
        VerifyError: its first argument is no pointer to an element.
    """
    pointer = call.args[0]
    match pointer:
        case Call(op=op, args=[BufferLoad() as load]) if op == ADDRESS_OF:
            index = load.indices[0] if len(load.indices) == 1 else None
            return AtomicPlace(load.buffer.data, load.buffer.dtype, index, load)
        case Call(op=op, args=[kind, Var() as data, offset, *_]) if op == ACCESS_PTR:
            return AtomicPlace(data, kind.dtype, offset)
    raise VerifyError(
        f"{call.op.removeprefix('tir.')} takes a pointer to an element first, not {pointer}",
        hint="write `T.address_of(A[i])`",
    )


def atomic_values(call: Call) -> tuple[Expr, ...]:
    """The operands beside the pointer."""
    return call.args[1 : 1 + ATOMIC_VALUES[call.op]]


def atomic_order(call: Call) -> str:
    """How the call orders the accesses around it."""
    rest = call.args[1 + ATOMIC_VALUES[call.op] :]
    return rest[0].value if rest and isinstance(rest[0], StringImm) else "relaxed"


def atomic_parts(call: Call) -> tuple[Expr, ...]:
    """What is evaluated before: the place's indices, and the operands."""
    place = atomic_place(call)
    if place.load is not None:
        return (*place.load.indices, *atomic_values(call))
    index = const(0) if place.index is None else place.index
    return (index, *atomic_values(call))


def atomic_calls(expr: Expr) -> Iterator[Call]:
    """The atomic calls of an expression, inner ones first."""
    if has_atomic(expr):
        for child in expr.children:
            yield from atomic_calls(child)
        if isinstance(expr, Call) and expr.op in ATOMIC_VALUES:
            yield expr


def written_pointers(stmt: Stmt) -> set[Var]:
    """The pointers of the memory that stores and atomic calls write to."""
    found: set[Var] = set()
    for node in pre_order(stmt):
        if isinstance(node, BufferStore):
            found.add(node.buffer.data)
        for expr in stmt_exprs(node):
            found.update(atomic_place(call).data for call in atomic_calls(expr) if call.op != _LOAD)
    return found


def atomic_buffers(stmt: Stmt) -> set[Buffer]:
    """The buffers that are touched by atomic calls alone."""
    atomic: set[Buffer] = set()
    plain: set[Buffer] = set()

    def visit(expr: Expr) -> None:
        parts = expr.children
        if isinstance(expr, Call) and is_atomic(expr):
            place = atomic_place(expr)
            if place.load is not None:
                atomic.add(place.load.buffer)
            parts = atomic_parts(expr)
        elif isinstance(expr, BufferLoad):
            plain.add(expr.buffer)
        for part in parts:
            visit(part)

    for node in pre_order(stmt):
        if isinstance(node, BufferStore):
            plain.add(node.buffer)
        if not isinstance(node, Block):  # which declares what it touches
            for expr in stmt_exprs(node):
                visit(expr)
    return atomic - plain


def atomic_complaints(call: Call) -> Iterator[str]:
    """What is wrong with an atomic call."""
    name, count = call.op.removeprefix("tir."), ATOMIC_VALUES[call.op]
    given = len(call.args) - 1
    if not count <= given <= count + 1:
        yield f"{name} takes a pointer and {count} values, got {len(call.args)} arguments"
        return
    try:
        kind = atomic_place(call).dtype
    except VerifyError as error:
        yield str(error)
        return
    order = call.args[-1] if given > count else StringImm("relaxed")
    if not isinstance(order, StringImm) or order.value not in ATOMIC_ORDERS:
        yield f"{name} is ordered by one of {', '.join(ATOMIC_ORDERS)}, not {order}"
    for value in atomic_values(call):
        if value.dtype is not kind:
            yield f"{name} of a {kind} takes a {kind}, got {value.dtype}: {value}"
    if call.dtype is not kind and call.op != _STORE:
        yield f"{name} of a {kind} gives a {kind}, not a {call.dtype}"
    if kind.lanes > 1:
        yield f"{name} takes single elements, not {kind}"
    if call.op in _INTEGERS_ONLY and kind.is_float:
        yield f"{name} needs integers, got {kind}"
