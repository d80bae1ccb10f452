"""Programs whose blocks can be moved, inlined and cached, with odd, prime and unit extents."""

from __future__ import annotations

from typing import Any

#: A halo: each element needs three of the one before.
BLUR = """
@T.prim_func
def main(A: T.Buffer((17, 11), "float32"), C: T.Buffer((13, 11), "float32")):
    B = T.alloc_buffer((15, 11))
    for i, j in T.grid(15, 11):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + A[vi + 1, vj] + A[vi + 2, vj]
    for i, j in T.grid(13, 11):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + B[vi + 1, vj] * 0.5 + B[vi + 2, vj] * 0.25
"""

#: A padded input, a convolution over channels, an activation.
CONV = """
@T.prim_func
def main(
    X: T.Buffer((1, 7, 9), "float32"),
    W: T.Buffer((5, 3, 3), "float32"),
    R: T.Buffer((5, 7, 9), "float32"),
):
    P = T.alloc_buffer((1, 9, 11))
    Y = T.alloc_buffer((5, 7, 9))
    for n, i, j in T.grid(1, 9, 11):
        with T.block("P"):
            vn, vi, vj = T.axis.remap("SSS", [n, i, j])
            P[vn, vi, vj] = T.if_then_else(
                1 <= vi and vi < 8 and 1 <= vj and vj < 10, X[vn, vi - 1, vj - 1], T.float32(0)
            )
    for c, i, j, r, s in T.grid(5, 7, 9, 3, 3):
        with T.block("Y"):
            vc, vi, vj, vr, vs = T.axis.remap("SSSRR", [c, i, j, r, s])
            with T.init():
                Y[vc, vi, vj] = T.float32(0)
            Y[vc, vi, vj] = Y[vc, vi, vj] + P[0, vi + vr, vj + vs] * W[vc, vr, vs]
    for c, i, j in T.grid(5, 7, 9):
        with T.block("R"):
            vc, vi, vj = T.axis.remap("SSS", [c, i, j])
            R[vc, vi, vj] = T.max(Y[vc, vi, vj], T.float32(10))
"""

#: A product with odd sizes, and something done with every element of it.
GEMM = """
@T.prim_func
def main(
    A: T.Buffer((13, 7), "float32"),
    B: T.Buffer((7, 10), "float32"),
    D: T.Buffer((13, 10), "float32"),
):
    C = T.alloc_buffer((13, 10))
    for i, j, k in T.grid(13, 10, 7):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
    for i, j in T.grid(13, 10):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = C[vi, vj] * 2.0 + 1.0
"""

#: A transposed copy, then one that goes along the other axis.
TRANSPOSED = """
@T.prim_func
def main(A: T.Buffer((6, 5), "float32"), C: T.Buffer((5, 6), "float32")):
    B = T.alloc_buffer((5, 6))
    for i, j in T.grid(5, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vj, vi] * 3.0
    for j, i in T.grid(6, 5):
        with T.block("C"):
            vj, vi = T.axis.remap("SS", [j, i])
            C[vi, vj] = B[vi, vj] + 1.0
"""

#: Rows of a buffer regrouped into tiles: the index map is bijective but not plain.
TILES = """
@T.prim_func
def main(A: T.Buffer((12, 10), "float32"), C: T.Buffer((3, 4, 10), "float32")):
    B = T.alloc_buffer((12, 10))
    for i, j in T.grid(12, 10):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2.0
    for i, k, j in T.grid(3, 4, 10):
        with T.block("C"):
            vi, vk, vj = T.axis.remap("SSS", [i, k, j])
            C[vi, vk, vj] = B[vi * 4 + vk, vj] + 1.0
"""

#: Which row is read is data.
GATHER = """
@T.prim_func
def main(
    A: T.Buffer((8, 6), "float32"), I: T.Buffer((5,), "int32"), C: T.Buffer((5, 6), "float32")
):
    B = T.alloc_buffer((8, 6))
    for i, j in T.grid(8, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2.0
    for i, j in T.grid(5, 6):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[I[vi], vj] + 1.0
"""

#: Every axis of extent one.
UNITS = """
@T.prim_func
def main(A: T.Buffer((1, 1), "float32"), C: T.Buffer((1, 1), "float32")):
    B = T.alloc_buffer((1, 1))
    for i, j in T.grid(1, 1):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + 1.0
    for i, j in T.grid(1, 1):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] * 2.0
"""

#: Name, text, a block, its consumer.
PAIRS = [
    (BLUR, "B", "C"),
    (CONV, "P", "Y"),
    (CONV, "Y", "R"),
    (GEMM, "C", "D"),
    (TRANSPOSED, "B", "C"),
    (TILES, "B", "C"),
    (UNITS, "B", "C"),
]

ROWSUMS = """
@T.prim_func
def main(A: T.Buffer((6, 8), "float32"), S: T.Buffer((6,), "float32")):
    B = T.alloc_buffer((6, 8))
    for k, i in T.grid(8, 6):
        with T.block("B"):
            vk, vi = T.axis.remap("SS", [k, i])
            B[vi, vk] = A[vi, vk] * 2.0
    for i, k in T.grid(6, 8):
        with T.block("S"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                S[vi] = T.float32(0)
            S[vi] = S[vi] + B[vi, vk]
"""


def extents(sch: Any, block: Any) -> Any:
    return [sch.get(loop).extent for loop in sch.get_loops(block)]
