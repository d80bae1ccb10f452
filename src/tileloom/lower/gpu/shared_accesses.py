"""Accesses to shared memory: what a statement touches, and under which loops and conditions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ...base.errors import VerifyError
from ...expr import (
    Call,
    Expr,
    IntImm,
    Ramp,
    Range,
    StringImm,
    Var,
    const,
    free_vars,
    has_load,
    post_order,
    substitute,
)
from ...target.instructions import SELF_ORDERED
from ...tir import Buffer, BufferLoad, BufferStore, Evaluate, Stmt, collect, stmt_exprs
from ...tir.atomics import atomic_parts, atomic_place, has_atomic, is_atomic
from ..analysis.pointers import ACCESS_PTR, CP_ASYNC, LDMATRIX, WAIT_GROUP
from ..analysis.threads import pointer_scope, storage_rank
from ..common import ADDRESS_OF, loaded_buffers

_FRAGMENTS = {"tir.tvm_load_matrix_sync": False, "tir.tvm_store_matrix_sync": True}
_WRITES = 2  # the bit of an access pointer's mask
_ROW_BITS = 128  # of a matrix that a thread tells `ldmatrix` of
# One name for each is enough: they are the innermost "loops" of a single access.
_LANE, _COLUMN = Var("lane"), Var("column")


@dataclass(frozen=True, slots=True)
class SharedAccess:
    """An access to shared memory.

    Attributes:
        data: the memory.
        is_write: whether it changes.
        index: the element; None where anything may be touched.
        bits: the size of an element; indices of elements of one size can be compared.
        ranges: loops and names around, inside the kernel; None where values are not known.
        conditions: what holds around it, each with the value it has.
        atomic: such accesses do not disturb each other.
        together: by a warp: any of its threads may be the one that touches it.
        arrives: what an asynchronous copy has written, where it is waited for.
    """

    data: Var
    is_write: bool
    index: Expr | None = None
    bits: int = 0
    ranges: Mapping[Var, Range | None] = field(default_factory=dict)
    conditions: tuple[tuple[Expr, bool], ...] = ()
    atomic: bool = False
    together: bool = False
    arrives: bool = False

    def later(self, loop: Var, step: Expr) -> SharedAccess:
        """The same access in the next iteration of a loop."""
        if self.index is None:
            return self
        table = {loop: step}
        conditions = tuple((substitute(c, table), holds) for c, holds in self.conditions)
        return replace(self, index=substitute(self.index, table), conditions=conditions)


class SharedAccessFinder:
    """Finds what statements access; the loops and conditions around them are kept up to date.

    Args:
        kernel: the code of a launch.
    """

    def __init__(self, kernel: Stmt) -> None:
        calls = (node.value for node in collect(kernel, Evaluate))
        found = {c.args[0]: None for c in calls if isinstance(c, Call) and c.op == CP_ASYNC}
        self.copied = [data for data in found if isinstance(data, Var)]
        self.loops: dict[Var, Range | None] = {}
        self.conditions: tuple[tuple[Expr, bool], ...] = ()

    def find(self, stmt: Stmt) -> list[SharedAccess]:
        """What the statement itself touches, without its sub-statements."""
        found: list[SharedAccess] = []
        for expr in stmt_exprs(stmt):
            self._reads(expr, found)
        if isinstance(stmt, BufferStore):
            self._element(stmt.buffer, stmt.indices, True, found)
        return found

    def _reads(self, expr: Expr, found: list[SharedAccess]) -> None:
        if isinstance(expr, Call):
            if expr.op in SELF_ORDERED:
                return None
            if expr.op == CP_ASYNC:
                return self._async_copy(expr, found)
            if expr.op == WAIT_GROUP:
                found.extend(SharedAccess(data, True, arrives=True) for data in self.copied)
                return None
            if expr.op in _FRAGMENTS:
                return self._fragment(expr, found)
            if expr.op == LDMATRIX:
                return self._rows(expr, found)
        if has_atomic(expr):
            return self._atomic(expr, found)
        if any(v.dtype.is_handle for v in free_vars(expr)):
            self._pointers(expr, found)
        if not has_load(expr):
            return None
        for node in post_order(expr):
            if isinstance(node, BufferLoad):
                self._element(node.buffer, node.indices, False, found)
            elif isinstance(node, Call) and node.op in (ADDRESS_OF, ACCESS_PTR):
                for buffer in loaded_buffers(node):
                    self._anything(buffer.data, True, found)
        return None

    def _pointers(self, expr: Expr, found: list[SharedAccess]) -> None:
        """Pointers in an expression; one that says so is only read through."""
        if isinstance(expr, Call) and expr.op == ACCESS_PTR:
            _, data, *_, mask = expr.args
            if isinstance(data, Var) and isinstance(mask, IntImm):
                return self._anything(data, bool(mask.value & _WRITES), found)
        if isinstance(expr, Var) and expr.dtype.is_handle:
            return self._anything(expr, True, found)
        for child in expr.children:
            self._pointers(child, found)
        return None

    def _async_copy(self, call: Call, found: list[SharedAccess]) -> None:
        """Adjoining elements are written; where they come from is no shared memory."""
        data, bits, start = _pointed(call.args[0], call.args[1])
        size = call.args[4]
        if data is None or not isinstance(size, IntImm):
            raise VerifyError(f"an asynchronous copy to an unknown place: {call}")
        index = Ramp(start, const(1, start.dtype), max(1, size.value * 8 // bits))
        self._place(data, index, bits, True, found)

    def _rows(self, call: Call, found: list[SharedAccess]) -> None:
        """Each thread names a row; the threads of its warp read them together."""
        data, bits, start = _pointed(call.args[5], call.args[6])
        if data is None:
            return self._pointers(call, found)
        index = Ramp(start, const(1, start.dtype), _ROW_BITS // bits)
        return self._place(data, index, bits, False, found, together=True)

    def _fragment(self, call: Call, found: list[SharedAccess]) -> None:
        """Rows of a matrix that the threads of a warp move together, each of them any part."""
        _, rows, columns, _, _, pointer, stride, layout = call.args
        data, bits, start = _pointed(pointer, const(0))
        whole = isinstance(rows, IntImm) and isinstance(columns, IntImm)
        if not whole or data is None or not isinstance(layout, StringImm):
            return self._pointers(call, found)
        sides = [int(rows), int(columns)]  # type: ignore[call-overload]
        if layout.value == "col_major":
            sides.reverse()
        row = Ramp(start, stride, sides[0])
        return self._place(
            data, row, bits, _FRAGMENTS[call.op], found, together=True, width=sides[1]
        )

    def _atomic(self, expr: Expr, found: list[SharedAccess]) -> None:
        """An expression with atomic calls somewhere inside."""
        if not isinstance(expr, Call) or not is_atomic(expr):
            for child in expr.children:
                self._reads(child, found)
            if isinstance(expr, BufferLoad):
                self._element(expr.buffer, expr.indices, False, found)
            return
        place = atomic_place(expr)
        self._place(place.data, place.index, place.dtype.bits, True, found, atomic=True)
        for part in atomic_parts(expr):
            self._reads(part, found)

    def _anything(self, data: Var, is_write: bool, found: list[SharedAccess]) -> None:
        if storage_rank(pointer_scope(data)) == 1:
            found.append(SharedAccess(data, is_write))

    def _element(
        self, buffer: Buffer, indices: Sequence[Expr], is_write: bool, found: list[SharedAccess]
    ) -> None:
        index = indices[0] if len(indices) == 1 and buffer.elem_offset is None else None
        self._place(buffer.data, index, buffer.dtype.bits * buffer.dtype.lanes, is_write, found)

    def _place(
        self,
        data: Var,
        index: Expr | None,
        bits: int,
        is_write: bool,
        found: list[SharedAccess],
        *,
        atomic: bool = False,
        together: bool = False,
        width: int = 1,
    ) -> None:
        """An element, those of a vector, or `width` adjoining elements from each of those on."""
        if storage_rank(pointer_scope(data)) != 1:
            return
        loops = dict(self.loops)
        for var in (_LANE, _COLUMN):
            if isinstance(index, Ramp):
                loops[var] = Range(const(0), const(index.lanes))
                index = index.base + index.stride * var
            if index is not None and width > 1:
                index = Ramp(index, const(1, index.dtype), width)
                width = 1
        if index is not None and index.dtype.lanes != 1:
            index = None
        access = SharedAccess(data, is_write, index, bits, loops, self.conditions, atomic, together)
        found.append(access)


def _pointed(pointer: Expr, index: Expr) -> tuple[Var | None, int, Expr]:
    """The memory, the bits of an element, and the element that a pointer and an index name."""
    match pointer:
        case Var() if pointer.pointee is not None:
            return pointer, pointer.pointee[0].bits, index
        case Call(op=op, args=[kind, Var() as data, start, *_]) if op == ACCESS_PTR:
            return data, kind.dtype.bits, start + index
    return None, 0, index
