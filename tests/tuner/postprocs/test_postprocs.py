"""Postprocessors on small programs: what they do, what they leave alone, what they reject."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from schedule.common import ELEMENTWISE, MATMUL, check_same, parse
from tileloom import Schedule
from tileloom.schedule import Trace
from tileloom.target import target
from tileloom.tir import assert_structural_equal
from tileloom.tuner.context import Postproc, TuneContext
from tileloom.tuner.kinds import RuleKind
from tileloom.tuner.postprocs._common import accepted
from tileloom.tuner.postprocs.defaults import default_postprocs
from tileloom.tuner.postprocs.disallow_async_strided_mem_copy import DisallowAsyncStridedMemCopy
from tileloom.tuner.postprocs.disallow_dynamic_loop import DisallowDynamicLoop
from tileloom.tuner.postprocs.rewrite_cooperative_fetch import RewriteCooperativeFetch
from tileloom.tuner.postprocs.rewrite_layout import RewriteLayout
from tileloom.tuner.postprocs.rewrite_parallel_vectorize_unroll import (
    RewriteParallelVectorizeUnroll,
)
from tileloom.tuner.postprocs.rewrite_reduction_block import RewriteReductionBlock
from tileloom.tuner.postprocs.rewrite_tensorize import RewriteTensorize
from tileloom.tuner.postprocs.rewrite_unbound_block import RewriteUnboundBlock
from tileloom.tuner.postprocs.verify_gpu_code import (
    VerifyGPUCode,
    least_shared_bytes,
    reject_early,
)

CPU = target("cpu -mcpu=x86-64-v3")
GPU = target("cuda -arch=sm_80")

#: The product again, small enough for the interpreter.
SMALL = MATMUL.replace("128", "4").replace("64", "32").replace("96", "16")
DOTS = """
@T.prim_func
def main(
    A: T.Buffer((4, 8), "uint8"), B: T.Buffer((32, 8), "int8"), C: T.Buffer((4, 32), "int32")
):
    for i, j, k in T.grid(4, 32, 8):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0
            C[vi, vj] = C[vi, vj] + T.cast(A[vi, vk], "int32") * T.cast(B[vj, vk], "int32")
"""


def schedule(text: str = MATMUL, **attrs: Any) -> Any:
    """A schedule of a function, with attributes."""
    return Schedule(parse(text).with_attr(attrs))


def applied(sch: Any, postproc: Postproc, machine: Any = CPU) -> bool:
    """Whether a postprocessor accepts; what it did can be replayed, and means the same."""
    before = sch.mod
    accepted = postproc.apply(sch, TuneContext(before, machine))
    if accepted:
        again = Schedule(sch._original)
        Trace.apply_json_to_schedule(sch.trace.as_json(), again)
        assert_structural_equal(again.mod, sch.mod)
    return accepted


def kinds(sch: Any, block: str) -> list[tuple[int, str]]:
    """Extents and kinds of the loops around a block."""
    return [(loop.static_extent, loop.kind) for loop in map(sch.get, sch.get_loops(block))]


def extents(sch: Any, block: str) -> list[int]:
    return [extent for extent, _ in kinds(sch, block)]


# ---------------------------------------------------------------- which ones


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("llvm", "DDL RPVU RRB RL"),
        ("vnni", "DDL RPVU RRB RT RL"),
        ("asimd", "DDL RPVU RRB RT RL"),
        ("cuda", "DDL RCF RUB RPVU RRB VGPUC"),
        ("cuda-tensorcore", "DDL RCF RUB RPVU RRB VGPUC RT"),
    ],
)
def test_defaults(kind: RuleKind, names: str) -> None:
    found = [type(step).__name__ for step in default_postprocs(kind)]
    assert " ".join("".join(filter(str.isupper, name)) for name in found) == names


def test_only_cpus_vectorize_what_starts_a_tensorized_reduction() -> None:
    steps = [step for kind in ("avx512", "cuda-tensorcore") for step in default_postprocs(kind)]
    found = [step for step in steps if isinstance(step, RewriteTensorize)]
    assert [step.vectorize_init_loop for step in found] == [True, False]


# ---------------------------------------------------------------- loops


def test_dynamic_loops() -> None:
    text = MATMUL.replace("128", "n").replace("    A:", "    n: T.int32, A:", 1)
    assert not applied(schedule(text), DisallowDynamicLoop())
    assert applied(schedule(), DisallowDynamicLoop())


def rewritten(text: str, change: Any = None, **limits: int) -> Any:
    """A schedule after the annotations of a root block have been carried out."""
    sch = schedule(text)
    if change is not None:
        change(sch)
    for key, value in limits.items():
        sch.annotate("root", f"meta_schedule.{key}", value)
    assert applied(sch, RewriteParallelVectorizeUnroll())
    assert not sch.get(sch.get_block("root")).annotations
    return sch


def test_parallel_stops_where_there_are_enough_iterations() -> None:
    assert kinds(rewritten(MATMUL, parallel=100), "C") == [
        (128, "parallel"), (64, "serial"), (96, "serial"),
    ]  # fmt: skip
    assert kinds(rewritten(MATMUL, parallel=128), "C") == [(8192, "parallel"), (96, "serial")]


def test_vectorize_needs_adjoining_elements() -> None:
    def columns_last(sch: Any) -> None:
        i, j, k = sch.get_loops("C")
        sch.reorder(k, i, j)

    def rows_last(sch: Any) -> None:
        i, j, k = sch.get_loops("C")
        sch.reorder(k, j, i)

    assert kinds(rewritten(MATMUL, columns_last, vectorize=64), "C")[-1] == (64, "vectorized")
    assert kinds(rewritten(MATMUL, columns_last, vectorize=63), "C")[-1] == (64, "serial")
    # The innermost loop may go anywhere, as in TVM: there is no other to choose.
    assert kinds(rewritten(MATMUL, rows_last, vectorize=128), "C")[-1] == (128, "vectorized")


def test_lanes_are_preferred_to_cores() -> None:
    def tiled(sch: Any) -> None:
        for block in "BC":
            i, _ = sch.get_loops(block)
            sch.reorder(*sch.split(i, [None, 4])[::-1])

    sch = rewritten(ELEMENTWISE, tiled, parallel=100, vectorize=8)
    assert kinds(sch, "C") == [(16, "parallel"), (8, "vectorized")]


def test_a_nest_that_is_all_parallel_and_all_lanes() -> None:
    sch = rewritten(ELEMENTWISE, parallel=16, vectorize=16)
    assert kinds(sch, "B") == kinds(sch, "C") == [(7, "parallel"), (16, "vectorized")]
    check_same(sch, ELEMENTWISE)


def test_only_reductions_are_unrolled() -> None:
    pragmas = {"pragma_auto_unroll_max_step": 16, "pragma_unroll_explicit": 1}
    sch = rewritten(MATMUL, unroll_explicit=16)
    assert sch.get(sch.get_loops("C")[0]).annotations == pragmas
    sch = rewritten(MATMUL, parallel=8, unroll_implicit=16)
    assert sch.get(sch.get_loops("C")[0]).annotations == {**pragmas, "pragma_unroll_explicit": 0}
    sch = rewritten(MATMUL, unroll_explicit=0)
    assert not sch.get(sch.get_loops("C")[0]).annotations
    sch = rewritten(ELEMENTWISE, unroll_explicit=16)
    assert not sch.get(sch.get_loops("C")[0]).annotations


def test_loops_that_are_bound_or_shared_stay() -> None:
    def together(sch: Any) -> None:
        sch.compute_at("B", sch.get_loops("C")[0])

    sch = rewritten(ELEMENTWISE, together, parallel=1000, vectorize=8)
    assert kinds(sch, "C") == [(13, "parallel"), (8, "vectorized")]

    def bound(sch: Any) -> None:
        sch.bind(sch.get_loops("C")[0], "blockIdx.x")

    assert kinds(rewritten(MATMUL, bound, parallel=8), "C")[0] == (128, "thread_binding")


def test_what_may_not_run_in_parallel_is_no_candidate() -> None:
    shared = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    for i, j in T.grid(8, 4):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = C[vi] + A[vi]
"""
    sch = schedule(shared)
    i, j = sch.get_loops("C")
    sch.reorder(j, i)
    sch.annotate("root", "meta_schedule.parallel", 2)
    assert not applied(sch, RewriteParallelVectorizeUnroll())


# ---------------------------------------------------------------- reductions and intrinsics


def test_reductions_start_at_the_first_loop_that_reduces() -> None:
    sch = schedule(SMALL)
    i, j, k = sch.get_loops("C")
    sch.reorder(i, k, j)
    assert applied(sch, RewriteReductionBlock())
    assert extents(sch, "C_init") == [4, 32]
    assert extents(sch, "C_update") == [4, 16, 32]
    check_same(sch, SMALL)


def test_reductions_across_threads_stay_whole() -> None:
    sch = schedule()
    i, _, k = sch.get_loops("C")
    sch.bind(i, "blockIdx.x")
    sch.bind(k, "threadIdx.x")
    assert applied(sch, RewriteReductionBlock())
    assert sch.get(sch.get_block("C")).init is not None


def tensorizable() -> Any:
    """A schedule of dot products whose inner loops are annotated for an intrinsic."""
    sch = schedule(DOTS)
    i, j, k = sch.get_loops("C")
    outer, lanes = sch.split(j, [None, 16])
    steps, four = sch.split(k, [None, 4])
    sch.reorder(i, outer, steps, lanes, four)
    block = sch.blockize(lanes)
    sch.annotate(block, "meta_schedule.auto_tensorize", "dot_16x4_vnni")
    return sch


def test_the_start_of_a_tensorized_reduction_runs_in_vectors() -> None:
    sch = tensorizable()
    assert applied(sch, RewriteReductionBlock())
    init = sch.get(sch.get_block("C_o_init"))
    assert init.annotations == {"meta_schedule.auto_tensorize": ""}
    assert applied(sch, RewriteTensorize(vectorize_init_loop=True))
    assert kinds(sch, "C_init") == [(16, "vectorized")]
    assert [m.buffer.name for m in sch.get(sch.get_block("C_o_update")).match_buffers] == list(
        "ABC"
    )
    check_same(sch, DOTS)


def test_the_intrinsic_for_the_start_goes_to_the_start() -> None:
    sch = tensorizable()
    sch.annotate("C_o", "meta_schedule.auto_tensorize_init", "fill")
    assert applied(sch, RewriteReductionBlock())
    notes = [sch.get(sch.get_block(name)).annotations for name in ("C_o_init", "C_o_update")]
    assert notes == [
        {"meta_schedule.auto_tensorize": "fill"},
        {"meta_schedule.auto_tensorize": "dot_16x4_vnni"},
    ]


def test_what_does_not_match_its_intrinsic_is_no_candidate() -> None:
    sch = tensorizable()
    sch.unannotate("C_o", "meta_schedule.auto_tensorize")
    sch.annotate("C_o", "meta_schedule.auto_tensorize", "dot_4_f32")
    assert not applied(sch, RewriteTensorize())


# ---------------------------------------------------------------- layouts


def test_the_layout_of_a_weight_follows_the_loops() -> None:
    sch = schedule(SMALL, layout_free_buffers=[1])
    i, j, k = sch.get_loops("C")
    j0, j1 = sch.split(j, [None, 16])
    k0, k1 = sch.split(k, [None, 8])
    sch.reorder(j0, i, k0, k1, j1)
    assert applied(sch, RewriteLayout())
    block = sch.get(sch.get_block("C"))
    assert block.reads[1].buffer.static_shape == (2, 2, 8, 16)
    copy = sch.get(sch.get_block("B_global"))
    assert copy.annotations == {"meta_schedule.layout_rewrite_preproc": True}
    assert sch.mod["main"].buffers[1].static_shape == (16, 32)
    check_same(sch, SMALL)


def test_copies_of_a_weight_get_its_layout() -> None:
    sch = schedule(SMALL, layout_free_buffers=[1])
    i, j, k = sch.get_loops("C")
    j0, j1 = sch.split(j, [None, 16])
    sch.reorder(j0, i, k, j1)
    sch.cache_read("C", 1, "local")
    assert applied(sch, RewriteLayout())
    shapes = {
        region.buffer.static_shape
        for name in ("C", "B_local")
        for region in sch.get(sch.get_block(name)).reads
        if region.buffer.name.startswith("B")
    }
    assert shapes == {(2, 16, 16)}
    check_same(sch, SMALL)


def test_layouts_that_are_not_free_stay() -> None:
    sch = schedule()
    assert applied(sch, RewriteLayout())
    assert sch.trace.insts == []
    windows = schedule(
        """
@T.prim_func
def main(A: T.Buffer((10,), "float32"), C: T.Buffer((8,), "float32")):
    for i, k in T.grid(8, 3):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi + vk]
""",
        layout_free_buffers=[0],
    )
    assert applied(windows, RewriteLayout())
    assert windows.trace.insts == [], "an element would have several places"


# ---------------------------------------------------------------- GPUs


def fetching(elements: int, kind: str = "float32", y: int = 0, warps: bool = False) -> Any:
    """A schedule with a copy into shared memory that threads are to share."""
    sch = schedule(
        f"""
@T.prim_func
def main(A: T.Buffer((32, 64), "{kind}"), C: T.Buffer((32, 64), "{kind}")):
    for i, j in T.grid(32, 64):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = T.exp(A[vi, vj])
"""
    )
    i, j = sch.get_loops("C")
    sch.bind(i, "blockIdx.x")
    if y:
        outer, j = sch.split(j, [y, None])
        sch.bind(outer, "threadIdx.y")
    sch.bind(j, "threadIdx.x")
    copy = sch.cache_read("C", 0, "shared")
    sch.compute_at(copy, i)
    if warps:
        sch.annotate("C", "warp_execution", 1)
    sch.annotate(copy, "meta_schedule.cooperative_fetch", elements)
    return sch


@pytest.mark.parametrize(
    ("elements", "kind", "y", "parts"),
    [
        (4, "float32", 0, [1, 64, 4]),
        (3, "float32", 0, [1, 64]),  # which does not divide the loop
        (2, "float64", 0, [1, 64]),  # of more than four bytes
        (2, "float32", 4, [1, 4, 16, 2]),
        (1, "float32", 4, [1, 4, 16]),
    ],
)
def test_cooperative_fetch(elements: int, kind: str, y: int, parts: list[int]) -> None:
    sch = fetching(elements, kind, y)
    assert applied(sch, RewriteCooperativeFetch(), GPU)
    assert extents(sch, "A_shared")[1:] == parts
    assert not sch.get(sch.get_block("A_shared")).annotations


def test_warps_fetch_as_many_threads() -> None:
    sch = fetching(2, warps=True)
    assert applied(sch, RewriteCooperativeFetch(), GPU)
    assert extents(sch, "A_shared")[1:] == [1, 32, 2]


def test_a_copy_without_threads_is_no_candidate() -> None:
    sch = schedule(ELEMENTWISE)
    sch.annotate("B", "meta_schedule.cooperative_fetch", 4)
    assert not applied(sch, RewriteCooperativeFetch(), GPU)


def test_unbound_blocks() -> None:
    sch = schedule(ELEMENTWISE)
    i, j = sch.get_loops("B")
    sch.bind(i, "blockIdx.x")
    sch.bind(j, "threadIdx.x")
    assert applied(sch, RewriteUnboundBlock(), GPU)
    assert extents(sch, "B") == [13, 8]
    assert kinds(sch, "C") == [(1, "thread_binding"), (104, "thread_binding")]


def test_more_iterations_than_threads() -> None:
    sch = schedule(ELEMENTWISE.replace("13", "1300").replace("8", "300"))
    assert applied(sch, RewriteUnboundBlock(max_threadblocks=4), GPU)
    assert kinds(sch, "C") == [(4, "thread_binding"), (1024, "thread_binding"), (96, "serial")]


def test_blocks_of_threads_around_threads() -> None:
    sch = schedule(MATMUL)
    sch.bind(sch.get_loops("C")[1], "threadIdx.x")
    assert applied(sch, RewriteUnboundBlock(), GPU)
    tags = [sch.get(loop).thread_binding for loop in sch.get_loops("C")]
    assert [tag and tag.thread_tag for tag in tags] == ["blockIdx.x", "threadIdx.x", None]


def test_a_block_that_only_reduces() -> None:
    total = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), C: T.Buffer((1,), "float32")):
    for k in T.serial(8):
        with T.block("C"):
            vk = T.axis.reduce(8, k)
            with T.init():
                C[0] = T.float32(0)
            C[0] = C[0] + A[vk]
"""
    sch = schedule(total)
    assert applied(sch, RewriteUnboundBlock(), GPU)
    assert kinds(sch, "C") == [(1, "thread_binding"), (1, "thread_binding"), (8, "serial")]


def threaded(threads: int, elements: int = 1) -> Any:
    """A schedule whose blocks of threads copy rows of 4096 elements into shared memory."""
    sch = schedule(ELEMENTWISE.replace("13", "32").replace("8", "4096"))
    sch.compute_inline("B")
    i, j = sch.get_loops("C")
    _, j = sch.split(j, [None, threads])
    sch.bind(i, "blockIdx.x")
    sch.bind(j, "threadIdx.x")
    copy = sch.cache_read("C", 0, "shared")
    sch.compute_at(copy, i)
    _, j, lanes = sch.split(sch.get_loops(copy)[-1], [None, threads, elements])
    sch.bind(j, "threadIdx.x")
    sch.vectorize(lanes)
    return sch


def test_what_a_gpu_can_run() -> None:
    assert applied(threaded(256), VerifyGPUCode(), GPU)
    assert applied(threaded(256, 4), VerifyGPUCode(), GPU)
    assert not applied(threaded(256, 8), VerifyGPUCode(), GPU), "lanes of 32 bytes"
    assert not applied(threaded(2048), VerifyGPUCode(), GPU), "too many threads"


def test_what_is_read_of_shared_memory_is_there() -> None:
    sch = threaded(256)
    assert least_shared_bytes(sch) == 4096 * 4
    assert applied(sch, VerifyGPUCode(), replace(GPU, shared_memory=16384))
    assert not applied(sch, VerifyGPUCode(), replace(GPU, shared_memory=16383))
    assert least_shared_bytes(schedule(ELEMENTWISE)) == 0


def test_buffers_that_take_turns_in_shared_memory() -> None:
    sch = schedule(
        """
@T.prim_func
def main(A: T.Buffer((8, 256), "float32"), B: T.Buffer((8, 256), "float32"),
         C: T.Buffer((8, 256), "float32"), D: T.Buffer((8, 256), "float32")):
    for i in range(8):
        for j in range(256):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = A[vi, vj] + 1.0
        for j in range(256):
            with T.block("D"):
                vi, vj = T.axis.remap("SS", [i, j])
                D[vi, vj] = B[vi, vj] + 1.0
"""
    )
    i = sch.get_loops("C")[0]
    sch.bind(i, "blockIdx.x")
    for name in "CD":
        sch.bind(sch.get_loops(name)[-1], "threadIdx.x")
        copy = sch.cache_read(name, 0, "shared")
        sch.compute_at(copy, i, index={"C": 0, "D": 2}[name])
        sch.bind(sch.get_loops(copy)[-1], "threadIdx.x")
    for memory, right in ((2048, True), (1024, True), (1023, False)):
        machine = replace(GPU, shared_memory=memory)
        assert applied(sch, VerifyGPUCode(), machine) is right


def test_threads_that_rules_allow() -> None:
    for fewest, most, right in ((32, 1024, True), (256, 256, True), (257, 1024, False)):
        sch = threaded(256)
        sch.annotate("C", "meta_schedule.thread_extent_low_inclusive", fewest)
        sch.annotate("C", "meta_schedule.thread_extent_high_inclusive", most)
        assert applied(sch, VerifyGPUCode(), GPU) is right
        again = Schedule(sch._original)
        replayed = accepted(sch.trace.apply_to_schedule, again, False, reject_early(again, GPU))
        assert replayed is right


def test_virtual_threads() -> None:
    for count in (8, 16):
        sch = schedule(ELEMENTWISE.replace("8", "64"))
        sch.compute_inline("B")
        _, j = sch.get_loops("C")
        outer, inner = sch.split(j, [count, None])
        sch.bind(outer, "vthread.x")
        sch.bind(inner, "threadIdx.x")
        assert applied(sch, VerifyGPUCode(), GPU) is (count == 8)


# ---------------------------------------------------------------- asynchronous copies


@pytest.mark.parametrize(("columns", "plain"), [(64, True), (80, False)])
def test_asynchronous_copies(columns: int, plain: bool) -> None:
    sch = schedule(
        f"""
@T.prim_func
def main(A: T.Buffer((8, 4, {columns}), "float32"), C: T.Buffer((8, 4, 64), "float32")):
    for n, i, j in T.grid(8, 4, 64):
        with T.block("C"):
            vn, vi, vj = T.axis.remap("SSS", [n, i, j])
            C[vn, vi, vj] = A[vn, vi, vj] + 1.0
"""
    )
    n = sch.get_loops("C")[0]
    copy = sch.cache_read("C", 0, "global")
    sch.compute_at(copy, n)
    assert applied(sch, DisallowAsyncStridedMemCopy())
    sch.annotate(n, "software_pipeline_stage", [0, 1])
    sch.annotate(n, "software_pipeline_order", [0, 1])
    sch.annotate(n, "software_pipeline_async_stages", [0])
    assert applied(sch, DisallowAsyncStridedMemCopy()) is plain
