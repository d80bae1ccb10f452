"""Products of matrices of open sizes, in tiles: one kernel for all sizes, by schedules alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tileloom import build, te
from tileloom.base import dtype
from tileloom.driver import compile_polymorphic
from tileloom.graph import ops
from tileloom.graph.nodes import Graph, Tensor, TensorType
from tileloom.graph.run import run
from tileloom.graph.space import Space
from tileloom.graph.symbols import symbol
from tileloom.plan.cpu.contraction import tile_product
from tileloom.runtime import parallel
from tileloom.schedule import Schedule
from tileloom.target import target

WEIGHT = np.arange(30 * 40).reshape(30, 40) % 7 - 3.0
FILTER = (np.arange(20 * 4 * 9) % 5 - 2.0).reshape(20, 4, 3, 3).astype("float32")


def tensor(*shape: Any, kind: str = "float32") -> Tensor:
    return Tensor(TensorType(shape, dtype(kind)), f"x{len(shape)}_{kind}")


def weight(columns: int = 40, kind: str = "float32") -> Tensor:
    return ops.constant(np.ascontiguousarray(WEIGHT[:, :columns]).astype(kind))


#: Operands, and what is made of them, for open sizes m and n.
CASES: dict[str, Any] = {
    "rows": lambda m, n: ([x := tensor(m, 30)], ops.relu(ops.matmul(x, weight()))),
    "rows, a full panel": lambda m, n: ([x := tensor(m, 30)], ops.matmul(x, weight(32))),
    "rows, packed anew": lambda m, n: (
        [x := tensor(m, 30), y := tensor(30, 40)], ops.matmul(x, y)),
    "columns": lambda m, n: ([x := tensor(13, 30), y := tensor(30, n)], ops.matmul(x, y)),
    "depth": lambda m, n: ([x := tensor(13, m), y := tensor(m, 40)], ops.matmul(x, y)),
    "all": lambda m, n: (
        [x := tensor(m, n), y := tensor(m, n, 1)],
        ops.relu(ops.matmul(x, ops.reshape(y, (m, n)), transpose_b=True))),
    "transposed": lambda m, n: (
        [x := tensor(n, m), y := tensor(n, 20, 1)],
        ops.matmul(x, ops.reshape(y, (n, 20)), transpose_a=True)),
    "batch": lambda m, n: (
        [x := tensor(m, 7, 20), y := tensor(m, 20, 9, 1)],
        ops.matmul(x, ops.reshape(y, (m, 20, 9)))),
    "heads": lambda m, n: (
        [x := tensor(2, m, 20), y := tensor(2, n, 20, 1)],
        ops.matmul(x, ops.reshape(y, (2, n, 20)), transpose_b=True)),
    "float16": lambda m, n: (
        [x := tensor(m, 30, kind="float16")], ops.matmul(x, weight(kind="float16"))),
    "float64": lambda m, n: (
        [x := tensor(m, 30, kind="float64")], ops.matmul(x, weight(kind="float64"))),
    "images": lambda m, n: ([x := tensor(m, 4, 9, 7)], ops.relu(ops.conv(x, ops.constant(FILTER),
                                                                        pads=1))),
    "extents of images": lambda m, n: (
        [x := tensor(2, 4, m, n)], ops.relu(ops.conv(x, ops.constant(FILTER), pads=1))),
    "extents, nothing around": lambda m, n: (
        [x := tensor(1, 4, m + 2, n + 2)], ops.conv(x, ops.constant(FILTER))),
    "extents, every other": lambda m, n: (
        [x := tensor(1, 4, m, n)], ops.conv(x, ops.constant(FILTER), pads=1, strides=2)),
    "a square image": lambda m, n: (
        [x := tensor(1, 4, m, m)], ops.conv(x, ops.constant(FILTER), pads=1)),
}  # fmt: skip
SIZES = [(1, 1), (2, 17), (3, 32), (5, 33), (7, 64), (11, 16), (12, 31), (13, 2), (24, 65), (37, 5)]


#: Much to compile, as there is much to decide about sizes; and what is shared as others are.
SLOW = {
    1: ("extents of images", "extents, every other", "heads", "all", "a square image"),
    2: ("extents of images", "extents, every other", "extents, nothing around", "all", "heads",
        "transposed", "a square image", "rows", "float64", "float16", "rows, a full panel",
        "rows, packed anew"),
}  # fmt: skip
RUNS = [
    pytest.param(name, workers, marks=[pytest.mark.slow] * (name in slow))
    for workers, slow in SLOW.items()
    for name in CASES
]


@pytest.mark.parametrize(("name", "workers"), RUNS)
def test_one_kernel_for_all_sizes(name: str, workers: int) -> None:
    """Whole numbers, so that sums are exact, against NumPy."""
    before = parallel.get_num_threads()
    parallel.set_num_threads(workers)
    try:
        check_all_sizes(name)
    finally:
        parallel.set_num_threads(before)


def check_all_sizes(name: str) -> None:
    space, rng = Space(), np.random.default_rng(3)
    open_sizes = symbol(space, "m", 1, 900, 40), symbol(space, "n", 1, 900, 50)
    inputs, output = CASES[name](*open_sizes)
    family = compile_polymorphic(Graph(inputs, [output]))
    for sizes in SIZES:
        given, result = CASES[name](*sizes)
        arrays = [
            rng.integers(-3, 4, [int(k) for k in t.shape]).astype(str(t.dtype)) for t in given
        ]
        (got,) = family.at(dict(zip(("m", "n"), sizes, strict=True)))(*arrays)
        (expected,) = run(Graph(given, [result]), arrays)
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("sides", ["both", "left", "right"])
def test_sizes_that_turn_out_to_be_whole_tiles(sides: str) -> None:
    """Extents that planning has narrowed down to one value are still variables, everywhere."""
    space = Space()
    m: Any = symbol(space, "m", 1, 900, 50)
    rows, columns = m if sides != "right" else 7, m if sides != "left" else 7
    a, b = te.placeholder((rows, 20), name="A"), te.placeholder((20, columns), name="B")
    k = te.reduce_axis((0, 20), name="k")
    c = te.compute((rows, columns), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    sch = Schedule(te.create_prim_func([a, b, c]))
    with space.assuming(m.polynomial - 32, 32 - m.polynomial):
        tile_product(sch, target("cpu -mattr=+avx512f -num-cores=1"))
    rng = np.random.default_rng(8)
    x = rng.integers(-3, 4, (32 if rows is m else 7, 20)).astype("float32")
    y = rng.integers(-3, 4, (20, 32 if columns is m else 7)).astype("float32")
    result = np.zeros((len(x), y.shape[1]), "float32")
    build(sch.mod["main"])(x, y, result)
    np.testing.assert_array_equal(result, x @ y)
