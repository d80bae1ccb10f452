"""Views of buffers follow what becomes of the buffers; constants stay around what uses them."""

from __future__ import annotations

import pytest

from schedule.common import check_compiled, check_same, parse, refused, schedule
from tileloom import Schedule
from tileloom.schedule.tensor_intrin import TensorIntrin

PRODUCT = """
@T.prim_func
def main(
    A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32"), D: T.Buffer((8, 8), "float32")
):
    C = T.alloc_buffer((8, 8))
    for i, j, k in T.grid(8, 8, 8):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
    for i, j in T.grid(8, 8):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = C[vi, vj] + 1.0
"""

TILE = """
@T.prim_func
def main(a: T.handle, b: T.handle, c: T.handle):
    s = T.int32()
    A = T.match_buffer(a, (4, 4), "float32", offset_factor=1STRIDES)
    B = T.match_buffer(b, (4, 4), "float32", offset_factor=1STRIDES)
    C = T.match_buffer(c, (4, 4), "float32", offset_factor=1STRIDES)
    with T.block("root"):
        T.reads(C[0:4, 0:4], A[0:4, 0:4], B[0:4, 0:4])
        T.writes(C[0:4, 0:4])
        for i, j, k in T.grid(4, 4, 4):
            with T.block("u"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""


def tiled(steps: str) -> Schedule:
    """The product in tiles, of which an intrinsic over views with such strides can update one."""
    desc = TILE.replace("STRIDES", "").replace("    s = T.int32()\n", "")
    impl = TILE.replace("STRIDES", f", strides=[{steps}, 1]")
    if steps != "s":
        impl = impl.replace("    s = T.int32()\n", "")
    TensorIntrin.register("view_tile", parse(desc), parse(impl), override=True)
    sch = schedule(PRODUCT)
    tiles = [sch.split(loop, [None, 4]) for loop in sch.get_loops("C")]
    sch.reorder(*(outer for outer, _ in tiles), *(inner for _, inner in tiles))
    sch.decompose_reduction("C", tiles[0][0])
    return sch


def test_views_follow_their_buffer() -> None:
    sch = tiled("s")
    sch.tensorize(sch.get_loops("C_update")[3], "view_tile")
    sch.set_scope("C_init", 0, "local")
    view = sch.get(sch.get_block("C_update_o")).match_buffers[-1]
    assert (view.buffer.scope, view.source.buffer.scope) == ("local", "local")
    assert view.buffer.data.pointee == view.source.buffer.data.pointee
    check_compiled(sch, PRODUCT)
    sch.unsafe_set_dtype("C_init", 0, "float64")
    view = sch.get(sch.get_block("C_update_o")).match_buffers[-1]
    assert (view.buffer.dtype, view.source.buffer.dtype) == ("float64", "float64")
    check_same(sch, PRODUCT)
    check_compiled(sch, PRODUCT)
    sch.set_axis_separator("C_init", ("write", 0), [1])
    view = sch.get(sch.get_block("C_update_o")).match_buffers[-1]
    assert view.buffer.axis_separators == view.source.buffer.axis_separators == (1,)
    check_same(sch, PRODUCT)


def test_views_of_other_strides() -> None:
    sch = tiled("4")
    loop = sch.get_loops("C_update")[3]
    refused(sch, "declares the strides 4, but 'A' has", "tensorize", loop, "view_tile")


CONSTANT = """
@T.prim_func
def main(A: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
    K = T.allocate_const([1.0, 2.0, 3.0, 4.0], "float32", [4])
    W = T.Buffer((4,), "float32", data=K)
    B = T.alloc_buffer((4,))
    for i in range(4):
        with T.block("B"):
            v = T.axis.spatial(4, i)
            B[v] = A[v] * W[v]
    for i in range(4):
        with T.block("C"):
            v = T.axis.spatial(4, i)
            C[v] = B[v] + W[v]
"""


def test_copies_of_constants_come_after_them() -> None:
    sch = schedule(CONSTANT)
    sch.cache_read("B", "W", "local")
    check_same(sch, CONSTANT)
    check_compiled(sch, CONSTANT)


def test_inlining_under_constants() -> None:
    sch = schedule(CONSTANT)
    sch.cache_write("B", 0, "local")
    sch.compute_inline("B")
    check_same(sch, CONSTANT)
    check_compiled(sch, CONSTANT)


HALVES = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,))
    for i in range(LOW):
        with T.block("low"):
            v = T.axis.spatial(LOW, i)
            B[v] = A[v]
    for i in range(2):
        with T.block("high"):
            v = T.axis.spatial(8, i + 6)
            B[v] = A[v]
    for i in range(8):
        with T.block("C"):
            v = T.axis.spatial(8, i)
            C[v] = B[v]
"""


@pytest.mark.parametrize("low", [2, 6])
def test_parts_with_a_gap_cover_no_whole(low: int) -> None:
    sch = schedule(HALVES.replace("LOW", str(low)))
    loop = sch.get_loops("C")[0]
    if low == 6:
        sch.parallel(loop)
        sch.reindex("C", ("read", 0))
        check_same(sch, HALVES.replace("LOW", "6"))
    else:
        refused(sch, "may not hold all it reads", "reindex", sch.get_block("C"), ("read", 0))
