"""Loops that ask for vectors by annotation: tails, sums in lanes, columns, tiles, and refusals."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tileloom import te
from tileloom.driver import build
from tileloom.expr import Ramp, Var, post_order
from tileloom.lower import lower
from tileloom.schedule import Schedule
from tileloom.script import parse
from tileloom.script import tir as T
from tileloom.tir import (
    BufferLoad,
    BufferStore,
    PrimFunc,
    collect,
    collect_exprs,
    pre_order,
    stmt_exprs,
)  # fmt: skip
from tower import check_lowering

EXTENTS = (1, 2, 3, 7, 15, 16, 17, 63, 64, 65, 100, 129)


def has_vectors(func: PrimFunc) -> bool:
    return any(
        isinstance(node, Ramp)
        for stmt in pre_order(lower(func).body)
        for expr in stmt_exprs(stmt)
        for node in post_order(expr)
    )


def annotated(func: PrimFunc, block: str, loop: int = -1, **notes: int) -> PrimFunc:
    sch = Schedule(func)
    for key, value in notes.items():
        sch.annotate(sch.get_loops(block)[loop], key, value)
    return sch.mod["main"]


def total(n: Any, reduce: Any = te.sum, kind: str = "float32") -> PrimFunc:
    a = te.placeholder((3, n), kind, name="A")
    k = te.reduce_axis((0, n), name="k")
    return te.create_prim_func([a, te.compute((3,), lambda i: reduce(a[i, k], axis=k), name="B")])


@pytest.mark.parametrize("lanes", [2, 4, 16])
@pytest.mark.parametrize("kind", ["int8", "uint16", "int32", "int64"])
def test_sums_of_integers_wrap(lanes: int, kind: str) -> None:
    func = annotated(total(37, te.sum, kind), "B", vector_lanes=lanes)
    value = np.random.default_rng(0).integers(np.iinfo(kind).max, size=(3, 37)).astype(kind)
    check_lowering(func, [value, np.empty(3, kind)], [None, value.sum(1, dtype=kind)])


#: Whose product LLVM joins with its sum, and then sees that elements are 0 to 7.
SMALL_NUMBERS = """
import numpy as np
from tileloom.driver import show_stage
from tileloom.graph import ops
from tileloom.graph.nodes import Graph, Tensor, tensor_type

x = Tensor(tensor_type((4, 1), "int32"), "x")
product = ops.matmul(x, ops.constant(np.arange(-2, 3, dtype="int32")[None]))
small = ops.relu(ops.reshape(ops.minimum(ops.mul(x, product), 7), (20,)))
graph = Graph([x], [ops.sum(small, (0,))])
show_stage(graph, "asm", "cpu -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512")
"""


def test_sums_of_small_integers_do_not_end_the_process() -> None:
    """As LLVM does where it finds late that it could add bytes."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3] / "src")}
    subprocess.run([sys.executable, "-c", SMALL_NUMBERS], env=environment, check=True)


@pytest.mark.parametrize("n", EXTENTS)
@pytest.mark.parametrize("parts", [1, 4])
def test_sums_of_rows(n: int, parts: int) -> None:
    func = annotated(total(n), "B", vector_lanes=16, vector_parts=parts)
    assert has_vectors(func) or n == 1
    value = np.random.default_rng(0).integers(-9, 9, (3, n)).astype("float32")
    check_lowering(func, [value, np.empty(3, "float32")], [None, value.sum(1)])


@pytest.mark.parametrize(
    "reduce", [te.sum, te.max, te.min, te.prod], ids=["sum", "max", "min", "prod"]
)
@pytest.mark.parametrize("kind", ["float32", "int32", "int64", "float64"])
def test_reductions_start_from_what_leaves_others_unchanged(reduce: Any, kind: str) -> None:
    func = annotated(total(19, reduce, kind), "B", vector_lanes=8, vector_parts=2)
    value = np.random.default_rng(0).integers(-3, 3, (3, 19)).astype(kind)
    value[value == 0] = 1
    name = {te.sum: "sum", te.max: "max", te.min: "min", te.prod: "prod"}[reduce]
    wanted = getattr(np, name)(value, axis=1).astype(kind)
    check_lowering(func, [value, np.empty(3, kind)], [None, wanted])


def test_not_a_number_and_infinity() -> None:
    value = np.ones((3, 40), "float32")
    value[0, 39], value[1, 0] = np.nan, np.inf
    for reduce, wanted in ((te.sum, [np.nan, np.inf, 40]), (te.max, [np.nan, np.inf, 1])):
        kernel = build(annotated(total(40, reduce), "B", vector_lanes=16, vector_parts=2))
        result = np.empty(3, "float32")
        kernel(value, result)
        if reduce is te.sum:
            np.testing.assert_array_equal(result, np.array(wanted, np.float32))
        else:
            np.testing.assert_array_equal(result[1:], np.array(wanted[1:], np.float32))


@pytest.mark.parametrize("lanes", [4, 16])
def test_sizes_that_are_not_known(lanes: int) -> None:
    func = annotated(total(Var("n")), "B", vector_lanes=lanes, vector_parts=4)
    kernel = build(func)
    for size in (0, *EXTENTS):
        value = np.random.default_rng(size).integers(-9, 9, (3, size)).astype("float32")
        result = np.full(3, 7, "float32")
        kernel(value, result)
        np.testing.assert_array_equal(result, value.sum(1))


@pytest.mark.parametrize("n", EXTENTS)
def test_formulas(n: int) -> None:
    a = te.placeholder((n,), name="A")
    func = te.create_prim_func([a, te.compute((n,), lambda i: T.exp(a[i]) + 1.0, name="B")])
    func = annotated(func, "B", vector_lanes=16)
    value = np.random.default_rng(0).standard_normal(n).astype("float32")
    check_lowering(func, [value, np.empty(n, "float32")], [None, np.exp(value) + 1])


@pytest.mark.parametrize("columns", [1, 5, 16, 43, 64, 100, 300, 385])
def test_columns_of_sums(columns: int) -> None:
    k: Any
    a, k = te.placeholder((9, columns), name="A"), te.reduce_axis((0, 9), name="k")
    func = te.create_prim_func(
        [a, te.compute((columns,), lambda j: te.sum(a[k, j], axis=k), name="B")]
    )
    sch = Schedule(func)
    j, k = sch.get_loops("B")
    sch.reorder(k, j)
    sch.annotate(j, "vector_lanes", 16)
    value = np.random.default_rng(0).integers(-9, 9, (9, columns)).astype("float32")
    check_lowering(sch.mod["main"], [value, np.empty(columns, "float32")], [None, value.sum(0)])
    assert ("columns" in str(lower(sch.mod["main"]))) is (1 < columns <= 384)


@pytest.mark.parametrize("columns", [5, 256, 384, 500, 8192, 8200])
def test_rows_that_are_added_several_at_a_time(columns: int) -> None:
    k: Any
    a, k = te.placeholder((8, columns), name="A"), te.reduce_axis((0, 8), name="k")
    func = te.create_prim_func(
        [a, te.compute((columns,), lambda j: te.sum(a[k, j], axis=k), name="B")]
    )
    sch = Schedule(func)
    j, k = sch.get_loops("B")
    some, few = sch.split(k, [None, 4])
    sch.reorder(some, j, few)
    sch.unroll(few)
    sch.annotate(j, "vector_lanes", 16)
    value = np.random.default_rng(0).integers(-9, 9, (8, columns)).astype("float32")
    check_lowering(sch.mod["main"], [value, np.empty(columns, "float32")], [None, value.sum(0)])
    flat = lower(sch.mod["main"])
    assert ("columns" in str(flat)) is (columns <= 8192)
    loads = [load for s in collect(flat.body, BufferStore) for load in collect_exprs(s, BufferLoad)]
    assert sum(load.buffer.name == "A" for load in loads) <= 64


@pytest.mark.parametrize("depth", EXTENTS)
def test_rows_that_are_read_several_at_a_time(depth: int) -> None:
    i: Any
    a, k = te.placeholder((8, depth), name="A"), te.reduce_axis((0, depth), name="k")
    func = te.create_prim_func([a, te.compute((8,), lambda i: te.sum(a[i, k], axis=k), name="B")])
    sch = Schedule(func)
    i, loop = sch.get_loops("B")
    some, row = sch.split(i, [None, 4])
    sch.reorder(some, loop, row)
    sch.unroll(row)
    sch.annotate(loop, "vector_lanes", 16)
    value = np.random.default_rng(0).integers(-9, 9, (8, depth)).astype("float32")
    check_lowering(sch.mod["main"], [value, np.empty(8, "float32")], [None, value.sum(1)])
    assert has_vectors(sch.mod["main"]) == (depth > 1)


@pytest.mark.parametrize("n", [0, 1, 16, 100, 499, 500, 731])
def test_rows_of_a_length_that_is_not_known(n: int) -> None:
    """Many columns are a loop: it does not matter how many there may be."""
    func = parse("""
@T.prim_func
def main(A: T.Buffer((12, 731), "float32"), B: T.Buffer((731,), "float32"), n: T.int32):
    for k in range(3):
        for j in T.serial(T.min(n, 500), annotations={"vector_lanes": 16}):
            for r in T.unroll(4):
                B[j] = B[j] + A[k * 4 + r, j]
""")
    assert isinstance(func, PrimFunc)
    made = lower(func)
    assert "columns" in str(made) and str(made).count("vstore") < 4
    rng = np.random.default_rng(2)
    rows = rng.integers(-9, 9, (12, 731)).astype("float32")
    before = rng.integers(-9, 9, 731).astype("float32")
    after = before.copy()
    after[: min(n, 500)] += rows.sum(0)[: min(n, 500)]
    check_lowering(func, [rows, before, n], [None, after, None])


def sums_below(init: float, where: str, other: int = 0) -> Any:
    """Rows of 6 x 20 added to rows that begin as `init`, where a condition holds."""
    return parse(f"""
@T.prim_func
def main(A: T.Buffer((6, 20), "float32"), B: T.Buffer((24,), "float32")):
    for j in range(20):
        B[j + {other}] = T.float32({init})
    for k in range(6):
        for j in T.serial(20, annotations={{"vector_lanes": 16}}):
            B[j] = B[j] + T.if_then_else({where}, A[k, j], T.float32(0))
""")


CONDITIONS = {
    "k > 1": lambda k, j, a: k > 1,
    "k > 1 and j < 18": lambda k, j, a: (k > 1) & (j < 18),
    "j < 18": lambda k, j, a: j < 18,
    "A[k, j] > 0": lambda k, j, a: a > 0,
}


@pytest.mark.parametrize("other", [0, 3])
@pytest.mark.parametrize("init", [0.0, 2.0])
@pytest.mark.parametrize("where", CONDITIONS)
def test_sums_begin_with_what_is_stored_before(init: float, where: str, other: int) -> None:
    func = sums_below(init, where, other)
    a = np.random.default_rng(0).integers(-9, 9, (6, 20)).astype("float32")
    before = np.arange(24, dtype="float32")
    after = before.copy()
    after[other : other + 20] = init
    k, j = np.mgrid[:6, :20]
    after[:20] += (a * CONDITIONS[where](k, j, a)).sum(0)
    check_lowering(func, [a, before], [None, after])
    text = str(lower(func))
    assert ("for j in range(20)" in text) is (other != 0)  # nothing is stored twice
    assert ("if 1 < k:" in text) is where.startswith("k > 1")


def test_several_sums_and_a_store_in_one_loop() -> None:
    n = 37
    a = te.placeholder((n,), name="A")
    j, k = te.reduce_axis((0, n), name="j"), te.reduce_axis((0, n), name="k")
    b = te.compute((n,), lambda i: a[i] * 2.0, name="B")
    s = te.compute((1,), lambda i: te.sum(b[j], axis=j), name="S")
    m = te.compute((1,), lambda i: te.max(a[k], axis=k), name="M")
    sch = Schedule(te.create_prim_func([a, b, s, m]))
    for name in "SM":
        sch.reorder(*reversed(sch.get_loops(name)))
    loop = sch.merge(sch.get_loops("B")[0], sch.get_loops("S")[0], sch.get_loops("M")[0])
    sch.annotate(loop, "vector_lanes", 8)
    sch.annotate(loop, "vector_parts", 2)
    assert has_vectors(sch.mod["main"])
    value = np.random.default_rng(0).integers(-9, 9, n).astype("float32")
    results = [np.empty(n, "float32"), *(np.empty(1, "float32") for _ in range(2))]
    wanted = [None, value * 2, [value.sum() * 2], [value.max()]]
    check_lowering(sch.mod["main"], [value, *results], wanted)


# ---------------------------------------------------------------------------- tiles


@pytest.mark.parametrize(
    ("rows", "columns"), [(16, 16), (32, 48), (37, 50), (5, 7), (16, 3), (1, 40), (40, 1), (33, 17)]
)
def test_tiles_are_transposed(rows: int, columns: int) -> None:
    a, b = te.placeholder((columns, rows), name="A"), te.placeholder((rows, columns), name="B")
    c = te.compute((rows, columns), lambda i, j: a[j, i] * 2.0 + b[i, j], name="C")
    sch = Schedule(te.create_prim_func([a, b, c]))
    i, j = sch.get_loops("C")
    sch.annotate(i, "vector_tile", 16)
    sch.annotate(j, "vector_lanes", 16)
    assert ("transposed" in str(lower(sch.mod["main"]))) is (rows >= 16 and columns >= 16)
    rng = np.random.default_rng(0)
    x, y = (rng.integers(-9, 9, s).astype("float32") for s in ((columns, rows), (rows, columns)))
    result = np.empty((rows, columns), "float32")
    check_lowering(sch.mod["main"], [x, y, result], [None, None, x.T * 2 + y])


def test_tiles_below_other_loops() -> None:
    a = te.placeholder((3, 20, 33), name="A")
    b = te.compute((3, 33, 20), lambda n, i, j: a[n, j, i] + 1.0, name="B")
    sch = Schedule(te.create_prim_func([a, b]))
    _, i, j = sch.get_loops("B")
    sch.annotate(i, "vector_tile", 8)
    sch.annotate(j, "vector_lanes", 8)
    assert "transposed" in str(lower(sch.mod["main"]))
    value = np.random.default_rng(0).integers(-9, 9, (3, 20, 33)).astype("float32")
    result = np.empty((3, 33, 20), "float32")
    check_lowering(sch.mod["main"], [value, result], [None, value.transpose(0, 2, 1) + 1])


def test_nothing_to_turn() -> None:
    a = te.placeholder((20, 30), name="A")
    func = te.create_prim_func([a, te.compute((20, 30), lambda i, j: a[i, j] + 1.0, name="B")])
    func = annotated(annotated(func, "B", vector_lanes=16), "B", 0, vector_tile=16)
    value = np.random.default_rng(0).standard_normal((20, 30)).astype("float32")
    check_lowering(func, [value, np.empty_like(value)], [None, value + np.float32(1)])


@pytest.mark.parametrize("place", ["i", "j"])
def test_sums_are_not_transposed(place: str) -> None:
    func: Any = parse(f"""
@T.prim_func
def main(A: T.Buffer((32, 48), "float32"), S: T.Buffer((48,), "float32")):
    for i in T.serial(48, annotations={{"vector_tile": 16}}):
        for j in T.serial(32, annotations={{"vector_lanes": 16}}):
            S[{place}] = S[{place}] + A[j, i]
""")
    value = np.random.default_rng(0).integers(-9, 9, (32, 48)).astype("float32")
    sums = value.sum(0) if place == "i" else np.pad(value.sum(1), (0, 16))
    check_lowering(func, [value, np.zeros(48, "float32")], [None, sums])
    assert "transposed" not in str(lower(func))


# ---------------------------------------------------------------------------- refusals


def test_iterations_that_need_each_other_run_one_by_one() -> None:
    @T.prim_func
    def chain(A: T.Buffer((20,), "float32")) -> None:
        for i in T.serial(19, annotations={"vector_lanes": 8}):
            A[i + 1] = A[i] * T.float32(2)

    value = np.arange(1, 21).astype("float32")
    wanted = value[0] * 2 ** np.arange(20).astype("float32")
    check_lowering(chain, [value], [wanted])
    assert not has_vectors(chain)


def test_a_sum_that_is_read_on_the_way_is_no_sum_in_lanes() -> None:
    @T.prim_func
    def prefix(
        A: T.Buffer((20,), "float32"), S: T.Buffer((1,), "float32"), B: T.Buffer((20,), "float32")
    ) -> None:
        for i in T.serial(20, annotations={"vector_lanes": 8}):
            S[0] = S[0] + A[i]
            B[i] = S[0]

    value = np.arange(20).astype("float32")
    start = np.zeros(1, "float32")
    wanted = [None, [value.sum()], np.cumsum(value)]
    check_lowering(prefix, [value, start, np.empty(20, "float32")], wanted)
    assert not has_vectors(prefix)


def test_a_difference_is_no_sum() -> None:
    @T.prim_func
    def alternate(A: T.Buffer((20,), "float32"), S: T.Buffer((1,), "float32")) -> None:
        for i in T.serial(20, annotations={"vector_lanes": 8}):
            S[0] = A[i] - S[0]

    value = np.arange(20).astype("float32")
    wanted = np.float32(0)
    for part in value:
        wanted = part - wanted
    check_lowering(alternate, [value, np.zeros(1, "float32")], [None, [wanted]])
    assert not has_vectors(alternate)


def test_memory_of_each_iteration() -> None:
    """What is made and used within an iteration becomes a vector."""
    n = 37
    a = te.placeholder((n,), name="A")
    k = te.reduce_axis((0, n), name="k")
    b = te.compute((n,), lambda i: a[i] / 4.0, name="B")
    s = te.compute((1,), lambda i: te.sum(b[k], axis=k), name="S")
    c = te.compute((n,), lambda i: b[i] * b[i], name="C")
    sch = Schedule(te.create_prim_func([a, s, c]))
    sch.reorder(*reversed(sch.get_loops("S")))
    loop = sch.merge(sch.get_loops("B")[0], sch.get_loops("S")[0], sch.get_loops("C")[0])
    sch.annotate(loop, "vector_lanes", 8)
    assert has_vectors(sch.mod["main"])
    value = np.random.default_rng(0).integers(-9, 9, n).astype("float32")
    quarter = value / np.float32(4)
    results = [np.empty(1, "float32"), np.empty(n, "float32")]
    check_lowering(sch.mod["main"], [value, *results], [None, [quarter.sum()], quarter * quarter])


@pytest.mark.parametrize("columns", [1, 15, 16, 17, 32, 33, 40, 64, 79, 80])
def test_open_columns_have_a_body_for_each_power_of_two_of_vectors(columns: int) -> None:
    n = Var("n", "int32")
    k: Any
    a, k = te.placeholder((9, n), name="A"), te.reduce_axis((0, 9), name="k")
    func = te.create_prim_func([a, te.compute((n,), lambda j: te.sum(a[k, j], axis=k), name="B")])
    sch = Schedule(func)
    j, k = sch.get_loops("B")
    outer, j = sch.split(j, [None, 80])
    sch.reorder(outer, k, j)
    sch.annotate(j, "vector_lanes", 16)
    value = np.random.default_rng(0).integers(-9, 9, (9, columns)).astype("float32")
    check_lowering(sch.mod["main"], [value, np.empty(columns, "float32")], [None, value.sum(0)])
    limits = re.findall(r"< (\d+):\n", str(lower(sch.mod["main"])))
    assert {"17", "33", "65"} <= set(limits)
