"""Schedules of small programs as text, right ones: for the checks of `tileloom.schedule.verify`."""

from __future__ import annotations

from schedule.verify.programs import TILED, WHERE, nest, stages, start, update

INIT = nest("i:6, j:7", start("i", "j"))
DECOMPOSED = INIT + nest("i:6, j:7, k:5", update("i", "j", "k", "", "C_update"))
CACHED = """
A_local = T.alloc_buffer((6, 5))
C_local = T.alloc_buffer((6, 7))
for i0 in T.parallel(3):
    for x, y in T.grid(2, 5):
        with T.block("A_local"):
            v0 = T.axis.spatial(6, i0 * 2 + x)
            v1 = T.axis.spatial(5, y)
            A_local[v0, v1] = A[v0, v1]
    for i1, j, k in T.grid(2, 7, 5):
        with T.block("C"):
            vi = T.axis.spatial(6, i0 * 2 + i1)
            vj, vk = T.axis.remap("SR", [j, k])
            with T.init():
                C_local[vi, vj] = T.float32(0)
            C_local[vi, vj] = C_local[vi, vj] + A_local[vi, vk] * B[vk, vj]
    for x, y in T.grid(2, 7):
        with T.block("C_local"):
            v0 = T.axis.spatial(6, i0 * 2 + x)
            v1 = T.axis.spatial(7, y)
            C[v0, v1] = C_local[v0, v1]
"""
# The whole of B is copied by each iteration of a parallel loop: right with a copy for each.
CACHED_B = """
B_local = T.alloc_buffer((5, 7))
for i in T.parallel(6):
    for x, y in T.grid(5, 7):
        with T.block("B_local"):
            v0, v1 = T.axis.remap("SS", [x, y])
            B_local[v0, v1] = B[v0, v1]
    for j, k in T.grid(7, 5):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B_local[vk, vj]
"""
FUSED = """
for f in T.parallel(14):
    for k in range(5):
        for i1 in T.unroll(3):
            with T.block("C"):
                vi = T.axis.spatial(6, f // 7 * 3 + i1)
                vj = T.axis.spatial(7, f % 7)
                vk = T.axis.reduce(5, k)
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""
NESTED = """
for i0, j in T.grid(3, 7):
    with T.block("C_o"):
        vio, vj = T.axis.remap("SS", [i0, j])
        with T.init():
            for i1 in range(2):
                with T.block("C_init"):
                    vi = T.axis.spatial(2, i1)
                    C[vio * 2 + vi, vj] = T.float32(0)
        part = T.match_buffer(C[vio * 2:vio * 2 + 2, vj:vj + 1], (2, 1), offset_factor=1)
        for i1, k in T.grid(2, 5):
            with T.block("C_inner"):
                vi, vk = T.axis.remap("SR", [i1, k])
                part[vi, 0] = part[vi, 0] + A[vio * 2 + vi, vk] * B[vk, vj]
"""

MATMULS = {
    "tiled": TILED.format(j_tiles=2, where=WHERE),
    "fused": FUSED,
    "reordered": nest("k:5, j:7:vectorized, i:6", update("i", "j", "k")),
    "decomposed": DECOMPOSED,
    "cached": CACHED,
    "cached whole": CACHED_B,
    "nested": NESTED,
}

CONV = """
P = T.alloc_buffer((9,))
for i in range(9):
    with T.block("P"):
        v = T.axis.spatial(9, i)
        P[v] = T.if_then_else(1 <= v and v < 8, X[v - 1], T.float32(0))
for i, r in T.grid(4, 3):
    with T.block("Y"):
        v, k = T.axis.remap("SR", [i, r])
        with T.init():
            Y[v] = T.float32(0)
        Y[v] = Y[v] + P[v * 2 + k] * W[k]
"""
RFACTOR = """
F = T.alloc_buffer((6, 4))
for i, r0, r1 in T.grid(6, 4, 3):
    with T.block("S_rf"):
        r, v, k = T.axis.remap("SSR", [r0, i, r1])
        with T.init():
            F[v, r] = T.float32(0)
        F[v, r] = F[v, r] + X[v, r * 3 + k]
for i, r0 in T.grid(6, 4):
    with T.block("S"):
        r, v = T.axis.remap("RS", [r0, i])
        with T.init():
            S[v] = T.float32(0)
        S[v] = S[v] + F[v, r]
"""
GATHER = """
for i in T.parallel(5):
    with T.block("Y"):
        v = T.axis.spatial(5, i)
        Y[v] = X[I[v]]
"""
THREADS = """
S = T.alloc_buffer((8,), scope="shared")
L = T.alloc_buffer((8,), scope="local")
for b in T.thread_binding(4, thread="blockIdx.x"):
    for t in T.thread_binding(4, thread="threadIdx.x"):
        for k in range(4):
            for u in T.thread_binding(4, thread="threadIdx.x"):
                with T.block("S"):
                    v = T.axis.spatial(8, k * 2 + u)
                    T.where(u < 2)
                    S[v] = X[v]
            with T.block("L"):
                vt, vk = T.axis.remap("SR", [t, k])
                with T.init():
                    L[vt] = T.float32(0)
                L[vt] = L[vt] + S[vk * 2] * S[vk * 2 + 1]
        with T.block("Y"):
            vb, vt = T.axis.remap("SS", [b, t])
            Y[vb, vt] = L[vt]
"""
CROSS_THREAD = """
for i in T.thread_binding(6, thread="blockIdx.x"):
    for t in T.thread_binding(12, thread="threadIdx.x"):
        with T.block("S"):
            v, k = T.axis.remap("SR", [i, t])
            with T.init():
                S[v] = T.float32(0)
            S[v] = S[v] + X[v, k]
"""
REPEATED_HALO = stages(4).body
SCAN = """
for i in range(1, 7):
    with T.block("Y"):
        v = T.axis.opaque((1, 7), i)
        Y[v] = Y[v - 1] + X[v]
"""
INSIDE = """
for i in T.parallel(4):
    with T.block("Y"):
        v = T.axis.spatial(4, i)
        for j in range(6):
            Y[v, j] = X[v, 5 - j]
        Z[v] = T.float32(0)
        for j in range(6):
            Z[v] = Z[v] + Y[v, j]
"""
RIGHT = {
    "padded, strided convolution": ("X: 7; W: 3; Y: 4", CONV),
    "transposed": (
        "X: 5, 3; Y: 3, 5",
        nest("j:3:parallel, i:5", 'with T.block("Y"):\n    v, w = T.axis.remap("SS", [j, i])\n'
             "    Y[v, w] = X[w, v]\n"),
    ),
    "rfactor": ("X: 6, 12; S: 6", RFACTOR),
    "gather": ("X: 9; I: 5 int32; Y: 5", GATHER),
    "threads that share": ("X: 8; Y: 4, 4", THREADS),
    "reduced over threads": ("X: 6, 12; S: 6", CROSS_THREAD),
    "scan": ("X: 7; Y: 7", SCAN),
    "loops inside a block": ("X: 4, 6; Y: 4, 6; Z: 4", INSIDE),
    "one element": ("X: 1; Y: 1", nest("i:1:parallel", 'with T.block("Y"):\n'
                    "    v = T.axis.spatial(1, i)\n    Y[v] = X[v]\n")),
    "no element": ("X: 0; Y: 0", nest("i:0:parallel", 'with T.block("Y"):\n'
                   "    v = T.axis.spatial(0, i)\n    Y[v] = X[v]\n")),
}  # fmt: skip
INLINED = """
for i in range(6):
    with T.block("D"):
        v = T.axis.spatial(6, i)
        D[v] = (A[v] + T.float32(1)) * ((A[v + {0}] + T.float32({1})) - (A[v + 2] + T.float32(1)))
"""
