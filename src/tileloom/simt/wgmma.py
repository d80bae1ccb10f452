"""`wgmma`: products that four warps start together; each makes 16 of the 64 rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base import dtype
from ..base.errors import UnsupportedError
from ..base.tensor_map import TileLayout, swizzled
from ..expr import Call, Expr, IntImm, StringImm
from ..target.matrix_units import GroupProduct, element, find_wgmma
from .mma import fragment_places, multiplied, scatter_values, tiles_of
from .pointers import PointedPlace, place, scope_of
from .thread_batch import WARP, Array

if TYPE_CHECKING:
    from .machine import Machine

_GROUP = 4  # warps
_ROWS = 16  # of a warp
_SWIZZLES = {0: 0, 1: 128, 2: 64, 3: 32}  # bytes, by the uppermost bits of a descriptor
_CODES = {bytes_: code for code, bytes_ in _SWIZZLES.items()}
_FIELD = 0x3FFF  # 14 bits, of 16 bytes each
_PIECE = 16  # bytes


def _constant(arg: Expr) -> Any:
    if not isinstance(arg, IntImm | StringImm):
        raise UnsupportedError(f"a constant is needed, not {arg}")
    return arg.value


# ---------------------------------------------------------------------------- descriptors


def descriptor(machine: Machine, call: Call, lanes: Array) -> Any:
    """The 64 bits that `ptx_wgmma_descriptor` makes, over the emulator's own addresses."""
    pointer, leading, stride, swizzle = call.args
    code = _CODES.get(_constant(swizzle))
    if code is None:
        raise UnsupportedError(f"a swizzle has 0, 32, 64 or 128 bytes, not {swizzle}")
    found = place(machine, pointer, None, lanes)
    if not scope_of(found.data).startswith("shared"):
        raise UnsupportedError(f"a descriptor is of shared memory, not of {pointer}")
    base = machine.engines.address(found.data) + found.index * found.kind.numpy.itemsize
    if (base % _PIECE).any():
        what = f"a tile at byte {base[0]} is no multiple of {_PIECE}"
        raise found.defect("misaligned", what, np.flatnonzero(base % _PIECE))
    value = np.asarray(base, np.uint64) >> np.uint64(4) & np.uint64(_FIELD)
    for part, shift in ((leading, 16), (stride, 32)):
        bytes_ = np.asarray(machine.value(part, lanes)).astype(np.uint64)
        value = value | (bytes_ >> np.uint64(4) & np.uint64(_FIELD)) << np.uint64(shift)
    return value | np.uint64(code) << np.uint64(62)


class _Tile:
    """A tile in shared memory that a descriptor tells of."""

    def __init__(self, machine: Machine, bits: int, size: int, lanes: Array) -> None:
        self.machine, self.size, self.lanes = machine, size, lanes
        self.start = (bits & _FIELD) << 4
        self.leading = (bits >> 16 & _FIELD) << 4
        self.stride = (bits >> 32 & _FIELD) << 4
        self.swizzle = _SWIZZLES[bits >> 62]

    def read(self, kind: str, rows: Array, depth: Array, transposed: bool) -> Array:
        """Elements (rows, k) of the tile, as an engine of the warp reads them."""
        layout = TileLayout(self.size, self.leading, self.stride, self.swizzle, transposed)
        where = np.asarray(swizzled(self.start + layout.offset(rows, depth), self.swizzle))
        found = self.machine.engines.array_at(int(where.min()))
        if found is None or self.machine.engines.array_at(int(where.max())) is None:
            raise self.machine.engines.defect(
                "out of bounds",
                f"a tile reaches from byte {where.min()} to {where.max()} of shared memory, where "
                "no array is",
                self.lanes[:1],
            )
        data, _ = found
        base = self.machine.engines.address(data)
        if int(where.max()) - base >= self.machine.memory[data].data.shape[1]:
            raise self.machine.engines.defect(
                "out of bounds", f"a tile reaches beyond {data.name}", self.lanes[:1]
            )
        type_ = dtype(element(kind).dtype)
        source = PointedPlace(self.machine, self.lanes[:1], data, type_, np.zeros(1, np.int64))
        taken = source.at((where - base).reshape(-1) // self.size).take_as_engine()
        return np.asarray(taken.view(type_.numpy)).reshape(where.shape)


# ---------------------------------------------------------------------------- products


def multiply(machine: Machine, args: tuple[Expr, ...], lanes: Array) -> None:
    """`ptx_wgmma(shape, types of A, B, C, A, index, B, C, index, accumulate[, turns of A, B])`."""
    shape, *kinds = (_constant(arg) for arg in args[:4])
    product = find_wgmma(shape, *kinds)
    transposes = [bool(_constant(arg)) for arg in args[10:]] or [False, False]
    if any(transposes) and not product.may_transpose:
        raise UnsupportedError(f"factors of {product.a_type} lie along k in shared memory")
    batch = machine.batch
    for warp in np.unique(batch.warp[lanes]):
        if warp // _GROUP * _GROUP + _GROUP > batch.warps:
            what = f"wgmma takes {_GROUP} warps, and the last of the block are fewer"
            raise machine.engines.defect("divergent warp", what, lanes)
        _by_warp(machine, product, args, lanes[batch.warp[lanes] == warp], int(warp), transposes)


def _by_warp(
    machine: Machine,
    product: GroupProduct,
    args: tuple[Expr, ...],
    lanes: Array,
    warp: int,
    transposes: list[bool],
) -> None:
    engines, batch = machine.engines, machine.batch
    actor = batch.multiplier(warp)
    batch.learn(actor, batch.release(warp))
    with batch.acting(lanes, actor):
        b = _factor(machine, product, product.b_type, args[6], lanes, transposes[1], 0, product.n)
        if not args[4].dtype.is_handle:
            first = warp % _GROUP * _ROWS
            a = _factor(
                machine, product, product.a_type, args[4], lanes, transposes[0], first, _ROWS
            )
    group = engines.note_begun(engines.products, warp)
    if args[4].dtype.is_handle:
        a = _from_registers(machine, product, args, lanes, group)
    sums = place(machine, args[7], args[8], lanes)
    size = product.c.held * product.c.bits // 8
    sums.each(size).check_fenced("wgmma adds to", "ptx_wgmma_fence")
    more = np.unique(np.broadcast_to(machine.value(args[9], lanes), lanes.shape))
    if len(more) > 1:
        raise engines.defect("divergent warp", "threads of a warp add to their sums or not", lanes)
    rows, columns = fragment_places(product.c)
    kind = dtype(element(product.c_type).dtype).numpy
    start = np.zeros((_ROWS, product.n), kind)
    if bool(more[0]):
        start[rows, columns] = sums.each(size).look().view(kind).reshape(WARP, product.c.held)
    total = multiplied(product, a[None], b.T[None], start[None])
    sums.each(size).expect_each(scatter_values(product.c, total), group, again=True)


def _from_registers(
    machine: Machine, product: GroupProduct, args: tuple[Expr, ...], lanes: Array, group: int
) -> Array:
    """A, which nobody may touch until the product is through; other products may read it."""
    size = product.a.held * product.bits // 8
    held = place(machine, args[4], args[5], lanes).each(size)
    held.check_fenced("wgmma reads", "ptx_wgmma_fence")
    bytes_ = held.look()
    held.expect_each(bytes_, group, again=True)
    (tile,) = tiles_of(bytes_, product.a, product.a_type)
    return np.asarray(tile)


def _factor(
    machine: Machine,
    product: GroupProduct,
    kind: str,
    arg: Expr,
    lanes: Array,
    transposed: bool,
    first: int,
    count: int,
) -> Array:
    """Rows of a factor in shared memory, [rows, k]."""
    bits = np.unique(np.broadcast_to(machine.value(arg, lanes), lanes.shape))
    if len(bits) > 1:
        raise machine.engines.defect(
            "divergent warp", "threads of a warp give different descriptors", lanes
        )
    tile = _Tile(machine, int(bits[0]), product.bits // 8, lanes)
    rows, depth = np.meshgrid(first + np.arange(count), np.arange(product.k), indexing="ij")
    return tile.read(kind, rows, depth, transposed)


# ---------------------------------------------------------------------------- order


def _fence(machine: Machine, args: tuple[Expr, ...], lanes: Array) -> None:
    """What these threads wrote into registers is there for products."""
    for memory in machine.memory.values():
        if not memory.watched:
            memory.fence(lanes)


def _commit(machine: Machine, args: tuple[Expr, ...], lanes: Array) -> None:
    batch = machine.batch
    for warp in np.unique(batch.warp[lanes]):
        machine.engines.commit(machine.engines.products, int(warp), batch.multiplier(int(warp)))


def _wait(machine: Machine, args: tuple[Expr, ...], lanes: Array) -> None:
    batch, engines = machine.batch, machine.engines
    left = int(_constant(args[0]))
    for warp in np.unique(batch.warp[lanes]):
        through = engines.wait_group(engines.products, int(warp), left, int(warp))
        some = lanes[batch.warp[lanes] == warp]
        for memory in machine.memory.values():
            if not memory.watched:
                memory.arrive(batch, some, np.full(len(some), through))


HANDLERS: dict[str, Callable[[Machine, tuple[Expr, ...], Array], None]] = {
    "tir.ptx_wgmma": multiply,
    "tir.ptx_wgmma_fence": _fence,
    "tir.ptx_wgmma_commit_group": _commit,
    "tir.ptx_wgmma_wait_group": _wait,
}
VALUES: dict[str, Callable[[Machine, Call, Array], Any]] = {
    "tir.ptx_wgmma_descriptor": descriptor,
}
