"""Groups as one GPU kernel: results in the simulator, counts, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tileloom
from lower.gpu_programs import gpu_lower
from tileloom import te
from tileloom.expr import Var
from tileloom.graph import ops
from tileloom.graph.blocks import block_function
from tileloom.graph.expand import expand
from tileloom.graph.nodes import Graph, Tensor, tensor_type
from tileloom.graph.optimize import optimize
from tileloom.graph.partition import partition
from tileloom.graph.run import run
from tileloom.lower import lower
from tileloom.lower.analysis.threads import kernels
from tileloom.lower.gpu.verify_gpu_code import verify_gpu_code
from tileloom.plan import GroupRefused, schedule_gpu
from tileloom.plan.cuda import fusion_groups, grid_reduction
from tileloom.schedule import Schedule
from tileloom.script import tir as T
from tileloom.simt import KernelCost, kernel_costs, run_kernels
from tileloom.target import target
from tileloom.tir import PrimFunc

GPU = target("cuda -arch=sm_80")
Build = Callable[[Tensor], list[Tensor]]


def softmax(x: Tensor) -> list[Tensor]:
    return [ops.softmax(x, -1)]


def layer_norm(x: Tensor) -> list[Tensor]:
    rng = np.random.default_rng(1)
    scale, shift = (rng.standard_normal(x.shape[-1]).astype("float32") for _ in range(2))
    return [ops.layer_norm(x, ops.constant(scale), ops.constant(shift), -1)]


def reducing(axis: Any) -> Build:
    return lambda x: [ops.sum(x, axis)]


def centred(axis: Any) -> Build:
    return lambda x: [ops.relu(ops.sub(x, ops.mean(x, axis, True)))]


def with_statistics(axis: Any) -> Build:
    def build(x: Tensor) -> list[Tensor]:
        mean = ops.mean(x, axis, True)
        return [ops.relu(ops.sub(x, mean)), mean, ops.max(x, axis, True)]

    return build


def group(shape: tuple[int, ...], build: Build) -> tuple[Graph, PrimFunc, list[Tensor]]:
    x = Tensor(tensor_type(shape, "float32"), "x")
    graph = Graph([x], build(x))
    plain = optimize(expand(graph))
    [only] = partition(plain)
    func, operands = block_function(only)
    return Graph(plain.inputs, operands[-len(only.outputs) :]), func, operands


def scheduled(shape: tuple[int, ...], build: Build) -> tuple[Schedule, Graph, list[Tensor]]:
    graph, func, operands = group(shape, build)
    return schedule_gpu(func, GPU), graph, operands


def cost(shape: tuple[int, ...], build: Build) -> KernelCost:
    sch, _, _ = scheduled(shape, build)
    [found] = kernel_costs(lower(sch.mod["main"], GPU), GPU)
    return found


@pytest.mark.parametrize(
    ("shape", "build"),
    [
        ((3, 40), softmax), ((5, 67), softmax), ((1, 300), softmax), ((7, 1), softmax),
        ((2, 3, 33), softmax), ((3, 40), lambda x: [ops.log_softmax(x, -1)]),
        ((4, 100), layer_norm),
        ((70,), reducing(0)), ((5, 9), reducing(1)), ((6, 4, 33), reducing(2)),
        ((10, 10, 10), reducing((0, 1))), ((3, 4, 5, 2, 4), reducing((1, 2, 3))),
        ((3, 5, 4, 6), reducing((0, 2, 3))), ((3, 5, 4, 6), reducing((2, 3))),
        ((40, 33), reducing(0)), ((100, 5), reducing(0)), ((1, 7), reducing(0)),
        ((6, 4, 9), centred(2)), ((3, 4, 5, 2, 4), centred((1, 2, 3))),
        ((3, 5, 4, 6), centred((2, 3))), ((2, 33, 30), centred(1)),
        ((3, 4, 2, 10), centred((1, 3))),
        ((5, 9), with_statistics(1)), ((40, 13), with_statistics(0)),
        ((2, 3, 4, 5), with_statistics((0, 2, 3))),
        ((12, 8), lambda x: [ops.exp(ops.add(x, 1.0))]),
        ((12, 1, 6), lambda x: [ops.tanh(ops.mul(x, ops.constant(np.ones((1, 5, 6), "f4"))))]),
        ((37, 5), lambda x: [ops.relu(ops.transpose(x))]),
        ((64, 33), lambda x: [ops.relu(ops.transpose(x))]),
        ((2, 33, 2, 35), lambda x: [ops.transpose(x, (0, 2, 3, 1))]),
        ((2, 33, 2, 20), lambda x: [ops.transpose(x, (0, 2, 3, 1))]),
        ((20, 20), lambda x: [ops.add(ops.transpose(x), x)]),
        ((9, 33), lambda x: [ops.relu(x), ops.exp(x)]),
    ],
)  # fmt: skip
def test_groups_compute_what_they_should(shape: tuple[int, ...], build: Build) -> None:
    sch, graph, operands = scheduled(shape, build)
    flat = gpu_lower(sch.mod["main"])
    assert not verify_gpu_code(flat)
    rng = np.random.default_rng(0)
    value = rng.standard_normal(shape).astype("float32")
    inside = [t for t in operands if t not in graph.outputs]
    arrays = [value if t in graph.inputs else t.value for t in inside]
    results = [np.full(t.shape, np.nan, "float32") for t in graph.outputs]
    run_kernels(flat, *(np.ascontiguousarray(a).reshape(-1) for a in arrays),
             *(a.reshape(-1) for a in results))  # fmt: skip
    for have, want in zip(results, run(graph, [value]), strict=True):
        np.testing.assert_allclose(have, want, 1e-5, 1e-5)


def test_schedules_are_traces() -> None:
    _, func, _ = group((5, 67), softmax)
    sch = schedule_gpu(func, GPU)
    again = Schedule(func)
    assert sch.trace is not None
    sch.trace.apply_to_schedule(again, remove_postproc=False)
    assert str(again.mod) == str(sch.mod)


# ---------------------------------------------------------------------------- counts


def test_every_result_of_a_softmax_is_made_once() -> None:
    found = cost((64, 128), softmax)
    assert found.stores["global"].elements == 64 * 128
    assert found.calls == {"exp": 64 * 128}
    assert found.syncs <= 2 * 2
    assert (found.blocks, found.threads) == (64, 32)  # each thread reads four neighbours at once
    assert found.loads["global"].requests == 64
    assert found.loads["global"].efficiency == found.stores["global"].efficiency == 1


def test_a_prime_length_uses_many_threads() -> None:
    found = cost((1000, 1031), softmax)
    assert found.threads >= 128
    assert found.stores["global"].elements == found.calls["exp"] == 1000 * 1031


def test_results_of_long_columns_come_together_without_conflicts() -> None:
    found = cost((2048, 4096), reducing(0))
    assert found.loads["global"].elements == 2048 * 4096
    assert found.loads["global"].efficiency == 1
    assert found.loads["shared"].efficiency == found.stores["shared"].efficiency == 1
    assert found.syncs <= 2


def test_long_rows_are_computed_again_and_short_ones_kept() -> None:
    assert cost((4, 1024), softmax).calls["exp"] == 4 * 1024
    elements = 400 * 50000
    assert (
        2 <= cost((400, 50000), softmax).calls["exp"] / elements < 2.3
    )  # in threads, then of them


@pytest.mark.parametrize(("build", "shape"), [(softmax, (3, 9001)), (layer_norm, (113, 16500))])
def test_long_rows_are_reduced_in_one_pass(shape: tuple[int, int], build: Build) -> None:
    sch, _, _ = scheduled(shape, build)
    assert "reduce_online" in str(sch.trace)
    test_groups_compute_what_they_should(shape, build)


@pytest.mark.parametrize(
    ("shape", "axis", "vectors"), [((2048, 4096), 0, False), ((400, 65536), 1, True)]
)
def test_long_loops_have_several_loads_under_way(
    shape: tuple[int, int], axis: int, vectors: bool
) -> None:
    sch, _, _ = scheduled(shape, reducing(axis))
    assert "T.unroll(4)" in str(sch.mod)
    assert ("T.vectorized(4)" in str(sch.mod)) is vectors
    small = (512, 32) if axis == 0 else (3, 65536)
    test_groups_compute_what_they_should(small, reducing(axis))


@pytest.mark.parametrize("row", [{0: np.inf}, {5: -np.inf}, {9000: np.nan}, None])
def test_long_rows_with_special_numbers(row: dict[int, float] | None) -> None:
    """One pass gives what two give; None: all of the row is -inf."""
    value = np.random.default_rng(0).standard_normal((2, 9001)).astype("float32")
    for place, number in (row or dict.fromkeys(range(9001), -np.inf)).items():
        value[1, place] = number
    sch, graph, _ = scheduled(value.shape, softmax)
    result = np.zeros_like(value)
    run_kernels(gpu_lower(sch.mod["main"]), value.reshape(-1), result.reshape(-1))
    with np.errstate(all="ignore"):
        [want] = run(graph, [value])
    np.testing.assert_allclose(result, want, 1e-5, 1e-6)


def test_transposes_go_through_tiles() -> None:
    found = cost((512, 1024), lambda x: [ops.relu(ops.transpose(x))])
    for traffic in (*found.loads.values(), *found.stores.values()):
        assert traffic.elements == 512 * 1024
        assert traffic.efficiency == 1
    assert found.syncs == 1


# ---------------------------------------------------------------------------- parts


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short rows are made in parts."""
    for name, value in (("LONG", 64), ("DEEP", 32), ("LARGE", 1)):
        monkeypatch.setattr(fusion_groups, name, value)
    for name, value in (("THREADS", 32), ("KEPT", 1)):
        monkeypatch.setattr(grid_reduction, name, value)


@pytest.mark.parametrize(
    ("shape", "build"),
    [
        ((200,), reducing(0)), ((2, 310), reducing(1)), ((16, 3, 16), reducing((0, 2))),
        ((2, 320), lambda x: [ops.mean(x, 1), ops.max(x, 1)]),
        ((1, 256), lambda x: [ops.sqrt(ops.sum(ops.square(x), 1))]),
        ((211,), reducing(0)), ((2, 1031), reducing(1)), ((13, 3, 17), reducing((0, 2))),
        ((103, 5), reducing(0)), ((64, 40), reducing(0)), ((127, 33), reducing(0)),
        ((2, 331), lambda x: [ops.mean(x, 1), ops.max(x, 1)]),
        ((97, 35), lambda x: [ops.mean(x, 0), ops.sqrt(ops.max(x, 0))]),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("eager")
def test_few_results_are_made_in_parts(shape: tuple[int, ...], build: Build) -> None:
    sch, _, _ = scheduled(shape, build)
    first, second = kernel_costs(lower(sch.mod["main"], GPU), GPU)
    assert first.blocks > second.blocks
    assert sch.verify().ok
    test_groups_compute_what_they_should(shape, build)


@pytest.mark.parametrize(
    ("shape", "build", "count"),
    [
        ((2, 311), softmax, 3), ((3, 320), layer_norm, 3), ((151, 7), centred(0), 3),
        ((2, 300), with_statistics(1), 3), ((400,), lambda x: [ops.exp(x), ops.sum(x, 0)], 3),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("eager")
def test_rows_that_all_blocks_reduce_are_read_again_by_all_blocks(
    shape: tuple[int, ...], build: Build, count: int
) -> None:
    sch, _, _ = scheduled(shape, build)
    assert len(list(kernels(lower(sch.mod["main"], GPU).body))) == count
    test_groups_compute_what_they_should(shape, build)


@pytest.mark.parametrize("length", [1 << 20, 1_000_003])
def test_parts_use_the_whole_grid(length: int) -> None:
    sch, _, _ = scheduled((length,), reducing(0))
    first, second = kernel_costs(lower(sch.mod["main"], GPU), GPU)
    assert first.blocks >= 200
    assert (second.blocks, second.stores["global"].elements) == (1, 1)
    assert first.loads["global"].elements == length


# ---------------------------------------------------------------------------- several domains


def independent() -> PrimFunc:
    a, b = te.placeholder((6, 8), name="A"), te.placeholder((9,), name="B")
    k = te.reduce_axis((0, 8), name="k")
    left = te.compute((6,), lambda i: te.sum(a[i, k], axis=k), name="left")
    right = te.compute((9,), lambda i: b[i] + 1.0, name="right")
    return te.create_prim_func([a, b, left, right])


def of_reductions() -> PrimFunc:
    a = te.placeholder((6, 8), name="A")
    j, k = te.reduce_axis((0, 8), name="j"), te.reduce_axis((0, 6), name="k")
    rows = te.compute((6,), lambda i: te.sum(a[i, j], axis=j), name="rows")
    total = te.compute((1,), lambda i: te.sum(rows[k], axis=k), name="total")
    return te.create_prim_func([a, total])


def formulas(*sizes: int) -> PrimFunc:
    inputs = [te.placeholder((n,), name=f"A{n}") for n in sizes]
    made = [te.compute(a.shape, lambda i, a=a: a[i] * 2.0, name=f"B{a.name}") for a in inputs]
    return te.create_prim_func([*inputs, *made])


def backwards() -> PrimFunc:
    """Two readers of what costs a call: one where it stands, one from the end."""
    x = te.placeholder((5, 64), name="X")
    s = te.compute((5, 64), lambda i, c: T.exp(x[i, c]), name="S")
    b = te.compute((5, 64), lambda i, c: s[i, 63 - c] + x[i, c], name="B")
    d = te.compute((5, 64), lambda i, c: s[i, c] - x[i, c], name="D")
    return te.create_prim_func([x, b, d])


def arrays(func: PrimFunc, rng: np.random.Generator) -> list[Any]:
    return [rng.standard_normal(b.static_shape).astype(b.dtype.numpy) for b in func.buffers]


@pytest.mark.parametrize(
    ("func", "count"),
    [(independent(), 2), (of_reductions(), 2), (formulas(5, 700, 3000), 1), (backwards(), 1)],
)
def test_blocks_without_a_common_domain_are_several_nests(func: PrimFunc, count: int) -> None:
    flat = gpu_lower(schedule_gpu(func, GPU).mod["main"])
    assert len(list(kernels(flat.body))) == count
    given = arrays(func, np.random.default_rng(0))
    wanted = [array.copy() for array in given]
    tileloom.tir.run(func, *wanted)
    run_kernels(flat, *given)
    for have, want in zip(given, wanted, strict=True):
        np.testing.assert_allclose(have, want, 1e-5, 1e-5)


def product(rows: int, columns: int, depth: int, kind: str = "float32") -> PrimFunc:
    """A matrix product with a bias and an elementwise block."""
    a = te.placeholder((rows, depth), kind, name="A")
    b = te.placeholder((depth, columns), kind, name="B")
    bias = te.placeholder((columns,), "float32", name="bias")
    k = te.reduce_axis((0, depth), name="k")
    c = te.compute(
        (rows, columns),
        lambda i, j: te.sum(a[i, k].astype("float32") * b[k, j].astype("float32"), axis=k),
        name="C",
    )
    d = te.compute((rows, columns), lambda i, j: T.max(c[i, j] + bias[j], 0.0), name="D")
    return te.create_prim_func([a, b, bias, d])


@pytest.mark.parametrize(
    ("func", "tiled"),
    [(product(40, 48, 33), True), (product(5, 3, 7), False), (product(1, 300, 64), False),
     (product(32, 40, 64, "float16"), True)],
)  # fmt: skip
def test_products_take_the_tactics_of_the_library(func: PrimFunc, tiled: bool) -> None:
    sch = schedule_gpu(func, GPU)
    flat = gpu_lower(sch.mod["main"])
    assert ("shared" in str(sch.mod)) is tiled
    given = arrays(func, np.random.default_rng(0))
    wanted = [array.copy() for array in given]
    tileloom.tir.run(func, *wanted)
    run_kernels(flat, *given)
    np.testing.assert_allclose(given[-1], wanted[-1], 1e-4, 1e-4)


def test_extents_that_are_not_known_are_refused() -> None:
    n = Var("n", "int32")
    a = te.placeholder((n,), name="A")
    with pytest.raises(GroupRefused, match="not constant"):
        schedule_gpu(te.create_prim_func([a, te.compute((n,), lambda i: a[i] + 1.0)]), GPU)
