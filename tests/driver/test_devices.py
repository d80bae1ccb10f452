"""One executable for all devices: workspaces, in-place results, programs found on disk."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tileloom
from tileloom.base.errors import ArgumentError, UnsupportedError
from tileloom.base.settings import override
from tileloom.driver import compile_graph, compile_polymorphic, launching, plan_cuda
from tileloom.driver.emulator import EmulatorBackend
from tileloom.graph import ops
from tileloom.graph.nodes import Graph, Tensor, tensor_type
from tileloom.graph.run import run
from tileloom.graph.space import Space
from tileloom.graph.symbols import symbol
from tileloom.graph.whole_vectors import IN_VECTORS

WHERE: dict[str, Any] = {"target": "cuda -arch=sm_80", "device": "emulator"}
BOTH = pytest.mark.parametrize("where", [{}, WHERE], ids=["cpu", "emulator"])


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path) -> Iterator[None]:
    """Nothing was compiled before."""
    with override(cache_dir=tmp_path / "cache"):
        yield


def tensor(*shape: int, kind: str = "float32", name: str = "x") -> Tensor:
    return Tensor(tensor_type(shape, kind), name)


def broken(*_: Any, **__: Any) -> Any:
    raise AssertionError("planned again")


@pytest.fixture
def unplanned(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Have planning for GPUs fail from the call on."""

    def forbid() -> None:
        monkeypatch.setattr(plan_cuda, "plan_gpu", broken)
        monkeypatch.setattr(launching.LaunchingBackend, "compile", broken)

    return forbid


# ---------------------------------------------------------------------------- on disk


def test_a_program_for_a_gpu_is_found_again(unplanned: Any, rng: np.random.Generator) -> None:
    weight = rng.standard_normal((33, 20)).astype("float32")

    def made() -> Any:
        x = tensor(7, 33)
        hidden = ops.gelu(ops.matmul(x, ops.constant(weight)))
        return compile_graph(Graph([x], [ops.softmax(hidden), ops.sum(hidden, 0), x]), **WHERE)

    a = rng.standard_normal((7, 33)).astype("float32")
    wanted = made()(a)
    unplanned()
    for one, other in zip(made()(a), wanted, strict=True):
        np.testing.assert_array_equal(one, other)
    with pytest.raises(AssertionError, match="planned again"):
        compile_graph(Graph([y := tensor(7)], [ops.exp(y)]), **WHERE)
    with pytest.raises(AssertionError, match="planned again"):
        compile_graph(Graph([y], [ops.exp(y)]), "cuda -arch=sm_90", device="emulator")


SCRIPT = """
import sys
import numpy as np
import tileloom
where = {"target": "cuda -arch=sm_80", "device": "emulator"}
model = tileloom.jit(lambda x: tileloom.numpy.exp(x) * 2.0, **where)
print(model(np.zeros((1, 40), "float32")).sum())
print(*[m for m in ("plan", "schedule", "codegen") if f"tileloom.{m}" in sys.modules])
"""


def test_the_next_process_plans_nothing(tmp_path: Path) -> None:
    environment = {**os.environ, "TILELOOM_CACHE_DIR": str(tmp_path / "shared")}
    environment["PYTHONPATH"] = str(Path(tileloom.__file__).parent.parent)
    command = [sys.executable, "-c", SCRIPT]
    said = [
        subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    ]
    assert said[0].split() == ["80.0", "plan", "schedule"]
    assert said[1].split() == ["80.0"]


def open_sum() -> Any:
    space = Space()
    rows, columns = symbol(space, "rows", 1, 1 << 14, 5), symbol(space, "columns", 1, 1 << 16, 33)
    x = tensor(rows, columns)
    centred = ops.sub(x, ops.max(x, 0, True))
    return compile_polymorphic(Graph([x], [ops.sum(centred, 1)]), **WHERE)


@pytest.mark.parametrize("is_refused", [False, True])
def test_a_program_for_many_sizes_is_found_again(
    unplanned: Any, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator, is_refused: bool
) -> None:
    """With kernels for all sizes, and with blocks that are scheduled for each."""
    if is_refused:
        with monkeypatch.context() as patched:
            refusal = ArgumentError("no open sizes")
            patched.setattr(plan_cuda, "plan_kernel", lambda *_: (_ for _ in ()).throw(refusal))
            first = open_sum()
    else:
        first = open_sum()
    assert bool(first.code.each_size) == is_refused
    unplanned()
    again = open_sum()
    assert again.code.each_size == first.code.each_size
    for shape in ((3, 5), (2, 257), (1, 1)):
        a = rng.standard_normal(shape).astype("float32")
        sizes = {"rows": shape[0], "columns": shape[1]}
        wanted = (a - a.max(0, keepdims=True)).sum(1)
        for program in (first, again):
            np.testing.assert_allclose(program.at(sizes)(a)[0], wanted, 1e-5, 1e-4)


# ---------------------------------------------------------------------------- memory


@BOTH
def test_intermediates_share_a_workspace(where: Any, rng: np.random.Generator) -> None:
    """A deep network needs memory for two layers."""
    x, weight = tensor(16, 32), rng.standard_normal((32, 32)).astype("float32") / 6
    y = x
    for _ in range(6):
        y = ops.matmul(y, ops.constant(weight))
    graph = Graph([x], [y])
    compiled: Any = compile_graph(graph, **where)
    (step,) = compiled.steps
    assert step.arena_bytes == 2 * 16 * 32 * 4
    a = rng.standard_normal((16, 32)).astype("float32")
    np.testing.assert_allclose(compiled(a)[0], run(graph, [a])[0], rtol=1e-4, atol=1e-5)


@BOTH
def test_results_are_memory_of_their_own(where: Any, rng: np.random.Generator) -> None:
    x = tensor(4, 6)
    table: Any = np.arange(24, dtype="float32")
    flat = ops.reshape(x, (24,))
    graph = Graph([x], [ops.add(flat, table), flat, x, ops.constant(table), ops.constant(table)])
    compiled = compile_graph(graph, **where)
    a = rng.standard_normal((4, 6)).astype("float32")
    results = [a, *compiled(a), *compiled(a)]
    for k, one in enumerate(results):
        assert not any(np.shares_memory(one, other) for other in results[k + 1 :])
    for found, wanted in zip(compiled(a), run(graph, [a]), strict=True):
        np.testing.assert_array_equal(found, wanted)


# ---------------------------------------------------------------------------- in place


def step_graph() -> Graph:
    x, g = tensor(8), tensor(8, name="g")
    return Graph([x, g], [ops.sub(x, ops.mul(g, 0.5))])


@BOTH
def test_a_result_is_written_where_an_input_is(where: Any) -> None:
    compiled = compile_graph(step_graph(), replaced={0: 0}, **where)
    (step,) = compiled.steps
    assert [value.slot for value in step.writes] == [0]
    a, b = np.arange(8, dtype="float32"), np.ones(8, "float32")
    (new,) = compiled(a, b)
    assert new is a
    np.testing.assert_array_equal(a, np.arange(8) - 0.5)


@BOTH
def test_one_array_for_both_operands(where: Any) -> None:
    compiled = compile_graph(step_graph(), replaced={0: 0}, **where)
    both = np.arange(8, dtype="float32")
    compiled(both, both)
    np.testing.assert_array_equal(both, np.arange(8) * 0.5)


@BOTH
def test_an_input_with_gaps_is_changed(where: Any) -> None:
    compiled = compile_graph(step_graph(), replaced={0: 0}, **where)
    wide = np.arange(16, dtype="float32")
    compiled(wide[::2], np.ones(8, "float32"))
    np.testing.assert_array_equal(wide[::2], np.arange(0, 16, 2) - 0.5)
    np.testing.assert_array_equal(wide[1::2], np.arange(1, 16, 2))


@BOTH
def test_an_input_that_others_read_is_changed_at_the_end(
    where: Any, rng: np.random.Generator
) -> None:
    """Rows are read by more than what writes them: the results need memory of their own."""
    x = tensor(5, 33)
    turned = Tensor(tensor_type((6, 6), "float32"), "turned")
    graph = Graph([x, turned], [ops.softmax(x), ops.transpose(turned, (1, 0))])
    compiled = compile_graph(graph, replaced={0: 0, 1: 1}, **where)
    a, b = (rng.standard_normal(shape).astype("float32") for shape in ((5, 33), (6, 6)))
    wanted = run(graph, [a.copy(), b.copy()])
    found = compiled(a, b)
    assert found[0] is a and found[1] is b
    np.testing.assert_allclose(a, wanted[0], rtol=1e-5)
    np.testing.assert_array_equal(b, wanted[1])


@BOTH
def test_an_input_that_cannot_be_written(where: Any) -> None:
    compiled = compile_graph(step_graph(), replaced={0: 0}, **where)
    frozen = np.arange(8, dtype="float32")
    frozen.flags.writeable = False
    with pytest.raises(ArgumentError, match="read-only"):
        compiled(frozen, np.ones(8, "float32"))


@pytest.mark.parametrize("refuses_vectors", [pytest.param(False, marks=pytest.mark.slow), True])
def test_some_buckets_are_made_for_each_size(
    monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator, refuses_vectors: bool
) -> None:
    """Those over rows of whole vectors take a number more, and are right for such rows alone."""
    compile_kernel = EmulatorBackend.compile_kernel

    def refusing(self: Any, func: Any) -> Any:
        is_open = any(param not in func.buffer_map for param in func.params)
        if is_open and (IN_VECTORS in func.attrs) == refuses_vectors:
            raise UnsupportedError("no such sizes")
        return compile_kernel(self, func)

    monkeypatch.setattr(EmulatorBackend, "compile_kernel", refusing)
    space = Space()
    rows, columns = symbol(space, "rows", 1, 1 << 14, 5), symbol(space, "columns", 1, 1 << 16, 33)
    x = tensor(rows, columns)
    program = compile_polymorphic(Graph([x], [ops.softmax(x)]), **WHERE)
    assert program.code.each_size and program.serialized.numbers  # of either kind
    for shape in ((3, 136), (2, 133), (3, 5)):
        a = rng.standard_normal(shape).astype("float32")
        (found,) = program.at({"rows": shape[0], "columns": shape[1]})(a)
        e = np.exp(a - a.max(1, keepdims=True))
        np.testing.assert_allclose(found, e / e.sum(1, keepdims=True), 1e-4, 1e-6)
