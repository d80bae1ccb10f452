"""parallel, vectorize, unroll, bind, annotate, unannotate."""

from __future__ import annotations

from typing import Any

import pytest

from schedule.common import ELEMENTWISE, MATMUL, check_same, check_trace, refused, schedule
from tileloom import te
from tileloom.schedule import Schedule


@pytest.mark.parametrize("method", ["parallel", "vectorize", "unroll"])
def test_kinds(method: str) -> None:
    sch = schedule(ELEMENTWISE)
    i, j = sch.get_loops("B")
    getattr(sch, method)(i)
    kind = {"vectorize": "vectorized", "unroll": "unrolled"}.get(method, method)
    assert sch.get(i).kind == kind and sch.get(j).kind == "serial"
    check_trace(sch, ELEMENTWISE)
    check_same(sch, ELEMENTWISE)


@pytest.mark.parametrize("axis", ["blockIdx.x", "threadIdx.z", "vthread", "vthread.y"])
def test_bind(axis: str) -> None:
    sch = schedule(MATMUL)
    i, _, _ = sch.get_loops("C")
    sch.bind(i, axis)
    assert sch.get(i).thread_binding.thread_tag == axis
    check_trace(sch, MATMUL)


def test_reduction_loops() -> None:
    sch = schedule(MATMUL)
    i, j, k = sch.get_loops("C")
    for method, args in (("parallel", ()), ("vectorize", ()), ("bind", ("blockIdx.x",))):
        refused(sch, "reduction variable 'vk'", method, k, *args)
    refused(sch, "reduction variable 'vk'", "bind", k, "vthread.x")
    sch.bind(k, "threadIdx.x")  # threads of a block reduce together
    sch.unroll(i)
    refused(sch, "no thread axis", "bind", j, "warp")
    check_trace(sch, MATMUL)


ORDERED = """
@T.prim_func
def main(A: T.Buffer((9,), "float32")):
    for i in range(8):
        with T.block("A"):
            vi = T.axis.spatial(8, i)
            T.reads(A[vi])
            T.writes(A[vi + 1])
            A[vi + 1] = A[vi] + 1.0
"""


def test_dataflow_that_is_not_compact() -> None:
    sch = schedule(ORDERED)
    (i,) = sch.get_loops("A")
    error = refused(sch, "both reads and writes 'A'", "parallel", i)
    assert "here" in str(error)
    sch = schedule(ORDERED, enable_check=False)
    sch.parallel(sch.get_loops("A")[0])


def test_annotate() -> None:
    sch = schedule(ELEMENTWISE)
    block = sch.get_block("B")
    (i, _) = sch.get_loops(block)
    number = sch.sample_categorical([4, 8], [0.5, 0.5], decision=1)
    sch.annotate(block, "a", number)
    sch.annotate(block, "a", 3)  # nothing happens
    sch.annotate(block, "b", ["x", 2, {"c": number, "d": 0.5}])
    sch.annotate(i, "pragma", "text")
    assert sch.get(block).annotations == {"a": 8, "b": ["x", 2, {"c": 8, "d": 0.5}]}
    assert sch.get(i).annotations == {"pragma": "text"}
    check_trace(sch, ELEMENTWISE)
    sch.unannotate(block, "a")
    sch.unannotate(i, "pragma")
    assert list(sch.get(block).annotations) == ["b"] and not sch.get(i).annotations
    refused(sch, "no annotation 'a'", "unannotate", block, "a")
    check_trace(sch, ELEMENTWISE)


REPEATED = """
@T.prim_func
def main(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4,), "float32")):
    C = T.alloc_buffer((4,))
    for again in range(3):
        for i, k in T.grid(4, 8):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    C[vi] = T.float32(0)
                C[vi] = C[vi] + A[vi, vk]
        for i in range(4):
            with T.block("B"):
                vi = T.axis.spatial(4, i)
                B[vi] = C[vi] * 2.0
"""


#: As above, but what uses the sums comes after all.
SUMMED_AGAIN = """
@T.prim_func
def main(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4,), "float32")):
    C = T.alloc_buffer((4,))
    for again, i, k in T.grid(3, 4, 8):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vk]
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            B[vi] = C[vi] * 2.0
"""


def test_iterations_that_write_the_same_elements() -> None:
    """`C` is used within the loop alone, so each iteration has its own; `B` is one for all."""
    sch = schedule(REPEATED)
    loop = sch.get_loops("B")[0]
    for method in ("parallel", "vectorize"):
        refused(sch, "loop 'again' only repeats block 'B'", method, loop)
    sch.bind(loop, "threadIdx.x")  # threads may write the same values
    sch = schedule(SUMMED_AGAIN)
    loop = sch.get_loops("C")[0]
    for method, args in (("parallel", ()), ("bind", ("threadIdx.x",))):
        refused(sch, "loop 'again' only repeats block 'C'", method, loop, *args)
    sch = schedule(SUMMED_AGAIN, enable_check=False)
    sch.parallel(sch.get_loops("C")[0])


def test_rows_that_overlap_are_not_summed_at_the_same_time() -> None:
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
    i, h, _ = sch.get_loops("B")
    refused(sch, "run the same instances", "parallel", i)
    sch.parallel(h)  # while i stands, no row is run twice
    check_same(sch, text)


@pytest.mark.parametrize("factor", [2304, 96 * 7, 1000, 37])
def test_parts_of_fused_loops_run_in_parallel(factor: Any) -> None:
    """However the parts lie to the digits that block variables are, no two run one instance."""
    a = te.placeholder((3, 64, 96), name="A")
    double = te.compute((3, 64, 96), lambda i, j, k: a[i, j, k] * 2.0, name="B")
    sch = Schedule(te.create_prim_func([a, double]))
    outer, _ = sch.split(sch.fuse(*sch.get_loops("B")), [None, factor])
    sch.parallel(outer)
    assert sch.get(outer).kind == "parallel"


@pytest.mark.parametrize(
    ("shape", "factor"),
    [
        ((8, 256, 105, 105), 16128), ((3, 175, 184, 7), 16112), ((19, 213, 8), 4048),
        ((256, 218, 112), 1008), ((7, 92, 60), 1840), ((5, 7, 11, 13), 91 * 5), ((4, 6, 10), 25),
    ],
)  # fmt: skip
def test_digits_of_which_some_are_simpler_than_others(shape: tuple[int, ...], factor: int) -> None:
    """`(i * 4048 + j) // 1704` stands beside `j % 8`: still each instance is run once."""
    a = te.placeholder(shape, name="A")
    double = te.compute(shape, lambda *i: a[i] * 2.0, name="B")
    sch = Schedule(te.create_prim_func([a, double]))
    outer, _ = sch.split(sch.fuse(*sch.get_loops("B")), [None, factor])
    sch.parallel(outer)
    assert sch.get(outer).kind == "parallel"


@pytest.mark.parametrize(
    ("shape", "factor"),
    [((7, 47, 112), 784), ((92, 60), 1840), ((19, 213, 8), 4048), ((6, 10, 4), 24), ((6, 10), 16)],
)
def test_reductions_over_such_digits_change_places_with_loops(
    shape: tuple[int, ...], factor: int
) -> None:
    a = te.placeholder((3, *shape), name="A")
    k = te.reduce_axis((0, 3), name="k")
    total = te.compute(shape, lambda *i: te.sum(a[(k.var, *i)], axis=k), name="B")
    func = te.create_prim_func([a, total])
    sch = Schedule(func)
    *loops, depth = sch.get_loops("B")
    outer, inner = sch.split(sch.fuse(*loops), [None, factor])
    sch.reorder(outer, depth, inner)
    sch.parallel(outer)
    check_same(sch, func)
