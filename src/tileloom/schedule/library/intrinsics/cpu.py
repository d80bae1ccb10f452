"""Dot products and small matrix products for processors, in plain loops over vectors.

The names `dot_16x4_*`, `dot_4x4_*`, `*_vrmpy` and `*_vdmpy` are TVM's, so that its traces replay;
here they are vector code that compiles on every processor, to the best instructions that it has.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ._text import Pair, pair


def _view(name: str, shape: str, kind: str, strides: str = "") -> str:
    """A parameter of an implementation: a part of a buffer, rows anywhere, elements in a row."""
    rest = f", strides=[{strides}]" if strides else ""
    return f'{name} = T.match_buffer({name.lower()}, ({shape}), "{kind}", offset_factor=1{rest})'


def dot(length: int, kind: str) -> Pair:
    """`C[0] += sum(A[k] * B[k])`: the products as one vector, its lanes added up at the end."""
    head = f"""
    {_view("A", f"{length},", kind)}
    {_view("B", f"{length},", kind)}
    {_view("C", "1,", kind)}
    with T.block("root"):
        T.reads(C[0], A[0:{length}], B[0:{length}])
        T.writes(C[0])"""
    desc = f"""
        for k in range({length}):
            with T.block("update"):
                vk = T.axis.reduce({length}, k)
                C[0] = C[0] + A[vk] * B[vk]"""
    total = " + ".join(f"P[{k}]" for k in range(length))
    impl = f"""
        P = T.alloc_buffer(({length},), "{kind}", scope="local")
        for k in T.vectorized({length}):
            P[k] = A[k] * B[k]
        C[0] = C[0] + ({total})"""
    return pair("abc", head + desc, head + impl)


def short_dots(rows: int, left: str, right: str, total: str, depth: int = 4) -> Pair:
    """`C[i] += sum(A[k] * B[i, k])` of few numbers: `rows` sums at once, one in each lane."""
    head = f"""
    rs = T.int32()
    {_view("A", f"{depth},", left)}
    {_view("B", f"{rows}, {depth}", right, "rs, 1")}
    {_view("C", f"{rows},", total)}
    with T.block("root"):
        T.reads(C[0:{rows}], A[0:{depth}], B[0:{rows}, 0:{depth}])
        T.writes(C[0:{rows}])"""
    desc = f"""
        for i, k in T.grid({rows}, {depth}):
            with T.block("update"):
                vi, vk = T.axis.remap("SR", [i, k])
                C[vi] = C[vi] + T.cast(A[vk], "{total}") * T.cast(B[vi, vk], "{total}")"""
    impl = f"""
        for k in T.unroll({depth}):
            for i in T.vectorized({rows}):
                C[i] = C[i] + T.cast(A[k], "{total}") * T.cast(B[i, k], "{total}")"""
    return pair("abc", head + desc, head + impl)


def matmul(m: int, n: int, depth: int, kind: str) -> Pair:
    """`C += A @ B` for a tile of C that stays in registers, rows of it as vectors."""
    head = f"""
    ra = T.int32()
    rb = T.int32()
    rc = T.int32()
    {_view("A", f"{m}, {depth}", kind, "ra, 1")}
    {_view("B", f"{depth}, {n}", kind, "rb, 1")}
    {_view("C", f"{m}, {n}", kind, "rc, 1")}
    with T.block("root"):
        T.reads(C[0:{m}, 0:{n}], A[0:{m}, 0:{depth}], B[0:{depth}, 0:{n}])
        T.writes(C[0:{m}, 0:{n}])"""
    desc = f"""
        for i, j, k in T.grid({m}, {n}, {depth}):
            with T.block("update"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]"""
    impl = f"""
        R = T.alloc_buffer(({m}, {n}), "{kind}", scope="local")
        for i in T.unroll({m}):
            for j in T.vectorized({n}):
                R[i, j] = C[i, j]
        for k in range({depth}):
            for i in T.unroll({m}):
                for j in T.vectorized({n}):
                    R[i, j] = R[i, j] + A[i, k] * B[k, j]
        for i in T.unroll({m}):
            for j in T.vectorized({n}):
                C[i, j] = R[i, j]"""
    return pair("abc", head + desc, head + impl)


# Rows, columns and depth; the larger ones fill the registers of AVX2 and AVX-512.
_TILES = (
    (4, 4, 4), (4, 8, 4), (4, 16, 4), (4, 16, 16), (6, 16, 16), (8, 8, 8), (8, 16, 16), (8, 32, 16),
)  # fmt: skip

DEFINITIONS: dict[str, Callable[[], Pair]] = {
    "dot_16x4_vnni": partial(short_dots, 16, "uint8", "int8", "int32"),
    "dot_16x4_avx512": partial(short_dots, 16, "uint8", "int8", "int32"),
    "dot_4x4_i8i8s32_neon": partial(short_dots, 4, "int8", "int8", "int32"),
    "dot_4x4_i8i8s32_sdot": partial(short_dots, 4, "int8", "int8", "int32"),
    "dot_4x4_u8u8u32_udot": partial(short_dots, 4, "uint8", "uint8", "uint32"),
    "dot_4x4_u8u8i32_hdot": partial(short_dots, 4, "uint8", "uint8", "int32"),
    "dot_32x4_u8u8i32_vrmpy": partial(short_dots, 32, "uint8", "uint8", "int32"),
    "dot_32x4_u8i8i32_vrmpy": partial(short_dots, 32, "uint8", "int8", "int32"),
    "dot_product_32x2_i16i16i32_vdmpy": partial(short_dots, 32, "int16", "int16", "int32", 2),
    **{f"dot_{n}_f32": partial(dot, n, "float32") for n in (4, 8, 16)},
    **{f"matmul_{m}x{n}x{k}_f32": partial(matmul, m, n, k, "float32") for m, n, k in _TILES},
    **{f"matmul_{m}x{n}x{k}_f64": partial(matmul, m, n, k, "float64") for m, n, k in ((4, 8, 4),)},
}
