"""Matrix fragments: tiles that the threads of a warp hold together."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base import dtype
from ..base.errors import UnsupportedError
from ..expr import Call, Expr, IntImm, StringImm, Var
from ..tir import make_buffer
from .defects import KernelDefect
from .memory import ThreadAccess
from .thread_batch import WARP, Array

if TYPE_CHECKING:
    from .machine import Machine

#: The side of a fragment, and its elements.
SIDE = 16
ELEMENTS = SIDE * SIDE


def _warps(machine: Machine, lanes: Array) -> Array:
    return np.unique(machine.batch.warp[lanes])


def _shape(args: tuple[Expr, ...]) -> None:
    if [a.value for a in args if isinstance(a, IntImm)][:3] != [SIDE] * 3:
        raise UnsupportedError(f"the emulator has fragments of {SIDE} by {SIDE} by {SIDE} only")


def _number(machine: Machine, index: Expr, lanes: Array) -> Array:
    """A fragment's number in every warp: what the warp's first thread says."""
    value = np.broadcast_to(machine.value(index, lanes), lanes.shape)
    return np.asarray(value.reshape(-1, WARP)[:, 0], np.int64)


def _tiles(machine: Machine, data: Expr, index: Expr, lanes: Array) -> tuple[Array, Any]:
    """The fragments' elements [warps, fragments, 16, 16] and where these ones are in it."""
    if not isinstance(data, Var):
        raise UnsupportedError(f"a fragment is named by its pointer, not {data}")
    memory = machine.memory[data]
    kind = machine.kinds[data]
    table = memory.data.view(kind.element.numpy).reshape(memory.data.shape[0], -1, SIDE, SIDE)
    number = _number(machine, index, lanes)
    if (number < 0).any() or (number >= table.shape[1]).any():
        raise KernelDefect(
            "out of bounds",
            f"fragment {int(number.max())} of {data.name}, which has {table.shape[1]}",
            machine.stmt, machine.batch.places(lanes[::WARP]),
            machine.stmt.span if machine.stmt else None,
        )  # fmt: skip
    return table, (_warps(machine, lanes), number)


def _fill(machine: Machine, args: tuple[Expr, ...], lanes: Array) -> None:
    data, *shape, index, value = args
    _shape(tuple(shape))
    table, place = _tiles(machine, data, index, lanes)
    given = np.broadcast_to(machine.value(value, lanes), lanes.shape).reshape(-1, WARP)
    table[place] = given[:, :1, None]  # what the warp's first thread says


def _memory(machine: Machine, args: tuple[Expr, ...], lanes: Array) -> tuple[Any, Any, Array, Any]:
    """A fragment in memory: its buffer, and for every thread the eight elements it moves."""
    pointer, stride, layout = args
    if not isinstance(pointer, Call) or pointer.op != "tir.tvm_access_ptr":
        raise UnsupportedError(f"a fragment is moved through an access pointer, not {pointer}")
    kind, data, offset = pointer.args[0], pointer.args[1], pointer.args[2]
    if not isinstance(data, Var) or not isinstance(layout, StringImm):
        raise UnsupportedError(f"no memory is known for {pointer}")
    memory = machine.memory[data]
    start = np.broadcast_to(machine.value(offset, lanes), lanes.shape).astype(np.int64)
    step = np.broadcast_to(machine.value(stride, lanes), lanes.shape).astype(np.int64)
    element = (machine.batch.thread[lanes] % WARP)[:, None] * 8 + np.arange(8)
    row, column = np.divmod(element, SIDE)
    if layout.value == "col_major":
        row, column = column, row
    index = start[:, None] + row * step[:, None] + column
    return memory, make_buffer((1,), dtype(kind.dtype), data.name), index, element


def _move(machine: Machine, args: tuple[Expr, ...], lanes: Array, loads: bool) -> None:
    data, *shape, index, pointer, stride, layout = args
    _shape(tuple(shape))
    table, place = _tiles(machine, data, index, lanes)
    memory, buffer, where, element = _memory(machine, (pointer, stride, layout), lanes)
    if machine.stmt is None:
        return
    access = ThreadAccess(machine.batch, lanes, where, buffer, machine.stmt)
    held = np.arange(len(lanes))[:, None] // WARP, element
    if loads:
        found = memory.load(access)
        tiles = np.zeros((len(lanes) // WARP, ELEMENTS), found.dtype)
        tiles[held] = found
        table[place] = tiles.reshape(-1, SIDE, SIDE)
    else:
        memory.store(access, table[place].reshape(-1, ELEMENTS)[held])


def _multiply(machine: Machine, args: tuple[Expr, ...], lanes: Array) -> None:
    (to, at), (a, i), (b, j), (c, k) = (
        _tiles(machine, args[n], args[n + 1], lanes) for n in (0, 2, 4, 6)
    )
    wide = np.float32 if to.dtype.kind == "f" else np.int32
    product = np.matmul(a[i].astype(wide), b[j].astype(wide))
    to[at] = (c[k].astype(wide) + product).astype(to.dtype)


HANDLERS: dict[str, Callable[[Machine, tuple[Expr, ...], Array], None]] = {
    "tir.tvm_fill_fragment": _fill,
    "tir.tvm_load_matrix_sync": partial(_move, loads=True),
    "tir.tvm_store_matrix_sync": partial(_move, loads=False),
    "tir.tvm_mma_sync": _multiply,
}
