"""Every primitive: what it accepts is proven to be the same, on programs of all sorts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import sparse_programs as programs
from schedule.moving import BLUR
from schedule.random_steps import convolution, gathered, layer_norm, matmul, softmax, transposed
from schedule.verify.programs import program
from tileloom import Schedule
from tileloom import compute as te
from tileloom.schedule.instruction import kinds
from tileloom.script import parse
from tileloom.tir import PrimFunc

pytest.importorskip("islpy")

Steps = Callable[[Schedule], Any]


def product() -> PrimFunc:
    """A matrix product without anything after it."""
    a, b = te.placeholder((6, 8), name="A"), te.placeholder((8, 16), name="B")
    k = te.reduce_axis((0, 8), "k")
    c = te.compute((6, 16), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    return te.create_prim_func([a, b, c])


def dots() -> PrimFunc:
    """Rows times rows, for an intrinsic."""
    a, b = te.placeholder((6, 32), name="A"), te.placeholder((3, 32), name="B")
    k = te.reduce_axis((0, 32), "k")
    c = te.compute((6, 3), lambda i, j: te.sum(a[i, k] * b[j, k], axis=k), name="C")
    return te.create_prim_func([a, b, c])


def blur() -> PrimFunc:
    found = parse(BLUR)
    assert isinstance(found, PrimFunc)
    return found


def doubled() -> PrimFunc:
    """A block that changes what it is given."""
    text = 'for i in range(8):\n    with T.block("A"):\n'
    return program("A: 8", text + "        v = T.axis.spatial(8, i)\n        A[v] = A[v] * 2.0\n")


def rows_of_elements() -> PrimFunc:
    """A block of each row that holds one of each element."""
    text = """
    for i in range(8):
        with T.block("row"):
            vi = T.axis.spatial(8, i)
            for j in range(6):
                with T.block("element"):
                    vj = T.axis.spatial(6, j)
                    B[vi, vj] = A[vi, vj] * 2.0
"""
    return program("A: 8, 6; B: 8, 6", text)


def coordinates() -> PrimFunc:
    """A program over coordinates."""
    return programs.csr_element_wise


def argmax() -> PrimFunc:
    """Two results at a time, each made with the other."""
    text = """
    for i, k in T.grid(4, 6):
        with T.block("best"):
            v, r = T.axis.remap("SR", [i, k])
            with T.init():
                I[v] = -1
                M[v] = T.min_value("float32")
            number: T.int32 = T.Select(M[v] >= X[v, r], I[v], r)
            value: T.float32 = T.Select(M[v] >= X[v, r], M[v], X[v, r])
            I[v] = number
            M[v] = value
    """
    return program("X: 4, 6; I: 4 int32; M: 4", text)


def half_precise() -> PrimFunc:
    """An intermediate buffer that is wide enough for all that it holds."""
    x = te.placeholder((6, 4), "float16", "X")
    t = te.compute((6, 4), lambda i, j: x[i, j] * x[i, j], name="T")
    y = te.compute((6, 4), lambda i, j: t[i, j] + x[i, j], name="Y")
    return te.create_prim_func([x, y])


def tile(sch: Schedule, block: str, size: int = 2) -> list[Any]:
    """Two levels of every loop, the outer ones outside."""
    pairs = [sch.split(loop, [None, size]) for loop in sch.get_loops(block)]
    outer, inner = [p[0] for p in pairs], [p[1] for p in pairs]
    sch.reorder(*outer, *inner)
    return [*outer, *inner]


def loop(sch: Schedule, block: str, position: int) -> Any:
    return sch.get_loops(block)[position]


def rolled(sch: Schedule) -> None:
    outer, _ = sch.split(loop(sch, "C", 0), [None, 4])
    sch.compute_at("B", outer)
    sch.rolling_buffer("B", 0)


def tensorized(sch: Schedule) -> None:
    _, _, k = sch.get_loops("C")
    _, inner = sch.split(k, [None, 8])
    sch.decompose_reduction("C", loop(sch, "C", 2))
    sch.tensorize(inner, "dot_8_f32")


def staged(sch: Schedule) -> None:
    """Tiles of the operands and of the result in memory that threads share."""
    outer = tile(sch, "C", 2)
    sch.read_at(outer[2], "C", 0, "shared")
    sch.read_at(outer[2], "C", 1, "shared")
    sch.write_at(outer[1], "C", 0, "shared")


def factored(axis: int, size: int = 3) -> Steps:
    def steps(sch: Schedule) -> None:
        outer, _ = sch.split(loop(sch, "C", 2), [None, size])
        sch.rfactor(outer, axis)

    return steps


def one_pass(sch: Schedule) -> None:
    """Maximum and sum of a softmax, without what is between them."""
    sch.compute_inline("E")
    sch.reduce_online("T", "S")


def sampled(sch: Schedule) -> None:
    i, j, _ = sch.get_loops("C")
    sch.split(i, sch.sample_perfect_tile(i, 2))
    sch.split(j, sch.sample_partitioned_tile(j, 3, 1, 2))


def chosen(sch: Schedule) -> None:
    sch.unroll(sch.split(loop(sch, "C", 1), [None, sch.sample_categorical([2, 3], [0.5, 0.5])])[1])


def located(sch: Schedule) -> None:
    sch.compute_at("C", sch.sample_compute_location("C", decision=0))


def swapped(*axes: Any) -> tuple[Any, ...]:
    return tuple(reversed(axes))


def in_pairs(*axes: Any) -> tuple[Any, ...]:
    return (*axes[:-1], axes[-1] // 2, axes[-1] % 2)


def bound(sch: Schedule) -> None:
    i, j, k = sch.get_loops("C")
    sch.bind(i, "blockIdx.x")
    sch.bind(j, "threadIdx.y")
    sch.bind(k, "threadIdx.x")


def fused_at(block: str) -> Steps:
    return lambda s: s.fuse(*s.get_loops(block)[:2])


def looked_up(method: str, start: str = "E") -> Steps:
    def steps(sch: Schedule) -> None:
        found = getattr(sch, method)(start)
        assert found
        if method != "get_loops":
            sch.parallel(sch.get_loops(found[-1])[0])

    return steps


CASES: dict[str, list[tuple[Callable[[], PrimFunc], Steps]]] = {
    "transform_layout": [
        (matmul, lambda s: s.transform_layout("C", ("write", 0), in_pairs)),
        (matmul, lambda s: s.transform_layout("C", ("read", 0), swapped)),  # a parameter
        (softmax, lambda s: s.transform_layout("Y", ("write", 0), in_pairs)),  # the result
        (convolution, lambda s: s.transform_layout("P", ("write", 0), swapped)),
        (layer_norm, lambda s: s.transform_layout("D", ("write", 0), swapped)),
        (gathered, lambda s: s.transform_layout("G", ("write", 0), swapped)),
        (gathered, lambda s: s.transform_layout("G", "X", in_pairs)),  # indirect, a parameter
        (matmul, lambda s: s.transform_layout("C", "A", lambda i, k: (i, k // 2, k % 2),
                                              pad_value=0.0)),  # a parameter with padding
        (matmul, lambda s: s.transform_layout("C", ("write", 0), lambda i, j: (i // 4, j, i % 4),
                                              pad_value=0.0)),
    ],
    "reindex": [
        (convolution, lambda s: s.reindex("Y", ("read", 0))),
        (convolution, lambda s: s.reindex("Y", ("write", 0))),
        (gathered, lambda s: s.reindex("G", ("read", 1))),
        (transposed, lambda s: s.reindex("T", ("read", 0))),
    ],
    "add_unit_loop": [
        (softmax, lambda s: s.add_unit_loop("E")),
        (matmul, lambda s: s.add_unit_loop(loop(s, "C", 2))),
    ],
    "annotate": [(matmul, lambda s: s.annotate("C", "pragma_key", 1))],
    "unannotate": [
        (matmul, lambda s: (s.annotate("C", "pragma_key", 1), s.unannotate("C", "pragma_key"))),  # type: ignore[func-returns-value]
    ],
    "annotate_buffer_access": [
        (transposed, lambda s: s.annotate_buffer_access(
            "Y", 0, "write", lambda i, j: ((i, i + 1), (j, j + 1)))),
    ],
    "bind": [
        (matmul, lambda s: s.bind(loop(s, "C", 0), "blockIdx.x")),
        (product, bound),
        (softmax, lambda s: s.bind(loop(s, "S", 1), "threadIdx.x")),
    ],
    "blockize": [
        (product, lambda s: s.blockize(tile(s, "C")[3])),
        (product, lambda s: s.blockize(loop(s, "C", 1))),
        (softmax, lambda s: s.blockize(loop(s, "S", 1))),
        (convolution, lambda s: s.blockize(loop(s, "P", 1))),
        (gathered, lambda s: s.blockize(loop(s, "G", 0))),
    ],
    "cache_index": [
        (transposed, lambda s: s.cache_index("Y", "local", 0)),
        (convolution, lambda s: s.cache_index("P", "global", 0)),
        (gathered, lambda s: s.cache_index("G", "local", 0)),
    ],
    "cache_inplace": [(doubled, lambda s: s.cache_inplace("A", 0, "local"))],
    "cache_read": [
        (matmul, lambda s: s.compute_at(s.cache_read("C", 0, "local"), loop(s, "C", 0))),
        (gathered, lambda s: s.cache_read("G", 0, "global")),
        (gathered, lambda s: s.cache_read("G", 1, "local")),
        (softmax, lambda s: s.cache_read("S", 0, "local")),
        (convolution, lambda s: s.cache_read("P", 0, "global")),
    ],
    "cache_write": [
        (matmul, lambda s: s.cache_write("D", 0, "local")),
        (product, lambda s: s.reverse_compute_at(s.cache_write("C", 0, "local"),
                                                 tile(s, "C")[1])),
        (layer_norm, lambda s: s.cache_write("V", 0, "local")),
        (gathered, lambda s: s.cache_write("G", 0, "global")),
    ],
    "compute_inline": [
        (convolution, lambda s: s.compute_inline("P")),
        (softmax, lambda s: s.compute_inline("E")),
        (layer_norm, lambda s: s.compute_inline("D")),
        (gathered, lambda s: s.compute_inline("G")),
        (transposed, lambda s: s.compute_inline("T")),
    ],
    "reverse_compute_inline": [
        (transposed, lambda s: s.reverse_compute_inline("Y")),
        (gathered, lambda s: s.reverse_compute_inline("Y")),
        (convolution, lambda s: s.reverse_compute_inline(s.cache_write("P", 0, "local"))),
    ],
    "compute_at": [
        (matmul, lambda s: s.compute_at("C", loop(s, "D", 0))),
        (convolution, lambda s: s.compute_at("P", tile(s, "Y")[1])),
        (softmax, lambda s: s.compute_at("T", loop(s, "E", 0))),
        (layer_norm, lambda s: s.compute_at("V", loop(s, "Y", 0), True)),
        (blur, lambda s: s.compute_at("B", s.split(loop(s, "C", 0), [None, 4])[0])),
        (gathered, lambda s: s.compute_at("G", loop(s, "Y", 1))),
    ],
    "reverse_compute_at": [
        (matmul, lambda s: s.reverse_compute_at("D", loop(s, "C", 1))),
        (softmax, lambda s: s.reverse_compute_at("S", loop(s, "E", 0))),
        (transposed, lambda s: s.reverse_compute_at("Y", loop(s, "T", 1))),
        (gathered, lambda s: s.reverse_compute_at("Y", loop(s, "G", 0))),
    ],
    "decompose_padding": [
        (convolution, lambda s: s.decompose_padding("P", loop(s, "P", 0))),
        (convolution, lambda s: s.decompose_padding("P", loop(s, "P", 2))),
    ],
    "decompose_reduction": [
        (matmul, lambda s: s.decompose_reduction("C", loop(s, "C", 2))),
        (product, lambda s: s.decompose_reduction("C", tile(s, "C")[2])),
        (softmax, lambda s: s.decompose_reduction("T", loop(s, "T", 0))),
        (convolution, lambda s: s.decompose_reduction("Y", loop(s, "Y", 3))),
    ],
    "enter_postproc": [(matmul, lambda s: s.enter_postproc())],
    "reverse_cache_read": [
        (matmul, lambda s: s.reverse_cache_read("C", 0, "shared")),
        (gathered, lambda s: s.reverse_cache_read("G", 0, "local", [1, 0])),
    ],
    "reverse_cache_write": [
        (matmul, lambda s: s.reverse_cache_write("C", 0, "shared", [1, 0])),
        (softmax, lambda s: s.reverse_cache_write("E", 0, "local")),
    ],
    "split": [
        (matmul, lambda s: s.split(loop(s, "C", 2), [None, 2])),
        (convolution, lambda s: s.split(loop(s, "Y", 2), [2, None, 2])),
        (softmax, lambda s: s.split(loop(s, "S", 1), [None, 3])),
        (layer_norm, lambda s: tile(s, "D", 4)),
        (gathered, lambda s: s.split(loop(s, "G", 0), [4, None])),
    ],
    "fuse": [
        (matmul, fused_at("C")),
        (convolution, lambda s: s.fuse(*s.get_loops("Y"))),
        (softmax, fused_at("S")),
        (transposed, fused_at("T")),
        (gathered, fused_at("G")),
    ],
    "get_block": [(matmul, lambda s: s.parallel(s.get_loops(s.get_block("C"))[0]))],
    "get_child_blocks": [(softmax, looked_up("get_child_blocks", "root"))],
    "get_consumers": [(softmax, looked_up("get_consumers"))],
    "get_loops": [(softmax, looked_up("get_loops"))],
    "get_output_blocks": [(softmax, looked_up("get_output_blocks", "root"))],
    "get_producers": [(softmax, looked_up("get_producers"))],
    "hide_buffer_access": [(gathered, lambda s: s.hide_buffer_access("G", "read", [1]))],
    "lift_loop": [(rows_of_elements, lambda s: s.lift_loop(loop(s, "element", 0)))],
    "loop_partition": [
        (matmul, lambda s: s.loop_partition(loop(s, "C", 0), [2, None])),
        (convolution, lambda s: s.loop_partition(loop(s, "P", 1), [1, 7, None])),
        (softmax, lambda s: s.loop_partition(loop(s, "S", 1), [3, None])),
        (gathered, lambda s: s.loop_partition(loop(s, "G", 0), [2, 2, None])),
    ],
    "merge": [
        (softmax, lambda s: s.merge(loop(s, "T", 0), loop(s, "E", 0))),
        (layer_norm, lambda s: s.merge(loop(s, "D", 0), loop(s, "V", 0))),
        (gathered, lambda s: s.merge(loop(s, "G", 1), loop(s, "Y", 1))),
    ],
    "pad_einsum": [
        (matmul, lambda s: s.pad_einsum("C", [4, 4, 4])),
        (product, lambda s: s.pad_einsum("C", [4, 3, 5])),
    ],
    "parallel": [
        (matmul, lambda s: s.parallel(loop(s, "C", 0))),
        (gathered, lambda s: s.parallel(loop(s, "G", 0))),
        (softmax, lambda s: s.parallel(loop(s, "Y", 1))),
    ],
    "read_at": [
        (product, staged),
        (convolution, lambda s: s.read_at(loop(s, "Y", 1), "Y", 0, "shared")),
        (transposed, lambda s: s.read_at(loop(s, "Y", 0), "Y", 0, "shared")),
    ],
    "write_at": [
        (product, staged),
        (matmul, lambda s: s.write_at(loop(s, "C", 1), "C", 0, "shared")),
        (softmax, lambda s: s.write_at(loop(s, "E", 0), "E", 0, "shared")),
    ],
    "reindex_cache_read": [
        (matmul, lambda s: s.reindex_cache_read("C", 0, "shared", lambda i, j, k: (k, i))),
        (convolution, lambda s: s.reindex_cache_read(
            "Y", 0, "local", lambda o, i, j, c, p, q: (c, i + p, j, q))),
    ],
    "reindex_cache_write": [
        (matmul, lambda s: s.reindex_cache_write("C", 0, "shared", lambda i, j, k: (j, i))),
        (softmax, lambda s: s.reindex_cache_write("E", 0, "local", lambda i, j: (j, i, j % 4))),
    ],
    "reorder": [
        (matmul, lambda s: s.reorder(*reversed(s.get_loops("C")))),
        (convolution, lambda s: s.reorder(*reversed(s.get_loops("Y")))),
        (softmax, lambda s: s.reorder(*reversed(s.get_loops("S")))),
        (gathered, lambda s: s.reorder(*reversed(s.get_loops("G")))),
    ],
    "reorder_block_iter_var": [
        (matmul, lambda s: s.reorder_block_iter_var("C", [2, 1, 0])),
        (convolution, lambda s: s.reorder_block_iter_var("Y", [5, 0, 4, 1, 3, 2])),
        (softmax, lambda s: s.reorder_block_iter_var("S", [1, 0])),
        (gathered, lambda s: s.reorder_block_iter_var("G", [1, 0])),
    ],
    "rfactor": [
        (matmul, factored(0)),
        (product, factored(-1, 2)),
        (product, lambda s: s.rfactor(loop(s, "C", 2), 1)),
        (softmax, lambda s: s.rfactor(s.split(loop(s, "T", 1), [None, 3])[0], 0)),
        (softmax, lambda s: s.rfactor(loop(s, "S", 1), 0)),
        (layer_norm, lambda s: s.rfactor(s.split(loop(s, "V", 1), [None, 4])[1], 0)),
        (convolution, lambda s: s.rfactor(loop(s, "Y", 3), 0)),
    ],
    "rolling_buffer": [(blur, rolled)],
    "sample_categorical": [(matmul, chosen)],
    "sample_compute_location": [(matmul, located)],
    "sample_perfect_tile": [(product, sampled)],
    "sample_partitioned_tile": [(product, sampled)],
    "set_axis_separator": [
        (softmax, lambda s: s.set_axis_separator("E", ("write", 0), [1])),
    ],
    "set_scope": [
        (softmax, lambda s: s.set_scope("E", 0, "shared")),
        (convolution, lambda s: s.set_scope("P", 0, "local")),
    ],
    "storage_align": [(matmul, lambda s: s.storage_align("C", 0, 0, 8, 1))],
    "tensorize": [(dots, tensorized)],
    "transform_block_layout": [
        (transposed, lambda s: s.transform_block_layout("T", swapped)),
        (softmax, lambda s: s.transform_block_layout("E", lambda i, j: (i * 8 + j,))),
        (matmul, lambda s: s.transform_block_layout("C", lambda i, j, k: (j, i, k))),
        (gathered, lambda s: s.transform_block_layout("G", in_pairs)),
    ],
    "unroll": [(matmul, lambda s: s.unroll(loop(s, "C", 2)))],
    "unsafe_hide_buffer_access": [
        (gathered, lambda s: s.unsafe_hide_buffer_access("G", "read", [1])),
    ],
    "unsafe_set_dtype": [(half_precise, lambda s: s.unsafe_set_dtype("T", 0, "float32"))],
    "vectorize": [
        (matmul, lambda s: s.vectorize(loop(s, "D", 1))),
        (gathered, lambda s: s.vectorize(loop(s, "G", 1))),
    ],
}  # fmt: skip

#: What keeps a result from the callers of a function.
CHANGES: dict[str, tuple[Callable[[], PrimFunc], Steps]] = {
    "match_to_alloc": (rows_of_elements, lambda s: s.match_to_alloc("row", 0)),
}

NO_INSTANCES = "an iteration over coordinates has no loops and blocks yet"

#: What is accepted and cannot be proven, and why.
UNDECIDED: dict[str, tuple[Callable[[], PrimFunc], Steps, str]] = {
    "rfactor": (
        argmax,
        lambda s: s.rfactor(s.split(loop(s, "best", 1), [None, 3])[0], 1),
        "which one of several equal maxima is found depends on the order",
    ),
    "reduce_online": (
        softmax,
        one_pass,
        "terms are relative to the largest so far, which no other order of the terms has",
    ),
    "get_sparse_iteration": (
        coordinates,
        lambda s: s.get_sparse_iteration("csr_element_wise"),
        NO_INSTANCES,
    ),
    "sparse_fuse": (
        coordinates,
        lambda s: s.sparse_fuse("csr_element_wise", ["i", "j"]),
        NO_INSTANCES,
    ),
    "sparse_reorder": (
        coordinates,
        lambda s: s.sparse_reorder("csr_element_wise", ["i", "j"]),
        NO_INSTANCES,
    ),
    "unsafe_set_dtype": (
        softmax,
        lambda s: s.unsafe_set_dtype("E", 0, "float16"),
        "a narrower type rounds: the results are other ones",
    ),
}


@pytest.mark.parametrize("method", kinds())
def test_accepted_steps_are_proven(method: str) -> None:
    known = CASES.get(method) or method in UNDECIDED or method in CHANGES
    assert known, f"say here on which programs to try {method}"
    for make, steps in CASES.get(method, ()):
        sch = Schedule(make())
        steps(sch)
        assert sch.trace is not None
        assert method in {inst.kind.method for inst in sch.trace.insts}
        report = sch.verify()
        assert report.ok, f"{make.__name__}: {report}\n{sch.mod}"


def test_what_callers_no_longer_see() -> None:
    for method, (make, steps) in CHANGES.items():
        sch = Schedule(make())
        steps(sch)
        report = sch.verify()
        assert report.state == "wrong" and "'B'" in str(report), method


@pytest.mark.parametrize("method", UNDECIDED)
def test_what_cannot_be_proven_is_said_to_be_unknown(method: str) -> None:
    make, steps, _ = UNDECIDED[method]
    sch = Schedule(make())
    steps(sch)
    assert sch.verify().state == "unknown"
