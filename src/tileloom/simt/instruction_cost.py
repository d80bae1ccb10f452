"""What instructions of matrix units and asynchronous copies access, for counting."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..base import dtype
from ..expr import Call, Expr, IntImm, Ramp, StringImm, Var, const
from ..lower.analysis.pointers import ACCESS_PTR, CP_ASYNC, LDMATRIX, MMA
from ..target.matrix_units import find_mma, find_wgmma
from ..tir import Buffer, make_buffer

_WARP, _GROUP, _WGMMA = 32, 128, "tir.ptx_wgmma"
_ROW = 16  # bytes


@dataclass(frozen=True)
class Piece:
    """Adjoining elements that a thread accesses.

    Attributes:
        lanes: how many threads of a warp do so, the first ones.
    """

    buffer: Buffer
    index: Expr
    is_store: bool
    lanes: int = _WARP


def pieces(call: Call) -> Iterator[Piece]:
    """What a thread accesses by an instruction, beside its registers."""
    if call.op == CP_ASYNC and isinstance(call.args[4], IntImm):
        for data, is_store in ((2, False), (0, True)):
            size = call.args[4].value
            found = _piece(call.args[data], call.args[data + 1], size, is_store, _WARP)
            if found is not None:
                yield found
    elif call.op == LDMATRIX and isinstance(call.args[1], IntImm):
        found = _piece(call.args[5], call.args[6], _ROW, False, 8 * call.args[1].value)
        if found is not None:
            yield found


def _piece(pointer: Expr, index: Expr, size: int, is_store: bool, lanes: int) -> Piece | None:
    if isinstance(pointer, Call) and pointer.op == ACCESS_PTR:
        kind, data = dtype(pointer.args[0].dtype), pointer.args[1]
        index = pointer.args[2] + index
    elif isinstance(pointer, Var) and pointer.pointee is not None:
        kind, data = dtype(pointer.pointee[0]), pointer
    else:
        return None
    if not isinstance(data, Var):
        return None
    buffer = make_buffer((1,), kind, data.name, data=data)
    count = max(1, size // kind.numpy.itemsize)
    place = Ramp(index, const(1, index.dtype), count) if count > 1 else index
    return Piece(buffer, place, is_store, lanes)


def multiplications(call: Call) -> int:
    """How many products of numbers 32 threads make by an instruction; 0 for others.

    >>> from tileloom.expr import as_expr
    >>> names = ("m16n8k16", "row", "col", "fp16", "fp16", "fp32")
    >>> multiplications(Call("float32", MMA, [as_expr(name) for name in names]))
    2048
    """
    names = [arg.value for arg in call.args[:6] if isinstance(arg, StringImm)]
    if call.op == MMA and len(names) == 6:
        product = find_mma(names[0], *names[3:])
        return product.m * product.n * product.k
    if call.op == _WGMMA and len(names) >= 4:
        group = find_wgmma(*names[:4])
        return 64 * group.n * group.k * _WARP // _GROUP
    return 0
