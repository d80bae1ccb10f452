"""Blocks that touch several buffers, or one in several ways: each is looked at by itself."""

from __future__ import annotations

import pytest

from schedule.common import check_same, parse, refused, schedule
from tileloom import Schedule
from tileloom.base.dtype import dtype
from tileloom.base.errors import UserError
from tileloom.schedule.library.kernels._text import wide_type

BOTH = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,))
    D = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("both"):
            vi = T.axis.spatial(8, i)
            T.reads(A[vi])
            T.writes(B[FIRST], D[SECOND])
            B[FIRST] = A[vi]
            D[SECOND] = A[vi] + 1.0
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            T.reads(READ)
            T.writes(C[vi])
            C[vi] = READ * 2.0
"""


def both(first: str, second: str, read: str) -> str:
    return BOTH.replace("FIRST", first).replace("SECOND", second).replace("READ", read)


@pytest.mark.parametrize(
    ("first", "second", "read", "covered"),
    [
        ("vi", "vi", "B[vi]", True), ("vi", "vi", "D[vi]", True), ("vi", "vi", "D[7 - vi]", True),
        ("vi", "vi // 2", "D[vi]", False), ("vi // 2", "vi", "D[vi]", True),
        ("vi // 2", "vi", "B[vi]", False), ("vi", "vi // 2", "D[vi // 2]", True),
        ("vi", "vi // 2", "B[vi]", True),
    ],
)  # fmt: skip
def test_what_is_written_of_each_buffer(first: str, second: str, read: str, covered: bool) -> None:
    text = both(first, second, read)
    sch = schedule(text)
    if covered:
        sch.cache_read("C", 0, "local")
        check_same(sch, text)
        return
    name = read[0]
    refused(
        sch, f"what 'both' writes to '{name}' may not hold all it reads", "compute_at",
        sch.get_block("both"), sch.get_loops("C")[0],
    )  # fmt: skip


SUMS = """
@T.prim_func
def main(A: T.Buffer((8, 6), "float32"), C: T.Buffer((8, 8), "float32")):
    for i, j, k in T.grid(8, 8, 6):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            T.reads(A[vi, vk], A[vj, vk])
            T.writes(C[vi, vj])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * A[vj, vk]
"""


def test_a_product_of_one_matrix_with_itself_is_not_padded() -> None:
    sch = schedule(SUMS)
    block = sch.get_block("C")
    refused(sch, "it accesses 'A' in two ways", "pad_einsum", block, [1, 1, 4])


CHAIN = """
@T.prim_func
def main(A: T.Buffer((8, 12), "float32"), D: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8, 12))
    C = T.alloc_buffer((8,))
    for i, k in T.grid(8, 12):
        with T.block("B"):
            vi, vk = T.axis.remap("SS", [i, k])
            B[vi, vk] = A[vi, vk] + 1.0
    for i, k in T.grid(8, 12):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + B[vi, vk]
    for i in range(8):
        with T.block("D"):
            vi = T.axis.spatial(8, i)
            D[vi] = C[vi] * 2.0
"""


def test_a_reduction_is_not_inlined_into_what_it_reads() -> None:
    sch = schedule(CHAIN)
    block = sch.get_block("C")
    refused(sch, r"has T.init\(\), so it cannot be inlined", "reverse_compute_inline", block)


@pytest.mark.parametrize("outer", ["serial", "unroll"])
@pytest.mark.parametrize("inner", ["serial", "unroll"])
def test_sums_that_are_taken_before_they_are_done(outer: str, inner: str) -> None:
    """After each step the consumer is computed anew: in the end from what is done."""
    sch = Schedule(parse(CHAIN), debug_mask="all")
    _, k = sch.get_loops("C")
    loops = sch.split(k, [None, 4])
    for loop, kind in zip(loops, (outer, inner), strict=True):
        if kind == "unroll":
            sch.unroll(loop)
    sch.reverse_compute_at("D", loops[1])
    check_same(sch, CHAIN)


def test_levels_of_errors_have_names() -> None:
    with pytest.raises(UserError, match="error_render_level is one of") as caught:
        Schedule(parse(CHAIN), error_render_level="loud")
    assert "detail" in str(caught.value)
    with pytest.raises(UserError, match="debug_mask is a number or one of"):
        Schedule(parse(CHAIN), debug_mask="some")


@pytest.mark.parametrize(
    ("kind", "wide"),
    [
        ("float16", "float32"), ("bfloat16", "float32"), ("float32", "float32"),
        ("float64", "float64"), ("int8", "int32"), ("int16", "int32"), ("int32", "int32"),
        ("int64", "int64"), ("uint8", "uint32"), ("uint16", "uint32"), ("uint64", "uint64"),
        ("bool", "uint32"),
    ],
)  # fmt: skip
def test_types_that_threads_compute_in(kind: str, wide: str) -> None:
    assert wide_type(dtype(kind)) == dtype(wide)
