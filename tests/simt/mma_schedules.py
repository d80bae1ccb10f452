"""A matrix product through `mma.sync`, step by step as TVM's own test schedules it."""

from __future__ import annotations

from typing import Any

from tileloom import te
from tileloom.schedule import Schedule
from tileloom.schedule.library.intrinsics.mma import FACTORS, shared_16x16_to_mma_32x8_layout
from tileloom.tir import PrimFunc

SIDE = 16
TOTALS = {"f16": "float16", "f32": "float32", "f64": "float64", "i32": "int32"}


def matmul(
    m: int, n: int, k: int, name: str, total: str, trans_a: bool = False, trans_b: bool = False
) -> PrimFunc:
    """`C = A @ B` of one type, summed in another; factors may be stored by columns."""
    kind = FACTORS[name].dtype
    a = te.placeholder((k, m) if trans_a else (m, k), kind, name="A")
    b = te.placeholder((n, k) if trans_b else (k, n), kind, name="B")
    r = te.reduce_axis((0, k), name="k")
    wide = TOTALS[total]

    def term(i: Any, j: Any) -> Any:
        left = a[r, i] if trans_a else a[i, r]
        right = b[j, r] if trans_b else b[r, j]
        if kind == wide:
            return left * right
        return left.astype(wide) * right.astype(wide)

    c = te.compute((m, n), lambda i, j: te.sum(term(i, j), axis=r), name="C")
    return te.create_prim_func([a, b, c])


def tiled(layout: Any, rows: int, columns: int) -> Any:
    """A matrix as tiles, each laid out for a warp."""
    return lambda i, j: (i // rows, j // columns, *layout(i % rows, j % columns))


def mma_schedule(
    func: PrimFunc,
    name: str,
    total: str,
    trans_a: bool = False,
    trans_b: bool = False,
    scope: str = "shared",
    stages: int = 0,
    warps: tuple[int, int] = (2, 2),
    tiles: tuple[int, int] = (2, 2),
    depth: int = 2,
) -> Schedule:
    """Warps make tiles of 16 by 16 from factors that they load out of shared memory."""
    factor = FACTORS[name]
    sch = Schedule(func)
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    i, ii = sch.split(i, [None, SIDE])
    j, ji = sch.split(j, [None, SIDE])
    k, ki = sch.split(k, [None, factor.depth])
    sch.reorder(i, j, k, ii, ji, ki)
    i0, i1, i2 = sch.split(i, [None, warps[0], tiles[0]])
    j0, j1, j2 = sch.split(j, [None, warps[1], tiles[1]])
    k0, k1 = sch.split(k, [None, depth])
    sch.reorder(i0, j0, i1, j1, k0, k1, i2, j2, ii, ji, ki)
    for loop, tag in ((i0, "blockIdx.y"), (j0, "blockIdx.x"), (i1, "threadIdx.y"),
                      (j1, "threadIdx.z")):  # fmt: skip
        sch.bind(loop, tag)
    dyn = "_dyn" if scope == "shared.dyn" else ""
    which = ("a_trans" if trans_a else "a", "b_trans" if trans_b else "b")
    for number, operand in enumerate(which):
        shared = sch.cache_read(block, number, scope)
        sch.compute_at(shared, k0)
        vector = 128 // factor.bits
        flat = sch.fuse(*sch.get_loops(shared)[-2:])
        _, y, z, x, v = sch.split(flat, [None, *warps, 32, vector])
        for loop, tag in ((y, "threadIdx.y"), (z, "threadIdx.z"), (x, "threadIdx.x")):
            sch.bind(loop, tag)
        sch.vectorize(v)
        sch.storage_align(shared, 0, -2, 32 * vector // 8, vector)
        warp = sch.cache_read(block, number, "warp")
        sch.compute_at(warp, k1)
        shape = factor.shape(operand)
        loops = sch.get_loops(warp)[-2:]
        (r0, r1), (c0, c1) = (
            sch.split(loop, [None, size]) for loop, size in zip(loops, shape, strict=True)
        )
        sch.reorder(r0, c0, r1, c1)
        sch.transform_layout(warp, ("write", 0), tiled(factor.layouts[operand], *shape))
        sch.tensorize(r1, f"mma_ldmatrix_{name}_{operand}{dyn}")
    result = sch.cache_write(block, 0, "warp")
    sch.reverse_compute_at(result, j1)
    r, c = sch.get_loops(result)[-2:]
    (r0, r1), (c0, c1) = (sch.split(loop, [None, SIDE]) for loop in (r, c))
    sch.reorder(r0, c0, r1, c1)
    sch.transform_layout(block, ("write", 0), tiled(shared_16x16_to_mma_32x8_layout, SIDE, SIDE))
    sch.tensorize(r1, f"mma_store_16x16_{total}_global")
    init = sch.decompose_reduction(block, k0)
    sch.tensorize(sch.get_loops(init)[-2], f"mma_fill_16x16_{total}")
    tail = ("_trans_a" if trans_a else "") + ("_trans_b" if trans_b else "")
    sch.tensorize(sch.get_loops(block)[-3], f"mma_{name}{name}{total}{tail}")
    if stages:
        sch.annotate(k0, "software_pipeline_stage", [0, 0, stages - 1])
        sch.annotate(k0, "software_pipeline_order", [0, 1, 2])
        sch.annotate(k0, "software_pipeline_async_stages", [0])
    return sch
