"""Programs for GPUs: threads, what they share, and reductions over them."""

from __future__ import annotations

from tuner.features.common import HEADER, amount, column, features

STAGED = (
    HEADER
    + """
def main(A: T.Buffer((128, 32)), B: T.Buffer((128, 32))):
    C = T.alloc_buffer((128, 32), scope="shared")
    L = T.alloc_buffer((128, 32), scope="local")
    for i in T.thread_binding(32, thread="blockIdx.x", annotations={"pragma_auto_unroll_max_step": 16}):
        for v in T.thread_binding(4, thread="vthread.x"):
            for k1 in T.thread_binding(32, thread="threadIdx.x"):
                for a in range(4):
                    for k2 in T.thread_binding(32, thread="threadIdx.x"):
                        with T.block("C"):
                            vi = T.axis.spatial(128, i * 4 + a)
                            vk = T.axis.spatial(32, k2)
                            C[vi, vk] = A[vi, vk] + T.float32(1)
                with T.block("L"):
                    vi = T.axis.spatial(128, i * 4 + v)
                    vk = T.axis.spatial(32, k1)
                    L[vi, vk] = C[vi, vk] * T.float32(2)
                with T.block("B"):
                    vi = T.axis.spatial(128, i * 4 + v)
                    vk = T.axis.spatial(32, k1)
                    B[vi, vk] = L[vi, vk] * T.float32(2)
"""  # noqa: E501
)
REDUCTION = (
    HEADER
    + """
def main(A: T.Buffer((128, 100)), B: T.Buffer((128,))):
    for i in T.thread_binding(128, thread="blockIdx.x"):
        for k0 in range(4):
            for k1 in T.thread_binding(32, thread="threadIdx.x"):
                with T.block("B"):
                    T.where(k0 * 32 + k1 < 100)
                    vi = T.axis.spatial(128, i)
                    vk = T.axis.reduce(100, k0 * 32 + k1)
                    with T.init():
                        B[vi] = T.float32(0)
                    B[vi] = B[vi] + A[vi, vk]
"""
)


def test_threads_of_a_tag_are_one_loop_at_the_head_of_the_kernel() -> None:
    rows = features(STAGED, "cuda -arch=sm_70")
    assert column(rows, "is_gpu") == [1] * 3
    assert amount(rows, "num_loops") == [4, 3, 3]
    assert amount(rows, "outer_prod") == [32 * 4 * 32 * 4, 32 * 4 * 32, 32 * 4 * 32]
    for name, extent in (("blockIdx_x", 32), ("threadIdx_x", 32), ("vthread", 4)):
        assert [round(2**x - 1) for x in column(rows, f"{name}_len")] == [extent] * 3
    assert amount(rows, "auto_unroll_max_step") == [16] * 3


def test_shared_memory_is_for_all_threads_and_local_memory_for_one() -> None:
    rows = features(STAGED, "cuda -arch=sm_70")
    assert amount(rows, "alloc_size")[:2] == [4 * 32 * 4, 4]
    assert amount(rows, "alloc_outer_prod")[:2] == [32 * 4 * 32] * 2


def test_a_reduction_over_threads_is_a_part_in_each_and_a_result() -> None:
    rows = features(REDUCTION, "cuda -arch=sm_70")
    assert rows.shape == (2, 164)
    assert amount(rows, "float_addsub") == [128 * 4 * 32, 0]
    assert amount(rows, "alloc_size") == [4, 128 * 4]


def test_a_predicate_limits_what_is_allocated() -> None:
    script = (
        HEADER
        + """
def main(A: T.Buffer((64, 21)), B: T.Buffer((64, 21))):
    C = T.alloc_buffer((64, 32), scope="shared")
    for i in T.thread_binding(64, thread="blockIdx.x"):
        for f in range(2):
            for t in T.thread_binding(16, thread="threadIdx.x"):
                with T.block("C"):
                    T.where(f * 16 + t < 21)
                    vi = T.axis.spatial(64, i)
                    vj = T.axis.spatial(32, LIMITED)
                    C[vi, vj] = A[vi, vj]
        for f in range(20):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, f])
                B[vi, vj] = C[vi, vj] + T.float32(1)
"""
    )
    for index in ("f * 16 + t", "(f * 16 + t) // 4 + 15"):
        rows = features(script.replace("LIMITED", index), "cuda -arch=sm_70")
        assert amount(rows, "alloc_size")[0] == 21 * 4
