"""Barriers in memory, copies in bulk, and copies by maps of tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base.errors import UnsupportedError
from ..base.tensor_map import TensorMap, swizzled
from ..expr import Expr, Var
from .pointers import PointedPlace, place, scope_of
from .thread_batch import Array

if TYPE_CHECKING:
    from .machine import Machine

Handler = Callable[["Machine", tuple[Expr, ...], Array], None]
#: Where a warp may wait, which `independent_warps` sees to.
WAIT = "tir.ptx_mbarrier_wait"
_UNIT, _TILE_ALIGNMENT = 16, 128  # bytes


def _one_by_one(machine: Machine, lanes: Array) -> Any:
    """Each thread for itself: it has the engine do something."""
    return (lanes[k : k + 1] for k in range(len(lanes)))


def _number(machine: Machine, arg: Expr, lanes: Array) -> int:
    return int(np.asarray(machine.value(arg, lanes)).reshape(-1)[0])


def _nothing(machine: Machine, args: tuple[Expr, ...], lanes: Array) -> None:
    """What the emulator need not do."""


# ---------------------------------------------------------------------------- barriers


def _init(machine: Machine, args: tuple[Expr, ...], lanes: Array) -> None:
    machine.engines.start(args[0], _number(machine, args[1], lanes), lanes)


def _arrive(machine: Machine, args: tuple[Expr, ...], lanes: Array) -> None:
    bytes_ = _number(machine, args[1], lanes) if len(args) > 1 else 0
    for barrier, some in machine.engines.find(args[0], lanes):
        machine.engines.arrive(barrier, some, bytes_)


def _expect(machine: Machine, args: tuple[Expr, ...], lanes: Array) -> None:
    for barrier, some in machine.engines.find(args[0], lanes):
        barrier.bytes += _number(machine, args[1], some) * len(some)


def _fence(machine: Machine, args: tuple[Expr, ...], lanes: Array) -> None:
    """What these threads wrote into shared memory is there for engines."""
    for memory in machine.memory.values():
        if memory.watched:
            memory.fence(lanes)


# ---------------------------------------------------------------------------- bulk copies


def _shared(
    machine: Machine, pointer: Expr, index: Expr, lanes: Array, alignment: int
) -> PointedPlace:
    found = place(machine, pointer, index, lanes)
    if not scope_of(found.data).startswith("shared"):
        raise UnsupportedError(f"a copy in bulk is to or from shared memory, not {pointer}")
    _check_aligned(found, alignment)
    return found


def _check_aligned(found: PointedPlace, alignment: int) -> None:
    at = found.index * found.kind.numpy.itemsize
    if (at % alignment).any():
        what = f"byte {at[0]} of {found.data.name} is no multiple of {alignment}"
        raise found.defect("misaligned", what, np.arange(len(at)))


def _length(machine: Machine, arg: Expr, found: PointedPlace) -> Array:
    count = _number(machine, arg, found.lanes)
    if count <= 0 or count % _UNIT:
        what = f"a copy in bulk moves a multiple of {_UNIT} bytes, not {count}"
        raise found.defect("misaligned", what, np.arange(1))
    return np.arange(found.elements(count))


def _bulk(machine: Machine, args: tuple[Expr, ...], lanes: Array) -> None:
    for lane in _one_by_one(machine, lanes):
        target = _shared(machine, args[0], args[1], lane, _UNIT)
        source = place(machine, args[2], args[3], lane)
        _check_aligned(source, _UNIT)
        given = source.at(_length(machine, args[4], source)).take()
        offsets = np.arange(target.elements(len(given)))
        for barrier, _ in machine.engines.find(args[5], lane):
            machine.engines.bring(target, offsets, given, barrier)


def _bulk_store(machine: Machine, args: tuple[Expr, ...], lanes: Array) -> None:
    engines = machine.engines
    for lane in _one_by_one(machine, lanes):
        target = place(machine, args[0], args[1], lane)
        _check_aligned(target, _UNIT)
        source = _shared(machine, args[2], args[3], lane, _UNIT)
        given = _taken(machine, source, _length(machine, args[4], source))
        with machine.batch.acting(lane, machine.batch.copier):
            target.at(np.arange(target.elements(len(given)))).put(given)
        engines.note_begun(engines.stores, int(lane[0]))


def _taken(machine: Machine, source: PointedPlace, offsets: Array) -> Array:
    """What the engine reads out of shared memory for a thread."""
    actor = machine.engines.begin(int(source.lanes[0]))
    with machine.batch.acting(source.lanes, actor):
        return source.at(offsets).take_as_engine()


# ---------------------------------------------------------------------------- maps


def _map(machine: Machine, arg: Expr) -> TensorMap:
    found = machine.env.get(arg) if isinstance(arg, Var) else None
    if not isinstance(found, TensorMap):
        raise UnsupportedError(f"{arg} is no map of a tensor")
    return found


def _box(machine: Machine, found: TensorMap, args: tuple[Expr, ...], lane: Array) -> Any:
    """The indices into the array of a box, by axes, and which of them are inside."""
    if len(args) != len(found.box):
        raise UnsupportedError(f"{len(args)} coordinates for a map of {len(found.box)} axes")
    starts = [_number(machine, arg, lane) for arg in reversed(args)]
    axes = [start + np.arange(extent) for start, extent in zip(starts, found.box, strict=True)]
    inside = [(axis >= 0) & (axis < n) for axis, n in zip(axes, found.array.shape, strict=True)]
    return axes, inside


def _offsets(machine: Machine, tile: PointedPlace, found: TensorMap) -> Array:
    """Where the elements of a box are after a place in shared memory."""
    size = found.array.dtype.itemsize
    if tile.kind.numpy.itemsize != size:
        raise UnsupportedError(
            f"a map of elements of {size} bytes and shared memory of {tile.kind}"
        )
    base = machine.engines.address(tile.data) + int(tile.index[0]) * size
    where = base + np.arange(found.bytes // size) * size
    moved: Array = (swizzled(where, found.swizzle) - base) // size
    return moved


def _tensor(machine: Machine, args: tuple[Expr, ...], lanes: Array) -> None:
    for lane in _one_by_one(machine, lanes):
        found = _map(machine, args[2])
        tile = _shared(machine, args[0], args[1], lane, _TILE_ALIGNMENT)
        axes, inside = _box(machine, found, args[4:], lane)
        box = np.zeros(found.box, found.array.dtype)
        within = np.ix_(*(np.flatnonzero(part) for part in inside))
        box[within] = found.array[
            np.ix_(*(axis[part] for axis, part in zip(axes, inside, strict=True)))
        ]
        for barrier, _ in machine.engines.find(args[3], lane):
            machine.engines.bring(
                tile, _offsets(machine, tile, found), box.reshape(-1).view(np.uint8), barrier
            )


def _tensor_store(machine: Machine, args: tuple[Expr, ...], lanes: Array) -> None:
    engines = machine.engines
    for lane in _one_by_one(machine, lanes):
        found = _map(machine, args[0])
        tile = _shared(machine, args[1], args[2], lane, _TILE_ALIGNMENT)
        axes, inside = _box(machine, found, args[3:], lane)
        given = _taken(machine, tile, _offsets(machine, tile, found))
        box = given.view(found.array.dtype).reshape(found.box)
        within = np.ix_(*(np.flatnonzero(part) for part in inside))
        found.array[np.ix_(*(axis[part] for axis, part in zip(axes, inside, strict=True)))] = box[
            within
        ]
        engines.note_begun(engines.stores, int(lane[0]))


# ---------------------------------------------------------------------------- groups


def _commit(machine: Machine, args: tuple[Expr, ...], lanes: Array) -> None:
    for lane in lanes:
        machine.engines.commit(machine.engines.stores, int(lane), machine.batch.copier)


def _wait(machine: Machine, args: tuple[Expr, ...], lanes: Array) -> None:
    left = _number(machine, args[0], lanes)
    for lane in lanes:
        warp = int(machine.batch.warp[lane])
        machine.engines.wait_group(machine.engines.stores, int(lane), left, warp)


HANDLERS: dict[str, Handler] = {
    "tir.ptx_mbarrier_init": _init,
    "tir.ptx_mbarrier_arrive": _arrive,
    "tir.ptx_mbarrier_arrive_expect_tx": _arrive,
    "tir.ptx_mbarrier_expect_tx": _expect,
    "tir.ptx_fence_mbarrier_init": _nothing,
    "tir.ptx_fence_proxy_async": _fence,
    "tir.ptx_cp_async_bulk": _bulk,
    "tir.ptx_cp_async_bulk_store": _bulk_store,
    "tir.ptx_cp_async_bulk_tensor": _tensor,
    "tir.ptx_cp_async_bulk_tensor_store": _tensor_store,
    "tir.ptx_prefetch_tensormap": _nothing,
    "tir.ptx_cp_async_bulk_commit_group": _commit,
    "tir.ptx_cp_async_bulk_wait_group": _wait,
    "tir.ptx_cp_async_bulk_wait_group_read": _wait,
    "tir.ptx_setmaxnreg": _nothing,
}
