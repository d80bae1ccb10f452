"""Arrays in a GPU's memory and the pool behind them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from runtime.cuda.fake_driver import FakeDevice, FakeDriver
from tileloom.base.errors import ArgumentError
from tileloom.runtime import cuda


@pytest.mark.parametrize("kind", ["float32", "bfloat16", "int8", "bool", "float16", "float8_e5m2"])
@pytest.mark.parametrize("shape", [(), (1,), (7, 13), (0, 3), (2, 3, 5)])
def test_there_and_back(
    gpu: FakeDriver, kind: str, shape: tuple[int, ...], rng: np.random.Generator
) -> None:
    item = np.dtype(getattr(ml_dtypes, kind, kind))
    host = (rng.standard_normal(shape) * 4).astype(item)
    array = cuda.asarray(host)
    back = array.numpy()
    assert back.dtype == item and back.shape == shape
    assert back.tobytes() == host.tobytes()
    assert array.copy().numpy().tobytes() == host.tobytes()
    array.clear()
    assert not np.any(array.numpy().view(np.uint8)) if shape else True
    assert (array.ndim, array.size, array.nbytes) == (host.ndim, host.size, host.nbytes)


def test_what_becomes_an_array(gpu: FakeDriver) -> None:
    assert cuda.asarray([[1, 2], [3, 4]]).numpy().tolist() == [[1, 2], [3, 4]]
    a = cuda.asarray(np.arange(12.0).reshape(3, 4).T)
    assert a.numpy().tolist() == np.arange(12.0).reshape(3, 4).T.tolist()
    assert cuda.asarray(a) is a
    assert len(a) == 4
    assert repr(a) == "<DeviceArray float64[4, 3] on cuda:0>"
    with pytest.raises(TypeError, match=r"method numpy\(\) makes one"):
        np.asarray(a)
    with pytest.raises(TypeError, match="no length"):
        len(cuda.zeros(()))
    with pytest.raises(ArgumentError):
        cuda.asarray([object()])
    with pytest.raises(ArgumentError, match="cannot have the shape"):
        cuda.empty((2, -1))
    with pytest.raises(ArgumentError, match="cannot be made"):
        cuda.empty(4, "int4")


def test_shapes_and_copies(gpu: FakeDriver) -> None:
    a = cuda.asarray(np.arange(12, dtype="int32"))
    b = a.reshape(3, 4)
    b.copy_from(np.arange(12, dtype="int32").reshape(3, 4) + 1)
    assert a.numpy()[0] == 1
    with pytest.raises(ArgumentError, match="12 elements cannot have the shape"):
        a.reshape(5, 2)
    with pytest.raises(ArgumentError, match="cannot take the elements of a float32 array"):
        a.copy_from(np.zeros(12, "float32"))
    with pytest.raises(ArgumentError, match="cannot take"):
        a.copy_from(np.zeros(11, "int32"))


@pytest.mark.parametrize("pools", [True, False])
def test_memory_is_kept(plug: Callable[..., Any], pools: bool) -> None:
    driver = plug(FakeDevice(pools=pools))
    allocate = "cuMemAllocAsync" if pools else "cuMemAlloc"
    sizes = [1, 1000, 300 << 10, 5 << 20]
    for _ in range(3):
        arrays = [cuda.empty(size, "int8") for size in sizes]
        assert len({a.pointer for a in arrays}) == len(sizes)
        assert all(a.pointer % 256 == 0 for a in arrays)
        del arrays
    taken = driver.calls.count(allocate)
    assert taken == 4  # two slabs and two blocks
    pool = cuda.pool(cuda.device())
    assert pool.kept_bytes() <= pool.taken_bytes()
    pool.trim()
    assert driver.calls.count("cuMemFreeAsync" if pools else "cuMemFree") == 2
    assert pool.taken_bytes() == 4 << 20  # the slabs
    cuda.empty(5 << 20, "int8").clear()
    cuda.device().synchronize()
    assert not driver.problems


def test_slabs_do_not_overlap(gpu: FakeDriver) -> None:
    arrays = [cuda.asarray(np.full(80, k, "float32")) for k in range(100)]
    assert all(np.all(array.numpy() == k) for k, array in enumerate(arrays))
    assert gpu.calls.count("cuMemAllocAsync") == 1


def test_streams_have_blocks_of_their_own(gpu: FakeDriver) -> None:
    one, two = cuda.Stream(), cuda.Stream()
    a = cuda.empty(1 << 20, stream=one)
    pointer = a.pointer
    del a
    assert cuda.empty(1 << 20, stream=two).pointer != pointer
    assert cuda.empty(1 << 20, stream=one).pointer == pointer


def test_kept_memory_is_given_up_before_giving_up(plug: Callable[..., Any]) -> None:
    driver = plug(FakeDevice(memory=64 << 20))
    for size in (20 << 20, 24 << 20, 40 << 20, 60 << 20):
        cuda.empty(size, "int8").clear()
    assert not driver.problems


@pytest.mark.parametrize("pools", [True, False])
def test_out_of_memory(plug: Callable[..., Any], pools: bool) -> None:
    plug(FakeDevice(memory=64 << 20, pools=pools))
    held = cuda.empty(40 << 20, "int8")
    with pytest.raises(cuda.DeviceMemoryError) as caught:
        cuda.empty(30 << 20, "int8")
    message = str(caught.value)
    assert "cuda:0 has no 30.00 MiB of memory left: 24.00 MiB of 64.00 MiB are free" in message
    assert "arrays of Tileloom hold 40.00 MiB" in message
    assert isinstance(caught.value, MemoryError)
    del held
    cuda.empty(30 << 20, "int8")
