"""Whole graphs on a GPU, with arrays of the host and of the device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileloom
from runtime.cuda.fake_driver import FakeDevice, FakeDriver
from tileloom.base.errors import ArgumentError
from tileloom.graph import ops
from tileloom.graph.nodes import Graph, Tensor, tensor_type
from tileloom.runtime import cuda


def taught(driver: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    """A driver that learns of every kernel that is made."""
    kernel = cuda.CudaKernel

    def made(name: str, specs: Any, ptx: str, plan: Any) -> Any:
        driver.programs[ptx] = dict(plan.kernels)
        return kernel(name, specs, ptx, plan)

    monkeypatch.setattr(cuda, "CudaKernel", made)
    return driver


@pytest.fixture
def known(gpu: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    return taught(gpu, monkeypatch)


def softmax() -> Graph:
    x = Tensor(tensor_type((5, 33), "float32"), "x")
    return Graph([x], [ops.softmax(x)])


def test_arrays_of_the_host_and_of_the_device(known: FakeDriver, rng) -> None:
    compiled = tileloom.compile_graph(softmax(), "cuda")
    x = rng.standard_normal((5, 33)).astype("float32")
    expected = np.exp(x) / np.exp(x).sum(-1, keepdims=True)
    for _ in range(2):
        [found] = compiled(x)
        assert isinstance(found, np.ndarray)
        np.testing.assert_allclose(found, expected, 1e-5)
    [there] = compiled(cuda.asarray(x))
    assert isinstance(there, cuda.DeviceArray)
    np.testing.assert_allclose(there.numpy(), expected, 1e-5)
    assert known.launched


def test_results_do_not_share_memory(known: FakeDriver, rng) -> None:
    compiled = tileloom.compile_graph(softmax(), "cuda")
    given = [rng.standard_normal((5, 33)).astype("float32") for _ in range(3)]
    results = [compiled(cuda.asarray(x))[0] for x in given]
    for x, found in zip(given, results, strict=True):
        expected = np.exp(x) / np.exp(x).sum(-1, keepdims=True)
        np.testing.assert_allclose(found.numpy(), expected, 1e-5)


def test_jit(known: FakeDriver, rng) -> None:
    doubled = tileloom.jit(lambda x: x + x, target="cuda")
    x = rng.standard_normal(100).astype("float32")
    np.testing.assert_array_equal(doubled(x), x * 2)
    assert known.launched


def test_jit_takes_arrays_of_the_device(known: FakeDriver, rng) -> None:
    @tileloom.jit(target="cuda")
    def parts(x, scale):
        return {"all": x * scale, "sum": tileloom.sum(x)}

    x = rng.standard_normal((3, 100)).astype("float32")
    found = parts(cuda.asarray(x), 2.0)
    assert isinstance(found["all"], cuda.DeviceArray)
    np.testing.assert_array_equal(found["all"].numpy(), x * 2)
    np.testing.assert_allclose(found["sum"].numpy(), x.sum(), rtol=1e-5)
    with pytest.raises(ArgumentError, match="cuda"):
        tileloom.jit(lambda x: x + x)(cuda.asarray(x))


def test_a_graph_for_the_second_device(plug: Any, monkeypatch: pytest.MonkeyPatch, rng) -> None:
    taught(plug(FakeDevice(), FakeDevice()), monkeypatch)
    compiled = tileloom.compile_graph(softmax(), "cuda", device="cuda:1")
    x = rng.standard_normal((5, 33)).astype("float32")
    np.testing.assert_allclose(compiled(x)[0], np.exp(x) / np.exp(x).sum(-1, keepdims=True), 1e-5)
    [there] = compiled(cuda.asarray(x, "cuda:1"))
    assert there.device is cuda.device(1)


def test_one_program_for_many_sizes(known: FakeDriver, rng) -> None:
    """Sizes reach kernels as numbers, grids and memory between kernels are counted for each."""
    batch, seq = tileloom.Dim("batch", max=64), tileloom.Dim("seq", max=1 << 17)

    @tileloom.jit(dynamic_shapes={"x": {0: batch, 1: seq}}, target="cuda")
    def both(x):
        return tileloom.softmax(x), tileloom.sum(x, axis=1)

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
