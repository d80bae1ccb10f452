"""Programs for one warp: fragments from global memory, element by element, and one product."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from tileloom.script import from_source
from tileloom.target.matrix_units import Product, element
from tileloom.tir import PrimFunc

#: Where thread t holds its element i, as the PTX ISA writes it: A, B (row, column) and C, by bits
#: of an element of A. `g` is groupID and `m` threadID_in_group.
G, M = "(t // 4)", "(t % 4)"
A_PLACES = {
    (16, 8, 8, 16): (f"{G} + i // 2 * 8", f"{M} * 2 + i % 2"),
    (16, 8, 16, 16): (f"{G} + i // 2 % 2 * 8", f"{M} * 2 + i % 2 + i // 4 * 8"),
    (16, 8, 4, 32): (f"{G} + i * 8", M),
    (16, 8, 8, 32): (f"{G} + i % 2 * 8", f"{M} + i // 2 * 4"),
    (8, 8, 16, 8): (G, f"{M} * 4 + i"),
    (16, 8, 16, 8): (f"{G} + i // 4 * 8", f"{M} * 4 + i % 4"),
    (16, 8, 32, 8): (f"{G} + i // 4 % 2 * 8", f"{M} * 4 + i % 4 + i // 8 * 16"),
    (8, 8, 4, 64): (G, M),
    (16, 8, 4, 64): (f"{G} + i * 8", M),
    (16, 8, 8, 64): (f"{G} + i % 2 * 8", f"{M} + i // 2 * 4"),
    (16, 8, 16, 64): (f"{G} + i % 2 * 8", f"{M} + i // 2 * 4"),
}
B_PLACES = {
    (8, 16): (f"{M} * 2 + i", G),
    (16, 16): (f"{M} * 2 + i % 2 + i // 2 * 8", G),
    (4, 32): (M, G),
    (8, 32): (f"{M} + i * 4", G),
    (16, 8): (f"{M} * 4 + i", G),
    (32, 8): (f"{M} * 4 + i % 4 + i // 4 * 16", G),
    (4, 64): (M, G),
    (8, 64): (f"{M} + i * 4", G),
    (16, 64): (f"{M} + i * 4", G),
}
C_PLACE = (f"{G} + i // 2 * 8", f"{M} * 2 + i % 2")


def places(product: Product) -> tuple[tuple[str, str], tuple[str, str], tuple[str, str]]:
    """The ISA's formulas for the fragments of a product."""
    bits = element(product.a_type).bits
    left = A_PLACES[product.m, product.n, product.k, bits]
    return left, B_PLACES[product.k, bits], C_PLACE


def one_product(product: Product, saturate: bool = False) -> PrimFunc:
    """C += A @ B by one warp and one instruction."""
    p = product
    a, b, c = (element(kind).dtype for kind in (p.a_type, p.b_type, p.c_type))
    (ar, ac), (br, bc), (cr, cc) = places(p)
    return function(f"""
@T.prim_func
def product(A: T.Buffer(({p.m}, {p.k}), "{a}"), B: T.Buffer(({p.k}, {p.n}), "{b}"),
            C: T.Buffer(({p.m}, {p.n}), "{c}")):
    with T.block("root"):
        RA = T.alloc_buffer(({p.a.held},), "{a}", scope="local")
        RB = T.alloc_buffer(({p.b.held},), "{b}", scope="local")
        RC = T.alloc_buffer(({p.c.held},), "{c}", scope="local")
        for t in T.thread_binding(32, thread="threadIdx.x"):
            for i in T.unroll({p.a.held}):
                RA[i] = A[{ar}, {ac}]
            for i in T.unroll({p.b.held}):
                RB[i] = B[{br}, {bc}]
            for i in T.unroll({p.c.held}):
                RC[i] = C[{cr}, {cc}]
            T.evaluate(T.ptx_mma(
                "{c}", "{p.shape}", "row", "col", "{p.a_type}", "{p.b_type}", "{p.c_type}",
                RA.data, 0, RB.data, 0, RC.data, 0, T.bool({saturate})
            ))
            for i in T.unroll({p.c.held}):
                C[{cr}, {cc}] = RC[i]
""")


def function(text: str) -> PrimFunc:
    """The function of a text."""
    func = from_source("from tileloom.script import tir as T\n" + text)
    assert isinstance(func, PrimFunc)
    return func


def numpy_type(name: str) -> Any:
    """The NumPy type of elements that PTX calls so."""
    kind = element(name).dtype
    return getattr(ml_dtypes, kind) if "bfloat" in kind or "float8" in kind else np.dtype(kind)


def random_tile(rng: np.random.Generator, shape: tuple[int, int], name: str) -> Any:
    """Random elements; integers over their whole range, floats that are exact in float32."""
    kind = numpy_type(name)
    if name in ("s8", "u8"):
        info = np.iinfo(kind)
        return rng.integers(info.min, info.max + 1, shape).astype(kind)
    if name == "s32":
        return rng.integers(-1000, 1000, shape).astype(kind)
    return rng.standard_normal(shape).astype(kind)
