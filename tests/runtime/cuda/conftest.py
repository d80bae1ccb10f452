"""A GPU for every test: a fake driver behind the true cuda-bindings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

import tileloom
from runtime.cuda import fake_library
from runtime.cuda.fake_driver import FakeDevice, FakeDriver
from tileloom.runtime import cuda


@pytest.fixture
def plug() -> Iterator[Callable[..., FakeDriver]]:
    """Plug in a driver with these devices; unplugged after the test."""
    pytest.importorskip("cuda.bindings.driver")
    if fake_library.library() is None:
        pytest.skip("there is a true CUDA driver, or no C compiler for the fake one")
    with ExitStack() as stack:

        def start(*devices: FakeDevice, **options: Any) -> FakeDriver:
            cuda.reset()
            return stack.enter_context(fake_library.plugged(FakeDriver(*devices, **options)))

        yield start
        cuda.reset()


@pytest.fixture
def gpu(plug: Callable[..., FakeDriver]) -> Iterator[FakeDriver]:
    """A driver with one device, which must have no reason to complain."""
    driver = plug()
    yield driver
    assert not driver.problems, "\n".join(driver.problems)


_built: dict[tuple[Any, str], Any] = {}


def build(driver: FakeDriver, program: Any, target: str = "cuda") -> Any:
    """Kernels, whose programs the fake driver knows; code is made once for all tests."""
    key = (program, cuda.device().arch if target == "cuda" else target)
    if key not in _built:
        _built[key] = tileloom.build(program, target=target)
    made = _built[key]
    if isinstance(made, dict):
        return {name: _anew(driver, kernel) for name, kernel in made.items()}
    return _anew(driver, made)


def _anew(driver: FakeDriver, kernel: Any) -> cuda.CudaKernel:
    driver.programs[kernel.ptx] = dict(kernel._plan.kernels)
    return cuda.CudaKernel(kernel.name, kernel.params, kernel.ptx, kernel._plan)


@contextmanager
def answering(driver: FakeDriver, name: str, *codes: int) -> Iterator[None]:
    """Have a function of the driver answer with these codes, one each call; 0 is as usual."""
    driver.inject[name] = list(codes)
    yield
    driver.inject.pop(name)
