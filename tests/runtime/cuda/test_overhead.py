"""What a launch costs in Python, with a driver that does nothing.

Run as a script it prints the microseconds; as a test it only sees to the order of magnitude.
"""

from __future__ import annotations

import ctypes
import sys
import timeit
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from runtime.cuda import fake_library, programs
from runtime.cuda.conftest import build
from runtime.cuda.fake_driver import FakeDriver
from tileloom import te
from tileloom.runtime import cuda
from tileloom.runtime.cuda import api


@pytest.fixture
def idle(gpu: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    """A driver whose launches are counted in C and otherwise forgotten."""
    library = fake_library.library()
    assert library is not None
    library.fake_set_context.argtypes = [ctypes.c_void_p]
    library.fake_set_context(cuda.device().context)

    def address(name: str) -> int:
        return ctypes.cast(getattr(library, f"fake_{name}"), ctypes.c_void_p).value or 0

    monkeypatch.setattr(api, "function_address", address)
    return gpu


def microseconds(call: Callable[[], Any], number: int = 20000) -> float:
    return min(timeit.repeat(call, number=number, repeat=5)) / number * 1e6


def three(driver: FakeDriver) -> tuple[Any, list[Any]]:
    """A kernel of two inputs and an output, and arrays for it."""
    a, b = (te.placeholder((1024,), name=name) for name in "AB")
    c = te.compute((1024,), lambda i: a[i] + b[i], name="C")
    kernel = build(driver, programs.bound(te.create_prim_func([a, b, c]), "C"))
    return kernel, [cuda.zeros(1024) for _ in range(3)]


def costs(driver: FakeDriver) -> dict[str, float]:
    """Microseconds by what is launched."""
    kernel, arrays = three(driver)
    kernel(*arrays)
    found = {"three arrays": microseconds(lambda: kernel(*arrays))}
    stream = cuda.Stream()
    kernel(*arrays, stream=stream)
    found["three arrays, a stream"] = microseconds(lambda: kernel(*arrays, stream=stream))
    reduce, given = build(driver, programs.total()), [cuda.zeros(1 << 15), cuda.zeros(1)]
    reduce(*given)
    found["two kernels and a temporary"] = microseconds(lambda: reduce(*given))
    numbers = build(driver, programs.numbers("float32"))
    some = (cuda.zeros(64), 2.0, cuda.zeros(64))
    numbers(*some)
    found["two arrays and a number"] = microseconds(lambda: numbers(*some))
    return found


def test_launches_are_quick(idle: FakeDriver) -> None:
    found = costs(idle)
    print(found)
    assert max(found.values()) < 200  # 2 to 5 on a quiet machine; this one may be anything but


def test_every_launch_arrives(idle: FakeDriver) -> None:
    library: Any = fake_library.library()
    count = ctypes.c_long.in_dll(library, "fake_launches")
    kernel, arrays = three(idle)
    before = count.value
    for _ in range(10):
        kernel(*arrays)
    assert count.value == before + 10
    assert np.all(arrays[0].numpy() == 0)


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-s", "-q", "-k", "quick"]))
