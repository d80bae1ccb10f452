"""Whole graphs on a GPU, with arrays of the host and of the device."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tileloom
from runtime.cuda.fake_driver import FakeDevice, FakeDriver
from runtime.cuda.test_interop import Capsules, CupyArray, cupy, torch  # noqa: F401 - fixtures
from runtime.cuda.test_interop import Tensor as TorchTensor
from tileloom import numpy as tnp
from tileloom.base.errors import ArgumentError
from tileloom.base.settings import override
from tileloom.driver import cuda as driver_cuda
from tileloom.frontend.jit import Array
from tileloom.graph import ops
from tileloom.graph.nodes import Graph, Tensor, tensor_type
from tileloom.runtime import cuda


def taught(driver: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    """A driver that learns of every kernel that is made."""
    compile_ptx = driver_cuda.kernels_ptx

    def learn(kernels: Any, target: Any) -> str:
        ptx = compile_ptx(kernels, target)
        driver.programs[ptx] = dict(kernels.functions)
        return ptx

    monkeypatch.setattr(driver_cuda, "kernels_ptx", learn)
    return driver


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path) -> Iterator[None]:
    """Programs of other tests are none that the driver has learnt."""
    with override(cache_dir=tmp_path / "cache"):
        yield


@pytest.fixture
def known(gpu: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    return taught(gpu, monkeypatch)


def softmax() -> Graph:
    x = Tensor(tensor_type((5, 33), "float32"), "x")
    return Graph([x], [ops.softmax(x)])


def test_arrays_of_the_host_and_of_the_device(known: FakeDriver, rng: np.random.Generator) -> None:
    compiled = tileloom.compile_graph(softmax(), "cuda")
    x = rng.standard_normal((5, 33)).astype("float32")
    expected = np.exp(x) / np.exp(x).sum(-1, keepdims=True)
    for _ in range(2):
        [found] = compiled(x)
        assert isinstance(found, np.ndarray)
        np.testing.assert_allclose(found, expected, 1e-5)
    there: Any
    [there] = compiled(cuda.asarray(x))
    assert isinstance(there, cuda.DeviceArray)
    np.testing.assert_allclose(there.numpy(), expected, 1e-5)
    assert known.launched


def test_results_do_not_share_memory(known: FakeDriver, rng: np.random.Generator) -> None:
    compiled = tileloom.compile_graph(softmax(), "cuda")
    given: list[Any] = [rng.standard_normal((5, 33)).astype("float32") for _ in range(3)]
    results: list[Any] = [compiled(cuda.asarray(x))[0] for x in given]
    for x, found in zip(given, results, strict=True):
        expected = np.exp(x) / np.exp(x).sum(-1, keepdims=True)
        np.testing.assert_allclose(found.numpy(), expected, 1e-5)


def test_jit(known: FakeDriver, rng: np.random.Generator) -> None:
    doubled = tileloom.jit(lambda x: x + x, target="cuda")
    x = rng.standard_normal(100).astype("float32")
    np.testing.assert_array_equal(doubled(x), x * 2)
    assert known.launched


def test_jit_takes_arrays_of_the_device(known: FakeDriver, rng: np.random.Generator) -> None:
    @tileloom.jit(target="cuda")
    def parts(x: Any, scale: Any) -> Any:
        return {"all": x * scale, "sum": tnp.sum(x)}

    x = rng.standard_normal((3, 100)).astype("float32")
    found = parts(cuda.asarray(x), 2.0)
    assert isinstance(found["all"], cuda.DeviceArray)
    np.testing.assert_array_equal(found["all"].numpy(), x * 2)
    np.testing.assert_allclose(found["sum"].numpy(), x.sum(), rtol=1e-5)
    with pytest.raises(ArgumentError, match="cuda"):
        tileloom.jit(lambda x: x + x)(cuda.asarray(x))


def test_a_graph_for_the_second_device(
    plug: Any, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    taught(plug(FakeDevice(), FakeDevice()), monkeypatch)
    compiled = tileloom.compile_graph(softmax(), "cuda", device="cuda:1")
    x = rng.standard_normal((5, 33)).astype("float32")
    np.testing.assert_allclose(compiled(x)[0], np.exp(x) / np.exp(x).sum(-1, keepdims=True), 1e-5)
    there: Any
    [there] = compiled(cuda.asarray(x, "cuda:1"))
    assert there.device is cuda.device(1)


def test_one_program_for_many_sizes(known: FakeDriver, rng: np.random.Generator) -> None:
    """Sizes reach kernels as numbers, grids and memory between kernels are counted for each."""
    batch, seq = tileloom.Dim("batch", max=64), tileloom.Dim("seq", max=1 << 17)

    @tileloom.jit(dynamic_shapes={"x": {0: batch, 1: seq}}, target="cuda")
    def both(x: Array) -> Any:
        return tnp.softmax(x), tnp.sum(x, axis=1)

    launched, programs = [], set(known.programs)
    for shape in ((1, 1), (3, 33), (2, 9_001), (1, 70_001)):
        x = rng.standard_normal(shape).astype("float32")
        before = len(known.launched)
        for given in (x, cuda.asarray(x)):
            soft, total = both(given)
            soft, total = (a if isinstance(a, np.ndarray) else a.numpy() for a in (soft, total))
            expected = np.exp(x) / np.exp(x).sum(-1, keepdims=True)
            np.testing.assert_allclose(soft, expected, 1e-4, 1e-9)
            np.testing.assert_allclose(total, x.sum(1), 1e-3, 1e-2)
        launched.append(len(known.launched) - before)
        programs = programs or set(known.programs)
        assert set(known.programs) == programs
    assert both.compilations == 1
    assert max(launched) > min(launched)  # long rows take two kernels


def step() -> Graph:
    x, g = (Tensor(tensor_type((8,), "float32"), name) for name in "xg")
    return Graph([x, g], [ops.sub(x, ops.mul(g, 0.5)), ops.sum(x, 0)])


def test_a_result_is_written_where_an_input_is(known: FakeDriver) -> None:
    compiled = tileloom.compile_graph(step(), "cuda", replaced={0: 0})
    wanted = np.arange(8, dtype="float32") - 0.5
    there: Any
    there, ones = cuda.asarray(np.arange(8, dtype="float32")), cuda.asarray(np.ones(8, "float32"))
    total: Any
    new, total = compiled(there, ones)
    assert new is there and total.numpy() == 28
    np.testing.assert_array_equal(there.numpy(), wanted)  # type: ignore[attr-defined]
    here = np.arange(8, dtype="float32")
    new, total = compiled(here, np.ones(8, "float32"))
    assert new is here and isinstance(total, np.ndarray)
    np.testing.assert_array_equal(here, wanted)
    both = cuda.asarray(np.arange(8, dtype="float32"))
    compiled(both, both)
    np.testing.assert_array_equal(both.numpy(), np.arange(8) * 0.5)


def test_an_input_that_cannot_be_written(known: FakeDriver) -> None:
    compiled = tileloom.compile_graph(step(), "cuda", replaced={0: 0})
    array_type = type("ArrayImpl", (Capsules,), {"__module__": "jaxlib._jax"})
    with pytest.raises(ArgumentError, match="read-only"):
        compiled(array_type(cuda.zeros(8)), cuda.zeros(8))


def test_wrong_arguments(known: FakeDriver) -> None:
    compiled = tileloom.compile_graph(step(), "cuda")
    with pytest.raises(ArgumentError, match=r"argument 2 \(g\): expected .*, got shape \(9,\)"):
        compiled(cuda.zeros(8), cuda.zeros(9))
    with pytest.raises(ArgumentError, match=r"argument 1 \(x\).*int32"):
        compiled(np.zeros(8, "int32"), cuda.zeros(8))


def test_a_program_is_found_on_disk(
    known: FakeDriver, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    x = rng.standard_normal((5, 33)).astype("float32")
    [wanted] = tileloom.compile_graph(softmax(), "cuda")(x)

    def broken(*_: Any) -> Any:
        raise AssertionError("planned again")

    monkeypatch.setattr(driver_cuda.CudaBackend, "plan_graph", broken)
    monkeypatch.setattr(driver_cuda, "kernels_ptx", broken)
    [found] = tileloom.compile_graph(softmax(), "cuda")(x)
    np.testing.assert_array_equal(found, wanted)


def test_intermediates_are_parts_of_one_workspace(
    known: FakeDriver, rng: np.random.Generator
) -> None:
    x, weight = Tensor(tensor_type((16, 32), "float32"), "x"), rng.standard_normal((32, 32)) / 6
    y = x
    for _ in range(4):
        y = ops.matmul(y, ops.constant(weight.astype("float32")))
    compiled: Any = tileloom.compile_graph(Graph([x], [y]), "cuda")
    (one,) = compiled.steps
    assert one.arena_bytes == 2 * 16 * 32 * 4
    a = rng.standard_normal((16, 32)).astype("float32")
    wanted = a @ np.linalg.matrix_power(weight.astype("float32"), 4)
    np.testing.assert_allclose(compiled(a)[0], wanted, 1e-3, 1e-4)
    np.testing.assert_allclose(compiled(cuda.asarray(a))[0].numpy(), wanted, 1e-3, 1e-4)


@pytest.mark.parametrize("package", ["torch", "cupy"])
def test_programs_run_in_the_stream_of_a_package(
    known: FakeDriver, package: str, request: pytest.FixtureRequest
) -> None:
    """Its allocator may give memory to others as soon as that stream comes to it."""
    module: Any = request.getfixturevalue(package)
    kind = {"torch": TorchTensor, "cupy": CupyArray}[package]
    compiled, side = tileloom.compile_graph(step(), "cuda"), cuda.Stream()
    a, b = cuda.asarray(np.arange(8, dtype="float32")), cuda.asarray(np.ones(8, "float32"))
    cuda.device().synchronize()
    for stream in (0, side.handle):
        module.stream = stream
        new: Any
        new, _ = compiled(kind(a), kind(b))
        assert known.launched[-1].stream == stream
        np.testing.assert_array_equal(new.numpy(), np.arange(8) - 0.5)
    with cuda.Stream() as ours:
        compiled(kind(a), kind(b))
        assert known.launched[-1].stream == ours.handle


def test_memory_of_others_lives_until_a_program_has_run(known: FakeDriver) -> None:
    compiled, side = tileloom.compile_graph(step(), "cuda"), cuda.Stream()
    given, ones = Capsules(cuda.zeros(8)), cuda.zeros(8)
    with side:
        before = sys.getrefcount(given)
        compiled(given, ones)
        gc.collect()
        assert sys.getrefcount(given) > before
        side.synchronize()
        compiled(ones, Capsules(cuda.zeros(8)))
        assert sys.getrefcount(given) == before
