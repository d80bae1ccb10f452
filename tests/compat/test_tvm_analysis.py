"""Layouts that TVM's analyses suggest. What is expected was computed by TVM itself."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tileloom.compat import tvm
from tileloom.compat.tvm import te, tir
from tileloom.compat.tvm.tir.schedule.analysis import (
    get_auto_tensorize_mapping_info,
    get_tensorize_loop_mapping,
    suggest_index_map,
)
from tileloom.expr import Expr, ExprLike, Var
from tileloom.schedule import Schedule


def suggested(
    shape: tuple[ExprLike, ...],
    access: Callable[..., Any],
    extents: tuple[ExprLike, ...],
    predicate: Callable[..., Any] | None = None,
) -> str | None:
    """The map for an access under loops called i, j, k, ...; `i0, i1, ...` as text."""
    loop_vars = [tir.Var(name, "int32") for name in "ijklmn"[: len(extents)]]
    loops = [
        tir.For(var, 0, extent, tir.ForKind.SERIAL, tir.Evaluate(0))
        for var, extent in zip(loop_vars, extents, strict=True)
    ]
    condition = True if predicate is None else predicate(*loop_vars)
    buffer = tir.decl_buffer(shape, "float32", "A")
    found = suggest_index_map(buffer, access(*loop_vars), loops, condition)
    return None if found is None else ", ".join(map(str, found.final_indices))


@pytest.mark.parametrize(
    ("shape", "access", "extents", "expected"),
    [
        (
            (32, 64), lambda i, j, k, m: [i * 16 + m, j * 16 + k], (2, 4, 16, 16),
            "i0 // 16, i1 // 16, i1 % 16, i0 % 16",
        ),
        ((32, 64), lambda i, j: [i, j], (32, 64), "i0, i1"),
        ((32, 64), lambda j, i: [i, j], (64, 32), "i1, i0"),
        ((32, 64), lambda i, j: [(i * 64 + j) // 64, (i * 64 + j) % 64], (32, 64), "i0, i1"),
        (
            (32, 64, 256), lambda i, j, k, m, n, o: [i * 8 + m, j * 8 + n, k * 8 + o],
            (4, 8, 32, 8, 8, 8), "i0 // 8, i1 // 8, i2 // 8, i0 % 8, i1 % 8, i2 % 8",
        ),
        ((128,), lambda i, j: [i + j * 32], (32, 4), "i0 % 32, i0 // 32"),
        ((128, 128), lambda i, j, k: [i * 4 + k, j], (32, 128, 4), "i0 // 4, i1, i0 % 4"),
        ((32, 64), lambda j, i, k: [i, j * 8 + k], (8, 32, 8), "i1 // 8, i0, i1 % 8"),
        ((1, 64), lambda i, j, k: [i, k * 8 + j], (1, 8, 8), "i1 % 8, i1 // 8"),
        ((64,), lambda i, j, k: [k * 4 + i], (4, 3, 16), "i0 % 4, i0 // 4"),
        ((16, 4, 8), lambda i, j, k: [k, i, j], (4, 8, 16), "i1, i2, i0"),
        ((32, 64), lambda i, j: [i // 2, j], (64, 64), "i0, i1"),
        ((64,), lambda i: [i // 8 + i % 8 * 8], (64,), "i0 % 8, i0 // 8"),
        ((32, 64), lambda i, j: [i + j, j], (32, 64), None),
        ((32, 64), lambda i, j, k: [i * 2, j * 8 + k], (16, 8, 8), None),
        # TVM suggests maps here that send several elements to one place.
        ((32, 64), lambda i: [i, i], (32,), None),
        ((128, 64), lambda i, j, k: [i * 2 + k, j], (32, 64, 2), "i0 // 2, i1, i0 % 2"),
        ((4, 0), lambda i, j: [i, j], (4, 0), None),
    ],
)  # fmt: skip
def test_suggested_layouts(
    shape: tuple[int, ...],
    access: Callable[..., Any],
    extents: tuple[int, ...],
    expected: str | None,
) -> None:
    assert suggested(shape, access, extents) == expected


def test_a_suggested_layout_under_a_predicate() -> None:
    found = suggested(
        (32, 60), lambda i, j, k: [i, j * 8 + k], (32, 8, 8), lambda i, j, k: j * 8 + k < 60
    )
    flat = "(i0 * 60 + i1)"
    assert found == f"{flat} // 64, {flat} % 64 // 8, {flat} % 8"


def test_no_layout_is_suggested_for_open_sizes() -> None:
    n = tir.Var("n", "int32")
    assert suggested((n, 32), lambda j, i: [i, j], (32, n)) is None


def product(
    left: tuple[int, ...],
    right: tuple[int, ...],
    out: tuple[int, ...],
    sums: tuple[int, ...],
    value: Callable[..., Any],
    kind: str = "float16",
) -> Any:
    """A block "C" that sums up `value(A, B, reduced, indices)`."""
    a, b = te.placeholder(left, kind, name="A"), te.placeholder(right, kind, name="B")
    axes = [te.reduce_axis((0, extent), f"k{n}") for n, extent in enumerate(sums)]

    def element(*indices: Var) -> Any:
        return te.sum(value(a, b, axes, indices), axis=axes)

    c = te.compute(out, element, name="C")
    return tir.Schedule(te.create_prim_func([a, b, c]))


def wide(value: Expr) -> Expr:
    return value.astype("float32")


WMMA = "wmma_sync_16x16x16_f16f16f32"


def mapping(sch: Schedule, desc: str = WMMA) -> Any:
    return get_auto_tensorize_mapping_info(sch, sch.get_block("C"), tir.TensorIntrin.get(desc).desc)


@pytest.mark.parametrize(
    ("shapes", "sums", "value", "expected", "leading"),
    [
        (
            ((64, 16), (16, 32), (64, 32)), (16,),
            lambda A, B, k, x: wide(A[x[0], k[0]]) * wide(B[k[0], x[1]]),
            "v_i0, v_i1, v_k0", "AB",
        ),
        (
            ((64, 16), (16, 32), (64, 32)), (16,),
            lambda A, B, k, x: wide(B[k[0], x[1]]) * wide(A[x[0], k[0]]),
            "v_i1, v_i0, v_k0", "BA",
        ),
        (
            ((64, 16), (16, 32), (32, 64)), (16,),
            lambda A, B, k, x: wide(A[x[1], k[0]]) * wide(B[k[0], x[0]]),
            "v_i1, v_i0, v_k0", "AB",
        ),
        (
            ((64, 16, 8), (16, 32, 8), (64, 32, 8)), (16,),
            lambda A, B, k, x: wide(A[x[0], k[0], x[2]]) * wide(B[k[0], x[1], x[2]]),
            "v_i2, v_i0, v_i1, v_k0", "AB",
        ),
        (
            ((64, 16, 4), (16, 32), (64, 32)), (16, 4),
            lambda A, B, k, x: wide(A[x[0], k[0], k[1]]) * wide(B[k[0], x[1]]),
            "v_k1, v_i0, v_i1, v_k0", "AB",
        ),
        (
            ((1, 34, 34, 16), (3, 3, 16, 32), (1, 16, 16, 32)), (3, 3, 16),
            lambda A, B, k, x: wide(A[x[0], x[1] * 2 + k[0], x[2] * 2 + k[1], k[2]])
            * wide(B[k[0], k[1], k[2], x[3]]),
            "v_i0 * 256 + v_i1 * 16 + v_i2, v_i3, v_k0 * 48 + v_k1 * 16 + v_k2", "AB",
        ),
    ],
)  # fmt: skip
def test_axes_become_those_of_an_intrinsic(
    shapes: Any,
    sums: tuple[int, ...],
    value: Callable[..., Any],
    expected: str,
    leading: str,
) -> None:
    sch = product(*shapes, sums, value)
    info: Any = mapping(sch)
    (found,) = info.mappings
    assert ", ".join(map(str, found.final_indices)) == expected
    assert [axis.var for axis in info.lhs_iters] == list(found.initial_indices)
    assert [int(axis.dom.extent) for axis in info.rhs_iters] == [16, 16, 16]
    partners = {ours.name: theirs.name for ours, theirs in info.lhs_buffer_map.items()}
    assert partners == {**dict(zip(leading, "AB", strict=True)), "C": "C"}
    named = {b.name: [v.name for v in at] for b, at in info.rhs_buffer_indices.items()}
    (i, k), (_, j) = named["A"], named["B"]
    assert named == {"A": [i, k], "B": [k, j], "C": [i, j]}


@pytest.mark.parametrize(
    ("shapes", "sums", "value", "kind"),
    [
        (
            ((1, 18, 18, 64), (3, 3, 64), (1, 16, 16, 64)), (3, 3),
            lambda A, B, k, x: wide(A[x[0], x[1] + k[0], x[2] + k[1], x[3]])
            * wide(B[k[0], k[1], x[3]]), "float16",
        ),
        (
            ((64, 16), (16,), (64,)), (16,),
            lambda A, B, k, x: wide(A[x[0], k[0]]) * wide(B[k[0]]), "float16",
        ),
        (
            ((64, 16), (16, 32), (64, 32)), (16,),
            lambda A, B, k, x: A[x[0], k[0]] * B[k[0], x[1]], "float32",
        ),
        (
            ((64, 16), (16, 32), (64, 32)), (16,),
            lambda A, B, k, x: wide(A[x[0], k[0]]) + wide(B[k[0], x[1]]), "float16",
        ),
        (
            ((16, 16), (16, 16), (16, 16)), (16,),
            lambda A, B, k, x: wide(A[x[0], k[0]]) * wide(A[k[0], x[1]]), "float16",
        ),
    ],
)  # fmt: skip
def test_other_sums_have_no_mapping(
    shapes: Any, sums: tuple[int, ...], value: Callable[..., Any], kind: str
) -> None:
    sch = product(*shapes, sums, value, kind)
    assert mapping(sch) is None


def test_a_mapping_applied() -> None:
    """A convolution becomes a matrix product, and computes what it did."""
    sch = product(
        (2, 7, 7, 16), (3, 3, 16, 16), (2, 5, 5, 16), (3, 3, 16),
        lambda A, B, k, x: wide(A[x[0], x[1] + k[0], x[2] + k[1], k[2]])
        * wide(B[k[0], k[1], k[2], x[3]]),
    )  # fmt: skip
    before = tvm.build(sch.mod)
    block = sch.get_block("C")
    sch.transform_block_layout(block, mapping(sch).mappings[0])
    extents = [int(sch.get(loop).extent) for loop in sch.get_loops(block)]
    assert extents == [50, 16, 144]
    info: Any = get_tensorize_loop_mapping(sch, block, tir.TensorIntrin.get(WMMA).desc, True)
    assert list(info.block_iter_paddings) == [16, 1, 1]
    rng = np.random.default_rng(0)
    x = tvm.nd.array(rng.standard_normal((2, 7, 7, 16)).astype("float16"))
    w = tvm.nd.array(rng.standard_normal((3, 3, 16, 16)).astype("float16"))
    outs = [tvm.nd.empty((2, 5, 5, 16)) for _ in range(2)]
    before(x, w, outs[0])
    tvm.build(sch.mod)(x, w, outs[1])
    np.testing.assert_allclose(outs[0].numpy(), outs[1].numpy(), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(
    ("module", "name", "meaning", "reason"),
    [
        ("rocm", "ROCM_MFMA_f16f16f32_INTRIN", "rocm_mfma_f16f16f32", "AMD"),
        ("rocm", "ROCM_MFMA_fill_16x16_i32_INTRIN", "ROCM_mfma_fill_16x16_i32", "AMD"),
        (
            "rocm", "ROCM_MFMA_LOAD_16x4_B_SHARED_f32_INTRIN",
            "rocm_mfma_load_b_16x4_shared_f32", "AMD",
        ),
        ("rocm", "ROCM_MFMA_STORE_16x16_s32_INTRIN", "rocm_mfma_store_16x16_s32", "AMD"),
        (
            "metal", "SIMDGROUP_LOAD_8x8x8_f16_SHARED_INTRIN",
            "simdgroup_load_8x8x8_f16_shared", "Apple",
        ),
        ("arm_cpu", "ARM_SME_INIT", "sme_init", "SME"),
        ("hexagon", "DMA_READ_128_u8", "dma_read_128_u8", "Hexagon"),
        ("hexagon", "VRMPY_u8i8i32_VTCM_INTRIN", "dot_32x4_u8i8i32_vtcm_vrmpy", "Hexagon"),
        (
            "cuda", "WMMA_LOAD_8x8x32_S4_B_TRANS_DYN_INTRIN",
            "wmma_load_8x8x32_s4_b_trans_shared_dyn", "4-bit",
        ),
        (
            "cuda", "WMMA_SYNC_8x8x32_s4s4s32_TRANS_INTRIN",
            "wmma_sync_8x8x32_s4s4s32_trans", "4-bit",
        ),
        (
            "cuda", "MMA_store_16x16_f16_shared_dyn_INTRIN_SIMPLE",
            "mma_store_16x16_f16_shared_dyn_simple_", "element by element",
        ),
    ],
)  # fmt: skip
def test_intrinsics_that_are_refused_by_name(
    module: str, name: str, meaning: str, reason: str
) -> None:
    found = getattr(importlib.import_module(f"{tir.tensor_intrin.__name__}.{module}"), name)
    assert found == meaning
    assert tir.TensorIntrin.get(found, allow_missing=True) is None
    with pytest.raises(tvm.TVMError, match=reason):
        tir.TensorIntrin.get(found)
