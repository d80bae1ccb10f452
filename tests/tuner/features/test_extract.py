"""What rows there are, and what the options do."""

from __future__ import annotations

import numpy as np
import pytest

from tileloom.target import target
from tileloom.tir import IRModule
from tileloom.tuner.features import FEATURE_NAMES, feature_names, per_store_features
from tuner.features.common import HEADER, amount, column, features, module

TWO_STAGES = (
    HEADER
    + """
def main(A: T.Buffer((64, 32)), C: T.Buffer((64, 32))):
    B = T.alloc_buffer((64, 32))
    D = T.alloc_buffer((64, 32))
    for i in T.parallel(64):
        for j in range(32):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = T.exp(A[vi, vj])
        for j in range(32):
            with T.block("add"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj] + T.float32(1)
"""
)
COPY = (
    HEADER
    + """
def main(A: T.Buffer((4, 4)), B: T.Buffer((4, 4))):
    for i, j in T.grid(EXTENTS):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = VALUE
"""
)


def copy(extents: str = "4, 4", value: str = "A[vi, vj]") -> str:
    return COPY.replace("EXTENTS", extents).replace("VALUE", value)


def test_names_are_one_for_each_column() -> None:
    assert len(set(FEATURE_NAMES)) == 164
    assert FEATURE_NAMES.index("vec_num") == 16
    assert FEATURE_NAMES.index("is_gpu") == 49
    assert FEATURE_NAMES.index("B4.stride") == 146
    assert FEATURE_NAMES.index("alloc_size") == 157


def test_a_row_for_each_buffer_and_what_is_allocated_where_it_is_needed() -> None:
    rows = features(TWO_STAGES)
    assert rows.shape == (2, 164)
    assert amount(rows, "float_mathfunc") == [64 * 32, 0]
    assert amount(rows, "float_addsub") == [0, 64 * 32]
    # B needs a row of 32 elements in each of 64 iterations.
    assert amount(rows, "alloc_size") == [32 * 4, 64 * 32 * 4]
    assert amount(rows, "alloc_outer_prod") == [64, 1]
    assert amount(rows, "alloc_inner_prod") == [32, 64 * 32]


def test_reuse_by_the_next_store_in_a_loop() -> None:
    kept = TWO_STAGES.replace("    B = T.alloc_buffer((64, 32))\n", "")
    kept = kept.replace("def main(", "def main(B: T.Buffer((64, 32)), ")
    for script, kind, count in (
        (TWO_STAGES, "kLoopMultipleRead", 64),  # each iteration has a row of its own
        (kept, "kSerialMultipleReadWrite", 1),
    ):
        rows = features(script)[1:]
        slot = next(k for k in range(2) if column(rows, f"B{k}.acc_type.kRead") == [1])
        assert column(rows, f"B{slot}.reuse_type.{kind}") == [1]
        assert amount(rows, f"B{slot}.reuse_ct") == [count]


def test_constants_and_loops_without_iterations_make_no_rows() -> None:
    assert features(copy(value="T.float32(0)")).shape == (0, 164)
    assert features(copy(extents="4, 0")).shape == (0, 164)
    assert features(copy()).shape == (1, 164)


def test_a_store_outside_of_loops_has_one_of_everything() -> None:
    script = HEADER + "def main(A: T.Buffer((1,)), B: T.Buffer((1,))):\n    B[0] = A[0] * 2.0\n"
    rows = features(script)
    assert amount(rows, "outer_prod") == [1]
    assert column(rows, "num_loops") == [0]
    assert amount(rows, "B0.lines") == amount(rows, "B0.unique_bytes") == [1]
    assert column(rows, "arith_intensity_curve_9") == [0]


def test_the_last_store_into_a_buffer_speaks_for_it() -> None:
    script = copy() + copy(value="A[vi, vj] + B[vi, vj] + A[vj, vi]").split("\n", 4)[4]
    rows = features(script)
    assert amount(rows, "float_addsub") == [32]


def test_functions_add_their_rows() -> None:
    two, one = module(TWO_STAGES), module(copy())
    both = IRModule({"f": two["main"], "g": one["main"]})
    machine = target("llvm")
    parts = [per_store_features(mod, machine) for mod in (two, one)]
    np.testing.assert_array_equal(per_store_features(both, machine), np.concatenate(parts))
    assert per_store_features(IRModule({}), machine).shape == (0, 164)


def test_loops_of_unknown_length_count_once() -> None:
    script = (
        HEADER
        + """
def main(a: T.handle, b: T.handle, n: T.int32):
    A = T.match_buffer(a, (n, 8))
    B = T.match_buffer(b, (n, 8))
    for i in T.parallel(n):
        for j in T.vectorized(8):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * 2.0
"""
    )
    rows = features(script)
    assert np.isfinite(rows).all()
    assert amount(rows, "float_mul") == amount(rows, "outer_prod") == [8]
    assert amount(rows, "num_loops") == [2]
    assert amount(rows, "parallel_len") == amount(rows, "parallel_prod") == [1]


def test_options_change_the_columns() -> None:
    mod, machine = module(TWO_STAGES), target("llvm")
    rows = per_store_features(
        mod, machine, buffers_per_store=2, arith_intensity_curve_num_samples=4
    )
    names = feature_names(2, 4)
    assert rows.shape == (2, len(names)) == (2, 57 + 36 + 4 + 7)
    lines = [
        per_store_features(mod, machine, cache_line_bytes=size)[0, FEATURE_NAMES.index("B0.lines")]
        for size in (64, 128)
    ]
    assert 2 ** lines[0] - 1 == pytest.approx(2 * (2 ** lines[1] - 1))


def test_kinds_of_work_are_told_by_names_of_blocks() -> None:
    mod, machine = module(TWO_STAGES), target("llvm")
    rows = per_store_features(mod, machine, extract_workload=True)
    assert rows[:, 164:].tolist() == [[0, 0, 1, 0, 0, 0, 0, 0]] * 2
    plain = per_store_features(mod, machine, extract_workload=True, original=module(copy()))
    assert plain.shape == (2, 172) and not plain[:, 164:].any()


def test_indices_of_loads_are_arithmetic_and_those_of_stores_are_not() -> None:
    script = (
        HEADER
        + """
def main(A: T.Buffer((32,)), B: T.Buffer((32,))):
    for i, j in T.grid(8, 4):
        with T.block("B"):
            v = T.axis.spatial(32, i * 4 + j)
            B[v] = A[31 - v]
"""
    )
    rows = features(script)
    assert amount(rows, "int_addsub") == [2 * 32]
    assert amount(rows, "int_mul") == [32]


def test_a_select_that_reads_nothing_is_a_number() -> None:
    rows = features(copy(value="A[vi, vj] + T.Select(vi < vj, T.float32(1), T.float32(2))"))
    assert amount(rows, "select_op") == amount(rows, "int_cmp") == [0]
    rows = features(copy(value="T.Select(vi < vj, A[vi, vj], T.float32(2))"))
    assert amount(rows, "select_op") == amount(rows, "int_cmp") == [16]


def test_a_select_of_ones_leaves_no_product() -> None:
    rows = features(copy(value="A[vi, vj] * T.Select(vi < vj, T.float32(3), T.float32(2))"))
    assert amount(rows, "float_mul") == [0]


def test_choices_of_one_other_value_are_one() -> None:
    inner = "T.if_then_else(vj < 3, A[vi, vj], T.float32(0))"
    rows = features(copy(value=f"T.if_then_else(vi < 3, {inner}, T.float32(0))"))
    assert amount(rows, "float_mathfunc") == amount(rows, "bool_op") == [16]
    assert amount(rows, "int_cmp") == [32]
    decided = features(copy(value=f"T.if_then_else(vi < 4, {inner}, T.float32(0))"))
    assert amount(decided, "int_cmp") == [16]
    assert features(copy(value=f"T.if_then_else(vi < 0, {inner}, T.float32(0))")).shape[0] == 0


def test_scalars_and_gathers() -> None:
    script = (
        HEADER
        + """
def main(A: T.Buffer(()), I: T.Buffer((16,), "int32"), B: T.Buffer((16, 4)), C: T.Buffer((16, 4))):
    for i, j in T.grid(16, 4):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[()] * B[I[vi] * 2 + 1, vj]
"""
    )
    rows = features(script)
    assert amount(rows, "int_addsub") == amount(rows, "int_mul") == [64]
    kinds = [column(rows, f"B{slot}.acc_type.kRead") for slot in range(5)]
    assert sum(kind[0] for kind in kinds) == 3  # A, I and B


def test_views_are_what_they_are_views_of() -> None:
    script = (
        HEADER
        + """
def main(A: T.Buffer((64, 64)), B: T.Buffer((64, 64))):
    for i0, j0 in T.grid(8, 8):
        with T.block("B_o"):
            vi, vj = T.axis.remap("SS", [i0, j0])
            T.reads(A[vi * 8:vi * 8 + 8, vj * 8:vj * 8 + 8])
            T.writes(B[vi * 8:vi * 8 + 8, vj * 8:vj * 8 + 8])
            X = T.match_buffer(A[vi * 8:vi * 8 + 8, vj * 8:vj * 8 + 8], (8, 8), offset_factor=1)
            Y = T.match_buffer(B[vi * 8:vi * 8 + 8, vj * 8:vj * 8 + 8], (8, 8), offset_factor=1)
            for i1, j1 in T.grid(8, 8):
                with T.block("B_i"):
                    vii, vji = T.axis.remap("SS", [i1, j1])
                    Y[vii, vji] = X[vii, vji] * 2.0
"""
    )
    rows = features(script)
    assert amount(rows, "alloc_size") == [64 * 64 * 4]
    assert amount(rows, "B0.unique_bytes") == [64 * 64 * 4]
    assert amount(rows, "int_mul") == [2 * 64 * 64]


def test_what_a_layout_rewrite_writes_is_a_parameter() -> None:
    script = (
        HEADER
        + """
def main(W: T.Buffer((64, 64)), B: T.Buffer((64, 64))):
    R = T.alloc_buffer((4, 64, 16))
    for i, j in T.grid(64, 64):
        with T.block("R"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.block_attr({"meta_schedule.layout_rewrite_preproc": True})
            R[vj // 16, vi, vj % 16] = W[vi, vj]
    for i in T.parallel(64):
        for j in range(64):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = R[vj // 16, vi, vj % 16] * 2.0
"""
    )
    rows = features(script)
    assert amount(rows, "float_mul") == [64 * 64]
    # Rows of 16 elements: the loop over i, which is around the allocation otherwise, moves R.
    assert column(rows, "B0.reuse_type.kNoReuse") == column(rows, "B1.reuse_type.kNoReuse") == [1]
