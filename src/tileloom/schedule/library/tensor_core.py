"""tensor_core_matmul: a matrix product on the matrix units of a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...expr import IntImm
from ..rv import BlockRV
from ._common import BlockLike, block_of, wrong

if TYPE_CHECKING:
    from ..schedule import Schedule

_SIDE = 16
_WARP = 32
_VECTOR = 8  # halves that a thread copies at once: 16 bytes


def tensor_core_matmul(
    sch: Schedule,
    block: BlockLike,
    warps: tuple[int, int] = (2, 2),
    tiles: tuple[int, int] = (2, 2),
    depth: int = 2,
) -> None:
    """Make a product of float16 matrices, accumulated in float32, from fragments of 16 by 16.

    A block of threads makes a tile of the result: `warps` by rows and by columns, each with `tiles`
    fragments by rows and by columns. It goes through the depth in steps of `depth` fragments, which
    it first copies into shared memory, with rows that are 8 elements longer than they need be.

    Args:
        block: `C[i, j] += float32(A[i, k]) * float32(B[k, j])` with loops over i, j and k.
        warps, tiles, depth: see above.

    Raises:
        ScheduleError: the extents are no multiples of the tiles (pad them with `pad_einsum`), or
            the block is no such product.

    >>> from tileloom import Schedule, te
    >>> A, B = (te.placeholder((128, 128), "float16", name=name) for name in "AB")
    >>> k = te.reduce_axis((0, 128), name="k")
    >>> C = te.compute((128, 128), lambda i, j: te.sum(
    ...     A[i, k].astype("float32") * B[k, j].astype("float32"), axis=k), name="C")
    >>> sch = Schedule(te.create_prim_func([A, B, C]))
    >>> tensor_core_matmul(sch, "C")
    >>> str(sch.mod).count("T.tvm_mma_sync")
    1
    """
    found = block_of(sch, block)
    loops = sch.get_loops(found)
    if len(loops) != 3:
        raise wrong(sch, f"a matrix product has three loops, not {len(loops)}")
    steps = [_SIDE * warps[0] * tiles[0], _SIDE * warps[1] * tiles[1], _SIDE * depth]
    for loop, step in zip(loops, steps, strict=True):
        extent = sch.get(loop).extent
        if not isinstance(extent, IntImm) or extent.value % step:
            raise wrong(
                sch,
                f"loop {sch.get(loop).loop_var.name!r} has {extent} iterations, no multiple of "
                f"{step}",
                hint="use pad_einsum first, or smaller tiles",
            )
    (i, ii), (j, ji), (k, ki) = (sch.split(loop, [None, _SIDE]) for loop in loops)
    sch.reorder(i, j, k, ii, ji, ki)
    product = sch.blockize(ii)
    i0, i1, i2 = sch.split(i, [None, warps[0], tiles[0]])
    j0, j1, j2 = sch.split(j, [None, warps[1], tiles[1]])
    k0, k1 = sch.split(k, [None, depth])
    sch.reorder(i0, j0, i1, j1, k0, k1, i2, j2)
    for loop, tag in ((i0, "blockIdx.y"), (j0, "blockIdx.x"), (i1, "threadIdx.y"),
                      (j1, "threadIdx.z")):  # fmt: skip
        sch.bind(loop, tag)
    for number, operand in enumerate("ab"):
        shared = sch.cache_read(product, number, "shared")
        sch.compute_at(shared, k0)
        _share_copy(sch, shared, warps)
        fragment = sch.cache_read(product, number, f"wmma.matrix_{operand}")
        sch.compute_at(fragment, k1)
        _tensorize_tile(sch, fragment, f"wmma_load_16x16x16_f16_{operand}_shared")
    result = sch.cache_write(product, 0, "wmma.accumulator")
    sch.reverse_compute_at(result, j1)
    _tensorize_tile(sch, result, "wmma_store_16x16x16_f32_global")
    start = sch.decompose_reduction(product, k0)
    (zero,) = sch.get_child_blocks(start)
    sch.tensorize(sch.get_loops(zero)[0], "wmma_fill_16x16x16_f32")
    sch.tensorize(product, "wmma_sync_16x16x16_f16f16f32")


def _share_copy(sch: Schedule, copy: BlockRV, warps: tuple[int, int]) -> None:
    """Deal a copy into shared memory out to all threads, 16 bytes each."""
    flat = sch.fuse(*sch.get_loops(copy)[-2:])
    _, row, column, lane, vector = sch.split(flat, [None, *warps, _WARP, _VECTOR])
    for loop, tag in ((row, "threadIdx.y"), (column, "threadIdx.z"), (lane, "threadIdx.x")):
        sch.bind(loop, tag)
    sch.vectorize(vector)
    sch.storage_align(copy, 0, -2, _WARP, _VECTOR)


def _tensorize_tile(sch: Schedule, copy: BlockRV, intrinsic: str) -> None:
    """Replace the innermost 16 by 16 elements of a copy by an intrinsic."""
    rows, columns = sch.get_loops(copy)[-2:]
    (row, inner), (column, lane) = (sch.split(loop, [None, _SIDE]) for loop in (rows, columns))
    sch.reorder(row, column, inner, lane)
    sch.tensorize(inner, intrinsic)
