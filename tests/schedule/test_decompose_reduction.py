"""decompose_reduction: before and after, the trace, the refusals."""

from __future__ import annotations

from schedule.common import MATMUL, check_same, check_trace, refused, same_text, schedule


def test_before_the_reduction_loop() -> None:
    sch = schedule(MATMUL)
    _, _, k = sch.get_loops("C")
    init = sch.decompose_reduction("C", k)
    assert sch.get(init).name_hint == "C_init"
    same_text(
        sch,
        """
@T.prim_func
def main(
    A: T.Buffer((128, 96), "float32"),
    B: T.Buffer((96, 64), "float32"),
    C: T.Buffer((128, 64), "float32"),
):
    for i, j in T.grid(128, 64):
        with T.block("C_init"):
            vi_init, vj_init = T.axis.remap("SS", [i, j])
            T.reads()
            T.writes(C[vi_init, vj_init])
            C[vi_init, vj_init] = T.float32(0)
        for k in range(96):
            with T.block("C_update"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                T.reads(C[vi, vj], A[vi, vk], B[vk, vj])
                T.writes(C[vi, vj])
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
""",
    )
    check_trace(sch, MATMUL)
    check_same(sch, MATMUL)


def test_loops_that_place_results_are_repeated() -> None:
    sch = schedule(MATMUL)
    i, j, k = sch.get_loops("C")
    j0, j1 = sch.split(j, [None, 24])  # leaves a condition that the new block keeps
    k0, k1 = sch.split(k, [8, None])
    sch.reorder(i, j0, k0, j1, k1)
    sch.decompose_reduction("C", k0)
    assert [sch.get(loop).extent for loop in sch.get_loops("C_init")] == [128, 3, 24]
    check_trace(sch, MATMUL)
    check_same(sch, MATMUL)


def test_parallel_and_vector_loops_stay_what_they_are() -> None:
    sch = schedule(MATMUL)
    i, j, k = sch.get_loops("C")
    sch.reorder(k, j)
    sch.parallel(i)
    sch.vectorize(j)
    sch.decompose_reduction("C", k)
    assert [sch.get(loop).kind for loop in sch.get_loops("C_init")] == ["parallel", "vectorized"]
    check_same(sch, MATMUL)


def test_refusals() -> None:
    sch = schedule(MATMUL)
    _, j, k = sch.get_loops("C")
    sch.reorder(k, j)
    refused(sch, "reduces and is outside", "decompose_reduction", sch.get_block("C"), j)
    sch.decompose_reduction("C", k)
    refused(sch, "no T.init", "decompose_reduction", sch.get_block("C_update"), k)


def test_conditions_with_unit_loops_are_kept() -> None:
    text = """
@T.prim_func
def main(A: T.Buffer((4, 6), "float32"), B: T.Buffer((4,), "float32")):
    for i0, i1, k in T.grid(5, 1, 6):
        with T.block("B"):
            vi = T.axis.spatial(4, i0)
            vk = T.axis.reduce(6, k)
            T.where(i0 + i1 < 4)
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]
"""
    sch = schedule(text)
    sch.decompose_reduction("B", sch.get_loops("B")[1])
    check_same(sch, text)
    assert sch.verify("main").ok


def test_conditions_that_leave_out_whole_results_are_kept() -> None:
    """Which results there are depends on a block outside, as rows of blocks over an edge do."""
    text = """
@T.prim_func
def main(A: T.Buffer((4, 3, 6), "float32"), B: T.Buffer((10,), "float32")):
    for io in range(4):
        with T.block("rows"):
            vo = T.axis.spatial(4, io)
            T.reads(A[vo, 0:3, 0:6])
            T.writes(B[vo * 3 : T.min(vo * 3 + 3, 10)])
            for ii, k in T.grid(3, 6):
                with T.block("B"):
                    vi, vk = T.axis.remap("SR", [ii, k])
                    T.where(vo * 3 + ii < 10)
                    with T.init():
                        B[vo * 3 + vi] = T.float32(0)
                    B[vo * 3 + vi] = B[vo * 3 + vi] + A[vo, vi, vk]
"""
    sch = schedule(text)
    sch.decompose_reduction("B", sch.get_loops("B")[1])
    assert str(sch.mod).count("T.where(vo * 3 + ii < 10)") == 2
    check_same(sch, text)
    other = schedule(text.replace("ii < 10", "ii + k < 10"))
    refused(
        other, "not affine", "decompose_reduction", other.get_block("B"), other.get_loops("B")[1]
    )


def test_what_starts_declares_the_indices_that_are_data() -> None:
    sch = schedule(MATMUL)
    sch.transform_layout("C", ("write", 0), lambda i, j: (i, j // 2, j % 2))
    sch.cache_index("C", "global", 0)
    init = sch.decompose_reduction("C", sch.get_loops("C")[2])
    assert [region.buffer.name for region in sch.get(init).reads] == ["index_var_0", "index_var_1"]
    sch.compute_inline("index_0")
    sch.compute_inline("index_1")
    assert "index_var" not in str(sch.mod)


def test_rows_that_overlap_start_together_only() -> None:
    """Rows 2, 4, 6 are summed in two iterations of `i`, the second of which starts anew."""
    text = """
@T.prim_func
def main(A: T.Buffer((9, 8), "float32"), B: T.Buffer((9,), "float32")):
    for i, h, k in T.grid(4, 3, 8):
        with T.block("B"):
            vi = T.axis.spatial(9, i * 2 + h)
            vk = T.axis.reduce(8, k)
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]
"""
    sch = schedule(text)
    block, (i, h, _) = sch.get_block("B"), sch.get_loops("B")
    refused(sch, "may run the same instances", "decompose_reduction", block, i)
    refused(sch, "may run the same instances", "blockize", i)
    sch.decompose_reduction(block, h)
    check_same(sch, text)
    check_trace(sch, text)
