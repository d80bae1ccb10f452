"""Maps of tensors: encoded by the driver, passed by value."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpu_suite
from runtime.cuda.conftest import build
from runtime.cuda.fake_driver import FakeDevice, FakeDriver
from simt.hopper_programs import bulk_copy, tensor_copy
from tileloom.base.errors import ArgumentError
from tileloom.base.tensor_map import TensorMap
from tileloom.lower import lower
from tileloom.runtime import cuda
from tileloom.simt import run_kernels


@pytest.fixture
def hopper(plug: Any) -> Any:
    driver = plug(FakeDevice(capability=(9, 0), shared=227 << 10))
    yield driver
    assert not driver.problems, "\n".join(driver.problems)


@pytest.mark.parametrize("shape", [(64,), (8, 32), (2, 4, 16)])
def test_maps_are_passed(
    hopper: FakeDriver, shape: tuple[int, ...], rng: np.random.Generator
) -> None:
    kernel = build(hopper, tensor_copy(shape))
    host = rng.standard_normal(shape).astype("float32")
    a, b = cuda.asarray(host), cuda.zeros(shape)
    maps = TensorMap(a, shape), TensorMap(b, shape)
    for _ in range(3):
        b.clear()
        kernel(*maps)
        assert np.array_equal(b.numpy(), host)
    assert hopper.calls.count("cuTensorMapEncodeTiled") == 2
    assert [len(value) for value in hopper.launched[0].values] == [128, 128]


def test_maps_of_other_types_and_swizzles(hopper: FakeDriver) -> None:
    from tileloom.runtime.cuda.maps import encoded

    for kind in ("bfloat16", "int8", "uint16", "float8_e4m3fn", "float64", "bool"):
        a = cuda.zeros((16, 128 // np.dtype(a_size(kind)).itemsize), kind)
        made = TensorMap(a, (8, a.shape[1]), swizzle=128)
        found = hopper._handles[int.from_bytes(encoded(made)[:8], "little")]
        assert found[0] == a.pointer
        assert found[2:] == ([a.shape[1], 16], [128], [a.shape[1], 8], 128)


def a_size(kind: str) -> str:
    return {"bfloat16": "u2", "float8_e4m3fn": "u1"}.get(kind, kind)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (lambda: cuda.zeros(64), "expected a map of a tensor, got DeviceArray"),
        (lambda: TensorMap(np.zeros(64, "f"), (64,)), r"(?s)got a map of numpy.ndarray.*asarray"),
    ],
)
def test_what_is_no_map(hopper: FakeDriver, value: Any, text: str) -> None:
    kernel = build(hopper, tensor_copy((64,)))
    good = TensorMap(cuda.zeros(64), (64,))
    for _ in range(2):
        with pytest.raises(ArgumentError, match=text):
            kernel(good, value())
        kernel(good, TensorMap(cuda.zeros(64), (64,)))


def test_copies_in_bulk_are_seen_as_writes(hopper: FakeDriver) -> None:
    kernel = build(hopper, bulk_copy())
    assert [param.access for param in kernel.params] == ["r", "rw"]
    a, b = cuda.asarray(np.arange(1024, dtype="float32")), cuda.zeros(1024)
    kernel(a, b)
    assert np.array_equal(b.numpy(), np.arange(1024) + 1)


def test_the_suite_takes_maps(hopper: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = cuda.CudaKernel

    def known(name: str, specs: Any, ptx: str, plan: Any) -> Any:
        hopper.programs[ptx] = dict(plan.kernels)
        return kernel(name, specs, ptx, plan)

    monkeypatch.setattr(cuda, "CudaKernel", known)
    gpu_suite.mirror(monkeypatch)
    a, b = np.ones((8, 32), "float32"), np.zeros((8, 32), "float32")
    maps = TensorMap(a, (8, 32)), TensorMap(b, (8, 32))
    run_kernels(lower(tensor_copy((8, 32)), cuda.device().target), *maps)
    assert np.all(b == 1)
    assert len(hopper.launched) == 1
