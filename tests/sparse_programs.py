"""Programs over sparse tensors, before any lowering: iterations over coordinates.

The operators are those of SparseTIR's own tests (Ye et al., ASPLOS 2023), in our words, and some
that iterate over several structures at once. `sparse_inputs` has arguments and results for them.
They stand here since a folder `sparse` cannot be imported from where the package of that name is.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

from tileloom.script import parse
from tileloom.script import tir as T
from tileloom.tir import PrimFunc

# Programs declare what they do not use: buffers of formats, coordinates.
# ruff: noqa: F841

# ---------------------------------------------------------------------------- matrix products


@T.prim_func
def csrmm(
    a: T.handle,
    b: T.handle,
    c: T.handle,
    indptr: T.handle,
    indices: T.handle,
    m: T.int32,
    n: T.int32,
    feat: T.int32,
    nnz: T.int32,
) -> None:
    """C = A B for A in CSR."""
    T.func_attr({"global_symbol": "main", "tir.noalias": True, "sparse_tir_level": 2})
    I = T.dense_fixed(m, "int32")
    J = T.sparse_variable(I, (n, nnz), (indptr, indices), "int32")
    J_detach = T.dense_fixed(n, "int32")
    K = T.dense_fixed(feat, "int32")
    A = T.match_sparse_buffer(a, [I, J], "float32")
    B = T.match_sparse_buffer(b, [J_detach, K], "float32")
    C = T.match_sparse_buffer(c, [I, K], "float32")
    with T.sp_iter([I, J, K], "SRS", "csrmm") as [i, j, k]:
        with T.init():
            C[i, k] = 0.0
        C[i, k] = C[i, k] + A[i, j] * B[j, k]


@T.prim_func
def csrmm_dense_iter(
    a: T.handle,
    b: T.handle,
    c: T.handle,
    indptr: T.handle,
    indices: T.handle,
    m: T.int32,
    n: T.int32,
    feat: T.int32,
    nnz: T.int32,
) -> None:
    """C = A B for A in CSR, all of whose columns are looked up."""
    T.func_attr({"global_symbol": "main", "tir.noalias": True, "sparse_tir_level": 2})
    I = T.dense_fixed(m, "int32")
    J = T.sparse_variable(I, (n, nnz), (indptr, indices), "int32")
    J_detach = T.dense_fixed(n, "int32")
    K = T.dense_fixed(feat, "int32")
    A = T.match_sparse_buffer(a, [I, J], "float32")
    B = T.match_sparse_buffer(b, [J_detach, K], "float32")
    C = T.match_sparse_buffer(c, [I, K], "float32")
    with T.sp_iter([I, J_detach, K], "SRS", "csrmm") as [i, j, k]:
        with T.init():
            C[i, k] = 0.0
        C[i, k] = C[i, k] + A[i, j] * B[j, k]


@T.prim_func
def bsrmm(
    a: T.handle,
    b: T.handle,
    c: T.handle,
    indptr: T.handle,
    indices: T.handle,
    mb: T.int32,
    nb: T.int32,
    nnzb: T.int32,
    blk: T.int32,
    feat: T.int32,
) -> None:
    """C = A B for A in BSR."""
    T.func_attr({"global_symbol": "main", "tir.noalias": True, "sparse_tir_level": 2})
    I = T.dense_fixed(mb, "int32")
    J = T.sparse_variable(I, (nb, nnzb), (indptr, indices), "int32")
    J_detach = T.dense_fixed(nb, "int32")
    BI = T.dense_fixed(blk, "int32")
    BJ = T.dense_fixed(blk, "int32")
    F = T.dense_fixed(feat, "int32")
    A = T.match_sparse_buffer(a, [I, J, BI, BJ], "float32")
    B = T.match_sparse_buffer(b, [J_detach, BJ, F], "float32")
    C = T.match_sparse_buffer(c, [I, BI, F], "float32")
    with T.sp_iter([I, BI, BJ, F, J], "SSRSR", "bsrmm") as [i, bi, bj, f, j]:
        with T.init():
            C[i, bi, f] = 0.0
        C[i, bi, f] = C[i, bi, f] + A[i, j, bi, bj] * B[j, bj, f]


@T.prim_func
def ellmm(
    a: T.handle,
    b: T.handle,
    c: T.handle,
    indices: T.handle,
    mb: T.int32,
    nb: T.int32,
    feat: T.int32,
    width: T.int32,
    blk: T.int32,
) -> None:
    """C = A B for A in ELL, of blocks."""
    T.func_attr({"global_symbol": "main", "tir.noalias": True, "sparse_tir_level": 2})
    I = T.dense_fixed(mb, "int32")
    J = T.sparse_fixed(I, (nb, width), indices, "int32")
    J_detach = T.dense_fixed(nb, "int32")
    F = T.dense_fixed(feat, "int32")
    BI = T.dense_fixed(blk, "int32")
    BJ = T.dense_fixed(blk, "int32")
    A = T.match_sparse_buffer(a, [I, J, BI, BJ], "float32")
    B = T.match_sparse_buffer(b, [J_detach, BJ, F], "float32")
    C = T.match_sparse_buffer(c, [I, BI, F], "float32")
    with T.sp_iter([I, J, BI, BJ, F], "SRSRS", "ellmm") as [i, j, bi, bj, f]:
        with T.init():
            C[i, bi, f] = 0.0
        C[i, bi, f] = C[i, bi, f] + A[i, j, bi, bj] * B[j, bj, f]


@T.prim_func
def bmm(
    x: T.handle,
    y: T.handle,
    z: T.handle,
    indptr_i: T.handle,
    indptr_j: T.handle,
    indptr_k: T.handle,
    indptr_ij: T.handle,
    indptr_jk: T.handle,
    indptr_ik: T.handle,
    batch: T.int32,
    max_i: T.int32,
    max_j: T.int32,
    max_k: T.int32,
    nnz_i: T.int32,
    nnz_j: T.int32,
    nnz_k: T.int32,
    nnz_ij: T.int32,
    nnz_jk: T.int32,
    nnz_ik: T.int32,
) -> None:
    """Z = X Y for each of several matrices, no two of one size."""
    T.func_attr({"global_symbol": "main", "tir.noalias": True, "sparse_tir_level": 2})
    B = T.dense_fixed(batch, "int32")
    I = T.dense_variable(B, (max_i, nnz_i), indptr_i, "int32")
    J = T.dense_variable(B, (max_j, nnz_j), indptr_j, "int32")
    K = T.dense_variable(B, (max_k, nnz_k), indptr_k, "int32")
    IJ = T.dense_variable(I, (max_j, nnz_ij), indptr_ij, "int32")
    JK = T.dense_variable(J, (max_k, nnz_jk), indptr_jk, "int32")
    IK = T.dense_variable(I, (max_k, nnz_ik), indptr_ik, "int32")
    X = T.match_sparse_buffer(x, [B, I, IJ], "float32")
    Y = T.match_sparse_buffer(y, [B, J, JK], "float32")
    Z = T.match_sparse_buffer(z, [B, I, IK], "float32")
    with T.sp_iter([B, I, J, K], "SSRS", "bmm") as [b, i, j, k]:
        with T.init():
            Z[b, i, k] = 0.0
        Z[b, i, k] = Z[b, i, k] + X[b, i, j] * Y[b, j, k]


@T.prim_func
def sddmm(
    a: T.handle,
    b: T.handle,
    c: T.handle,
    indptr: T.handle,
    indices: T.handle,
    m: T.int32,
    n: T.int32,
    feat: T.int32,
    nnz: T.int32,
) -> None:
    """C = A B^T where a pattern in CSR has elements."""
    T.func_attr({"global_symbol": "main", "tir.noalias": True, "sparse_tir_level": 2})
    I = T.dense_fixed(m, "int32")
    J = T.sparse_variable(I, (n, nnz), (indptr, indices), "int32")
    J_detach = T.dense_fixed(n, "int32")
    K = T.dense_fixed(feat, "int32")
    A = T.match_sparse_buffer(a, [I, K], "float32")
    B = T.match_sparse_buffer(b, [J_detach, K], "float32")
    C = T.match_sparse_buffer(c, [I, J], "float32")
    with T.sp_iter([I, J, K], "SSR", "sddmm") as [i, j, k]:
        with T.init():
            C[i, j] = 0.0
        C[i, j] = C[i, j] + A[i, k] * B[j, k]


@T.prim_func
def sddmm_values(
    x: T.handle,
    a: T.handle,
    b: T.handle,
    c: T.handle,
    indptr: T.handle,
    indices: T.handle,
    m: T.int32,
    n: T.int32,
    feat: T.int32,
    nnz: T.int32,
) -> None:
    """C = X * (A B^T) for X in CSR."""
    T.func_attr({"global_symbol": "main", "tir.noalias": True, "sparse_tir_level": 2})
    I = T.dense_fixed(m, "int32")
    J = T.sparse_variable(I, (n, nnz), (indptr, indices), "int32")
    J_detach = T.dense_fixed(n, "int32")
    K = T.dense_fixed(feat, "int32")
    X = T.match_sparse_buffer(x, [I, J], "float32")
    A = T.match_sparse_buffer(a, [I, K], "float32")
    B = T.match_sparse_buffer(b, [J_detach, K], "float32")
    C = T.match_sparse_buffer(c, [I, J], "float32")
    with T.sp_iter([I, J, K], "SSR", "sddmm") as [i, j, k]:
        with T.init():
            C[i, j] = 0.0
        C[i, j] = C[i, j] + X[i, j] * A[i, k] * B[j, k]


@T.prim_func
def fused_sddmm(
    a: T.handle,
    b: T.handle,
    c: T.handle,
    indptr: T.handle,
    indices: T.handle,
    m: T.int32,
    n: T.int32,
    feat: T.int32,
    nnz: T.int32,
) -> None:
    """`sddmm` with one loop over all elements of the pattern."""
    T.func_attr({"global_symbol": "main", "tir.noalias": True, "sparse_tir_level": 2})
    I = T.dense_fixed(m, "int32")
    J = T.sparse_variable(I, (n, nnz), (indptr, indices), "int32")
    J_detach = T.dense_fixed(n, "int32")
    K = T.dense_fixed(feat, "int32")
    A = T.match_sparse_buffer(a, [I, K], "float32")
    B = T.match_sparse_buffer(b, [J_detach, K], "float32")
    C = T.match_sparse_buffer(c, [I, J], "float32")
    with T.sp_iter([T.fuse(I, J), K], "SSR", "sddmm") as [i, j, k]:
        with T.init():
            C[i, j] = 0.0
        C[i, j] = C[i, j] + A[i, k] * B[j, k]


# ---------------------------------------------------------------------------- sums


@T.prim_func
def segment_reduce(
    a: T.handle,
    b: T.handle,
    indptr: T.handle,
    n: T.int32,
    longest: T.int32,
    nnz: T.int32,
) -> None:
    """The sums of the rows of a ragged matrix."""
    T.func_attr({"global_symbol": "main", "tir.noalias": True, "sparse_tir_level": 2})
    I = T.dense_fixed(n, "int32")
    J = T.dense_variable(I, (longest, nnz), indptr, "int32")
    A = T.match_sparse_buffer(a, [I, J], "float32")
    B = T.match_sparse_buffer(b, [I], "float32")
    with T.sp_iter([I, J], "SR", "segment_reduce") as [i, j]:
        with T.init():
            B[i] = 0.0
        B[i] = B[i] + A[i, j]


@T.prim_func
def csr_reduce(
    a: T.handle,
    b: T.handle,
    indptr: T.handle,
    indices: T.handle,
    m: T.int32,
    n: T.int32,
    nnz: T.int32,
) -> None:
    """The sums of the rows of a matrix in CSR."""
    T.func_attr({"global_symbol": "main", "tir.noalias": True, "sparse_tir_level": 2})
    I = T.dense_fixed(m, "int32")
    J = T.sparse_variable(I, (n, nnz), (indptr, indices), "int32")
    A = T.match_sparse_buffer(a, [I, J], "float32")
    B = T.match_sparse_buffer(b, [I], "float32")
    with T.sp_iter([I, J], "SR", "csr_reduce") as [i, j]:
        with T.init():
            B[i] = 0.0
        B[i] = B[i] + A[i, j]


@T.prim_func
def square_sum(
    a: T.handle,
    b: T.handle,
    indptr_j: T.handle,
    indices_j: T.handle,
    indptr_k: T.handle,
    indices_k: T.handle,
    m: T.int32,
    n1: T.int32,
    n2: T.int32,
    nnz_j: T.int32,
    nnz_k: T.int32,
) -> None:
    """Sums of squares in a tensor in CSF of three levels."""
    T.func_attr({"global_symbol": "main", "tir.noalias": True, "sparse_tir_level": 2})
    I = T.dense_fixed(m, "int32")
    J = T.sparse_variable(I, (n1, nnz_j), (indptr_j, indices_j), "int32")
    K = T.sparse_variable(J, (n2, nnz_k), (indptr_k, indices_k), "int32")
    A = T.match_sparse_buffer(a, [I, J, K], "float32")
    B = T.match_sparse_buffer(b, [I], "float32")
    with T.sp_iter([I, J, K], "SRR", "square_sum") as [i, j, k]:
        with T.init():
            B[i] = 0.0
        B[i] = B[i] + A[i, j, k] * A[i, j, k]


@T.prim_func
def square_sum_two_K(
    a: T.handle,
    b: T.handle,
    indptr_j: T.handle,
    indices_j: T.handle,
    indptr_k0: T.handle,
    indices_k0: T.handle,
    indptr_k1: T.handle,
    indices_k1: T.handle,
    m: T.int32,
    n1: T.int32,
    n2: T.int32,
    nnz_j: T.int32,
    nnz_k0: T.int32,
    nnz_k1: T.int32,
) -> None:
    """`square_sum` of the elements that another axis than the tensor's own names."""
    T.func_attr({"global_symbol": "main", "tir.noalias": True, "sparse_tir_level": 2})
    I = T.dense_fixed(m, "int32")
    J = T.sparse_variable(I, (n1, nnz_j), (indptr_j, indices_j), "int32")
    K0 = T.sparse_variable(J, (n2, nnz_k0), (indptr_k0, indices_k0), "int32")
    K1 = T.sparse_variable(J, (n2, nnz_k1), (indptr_k1, indices_k1), "int32")
    A = T.match_sparse_buffer(a, [I, J, K0], "float32")
    B = T.match_sparse_buffer(b, [I], "float32")
    with T.sp_iter([I, J, K1], "SRR", "square_sum") as [i, j, k]:
        with T.init():
            B[i] = 0.0
        B[i] = B[i] + A[i, j, k] * A[i, j, k]


@T.prim_func
def fused_reduction_4d_2d(
    x: T.handle,
    y: T.handle,
    indptr_j: T.handle,
    indptr_k: T.handle,
    indptr_l: T.handle,
    n: T.int32,
    max_j: T.int32,
    max_k: T.int32,
    max_l: T.int32,
    nnz_j: T.int32,
    nnz_k: T.int32,
    nnz_l: T.int32,
) -> None:
    """Sums over the last two of four ragged dimensions."""
    T.func_attr({"global_symbol": "main", "tir.noalias": True, "sparse_tir_level": 2})
    I = T.dense_fixed(n, "int32")
    J = T.dense_variable(I, (max_j, nnz_j), indptr_j, "int32")
    K = T.dense_variable(J, (max_k, nnz_k), indptr_k, "int32")
    L = T.dense_variable(K, (max_l, nnz_l), indptr_l, "int32")
    X = T.match_sparse_buffer(x, [I, J, K, L], "float32")
    Y = T.match_sparse_buffer(y, [I, J], "float32")
    with T.sp_iter([T.fuse(I, J), K, L], "SSRR", "reduction_4d_2d") as [i, j, k, l]:
        with T.init():
            Y[i, j] = 0.0
        Y[i, j] = Y[i, j] + X[i, j, k, l]


@T.prim_func
def fused_reduction_4d_3d(
    x: T.handle,
    y: T.handle,
    indptr_j: T.handle,
    indptr_k: T.handle,
    indptr_l: T.handle,
    n: T.int32,
    max_j: T.int32,
    max_k: T.int32,
    max_l: T.int32,
    nnz_j: T.int32,
    nnz_k: T.int32,
    nnz_l: T.int32,
) -> None:
    """Sums over the last of four ragged dimensions."""
    T.func_attr({"global_symbol": "main", "tir.noalias": True, "sparse_tir_level": 2})
    I = T.dense_fixed(n, "int32")
    J = T.dense_variable(I, (max_j, nnz_j), indptr_j, "int32")
    K = T.dense_variable(J, (max_k, nnz_k), indptr_k, "int32")
    L = T.dense_variable(K, (max_l, nnz_l), indptr_l, "int32")
    X = T.match_sparse_buffer(x, [I, J, K, L], "float32")
    Y = T.match_sparse_buffer(y, [I, J, K], "float32")
    with T.sp_iter([T.fuse(I, J, K), L], "SSSR", "reduction_4d_3d") as [i, j, k, l]:
        with T.init():
            Y[i, j, k] = 0.0
        Y[i, j, k] = Y[i, j, k] + X[i, j, k, l]


# ---------------------------------------------------------------------------- elements


@T.prim_func
def csr_element_wise(
    a: T.handle,
    b: T.handle,
    indptr: T.handle,
    indices: T.handle,
    m: T.int32,
    n: T.int32,
    nnz: T.int32,
) -> None:
    """B = 2.5 A, both in CSR."""
    T.func_attr({"global_symbol": "main", "tir.noalias": True, "sparse_tir_level": 2})
    I = T.dense_fixed(m, "int32")
    J = T.sparse_variable(I, (n, nnz), (indptr, indices), "int32")
    A = T.match_sparse_buffer(a, [I, J], "float32")
    B = T.match_sparse_buffer(b, [I, J], "float32")
    with T.sp_iter([I, J], "SS", "csr_element_wise") as [i, j]:
        B[i, j] = A[i, j] * 2.5


@T.prim_func
def sparse_softmax(
    a: T.handle,
    b: T.handle,
    indptr: T.handle,
    indices: T.handle,
    m: T.int32,
    n: T.int32,
    nnz: T.int32,
) -> None:
    """The softmax of the stored elements of each row."""
    T.func_attr({"global_symbol": "main", "tir.noalias": True, "sparse_tir_level": 2})
    I = T.dense_fixed(m, "int32")
    J = T.sparse_variable(I, (n, nnz), (indptr, indices), "int32")
    A = T.match_sparse_buffer(a, [I, J], "float32")
    B = T.match_sparse_buffer(b, [I, J], "float32")
    HIGH = T.alloc_sparse_buffer([I], "float32")
    TOTAL = T.alloc_sparse_buffer([I], "float32")
    with T.sp_iter([I], "S", "softmax") as [i]:
        with T.sp_iter([J], "R", "softmax_max") as [j]:
            with T.init():
                HIGH[i] = T.min_value("float32")
            HIGH[i] = T.max(HIGH[i], A[i, j])
        with T.sp_iter([J], "R", "softmax_sum") as [j]:
            with T.init():
                TOTAL[i] = 0.0
            TOTAL[i] = TOTAL[i] + T.exp(A[i, j] - HIGH[i])
        with T.sp_iter([J], "S", "softmax_quotient") as [j]:
            B[i, j] = T.exp(A[i, j] - HIGH[i]) / TOTAL[i]


@T.prim_func
def csr2bsr(
    a: T.handle,
    b: T.handle,
    indptr_in: T.handle,
    indices_in: T.handle,
    indptr_out: T.handle,
    indices_out: T.handle,
    m: T.int32,
    n: T.int32,
    mb: T.int32,
    nb: T.int32,
    nnz: T.int32,
    nnzb: T.int32,
    blk: T.int32,
) -> None:
    """The elements of a matrix in CSR at their places in BSR."""
    T.func_attr({"global_symbol": "main", "tir.noalias": True, "sparse_tir_level": 2})
    I = T.dense_fixed(m, "int32")
    J = T.sparse_variable(I, (n, nnz), (indptr_in, indices_in), "int32")
    IO = T.dense_fixed(mb, "int32")
    JO = T.sparse_variable(IO, (nb, nnzb), (indptr_out, indices_out), "int32")
    II = T.dense_fixed(blk, "int32")
    JI = T.dense_fixed(blk, "int32")
    A = T.match_sparse_buffer(a, [I, J], "float32")
    B = T.match_sparse_buffer(b, [IO, JO, II, JI], "float32")
    with T.sp_iter([I, J], "SS", "csr2bsr") as [i, j]:
        B[i // blk, j // blk, i % blk, j % blk] = A[i, j]


# ---------------------------------------------------------------------------- graphs


@T.prim_func
def hyper_gnn(
    x: T.handle,
    y: T.handle,
    indptr: T.handle,
    indices: T.handle,
    indptr_t: T.handle,
    indices_t: T.handle,
    m: T.int32,
    n: T.int32,
    nnz: T.int32,
    feat: T.int32,
) -> None:
    """Y = H H^T X for the incidence matrix H of a hypergraph, which is given in CSR and in CSC."""
    T.func_attr({"global_symbol": "main", "tir.noalias": True, "sparse_tir_level": 2})
    I = T.dense_fixed(m, "int32")
    J = T.sparse_variable(I, (n, nnz), (indptr, indices), "int32")
    J_detach = T.dense_fixed(n, "int32")
    I_T = T.sparse_variable(J_detach, (m, nnz), (indptr_t, indices_t), "int32")
    F = T.dense_fixed(feat, "int32")
    X = T.match_sparse_buffer(x, [I, F], "float32")
    Y = T.match_sparse_buffer(y, [I, F], "float32")
    with T.sp_iter([I, F, J, T.attach(I_T, J)], "SSRR", "hyper_gnn") as [i, f, j, i_t]:
        with T.init():
            Y[i, f] = 0.0
        Y[i, f] = Y[i, f] + X[i_t, f]


@T.prim_func
def rgcn_homo_forward(
    etype: T.handle,
    w: T.handle,
    x: T.handle,
    y: T.handle,
    indptr: T.handle,
    indices: T.handle,
    n: T.int32,
    relations: T.int32,
    feat_in: T.int32,
    feat_out: T.int32,
    nnz: T.int32,
) -> None:
    """A layer of RGCN over one graph, whose edges have types: Y[i] = sum_j W[E[i, j]] X[j]."""
    T.func_attr({"global_symbol": "main", "tir.noalias": True, "sparse_tir_level": 2})
    I = T.dense_fixed(n, "int32")
    J = T.sparse_variable(I, (n, nnz), (indptr, indices), "int32")
    J_detach = T.dense_fixed(n, "int32")
    R = T.dense_fixed(relations, "int32")
    FI = T.dense_fixed(feat_in, "int32")
    FO = T.dense_fixed(feat_out, "int32")
    E = T.match_sparse_buffer(etype, [I, J], "int32")
    W = T.match_sparse_buffer(w, [R, FO, FI], "float32")
    X = T.match_sparse_buffer(x, [J_detach, FI], "float32")
    Y = T.match_sparse_buffer(y, [I, FO], "float32")
    with T.sp_iter([I, FO, J, FI], "SSRR", "rgcn_homo_forward") as [i, fo, j, fi]:
        with T.init():
            Y[i, fo] = 0.0
        Y[i, fo] = Y[i, fo] + W[E[i, j], fo, fi] * X[j, fi]


@T.prim_func
def rgcn_hetero_forward(
    w: T.handle,
    x: T.handle,
    y: T.handle,
    indptr_i: T.handle,
    indices_i: T.handle,
    indptr_j: T.handle,
    indices_j: T.handle,
    n: T.int32,
    relations: T.int32,
    feat_in: T.int32,
    feat_out: T.int32,
    nnz_i: T.int32,
    nnz_j: T.int32,
) -> None:
    """A layer of RGCN over a graph for each relation: Y[i] = sum_r sum_j W[r] X[j].

    Rows of Y that no relation has stay as they are.
    """
    T.func_attr({"global_symbol": "main", "tir.noalias": True, "sparse_tir_level": 2})
    R = T.dense_fixed(relations, "int32")
    I = T.sparse_variable(R, (n, nnz_i), (indptr_i, indices_i), "int32")
    J = T.sparse_variable(I, (n, nnz_j), (indptr_j, indices_j), "int32")
    I_detach = T.dense_fixed(n, "int32")
    J_detach = T.dense_fixed(n, "int32")
    FI = T.dense_fixed(feat_in, "int32")
    FO = T.dense_fixed(feat_out, "int32")
    W = T.match_sparse_buffer(w, [R, FO, FI], "float32")
    X = T.match_sparse_buffer(x, [J_detach, FI], "float32")
    Y = T.match_sparse_buffer(y, [I_detach, FO], "float32")
    with T.sp_iter([FO, R, I, J, FI], "SSSRR", "rgcn_hetero_forward") as [fo, r, i, j, fi]:
        with T.init():
            Y[i, fo] = 0.0
        Y[i, fo] = Y[i, fo] + W[r, fo, fi] * X[j, fi]


# ---------------------------------------------------------------------------- merged axes


@T.prim_func
def csr_add(
    a: T.handle,
    b: T.handle,
    c: T.handle,
    indptr_a: T.handle,
    indices_a: T.handle,
    indptr_b: T.handle,
    indices_b: T.handle,
    indptr_c: T.handle,
    indices_c: T.handle,
    m: T.int32,
    n: T.int32,
    nnz_a: T.int32,
    nnz_b: T.int32,
    nnz_c: T.int32,
) -> None:
    """C = A + B, all in CSR; elements that C does not store are dropped."""
    T.func_attr({"global_symbol": "main", "tir.noalias": True, "sparse_tir_level": 2})
    I = T.dense_fixed(m, "int32")
    JA = T.sparse_variable(I, (n, nnz_a), (indptr_a, indices_a), "int32")
    JB = T.sparse_variable(I, (n, nnz_b), (indptr_b, indices_b), "int32")
    JC = T.sparse_variable(I, (n, nnz_c), (indptr_c, indices_c), "int32")
    A = T.match_sparse_buffer(a, [I, JA], "float32")
    B = T.match_sparse_buffer(b, [I, JB], "float32")
    C = T.match_sparse_buffer(c, [I, JC], "float32")
    with T.sp_iter([I, T.union(JA, JB)], "SS", "csr_add") as [i, j]:
        C[i, j] = A[i, j] + B[i, j]


@T.prim_func
def csr_multiply(
    a: T.handle,
    b: T.handle,
    c: T.handle,
    indptr_a: T.handle,
    indices_a: T.handle,
    indptr_b: T.handle,
    indices_b: T.handle,
    indptr_c: T.handle,
    indices_c: T.handle,
    m: T.int32,
    n: T.int32,
    nnz_a: T.int32,
    nnz_b: T.int32,
    nnz_c: T.int32,
) -> None:
    """C = A * B, all in CSR; elements that C does not store are dropped."""
    T.func_attr({"global_symbol": "main", "tir.noalias": True, "sparse_tir_level": 2})
    I = T.dense_fixed(m, "int32")
    JA = T.sparse_variable(I, (n, nnz_a), (indptr_a, indices_a), "int32")
    JB = T.sparse_variable(I, (n, nnz_b), (indptr_b, indices_b), "int32")
    JC = T.sparse_variable(I, (n, nnz_c), (indptr_c, indices_c), "int32")
    A = T.match_sparse_buffer(a, [I, JA], "float32")
    B = T.match_sparse_buffer(b, [I, JB], "float32")
    C = T.match_sparse_buffer(c, [I, JC], "float32")
    with T.sp_iter([I, T.intersect(JA, JB)], "SS", "csr_multiply") as [i, j]:
        C[i, j] = A[i, j] * B[i, j]


@T.prim_func
def csr_row_dots(
    a: T.handle,
    b: T.handle,
    c: T.handle,
    indptr_a: T.handle,
    indices_a: T.handle,
    indptr_b: T.handle,
    indices_b: T.handle,
    m: T.int32,
    n: T.int32,
    nnz_a: T.int32,
    nnz_b: T.int32,
) -> None:
    """C[i] = A[i, :] . B[i, :], both in CSR."""
    T.func_attr({"global_symbol": "main", "tir.noalias": True, "sparse_tir_level": 2})
    I = T.dense_fixed(m, "int32")
    JA = T.sparse_variable(I, (n, nnz_a), (indptr_a, indices_a), "int32")
    JB = T.sparse_variable(I, (n, nnz_b), (indptr_b, indices_b), "int32")
    A = T.match_sparse_buffer(a, [I, JA], "float32")
    B = T.match_sparse_buffer(b, [I, JB], "float32")
    C = T.match_sparse_buffer(c, [I], "float32")
    with T.sp_iter([I, T.intersect(JA, JB)], "SR", "csr_row_dots") as [i, j]:
        with T.init():
            C[i] = 0.0
        C[i] = C[i] + A[i, j] * B[i, j]


# ---------------------------------------------------------------------------- formats


@T.prim_func
def bsr(
    a: T.handle,
    indptr: T.handle,
    indices: T.handle,
    m: T.int32,
    n: T.int32,
    nnz: T.int32,
    block_size: T.int32,
) -> None:
    """Blocks of rows and columns; `m`, `n` and `nnz` count blocks."""
    T.func_attr({"global_symbol": "main", "tir.noalias": True, "sparse_tir_level": 2})
    IO = T.dense_fixed(m, "int32")
    JO = T.sparse_variable(IO, (n, nnz), (indptr, indices), "int32")
    II = T.dense_fixed(block_size, "int32")
    JI = T.dense_fixed(block_size, "int32")
    A = T.match_sparse_buffer(a, [IO, JO, II, JI], "float32")
    T.evaluate(0)


@T.prim_func
def padding(
    a: T.handle,
    indptr: T.handle,
    indices: T.handle,
    m: T.int32,
    n: T.int32,
    nnz_chunks: T.int32,
    pad_size: T.int32,
) -> None:
    """Rows in chunks of `pad_size` elements."""
    T.func_attr({"global_symbol": "main", "tir.noalias": True, "sparse_tir_level": 2})
    I = T.dense_fixed(m, "int32")
    JO = T.dense_variable(I, ((n + pad_size - 1) // pad_size, nnz_chunks), indptr, "int32")
    JI = T.sparse_fixed(JO, (n, pad_size), indices, "int32")
    A = T.match_sparse_buffer(a, [I, JO, JI], "float32")
    T.evaluate(0)


@T.prim_func
def ell(
    a: T.handle,
    indptr_i: T.handle,
    indices_i: T.handle,
    indices_j: T.handle,
    m: T.int32,
    n: T.int32,
    num_rows: T.int32,
    nnz_cols: T.int32,
) -> None:
    """Some of the rows, of `nnz_cols` elements each."""
    T.func_attr({"global_symbol": "main", "tir.noalias": True, "sparse_tir_level": 2})
    O = T.dense_fixed(1, "int32")
    I = T.sparse_variable(O, (m, num_rows), (indptr_i, indices_i), "int32")
    J = T.sparse_fixed(I, (n, nnz_cols), indices_j, "int32")
    A = T.match_sparse_buffer(a, [O, I, J], "float32")
    T.evaluate(0)


@T.prim_func
def ell3d(
    a: T.handle,
    indptr_io: T.handle,
    indices_ii: T.handle,
    indices_j: T.handle,
    d0: T.int32,
    d1: T.int32,
    d2: T.int32,
    nnz: T.int32,
    nnz_rows: T.int32,
    nnz_cols: T.int32,
) -> None:
    """Groups of `nnz_rows` rows of `nnz_cols` elements below each relation."""
    T.func_attr({"global_symbol": "main", "tir.noalias": True, "sparse_tir_level": 2})
    R = T.dense_fixed(d0, "int32")
    IO = T.dense_variable(R, (d1, nnz), indptr_io, "int32")
    II = T.sparse_fixed(IO, (d2, nnz_rows), indices_ii, "int32")
    J = T.sparse_fixed(II, (d2, nnz_cols), indices_j, "int32")
    A = T.match_sparse_buffer(a, [R, IO, II, J], "float32")
    T.evaluate(0)


# ---------------------------------------------------------------------------- lists

PROGRAMS: dict[str, PrimFunc] = {
    "csrmm": csrmm,
    "csrmm_dense_iter": csrmm_dense_iter,
    "segment_reduce": segment_reduce,
    "csr_reduce": csr_reduce,
    "bsrmm": bsrmm,
    "ellmm": ellmm,
    "csr_element_wise": csr_element_wise,
    "hyper_gnn": hyper_gnn,
    "bmm": bmm,
    "sddmm": sddmm,
    "sddmm_values": sddmm_values,
    "fused_sddmm": fused_sddmm,
    "square_sum": square_sum,
    "square_sum_two_K": square_sum_two_K,
    "fused_reduction_4d_2d": fused_reduction_4d_2d,
    "fused_reduction_4d_3d": fused_reduction_4d_3d,
    "rgcn_homo_forward": rgcn_homo_forward,
    "rgcn_hetero_forward": rgcn_hetero_forward,
    "sparse_softmax": sparse_softmax,
    "csr2bsr": csr2bsr,
}
# Iterations over axes that merge those of several buffers.
MERGED: dict[str, PrimFunc] = {
    "csr_add": csr_add,
    "csr_multiply": csr_multiply,
    "csr_row_dots": csr_row_dots,
}
# Descriptions for format decomposition: axes and a buffer, and nothing to do.
FORMATS: dict[str, PrimFunc] = {"bsr": bsr, "padding": padding, "ell": ell, "ell3d": ell3d}


def variant(name: str, idtype: str = "int32", sorted: bool = True) -> PrimFunc:
    """A program of this file with indices of another type, or that are not in order.

    All that is `int32` becomes `idtype`: axes, scalar parameters and buffers of coordinates.
    """
    text = _sources()[name].replace("int32", idtype)
    if not sorted:
        declared = r"(T\.sparse_(?:fixed|variable)\(.*)\)$"
        text = re.sub(declared, r"\1, sorted=False)", text, flags=re.MULTILINE)
    found = parse(text, filename=f"{name}.py")
    assert isinstance(found, PrimFunc)
    return found


@cache
def _sources() -> dict[str, str]:
    """The text of each program of this file."""
    text = Path(__file__).read_text("utf-8")
    return {
        node.name: f"@T.prim_func\n{ast.get_source_segment(text, node)}"
        for node in ast.parse(text).body
        if isinstance(node, ast.FunctionDef) and node.decorator_list
    }
