"""tensorize: before and after, views, refusals; and the registry of tensor intrinsics."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from sampling import sampled
from schedule.common import (
    MATMUL,
    check_same,
    check_trace,
    normal,
    parse,
    refused,
    same_text,
    schedule,
)
from tileloom import Schedule, build
from tileloom.base.errors import UserError
from tileloom.schedule.tensor_intrin import TensorIntrin, _close, check_equivalence
from tileloom.tir import PrimFunc, assert_structural_equal, run

MMA_DESC = """
@T.prim_func
def desc(a: T.handle, b: T.handle, c: T.handle) -> None:
    A = T.match_buffer(a, (16, 16), align=64, offset_factor=1)
    B = T.match_buffer(b, (16, 16), align=64, offset_factor=1)
    C = T.match_buffer(c, (16, 16), align=64, offset_factor=1)
    with T.block("root"):
        T.reads(C[0:16, 0:16], A[0:16, 0:16], B[0:16, 0:16])
        T.writes(C[0:16, 0:16])
        for i, j, k in T.grid(16, 16, 16):
            with T.block("update"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""
MMA_IMPL = """
@T.prim_func
def impl(a: T.handle, b: T.handle, c: T.handle) -> None:
    A = T.match_buffer(a, (16, 16), align=64, offset_factor=1)
    B = T.match_buffer(b, (16, 16), align=64, offset_factor=1)
    C = T.match_buffer(c, (16, 16), align=64, offset_factor=1)
    with T.block("root"):
        T.reads(C[0:16, 0:16], A[0:16, 0:16], B[0:16, 0:16])
        T.writes(C[0:16, 0:16])
        T.evaluate(T.tvm_mma_sync(
            C.data, C.elem_offset // 256, A.data, A.elem_offset // 256,
            B.data, B.elem_offset // 256, C.data, C.elem_offset // 256, dtype="handle",
        ))
"""
TensorIntrin.register("test_mma", parse(MMA_DESC), parse(MMA_IMPL))


#: A small one, as the interpreter is slow.
SMALL = (
    MATMUL.replace("(128, 96)", "(24, 16)").replace("(96, 64)", "(16, 32)")
    .replace("(128, 64)", "(24, 32)").replace("T.grid(128, 64, 96)", "T.grid(24, 32, 16)")
)  # fmt: skip


def tiled_matmul(m: int, n: int, k: int, text: str = MATMUL) -> tuple[Schedule, Any]:
    """The schedule, and the loop around a tile of the update."""
    sch = schedule(text)
    loops = sch.get_loops("C")
    (i0, i1), (j0, j1), (k0, k1) = (
        sch.split(loop, [None, size]) for loop, size in zip(loops, (m, n, k), strict=True)
    )
    sch.reorder(i0, j0, k0, i1, j1, k1)
    sch.decompose_reduction("C", k0)
    return sch, i1


def test_views_of_tiles() -> None:
    sch, tile = tiled_matmul(16, 16, 16)
    sch.tensorize(tile, "test_mma")
    same_text(
        sch,
        """
@T.prim_func
def main(
    A: T.Buffer((128, 96), "float32"),
    B: T.Buffer((96, 64), "float32"),
    C: T.Buffer((128, 64), "float32"),
):
    for i0, j0 in T.grid(8, 4):
        for i1, j1 in T.grid(16, 16):
            with T.block("C_init"):
                vi = T.axis.spatial(128, i0 * 16 + i1)
                vj = T.axis.spatial(64, j0 * 16 + j1)
                C[vi, vj] = T.float32(0)
        for k0 in range(6):
            with T.block("C_update_o"):
                vi, vj, vk = T.axis.remap("SSR", [i0, j0, k0])
                T.reads(
                    C[vi * 16 : vi * 16 + 16, vj * 16 : vj * 16 + 16],
                    A[vi * 16 : vi * 16 + 16, vk * 16 : vk * 16 + 16],
                    B[vk * 16 : vk * 16 + 16, vj * 16 : vj * 16 + 16],
                )
                T.writes(C[vi * 16 : vi * 16 + 16, vj * 16 : vj * 16 + 16])
                a = T.match_buffer(
                    A[vi * 16 : vi * 16 + 16, vk * 16 : vk * 16 + 16], (16, 16), offset_factor=1
                )
                b = T.match_buffer(
                    B[vk * 16 : vk * 16 + 16, vj * 16 : vj * 16 + 16], (16, 16), offset_factor=1
                )
                c = T.match_buffer(
                    C[vi * 16 : vi * 16 + 16, vj * 16 : vj * 16 + 16], (16, 16), offset_factor=1
                )
                T.evaluate(T.tvm_mma_sync(
                    c.data, c.elem_offset // 256, a.data, a.elem_offset // 256,
                    b.data, b.elem_offset // 256, c.data, c.elem_offset // 256, dtype="handle",
                ))
""",
    )
    check_trace(sch, MATMUL)


@pytest.mark.parametrize(("m", "n", "k"), [(4, 16, 4), (4, 8, 4), (8, 8, 8), (4, 16, 16)])
def test_tiles_in_registers(m: int, n: int, k: int) -> None:
    sch, tile = tiled_matmul(m, n, k, SMALL)
    sch.tensorize(tile, f"matmul_{m}x{n}x{k}_f32")
    check_trace(sch, SMALL)
    check_same(sch, SMALL)
    assert sch.verify().state != "wrong"


def test_a_reduction_that_starts_inside() -> None:
    """Without decompose_reduction the new block keeps the start."""
    sch = schedule(SMALL)
    loops = sch.get_loops("C")
    (i0, i1), (j0, j1), (k0, k1) = (
        sch.split(loop, [None, size]) for loop, size in zip(loops, (4, 16, 4), strict=True)
    )
    sch.reorder(i0, j0, k0, i1, j1, k1)
    sch.tensorize(i1, "matmul_4x16x4_f32")
    assert sch.get(sch.get_block("C_o")).init is not None
    check_trace(sch, SMALL)
    check_same(sch, SMALL)


def test_a_block_that_is_there_already() -> None:
    sch, tile = tiled_matmul(4, 16, 4, SMALL)
    block = sch.blockize(tile)
    sch.tensorize(block, "matmul_4x16x4_f32")
    assert sch.get(block).name_hint == "C_update_o"
    check_trace(sch, SMALL)
    check_same(sch, SMALL)


BATCHED = """
@T.prim_func
def main(
    A: T.Buffer((3, 5, 8), "uint8"),
    B: T.Buffer((3, 32, 8), "int8"),
    C: T.Buffer((3, 5, 32), "int32"),
):
    for b, i, j, k in T.grid(3, 5, 32, 8):
        with T.block("C"):
            vb, vi, vj, vk = T.axis.remap("SSSR", [b, i, j, k])
            with T.init():
                C[vb, vi, vj] = 0
            C[vb, vi, vj] = C[vb, vi, vj] + T.cast(A[vb, vi, vk], "int32") * T.cast(
                B[vb, vj, vk], "int32"
            )
"""


def test_leading_dimensions_are_single_elements() -> None:
    sch = schedule(BATCHED)
    _, _, j, k = sch.get_loops("C")
    j0, j1 = sch.split(j, [None, 16])
    k0, k1 = sch.split(k, [None, 4])
    sch.reorder(j0, k0, j1, k1)
    sch.decompose_reduction("C", k0)
    sch.tensorize(j1, "dot_16x4_vnni")
    views = sch.get(sch.get_block("C_update_o")).match_buffers
    assert [len(view.source.region) for view in views] == [3, 3, 3]
    check_trace(sch, BATCHED)
    check_same(sch, BATCHED)


def test_one_result_at_a_time() -> None:
    text = SMALL.replace("B: T.Buffer((16, 32)", "B: T.Buffer((32, 16)").replace(
        "B[vk, vj]", "B[vj, vk]"
    )
    sch = schedule(text)
    _, _, k = sch.get_loops("C")
    k0, k1 = sch.split(k, [None, 8])
    sch.decompose_reduction("C", k0)
    sch.tensorize(k1, "dot_8_f32")
    check_trace(sch, text)
    check_same(sch, text)


def test_wide_indices() -> None:
    """The copy of the intrinsic takes the type that the program's indices have."""
    text = """
@T.prim_func
def main(
    A: T.Buffer((T.int64(8), T.int64(8)), "float32"),
    B: T.Buffer((T.int64(8), T.int64(16)), "float32"),
    C: T.Buffer((T.int64(8), T.int64(16)), "float32"),
):
    for i, j, k in T.grid(T.int64(8), T.int64(16), T.int64(8)):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""
    sch, tile = tiled_matmul(4, 16, 4, text)
    sch.tensorize(tile, "matmul_4x16x4_f32")
    view = sch.get(sch.get_block("C_update_o")).match_buffers[0].buffer
    assert {str(e.dtype) for e in (*view.shape, *view.strides[:1], view.elem_offset)} == {"int64"}
    check_trace(sch, text)
    check_same(sch, text)


def test_indices_of_two_types() -> None:
    text = """
@T.prim_func
def main(
    A: T.Buffer((T.int64(8), T.int64(8)), "float32"),
    B: T.Buffer((T.int64(8), T.int64(16)), "float32"),
    C: T.Buffer((T.int64(8), T.int64(16)), "float32"),
):
    for i0, k0 in T.grid(T.int64(2), T.int64(2)):
        for i1, j, k1 in T.grid(4, 16, 4):
            with T.block("C"):
                vi = T.axis.spatial(T.int64(8), i0 * T.int64(4) + T.cast(i1, "int64"))
                vj = T.axis.spatial(T.int64(16), T.cast(j, "int64"))
                vk = T.axis.reduce(T.int64(8), k0 * T.int64(4) + T.cast(k1, "int64"))
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""
    sch = schedule(text)
    sch.tensorize(sch.get_loops("C")[2], "matmul_4x16x4_f32")
    check_trace(sch, text)
    check_same(sch, text)


def test_the_same_intrinsic_twice_shares_no_variable() -> None:
    text = BATCHED
    sch = schedule(text)
    _, _, _, k = sch.get_loops("C")
    k0, k1 = sch.split(k, [None, 4])
    sch.decompose_reduction("C", k0)
    again = sch.copy()
    desc, impl = simple("uint8", "int8", "int32")
    TensorIntrin.register("test_dot", desc, impl, override=True)
    for each in (sch, again):
        each.tensorize(k1, "test_dot")
    one, two = (s.get(s.get_block("C_update_o")).match_buffers for s in (sch, again))
    assert not {m.buffer for m in one} & {m.buffer for m in two}
    assert_structural_equal(normal(sch.mod), normal(again.mod))
    check_same(sch, text)


def simple(left: str, right: str, total: str, sign: str = "+") -> tuple[PrimFunc, PrimFunc]:
    head = f"""
@T.prim_func
def f(
    A: T.Buffer((4,), "{left}", offset_factor=1),
    B: T.Buffer((4,), "{right}", offset_factor=1),
    C: T.Buffer((1,), "{total}", offset_factor=1),
):
    with T.block("root"):
        T.reads(C[0], A[0:4], B[0:4])
        T.writes(C[0])
"""
    desc = f"""{head}
        for k in range(4):
            with T.block("update"):
                vk = T.axis.remap("R", [k])
                C[0] = C[0] + T.cast(A[vk], "{total}") * T.cast(B[vk], "{total}")
"""
    impl = f"""{head}
        for k in range(4):
            C[0] = C[0] {sign} T.cast(A[k], "{total}") * T.cast(B[k], "{total}")
"""
    return parse(desc), parse(impl)


# ---------------------------------------------------------------------------- refusals


def test_refusals() -> None:
    sch, tile = tiled_matmul(16, 16, 16)
    refused(sch, "no tensor intrinsic is called 'test_mmma'", "tensorize", tile, "test_mmma")
    refused(sch, "did you mean", "tensorize", tile, "test_mmma")
    refused(sch, "is not what the intrinsic", "tensorize", tile, "matmul_8x8x8_f32")
    refused(sch, "is not what the intrinsic", "tensorize", tile, "wmma_sync_16x16x16_f16f16f32")
    refused(sch, "its description is", "tensorize", tile, "dot_4_f32")


def test_other_memory_is_refused() -> None:
    desc = MMA_DESC.replace("offset_factor=1)", 'offset_factor=1, scope="shared")')
    impl = MMA_IMPL.replace("offset_factor=1)", 'offset_factor=1, scope="shared")')
    TensorIntrin.register("test_shared", parse(desc), parse(impl), override=True)
    sch, tile = tiled_matmul(16, 16, 16)
    refused(sch, "'global' memory", "tensorize", tile, "test_shared")


def test_another_order_of_indices_is_refused() -> None:
    text = MATMUL.replace("B: T.Buffer((96, 64)", "B: T.Buffer((64, 96)").replace(
        "B[vk, vj]", "B[vj, vk]"
    )
    sch, tile = tiled_matmul(16, 16, 16, text)
    refused(sch, "are not the indices that 'B' needs", "tensorize", tile, "test_mma")


def test_sums_and_products_in_either_order() -> None:
    plain = "C[vi, vj] + A[vi, vk] * B[vk, vj]"
    assert plain in MATMUL
    for other in ("C[vi, vj] + B[vk, vj] * A[vi, vk]", "A[vi, vk] * B[vk, vj] + C[vi, vj]"):
        sch, tile = tiled_matmul(16, 16, 16, MATMUL.replace(plain, other))
        sch.tensorize(tile, "test_mma")
        wanted, same = tiled_matmul(16, 16, 16)
        wanted.tensorize(same, "test_mma")
        calls = [re.findall(r"T.tvm_mma_sync.*", str(one.mod)) for one in (sch, wanted)]
        assert calls[0] == calls[1]


def test_strided_elements_are_refused() -> None:
    text = MATMUL.replace("A: T.Buffer((128, 96)", "A: T.Buffer((128, 192)").replace(
        "A[vi, vk]", "A[vi, vk * 2]"
    )
    sch, tile = tiled_matmul(16, 16, 16, text)
    refused(sch, "needs", "tensorize", tile, "test_mma")


def test_a_result_that_is_read_as_an_operand_is_refused() -> None:
    text = """
@T.prim_func
def main(B: T.Buffer((16, 16), "float32"), C: T.Buffer((16, 16), "float32")):
    for i, j, k in T.grid(16, 16, 16):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            C[vi, vj] = C[vi, vj] + C[vi, vk] * B[vk, vj]
"""
    sch = schedule(text)
    refused(sch, "several buffers and is written", "tensorize", sch.get_loops("C")[0], "test_mma")


# ---------------------------------------------------------------------------- the registry


def test_names_are_taken_once() -> None:
    desc, impl = parse(MMA_DESC), parse(MMA_IMPL)
    with pytest.raises(UserError, match="already"):
        TensorIntrin.register("test_mma", desc, impl)
    with pytest.raises(UserError, match="already"):
        TensorIntrin.register("dot_4_f32", desc, impl)
    again = TensorIntrin.register("test_mma", desc, impl, override=True)
    assert TensorIntrin.get("test_mma") is again and not again.checked
    assert TensorIntrin.get("nothing", allow_missing=True) is None
    with pytest.raises(UserError, match="no tensor intrinsic"):
        TensorIntrin.get("nothing")


def test_an_implementation_that_computes_something_else_is_refused() -> None:
    desc, impl = simple("int8", "int8", "int32", "-")
    with pytest.raises(UserError, match="leave different values in 'C'"):
        TensorIntrin.register("test_wrong", desc, impl)
    assert TensorIntrin.get("test_wrong", allow_missing=True) is None
    assert TensorIntrin.register("test_right", *simple("int8", "int8", "int32")).checked


def test_wrap_around_counts() -> None:
    """Products of bytes in bytes are not products of bytes in words."""
    desc, _ = simple("int8", "int8", "int32")
    _, impl = simple("int8", "int8", "int32")
    text = str(impl)
    narrow = parse(
        text[text.index("@T.prim_func") :].replace(
            'T.Cast("int32", A[k]) * T.Cast("int32", B[k])', 'T.Cast("int32", A[k] * B[k])'
        )
    )
    assert "A[k] * B[k]" in str(narrow)
    with pytest.raises(UserError, match="different values"):
        TensorIntrin.register("test_narrow", desc, narrow)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda text: text.replace("(16, 16), align", "(16, 8), align", 1), "the implementation"),
        (lambda text: text.replace("b, (16, 16)", 'b, (16, 16), "float16"'), "float16"),
        (lambda text: text.replace("offset_factor=1)", 'offset_factor=1, scope="warp")'), "warp"),
    ],
)
def test_parameters_that_differ_are_refused(change: Any, match: str) -> None:
    with pytest.raises(UserError, match=match):
        TensorIntrin(parse(MMA_DESC), parse(change(MMA_IMPL)))


def test_scalar_parameters_are_refused() -> None:
    func = parse("@T.prim_func\ndef f(n: T.int32):\n    T.evaluate(n)\n")
    with pytest.raises(UserError, match="is no buffer"):
        TensorIntrin(func, func)
    with pytest.raises(UserError, match="is a PrimFunc"):
        TensorIntrin("f", func)  # type: ignore[arg-type]


OWN = [name for name in TensorIntrin.names() if not name.startswith("test_")]


#: Large tiles are made of the same instructions as small ones, and take seconds.
LARGE = [name for name in OWN if name.startswith("wgmma_64x256")]
REST = [name for name in OWN if name not in LARGE]


@pytest.mark.parametrize(
    "name", [*sampled(REST, 4), *(pytest.param(name, marks=pytest.mark.slow) for name in LARGE)]
)
def test_our_own_compute_what_they_describe(name: str) -> None:
    intrin = TensorIntrin.get(name)
    assert intrin is not None
    # `ldmatrix` cannot turn these tiles: threads load their elements one by one.
    by_hand = re.fullmatch(r"mma_ldmatrix_((i8|u8|tf32|e4m3|e5m2)_b|f64_\w+?)(_dyn)?", name)
    on_cpu = name.startswith(("dot_", "matmul_")) or by_hand is not None
    assert check_equivalence(name, intrin.desc, intrin.impl) is on_cpu


def test_a_whole_wmma_pipeline() -> None:
    """Fill, load, multiply and store fragments, as for matrix units."""
    text = """
@T.prim_func
def main(
    A: T.Buffer((32, 48), "float16"),
    B: T.Buffer((48, 64), "float16"),
    C: T.Buffer((32, 64), "float32"),
):
    SA = T.alloc_buffer((32, 48), "float16", scope="shared")
    SB = T.alloc_buffer((48, 64), "float16", scope="shared")
    FA = T.alloc_buffer((32, 48), "float16", scope="wmma.matrix_a")
    FB = T.alloc_buffer((48, 64), "float16", scope="wmma.matrix_b")
    FC = T.alloc_buffer((32, 64), "float32", scope="wmma.accumulator")
    for i, k in T.grid(32, 48):
        with T.block("SA"):
            vi, vk = T.axis.remap("SS", [i, k])
            SA[vi, vk] = A[vi, vk]
    for k, j in T.grid(48, 64):
        with T.block("SB"):
            vk, vj = T.axis.remap("SS", [k, j])
            SB[vk, vj] = B[vk, vj]
    for i, k in T.grid(32, 48):
        with T.block("FA"):
            vi, vk = T.axis.remap("SS", [i, k])
            FA[vi, vk] = SA[vi, vk]
    for k, j in T.grid(48, 64):
        with T.block("FB"):
            vk, vj = T.axis.remap("SS", [k, j])
            FB[vk, vj] = SB[vk, vj]
    for i, j, k in T.grid(32, 64, 48):
        with T.block("FC"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                FC[vi, vj] = T.float32(0)
            FC[vi, vj] = FC[vi, vj] + T.cast(FA[vi, vk], "float32") * T.cast(
                FB[vk, vj], "float32"
            )
    for i, j in T.grid(32, 64):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = FC[vi, vj]
"""
    sch = schedule(text)

    def tile(block: str, name: str) -> None:
        loops = sch.get_loops(block)
        parts = [sch.split(loop, [None, 16]) for loop in loops]
        sch.reorder(*(p[0] for p in parts), *(p[1] for p in parts))
        if block == "FC":
            init = sch.decompose_reduction(block, parts[2][0])
            sch.tensorize(sch.get_loops(init)[2], "wmma_fill_16x16x16_f32")
        sch.tensorize(parts[0][1], name)

    tile("FA", "wmma_load_16x16x16_f16_a_shared")
    tile("FB", "wmma_load_16x16x16_f16_b_shared")
    tile("FC", "wmma_sync_16x16x16_f16f16f32")
    tile("C", "wmma_store_16x16x16_f32_global")
    check_trace(sch, text)
    shown = str(sch.mod)
    for call in ("fill_fragment", "load_matrix_sync", "mma_sync", "store_matrix_sync"):
        assert f"tvm_{call}" in shown


def test_compiled_tiles_give_the_same_numbers() -> None:
    sch, tile = tiled_matmul(4, 16, 16)
    sch.tensorize(tile, "matmul_4x16x16_f32")
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal(s).astype("float32") for s in ((128, 96), (96, 64)))
    wanted = np.zeros((128, 64), "float32")
    run(parse(MATMUL), a, b, wanted)
    got = np.zeros((128, 64), "float32")
    build(sch.mod["main"])(a, b, got)
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)


def test_one_buffer_as_two_operands() -> None:
    text = """
@T.prim_func
def main(A: T.Buffer((8, 16), "float32"), C: T.Buffer((8, 8), "float32")):
    for i, j, k in T.grid(8, 8, 16):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * A[vj, vk]
"""
    sch = schedule(text)
    _, inner = sch.split(sch.get_loops("C")[2], [None, 8])
    sch.tensorize(inner, "dot_8_f32")
    check_trace(sch, text)
    check_same(sch, text)


def test_loops_of_extent_one_around() -> None:
    text = BATCHED.replace("3, 5, 8", "1, 1, 8").replace("(3, 32, 8)", "(1, 32, 8)")
    text = text.replace("(3, 5, 32)", "(1, 1, 32)").replace("T.grid(3, 5,", "T.grid(1, 1,")
    for preserve in (True, False):
        sch = schedule(text)
        _, _, j, k = sch.get_loops("C")
        j0, j1 = sch.split(j, [None, 16])
        k0, k1 = sch.split(k, [None, 4])
        sch.reorder(j0, k0, j1, k1)
        sch.decompose_reduction("C", k0)
        sch.tensorize(j1, "dot_16x4_vnni", preserve_unit_iters=preserve)
        check_trace(sch, text)
        check_same(sch, text)


def test_a_tail_is_refused() -> None:
    """13 is no multiple of 8: the last tile is not whole, and padding is the way out."""
    text = """
@T.prim_func
def main(A: T.Buffer((5, 13), "float32"), B: T.Buffer((3, 13), "float32"),
         C: T.Buffer((5, 3), "float32")):
    for i, j, k in T.grid(5, 3, 13):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vj, vk]
"""
    sch = schedule(text)
    outer, inner = sch.split(sch.get_loops("C")[2], [None, 8])
    sch.decompose_reduction("C", outer)
    refused(sch, "ties outer and inner variables together", "tensorize", inner, "dot_8_f32")
    sch = schedule(text)
    sch.pad_einsum("C", [1, 1, 8])
    outer, inner = sch.split(sch.get_loops("C")[2], [None, 8])
    sch.decompose_reduction("C", outer)
    sch.tensorize(inner, "dot_8_f32")
    check_trace(sch, text)
    check_same(sch, text)


@pytest.mark.parametrize(
    ("kind", "near", "far"),
    [
        ("float64", 1e-10, 1e-7),
        ("float32", 1e-5, 1e-2),
        ("float16", 1e-2, 1e-1),
        ("bfloat16", 5e-2, 5e-1),
    ],
)
def test_how_far_results_of_intrinsics_may_differ(kind: str, near: float, far: float) -> None:
    ones = np.ones(3)
    assert _close(kind, ones, ones + near) and _close(kind, ones * np.nan, ones * np.nan)
    assert not _close(kind, ones, ones + far)
    assert not _close("int32", ones, ones + near) and _close("int32", ones, ones)


INIT_DESC = """
@T.prim_func
def desc(a: T.handle, c: T.handle) -> None:
    A = T.match_buffer(a, (4, 8), offset_factor=1)
    C = T.match_buffer(c, (4,), offset_factor=1)
    with T.block("root"):
        T.reads(A[0:4, 0:8])
        T.writes(C[0:4])
        with T.init():
            for i in range(4):
                with T.block("init"):
                    vi = T.axis.spatial(4, i)
                    C[vi] = T.float32(0)
        for i, k in T.grid(4, 8):
            with T.block("update"):
                vi, vk = T.axis.remap("SR", [i, k])
                C[vi] = C[vi] + A[vi, vk]
"""
INIT_IMPL = """
@T.prim_func
def impl(a: T.handle, c: T.handle) -> None:
    A = T.match_buffer(a, (4, 8), offset_factor=1, strides=[T.int32(), 1])
    C = T.match_buffer(c, (4,), offset_factor=1)
    with T.block("root"):
        T.reads(A[0:4, 0:8])
        T.writes(C[0:4])
        for i in range(4):
            C[i] = (A[i, 0] + A[i, 1] + A[i, 2] + A[i, 3]) + (A[i, 4] + A[i, 5] + A[i, 6] + A[i, 7])
"""


def _sums(depth: int, least: float = 0.0) -> PrimFunc:
    text = f"""
@T.prim_func
def main(A: T.Buffer((12, {depth})), C: T.Buffer((12,))):
    for i, k in T.grid(12, {depth}):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.float32({least})
            C[vi] = C[vi] + A[vi, vk]
"""
    func = parse(text)
    assert isinstance(func, PrimFunc)
    return func


def test_a_description_with_an_init_begins_sums() -> None:
    TensorIntrin.register("sums_from_zero", parse(INIT_DESC), parse(INIT_IMPL), override=True)
    func = _sums(8)
    sch = Schedule(func)
    i, _ = sch.get_loops("C")
    _, rows = sch.split(i, [None, 4])
    sch.tensorize(rows, "sums_from_zero")
    assert sch.get(sch.get_block("C_o")).init is None
    a = np.random.default_rng(0).integers(-9, 9, (12, 8)).astype("float32")
    for made in (sch.mod["main"], build(sch.mod["main"])):
        got = np.full(12, 7, "float32")
        run(made, a, got) if isinstance(made, PrimFunc) else made(a, got)
        assert np.array_equal(got, a.sum(1))
    check_trace(sch, func)


@pytest.mark.parametrize(("depth", "least"), [(16, 0.0), (8, 1.0)])
def test_an_init_that_is_another(depth: int, least: float) -> None:
    """Sums in two steps, of which the second does not begin them; sums that begin with one."""
    TensorIntrin.register("sums_from_zero", parse(INIT_DESC), parse(INIT_IMPL), override=True)
    sch = Schedule(_sums(depth, least))
    i, k = sch.get_loops("C")
    outer, rows = sch.split(i, [None, 4])
    steps, inner = sch.split(k, [None, 8])
    sch.reorder(outer, steps, rows, inner)
    with pytest.raises(UserError, match="is not what the intrinsic 'sums_from_zero' computes"):
        sch.tensorize(rows, "sums_from_zero")


AMX = ("amx_u8s8_32x32x32", "amx_s8s8_5x16x16", "amx_u8u8_18x32x16", "amx_bf16_16x16x48")


@pytest.mark.parametrize("name", AMX)
def test_products_in_tile_registers_do_what_they_say(name: str) -> None:
    intrin = TensorIntrin.get(name)
    assert intrin is not None and check_equivalence(name, intrin.desc, intrin.impl)


@pytest.mark.parametrize(
    "name", ["amx_u8s8_33x32x16", "amx_u8s8_17x16x16", "amx_u8s8_16x8x16", "amx_bf16_16x16x8",
             "amx_u8s9_16x16x16", "amx_u8s8_0x16x16", "amx_u8s8_16x16x0"],
)  # fmt: skip
def test_products_that_no_tiles_hold(name: str) -> None:
    assert TensorIntrin.get(name, allow_missing=True) is None
