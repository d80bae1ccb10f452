"""parallel, vectorize, unroll, bind, annotate, unannotate."""

from __future__ import annotations

import pytest

from schedule.common import ELEMENTWISE, MATMUL, check_same, check_trace, refused, schedule


@pytest.mark.parametrize("method", ["parallel", "vectorize", "unroll"])
def test_kinds(method):
    sch = schedule(ELEMENTWISE)
    i, j = sch.get_loops("B")
    getattr(sch, method)(i)
    kind = {"vectorize": "vectorized", "unroll": "unrolled"}.get(method, method)
    assert sch.get(i).kind == kind and sch.get(j).kind == "serial"
    check_trace(sch, ELEMENTWISE)
    check_same(sch, ELEMENTWISE)


@pytest.mark.parametrize("axis", ["blockIdx.x", "threadIdx.z", "vthread", "vthread.y"])
def test_bind(axis):
    sch = schedule(MATMUL)
    i, _, _ = sch.get_loops("C")
    sch.bind(i, axis)
    assert sch.get(i).thread_binding.thread_tag == axis
    check_trace(sch, MATMUL)


def test_reduction_loops():
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


def test_dataflow_that_is_not_compact():
    sch = schedule(ORDERED)
    (i,) = sch.get_loops("A")
    error = refused(sch, "both reads and writes 'A'", "parallel", i)
    assert "here" in str(error)
    sch = schedule(ORDERED, enable_check=False)
    sch.parallel(sch.get_loops("A")[0])


def test_annotate():
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
