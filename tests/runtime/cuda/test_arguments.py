"""What a kernel refuses, and how it says so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from runtime.cuda import programs
from runtime.cuda.conftest import build
from runtime.cuda.fake_driver import FakeDriver
from tileloom.base.errors import ArgumentError
from tileloom.runtime import cuda
from tileloom.runtime.cuda.array import DeviceArray, layout_of


def part(array: DeviceArray, offset: int, shape: tuple[int, ...], strides: Any = None) -> Any:
    """A piece of an array's memory."""
    steps = strides or tuple(4 * int(np.prod(shape[k + 1 :], dtype=int)) for k in range(len(shape)))
    layout = layout_of(shape, array.dtype, steps, array.device)
    return DeviceArray(array.block, array.pointer + offset, layout)


def wrong(case: str, big: DeviceArray) -> tuple[Any, ...]:
    good = part(big, 0, (96,))
    return {
        "count": (good,),
        "type": (good, cuda.zeros(96, "int32")),
        "shape": (good, cuda.zeros(97)),
        "rank": (good, cuda.zeros((96, 1))),
        "stride": (good, part(big, 1024, (96,), (8,))),
        "alignment": (good, part(big, 1028, (96,))),
        "overlap": (good, part(big, 368, (96,))),
        "same": (good, good),
        "host": (good, np.zeros(96, "float32")),
        "list": (good, [1.0] * 96),
        "none": (good, None),
        "number": (3.5, good),
    }[case]


MESSAGES = {
    "count": r"main\(\) takes 2 arguments \(A, B\), got 1",
    "type": r"argument 2 \(B\): expected a float32 array of shape \(96,\), got one of int32",
    "shape": r"argument 2 \(B\): expected a float32 array of shape \(96,\), got shape \(97,\)",
    "rank": r"argument 2 \(B\): .* got shape \(96, 1\)",
    "stride": r"argument 2 \(B\): is not contiguous .* expected strides \(4,\), got \(8,\)",
    "alignment": r"argument 2 \(B\): its address 0x\w+ is not a multiple of 16",
    "overlap": r"argument 2 \(B\): shares memory with argument 1 \(A\), and .* writes to B",
    "same": r"argument 2 \(B\): shares memory with argument 1 \(A\)",
    "host": r"(?s)argument 2 \(B\): .* got numpy.ndarray in the CPU's memory.*cuda.asarray copies",
    "list": r"argument 2 \(B\): .* got not an array but list",
    "none": r"argument 2 \(B\): .* got not an array but NoneType",
    "number": r"argument 1 \(A\): .* got not an array but float",
}


@pytest.mark.parametrize("case", list(MESSAGES))
@pytest.mark.parametrize("warm", [False, True])
def test_refused(gpu: FakeDriver, case: str, warm: bool) -> None:
    kernel = build(gpu, programs.scaled())
    big = cuda.zeros(1024)
    if warm:
        kernel(part(big, 0, (96,)), part(big, 1024, (96,)))
    launches = len(gpu.launched)
    for _ in range(2):
        with pytest.raises(ArgumentError) as caught:
            kernel(*wrong(case, big))
        with pytest.raises(ArgumentError, match=MESSAGES[case]):
            raise ArgumentError(str(caught.value))
    assert len(gpu.launched) == launches


def test_neighbours_are_fine(gpu: FakeDriver) -> None:
    kernel = build(gpu, programs.scaled())
    big = cuda.zeros(1024)
    for _ in range(2):
        kernel(part(big, 384, (96,)), part(big, 0, (96,)))
    assert np.all(big.numpy()[:96] == 1)
    assert np.all(big.numpy()[96:] == 0)


def test_symbols_must_agree(gpu: FakeDriver) -> None:
    kernel = build(gpu, programs.symbolic())
    for _ in range(2):
        with pytest.raises(ArgumentError, match=r"n is 9 here, but 8 by axis 0 of argument 1"):
            kernel(cuda.zeros(8), cuda.zeros(9))


def test_reading_twice_is_fine(gpu: FakeDriver) -> None:
    from tileloom import te

    a, b = (te.placeholder((32,), name=name) for name in "AB")
    c = te.compute((32,), lambda i: a[i] + b[i], name="C")
    kernel = build(gpu, programs.bound(te.create_prim_func([a, b, c]), "C"))
    x, y = cuda.asarray(np.arange(32, dtype="float32")), cuda.empty(32)
    for _ in range(2):
        kernel(x, x, y)
    assert np.array_equal(y.numpy(), np.arange(32) * 2)
