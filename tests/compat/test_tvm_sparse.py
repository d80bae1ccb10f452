"""SparseTIR's names: its example of products in hyb as it is written, passes, and conversions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileloom.compat.tvm as tvm
from sparse_inputs import case
from tileloom.compat.tvm import tir
from tileloom.compat.tvm.script import tir as T

scipy_sparse = pytest.importorskip("scipy.sparse")

# Descriptions of formats declare what they do not use.
# ruff: noqa: F841


@T.prim_func
def csrmm(
    a: T.handle,
    b: T.handle,
    c: T.handle,
    indptr: T.handle,
    indices: T.handle,
    m: T.int32,
    n: T.int32,
    num_tiles: T.int32,
    nnz: T.int32,
    cwm: T.int32,
) -> None:
    T.func_attr({"global_symbol": "main", "tir.noalias": True, "sparse_tir_level": 2})
    I = T.dense_fixed(m)
    J = T.sparse_variable(I, (n, nnz), (indptr, indices), "int32")
    J_detach = T.dense_fixed(n)
    K1 = T.dense_fixed(num_tiles)
    K2 = T.dense_fixed(cwm)
    K3 = T.dense_fixed(32)
    A = T.match_sparse_buffer(a, (I, J), "float32")
    B = T.match_sparse_buffer(b, (J_detach, K1, K2, K3), "float32")
    C = T.match_sparse_buffer(c, (I, K1, K2, K3), "float32")
    with T.iter([I, J, K1, K2, K3], "SRSSS", "csrmm") as [i, j, k1, k2, k3]:
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
    nnz_cols: T.int32,
) -> None:
    T.func_attr({"global_symbol": "main", "tir.noalias": True, "sparse_tir_level": 2})
    O = T.dense_fixed(1)
    I = T.sparse_variable(O, (m, num_rows), (indptr_i, indices_i), "int32")
    J = T.sparse_fixed(I, (n, nnz_cols), indices_j, "int32")
    A = T.match_sparse_buffer(a, (O, I, J), "float32")
    T.evaluate(0)


def bench_hyb(graph: Any, x: Any, widths: list[int], num_col_parts: int, implicit: bool) -> Any:
    """The function of SparseTIR's script, but for the emulator and without its timing."""
    m, n = graph.shape
    nnz, num_buckets, feat_size = graph.nnz, len(widths), x.shape[1]
    coersening_factor = min(2, feat_size // 32)
    indptr_nd = tvm.nd.array(graph.indptr, device=tvm.cpu())
    indices_nd = tvm.nd.array(graph.indices, device=tvm.cpu())
    row_indices, col_indices, mask = tvm.sparse.column_part_hyb(
        m, n, indptr_nd, indices_nd, num_col_parts, widths
    )
    nnz_cols_symbol = ell.params[-1]
    rewrites = []
    for part_id in range(num_col_parts):
        for bucket_id, bucket_size in enumerate(widths):
            rewrites.append(
                tvm.sparse.FormatRewriteRule(
                    str(part_id) + "_" + str(bucket_id),
                    ell.specialize({nnz_cols_symbol: bucket_size}),
                    ["A"],
                    ["I", "J"],
                    ["O", "I", "J"],
                    {"I": ["O", "I"], "J": ["J"]},
                    lambda i, j: (0, i, j),
                    lambda o, i, j: (i, j),
                )
            )
    mod = tvm.IRModule.from_expr(csrmm)
    mod = tvm.sparse.format_decompose(mod, rewrites)
    mod = tvm.tir.transform.RemovePreprocess()(mod)

    params = mod["main"].params
    param_map = {
        params[5]: m,
        params[6]: n,
        params[7]: feat_size // coersening_factor // 32,
        params[8]: nnz,
        params[9]: coersening_factor,
    }
    for part_id in range(num_col_parts):
        for bucket_id in range(num_buckets):
            first = 10 + 7 * (part_id * num_buckets + bucket_id)
            param_map[params[first + 4]] = m
            param_map[params[first + 5]] = n
            param_map[params[first + 6]] = row_indices[part_id][bucket_id].shape[0]
    mod["main"] = mod["main"].specialize(param_map).with_attr("horizontal_fuse", True)

    sch = tvm.tir.Schedule(mod)
    for sp_iter_name in [
        f"csrmm_{i}_{j}" for j in range(num_buckets) for i in range(num_col_parts)
    ]:
        sp_iteration = sch.get_sparse_iteration(sp_iter_name)
        o, i, *_ = sch.get_sp_iters(sp_iteration)
        sch.sparse_fuse(sp_iteration, [o, i])
    mod = tvm.sparse.lower_sparse_iter(sch.mod)
    sch = tvm.tir.Schedule(mod)
    for part_id in range(num_col_parts):
        for bucket_id, bucket_size in enumerate(widths):
            is_atomic = num_col_parts > 1 or bucket_id + 1 == num_buckets
            blk = sch.get_block(f"csrmm_{part_id}_{bucket_id}0")
            i, j, foo, foi, fi = sch.get_loops(blk)
            sch.reorder(foo, fi, j, foi)
            if is_atomic:
                sch.annotate(blk, "atomic", True)
                write_blk = sch.reverse_cache_write(blk, 0, "local")
                sch.reverse_compute_at(write_blk, fi, True)
            sch.bind(fi, "threadIdx.x")
            sch.bind(foo, "blockIdx.y")
            sch.unroll(foi)
            if implicit:
                sch.annotate(foi, "pragma_unroll_explicit", 0)
            sch.unroll(j)
            if implicit:
                sch.annotate(j, "pragma_unroll_explicit", 0)
            io, _, ii = sch.split(i, [None, widths[-1] // bucket_size, 8])
            sch.bind(io, "blockIdx.x")
            sch.bind(ii, "threadIdx.y")
            init_blk = sch.decompose_reduction(blk, fi)
            ax0, ax1 = sch.get_loops(init_blk)[-2:]
            sch.bind(ax0, "threadIdx.x")
            sch.unroll(ax1)
            if implicit:
                sch.annotate(ax1, "pragma_unroll_explicit", 0)
    mod = tvm.sparse.lower_sparse_buffer(sch.mod)
    mod = tvm.tir.transform.RemoveUnusedArgs()(mod)
    f = tvm.build(mod, target="cuda", device="emulator")

    b_nd = tvm.nd.array(x.reshape(-1).astype("float32"), device=tvm.cuda(0))
    c_nd = tvm.nd.array(np.zeros((m * feat_size,)).astype("float32"), device=tvm.cuda(0))
    args = [b_nd, c_nd]
    for part_id in range(num_col_parts):
        for bucket_id, _ in enumerate(widths):
            weight = mask[part_id][bucket_id].numpy().reshape(-1).astype("float32")
            rows = row_indices[part_id][bucket_id].numpy().astype("int32")
            cols = col_indices[part_id][bucket_id].numpy().reshape(-1).astype("int32")
            args += [tvm.nd.array(found, device=tvm.cuda(0)) for found in (weight, rows, cols)]
    f(*args)
    return c_nd.numpy().reshape(-1, feat_size)


@pytest.mark.parametrize("num_col_parts", [1, 2])
@pytest.mark.parametrize("implicit", [False, True])
def test_the_script_of_sparsetir(num_col_parts: int, implicit: bool) -> None:
    rng = np.random.default_rng(0)
    graph = scipy_sparse.random_array((61, 45), density=0.1, format="csr", dtype="f", rng=rng)
    graph.data[:] = 1
    x = rng.random((45, 64), dtype="float32")
    found = bench_hyb(graph, x, [1, 2, 4], num_col_parts, implicit)
    tvm.testing.assert_allclose(found, graph @ x, rtol=1e-4)


def test_passes_do_what_functions_do() -> None:
    mod = tvm.IRModule.from_expr(csrmm)
    rule = tvm.sparse.FormatRewriteRule(
        "2",
        ell.specialize({ell.params[-1]: 2}),
        ["A"],
        ["I", "J"],
        ["O", "I", "J"],
        {"I": ["O", "I"], "J": ["J"]},
        lambda i, j: (0, i, j),
        lambda o, i, j: (i, j),
    )
    steps = tvm.tir.transform
    made = steps.SparseFormatDecompose([rule])(mod)
    tvm.ir.assert_structural_equal(made, tvm.sparse.format_decompose(mod, [rule]))
    rest, first = steps.RemovePreprocess()(made), steps.ExtractPreprocess()(made)
    assert "rewrite_A_2" in str(first) and "rewrite_A_2" not in str(rest)
    positions = steps.LowerSparseIter()(rest)
    tvm.ir.assert_structural_equal(positions, tvm.sparse.lower_sparse_iter(rest))
    plain = steps.LowerSparseBuffer()(positions)
    tvm.ir.assert_structural_equal(plain, tvm.sparse.lower_sparse_buffer(positions))
    assert all(len(buffer.shape) == 1 for buffer in plain["main"].buffers)
    left = steps.RemoveUnusedArgs()(plain)
    names = [param.name for param in left["main"].params]
    assert "indptr" not in names and "indices_j_2" in names
    assert type(left) is tvm.IRModule
    assert set(steps._SPARSE) <= set(dir(steps))
    assert all(callable(getattr(steps, name)) for name in steps._SPARSE)


def test_a_closed_form_in_place_of_indices() -> None:
    mod = tvm.sparse.lower_sparse_iter(tvm.IRModule.from_expr(csrmm))
    made = tvm.sparse.specialize_buffer(mod, "J_indices", lambda i, j: i + j)
    assert "B[vi + vj, vk1, vk2, vk3]" in str(made)
    again = tvm.tir.transform.SpecializeBuffer("J_indices", lambda i, j: i + j)(mod)
    tvm.ir.assert_structural_equal(made, again)


def test_nodes() -> None:
    body: Any = csrmm.body
    iteration = body.block.body
    assert isinstance(iteration, tir.sparse.SparseIteration)
    assert all(isinstance(item, tir.sparse.SpIterVar) for item in iteration.sp_iter_vars)
    assert all(isinstance(axis, tir.sparse.Axis) for axis in csrmm.sp_axes)
    assert isinstance(csrmm.buffer_map[csrmm.params[0]], tir.sparse.SparseBuffer)
    with pytest.raises(AttributeError, match="FlattenedAxis"):
        _ = tir.sparse.FlattenedAxis


def test_conversions() -> None:
    """They hold each element once."""
    arguments, _ = case("csrmm", "random", seed=1)
    indptr, indices = (tvm.nd.array(arguments[name]) for name in ("indptr", "indices"))
    m, n = arguments["m"], arguments["n"]
    starts = indptr.numpy()
    dense = np.zeros((m, n), int)
    np.add.at(dense, (np.repeat(np.arange(m), np.diff(starts)), indices.numpy()), 1)

    begins, columns, mask = (a.numpy() for a in tvm.sparse.condense(indptr, indices, 4, 2))
    assert begins.dtype == columns.dtype == mask.dtype == np.int32
    strip = np.repeat(np.arange(len(begins) - 1), np.diff(begins))
    found = np.zeros((-(-m // 4) * 4, n), int)
    rows = strip[:, None, None] * 4 + np.arange(4)[None, :, None]
    np.add.at(found, (rows, columns[:, None, :]), mask)
    np.testing.assert_array_equal(found[:m], dense)

    nodes = tvm.nd.array(np.arange(m, dtype="int32"))
    relations = tvm.nd.array(np.array([0, m], "int32"))
    made = tvm.sparse.csf_to_ell3d(relations, nodes, indptr, indices, [4, 2], [1, 2])
    found = np.zeros((m, n), int)
    for begins, ids, columns, mask in zip(*([a.numpy() for a in part] for part in made)):
        assert begins[-1] == len(ids) == len(columns)
        np.add.at(found, (ids[..., None], columns), mask)
    np.testing.assert_array_equal(found, dense)
