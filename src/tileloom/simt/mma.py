"""`ldmatrix` and `mma.sync`, on fragments that are laid out as the hardware has them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base import dtype
from ..base.errors import UnsupportedError
from ..expr import Expr, IntImm, StringImm
from ..target.matrix_units import Fragment, GroupProduct, Product, element, find_mma
from .pointers import PointedPlace, place, scope_of
from .thread_batch import WARP, Array

if TYPE_CHECKING:
    from .machine import Machine

_ROW = 16  # bytes of a row of the 8 by 8 matrices that ldmatrix moves


def _constant(arg: Expr) -> Any:
    if not isinstance(arg, IntImm | StringImm):
        raise UnsupportedError(f"a constant is needed, not {arg}")
    return arg.value


# ---------------------------------------------------------------------------- ldmatrix


def load_matrix(machine: Machine, args: tuple[Expr, ...], lanes: Array) -> None:
    """Threads 8k to 8k+7 of a warp say where the rows of matrix k are; all get parts of them."""
    transposed, count = bool(_constant(args[0])), int(_constant(args[1]))
    if count not in (1, 2, 4) or str(_constant(args[2])).removeprefix(".") != "b16":
        raise UnsupportedError("ldmatrix loads 1, 2 or 4 matrices of .b16")
    source, target = (place(machine, args[k], args[k + 1], lanes) for k in (5, 3))
    if transposed and target.kind.bits == 8:
        raise UnsupportedError("ldmatrix turns tiles of 16-bit elements, not of bytes")
    if not scope_of(source.data).startswith("shared"):
        raise UnsupportedError(f"ldmatrix reads shared memory, which {source.data.name!r} is not")
    lane = machine.batch.thread[lanes] % WARP
    telling = source.some(np.nonzero(lane < 8 * count)[0])
    rows = telling.load(_ROW).reshape(-1, count, 8, _ROW)
    halves = rows.view(np.uint16)  # [warps, matrices, rows, columns]
    if transposed:
        halves = halves.swapaxes(2, 3)
    parts = np.ascontiguousarray(halves).reshape(-1, count, 32, 2)  # a thread's two neighbours
    mine = np.ascontiguousarray(parts.swapaxes(1, 2)).reshape(len(lanes), count * 2)
    target.hold(mine.view(np.uint8))


# ---------------------------------------------------------------------------- mma


def multiply(machine: Machine, args: tuple[Expr, ...], lanes: Array) -> None:
    """`ptx_mma`: each warp gathers its fragments, multiplies, and spreads the sum."""
    shape, rows, columns, *kinds = (_constant(arg) for arg in args[:6])
    if (rows, columns) != ("row", "col"):
        raise UnsupportedError(f"mma takes A by rows and B by columns, not {rows} and {columns}")
    product = find_mma(shape, *kinds)
    a, b, c = (place(machine, args[k], args[k + 1], lanes) for k in (6, 8, 10))
    left = gather(a, product.a, product.a_type)
    right = gather(b, product.b, product.b_type)
    start = gather(c, product.c, product.c_type)
    total = multiplied(product, left, right, start, bool(_constant(args[12])))
    scatter(c, product.c, total)


def multiplied(
    product: Product | GroupProduct, a: Array, b: Array, c: Array, saturate: bool = False
) -> Array:
    """The sum of tiles, [warps, rows, columns], as matrix units round it."""
    if saturate and not product.integers:
        raise UnsupportedError("only sums of integers saturate")
    if product.integers:
        return _integers(a, b, c, saturate)
    wide: Any = np.float64 if product.c_type == "f64" else np.float32
    factors = [_rounded(tile, kind) for tile, kind in ((a, product.a_type), (b, product.b_type))]
    with np.errstate(all="ignore"):
        total = np.matmul(*(tile.astype(wide) for tile in factors)) + c.astype(wide)
        return np.asarray(total.astype(c.dtype))


def _integers(a: Array, b: Array, c: Array, saturate: bool) -> Array:
    total = np.matmul(a.astype(np.int64), b.astype(np.int64)) + c
    if saturate:
        total = np.clip(total, -(1 << 31), (1 << 31) - 1)
    return np.asarray(total.astype(np.int32))


def _rounded(tile: Array, kind: str) -> Array:
    """What matrix units see of elements: of tf32, the upper 19 bits."""
    if kind != "tf32":
        return tile
    return np.asarray((tile.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32))


# ---------------------------------------------------------------------------- fragments


@cache
def fragment_places(fragment: Fragment) -> tuple[Array, Array]:
    """The row and the column of every element, [threads of a warp, elements]."""
    table = np.array([(row, column) for _, _, row, column in fragment.places()])
    rows, columns = table.T.reshape(2, WARP, fragment.held)
    return rows, columns


def gather(found: PointedPlace, fragment: Fragment, kind: str) -> Array:
    """Tiles that warps hold in registers, [warps, rows, columns]."""
    _check_packed(found, fragment)
    return tiles_of(found.held(fragment.held * fragment.bits // 8), fragment, kind)


def tiles_of(bytes_: Array, fragment: Fragment, kind: str) -> Array:
    """The tiles whose elements are in the registers of whole warps, one after another."""
    values = bytes_.reshape(-1).view(dtype(element(kind).dtype).numpy)
    tiles = np.zeros((values.size // fragment.held // WARP, fragment.rows, fragment.columns),
                     values.dtype)  # fmt: skip
    rows, columns = fragment_places(fragment)
    tiles[:, rows, columns] = values.reshape(-1, WARP, fragment.held)
    return tiles


def scatter(found: PointedPlace, fragment: Fragment, tiles: Array) -> None:
    """Put tiles into the registers of warps."""
    found.hold(scatter_values(fragment, tiles).view(np.uint8))


def scatter_values(fragment: Fragment, tiles: Array) -> Array:
    """What threads hold of tiles, [threads, elements]."""
    rows, columns = fragment_places(fragment)
    return np.ascontiguousarray(tiles[:, rows, columns].reshape(-1, fragment.held))


def _check_packed(found: PointedPlace, fragment: Fragment) -> None:
    """Elements that share a register begin at the head of one."""
    size = found.kind.numpy.itemsize
    crooked = np.nonzero(found.index * size % min(4, fragment.bits // 8 * fragment.packed))[0]
    if len(crooked):
        what = f"element {found.index[crooked[0]]} of {found.data.name} is not at a register's head"
        raise found.defect("misaligned", what, crooked)


HANDLERS: dict[str, Callable[[Machine, tuple[Expr, ...], Array], None]] = {
    "tir.ptx_ldmatrix": load_matrix,
    "tir.ptx_mma": multiply,
}
