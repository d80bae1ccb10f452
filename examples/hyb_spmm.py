"""A sparse matrix times a dense one in the format hyb, scheduled by hand for a GPU.

The program `bench_hyb` of SparseTIR (Ye et al., ASPLOS 2023): each column part of the matrix is in
buckets of rows that are padded to one width, each bucket is scheduled alone, and all of them run in
one launch. `docs/sparse-hyb.md` goes through it step by step.

    python -m examples.hyb_spmm          # on a GPU, or where there is none on the emulator
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from math import gcd
from typing import Any

import numpy as np
import scipy.sparse

import tileloom
from tileloom.runtime import cuda
from tileloom.schedule import Schedule
from tileloom.script import tir as T
from tileloom.sparse import (
    FormatRewriteRule,
    format_decompose,
    lower_sparse_buffer,
    lower_sparse_iter,
    remove_preprocess,
    remove_unused_args,
)
from tileloom.sparse.convert import HybStructure, hyb
from tileloom.tir import PrimFunc

Array = np.ndarray[Any, Any]
WIDTHS = (1, 2, 4, 8, 16, 32)
#: Columns of the dense matrix side by side in a warp, and rows of a bucket side by side in a block.
LANES, WARPS = 32, 8

# Descriptions of formats declare what they do not use.
# ruff: noqa: F841, E741


@T.prim_func
def csrmm(
    a: T.handle,
    b: T.handle,
    c: T.handle,
    indptr: T.handle,
    indices: T.handle,
    m: T.int32,
    n: T.int32,
    tiles: T.int32,
    coarse: T.int32,
    nnz: T.int32,
) -> None:
    """C = A B, whose columns are in three dimensions."""
    T.func_attr({"global_symbol": "main", "tir.noalias": True, "sparse_tir_level": 2})
    I = T.dense_fixed(m)
    J = T.sparse_variable(I, (n, nnz), (indptr, indices), "int32")
    J_detach = T.dense_fixed(n)
    K1 = T.dense_fixed(tiles)
    K2 = T.dense_fixed(coarse)
    K3 = T.dense_fixed(32)
    A = T.match_sparse_buffer(a, (I, J), "float32")
    B = T.match_sparse_buffer(b, (J_detach, K1, K2, K3), "float32")
    C = T.match_sparse_buffer(c, (I, K1, K2, K3), "float32")
    with T.sp_iter([I, J, K1, K2, K3], "SRSSS", "csrmm") as [i, j, k1, k2, k3]:
        with T.init():
            C[i, k1, k2, k3] = 0.0
        C[i, k1, k2, k3] = C[i, k1, k2, k3] + A[i, j] * B[j, k1, k2, k3]


@T.prim_func
def ell(
    a: T.handle,
    indptr_i: T.handle,
    indices_i: T.handle,
    indices_j: T.handle,
    m: T.int32,
    n: T.int32,
    num_rows: T.int32,
    width: T.int32,
) -> None:
    """A bucket: some of the rows, of `width` elements each."""
    T.func_attr({"global_symbol": "main", "tir.noalias": True, "sparse_tir_level": 2})
    O = T.dense_fixed(1)
    I = T.sparse_variable(O, (m, num_rows), (indptr_i, indices_i), "int32")
    J = T.sparse_fixed(I, (n, width), indices_j, "int32")
    A = T.match_sparse_buffer(a, (O, I, J), "float32")
    T.evaluate(0)


def bucket_rule(name: str, width: int) -> FormatRewriteRule:
    """The rule by which a bucket holds elements of the matrix."""
    return FormatRewriteRule(
        name,
        ell.specialize({ell.params[-1]: width}),
        ["A"],
        ["I", "J"],
        ["O", "I", "J"],
        {"I": ["O", "I"], "J": ["J"]},
        lambda i, j: (0, i, j),
        lambda o, i, j: (i, j),
    )


def schedule_bucket(
    sch: Schedule, name: str, rows: int, *, shares_rows: bool, keep_loops: bool = False
) -> None:
    """The steps for one bucket: a warp for each row, and `rows` rows for each block of threads.

    Args:
        name: of the block.
        rows: of the bucket, one after another, for each warp.
        shares_rows: whether other buckets, or other rows of this one, add to the same results.
        keep_loops: leave it to the assembler to unroll.
    """
    block = sch.get_block(name)
    i, j, k1, k2, k3 = sch.get_loops(block)
    sch.reorder(k1, k3, j, k2)
    if shares_rows:  # sums in registers, and one atomic addition for each
        sch.annotate(block, "atomic", True)
        back = sch.reverse_cache_write(block, 0, "local")
        sch.reverse_compute_at(back, k3, True)
    sch.bind(k3, "threadIdx.x")
    sch.bind(k1, "blockIdx.y")
    outer, _, inner = sch.split(i, [None, rows, WARPS])
    sch.bind(outer, "blockIdx.x")
    sch.bind(inner, "threadIdx.y")
    start = sch.decompose_reduction(block, k3)
    lane, coarse = sch.get_loops(start)[-2:]
    sch.bind(lane, "threadIdx.x")
    for loop in (j, k2, coarse):
        sch.unroll(loop)
        if keep_loops:
            sch.annotate(loop, "pragma_unroll_explicit", 0)


def hyb_spmm(
    structure: HybStructure,
    shape: tuple[int, int],
    features: int,
    *,
    coarsening: int = 2,
    keep_loops: bool = False,
) -> PrimFunc:
    """The product of a matrix in hyb and a dense one of `features` columns, as one launch.

    Its parameters are B and C, and for each bucket its values, rows and columns, all of one
    dimension. Rows that share a result with others are added to C, and rows without elements are
    not touched, so C holds zeros before.

    Args:
        structure: of the matrix.
        shape: of the matrix.
        features: a multiple of 32.
        coarsening: columns for each thread, at most.
        keep_loops: leave it to the assembler to unroll.
    """
    if features <= 0 or features % LANES:
        raise ValueError(f"there are {features} columns; they are dealt out by {LANES}")
    coarse = gcd(coarsening, features // LANES)
    widths = [bucket.indices.shape[1] for bucket in structure[0]]
    buckets = [(p, b) for p in range(len(structure)) for b in range(len(widths))]
    rules = [bucket_rule(f"{p}_{b}", widths[b]) for p, b in buckets]
    func = remove_preprocess(format_decompose(csrmm, rules))
    func = func.specialize(_sizes(func, structure, shape, features // LANES // coarse, coarse))

    sch = Schedule(func.with_attr("horizontal_fuse", True))
    for p, b in buckets:
        iteration = sch.get_sparse_iteration(f"csrmm_{p}_{b}")
        o, i, *_ = sch.get_sp_iters(iteration)
        sch.sparse_fuse(iteration, [o, i])

    sch = Schedule(lower_sparse_iter(sch.mod))
    for p, b in buckets:
        shares_rows = len(structure) > 1 or b + 1 == len(widths)
        rows = widths[-1] // widths[b]  # so that each block of threads has as many slots
        schedule_bucket(
            sch, f"csrmm_{p}_{b}0", rows, shares_rows=shares_rows, keep_loops=keep_loops
        )
    return remove_unused_args(lower_sparse_buffer(sch.mod, flatten=True))["main"]


def _sizes(
    func: PrimFunc, structure: HybStructure, shape: tuple[int, int], tiles: int, coarse: int
) -> dict[Any, int]:
    """The sizes of the matrix and of its buckets, by parameter."""
    m, n = shape
    named = {"m": m, "n": n, "tiles": tiles, "coarse": coarse, "nnz": structure[0][0].source_count}
    for p, part in enumerate(structure.parts):
        for b, bucket in enumerate(part):
            sizes = {"m": m, "n": n, "num_rows": len(bucket.rows)}
            named |= {f"{name}_{p}_{b}": size for name, size in sizes.items()}
    return {param: named[param.name] for param in func.params if param.name in named}


def bucket_arrays(structure: HybStructure, data: Array) -> list[Array]:
    """The arguments after B and C: for each bucket its values, rows and columns."""
    found = []
    for part, values in zip(structure.parts, structure.values(data)):
        for bucket, own in zip(part, values):
            indices = (bucket.rows.astype("int32"), bucket.indices.astype("int32"))
            found += [own.astype("float32").reshape(-1), *(i.reshape(-1) for i in indices)]
    return found


def emulated(
    matrix: Any, x: Array, column_parts: int = 1, widths: Sequence[int] = WIDTHS, **options: Any
) -> Array:
    """`matrix @ x` on the emulator, which checks what threads access.

    Args:
        matrix: a `scipy.sparse.csr_array`.
        options: of `hyb_spmm`.
    """
    structure = hyb(
        matrix.indptr, matrix.indices, matrix.shape, num_col_parts=column_parts, widths=widths
    )
    func = hyb_spmm(structure, matrix.shape, x.shape[1], **options)
    out = np.zeros((matrix.shape[0], x.shape[1]), "float32")
    kernel = tileloom.build(func, "cuda", device="emulator")
    kernel(x.reshape(-1), out.reshape(-1), *bucket_arrays(structure, matrix.data))
    return out


def main() -> None:
    """Check a product, and time it where there is a GPU."""
    rng = np.random.default_rng(0)
    matrix = scipy.sparse.random_array((500, 400), density=0.02, format="csr", rng=rng, dtype="f")
    x = rng.random((400, 64), "f")
    try:
        device = cuda.device()
    except cuda.CudaError as error:
        print(f"no GPU ({error.message}); on the emulator")
        np.testing.assert_allclose(emulated(matrix, x), matrix @ x, 1e-5, 1e-5)
        print("right")
        return
    structure = hyb(matrix.indptr, matrix.indices, matrix.shape, widths=WIDTHS)
    kernel = tileloom.build(hyb_spmm(structure, matrix.shape, 64), "cuda")
    out = cuda.zeros(500 * 64)
    given = [cuda.asarray(array) for array in bucket_arrays(structure, matrix.data)]
    dense = cuda.asarray(x.reshape(-1))
    kernel(dense, out, *given)
    np.testing.assert_allclose(out.numpy().reshape(500, 64), matrix @ x, 1e-5, 1e-5)
    device.synchronize()
    start = time.perf_counter()
    for _ in range(100):
        kernel(dense, out, *given)
    device.synchronize()
    print(f"right; {(time.perf_counter() - start) * 1e4:.1f} us on {device.name}")


if __name__ == "__main__":
    main()
