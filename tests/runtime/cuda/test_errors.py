"""No driver, no device, no package, and kernels that go wrong."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runtime.cuda import fake_library, fake_parts, programs
from runtime.cuda.conftest import answering, build
from runtime.cuda.fake_driver import FakeDevice, FakeDriver
from tileloom.base.errors import UnsupportedError
from tileloom.runtime import cuda
from tileloom.runtime.cuda import api

SOURCES = Path(__file__).parents[3] / "src"


def said(statements: str) -> str:
    """What a fresh process prints, where nothing of ours stands in for the driver."""
    done = subprocess.run(
        [sys.executable, "-c", f"from tileloom.runtime import cuda\n{statements}"],
        env={"PYTHONPATH": str(SOURCES), "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


CATCH = "try:\n    cuda.device()\nexcept cuda.NoDriverError as error:\n    print(error)"


def test_without_a_driver() -> None:
    pytest.importorskip("cuda.bindings.driver")
    if fake_library.library() is None:
        pytest.skip("there is a true CUDA driver")
    message = said(f"print(cuda.is_available(), cuda.native_arch())\n{CATCH}")
    assert message.startswith("False None\nthere is no CUDA driver: ")
    assert 'hint: install NVIDIA\'s; build(..., "cuda", device="emulator") runs' in message


def test_without_the_package() -> None:
    hidden = "import sys; sys.modules['cuda'] = sys.modules['cuda.bindings'] = None\n"
    message = said(hidden + CATCH)
    assert "through the package cuda-bindings, which is missing" in message
    assert "pip install 'tileloom[cuda]'" in message


def test_importing_the_runtime_does_not_load_the_driver() -> None:
    assert said("import sys; print([m for m in sys.modules if m.startswith('cuda')])") == "[]\n"


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (100, "finds no GPU"),
        (34, "no driver"),
        (35, "does not start"),
        (803, "do not match"),
        (999, "does not start"),
    ],
)
def test_a_driver_that_does_not_start(plug: Callable[..., Any], code: int, text: str) -> None:
    plug(no_device=code)
    with pytest.raises(cuda.NoDriverError, match=text) as caught:
        cuda.device()
    assert isinstance(caught.value, UnsupportedError)
    assert not cuda.is_available()
    assert cuda.device_count() == 0


@pytest.mark.parametrize(
    ("which", "text"),
    [(1, "no device cuda:1"), (-1, "no device cuda:-1"), ("cuda:3", "no device cuda:3"),
     ("cpu", "'cpu' is no CUDA device"), ("cuda:x", "is no CUDA device")],
)  # fmt: skip
def test_devices_that_are_not_there(gpu: FakeDriver, which: object, text: str) -> None:
    with pytest.raises(cuda.CudaError, match=text):
        cuda.device(which)


def test_names_of_devices(plug: Callable[..., Any]) -> None:
    plug(FakeDevice("One"), FakeDevice("Two"))
    assert [cuda.device(w).name for w in (None, "cuda", 0, "cuda:1", 1)] == [
        "One", "One", "One", "Two", "Two",
    ]  # fmt: skip
    assert cuda.device(cuda.device(1)) is cuda.device(1)
    assert cuda.device_count() == 2


def test_a_kernel_that_goes_astray(plug: Callable[..., Any]) -> None:
    """The error comes later, and from then on every time."""
    driver = plug()
    kernel = build(driver, programs.scaled())
    a, b = cuda.zeros(96), cuda.empty(96)
    kernel(a, b)
    kernel(a, b)
    with answering(driver, "cuStreamSynchronize", fake_parts.ILLEGAL_ADDRESS):
        with pytest.raises(cuda.LostContextError) as caught:
            b.numpy()
        driver.sticky = fake_parts.ILLEGAL_ADDRESS
    message = str(caught.value)
    assert "a kernel read or wrote memory that is not an array's" in message
    assert "(CUDA_ERROR_ILLEGAL_ADDRESS); cuStreamSynchronize only brought it to light" in message
    assert "until the process is started anew. Launched last: main." in message
    assert "CUDA_LAUNCH_BLOCKING=1" in message
    with pytest.raises(cuda.LostContextError, match="the launch of main only brought"):
        kernel(a, b)
    with pytest.raises(cuda.LostContextError):
        cuda.zeros(1 << 20)


def test_an_assertion_in_a_kernel(plug: Callable[..., Any]) -> None:
    driver = plug()
    a = cuda.zeros(8)
    with (
        answering(driver, "cuStreamSynchronize", fake_parts.LAUNCH_FAILED),
        pytest.raises(cuda.LostContextError, match="as at a trap: an assertion"),
    ):
        a.numpy()


def test_a_forked_process(plug: Callable[..., Any]) -> None:
    driver = plug()
    cuda.device()
    with (
        answering(driver, "cuCtxPushCurrent", fake_parts.NOT_INITIALIZED),
        pytest.raises(cuda.CudaError, match="a process that was forked"),
    ):
        cuda.zeros(8)


def test_names_of_codes() -> None:
    driver = pytest.importorskip("cuda.bindings.driver")
    names = {*api.STICKY, *api._NO_DEVICE, *api._HINTS}
    assert names <= {code.name for code in driver.CUresult}


def test_codes_that_the_bindings_do_not_know(gpu: FakeDriver) -> None:
    cuda.device()
    assert api.code_name(4711) == "CUDA error 4711"
    assert api.describe(4711) == "CUDA error 4711"


def test_functions_that_the_driver_does_not_have(gpu: FakeDriver) -> None:
    with pytest.raises(cuda.CudaError, match="the CUDA driver cannot do cuMemAllocManaged"):
        api.call("cuMemAllocManaged", 8, 1)


def test_bad_addresses_do_not_hide(plug: Callable[..., Any]) -> None:
    """The fake driver itself: an access outside of an array is an illegal address."""
    driver = plug()
    with cuda.device().active(), pytest.raises(cuda.CudaError, match="INVALID_VALUE"):
        api.call("cuMemsetD8Async", 12345, 0, 8, 0)
    assert not driver.problems


@pytest.mark.parametrize("name", ["cuStreamCreate", "cuEventCreate", "cuMemGetInfo"])
def test_other_refusals_name_the_function(gpu: FakeDriver, name: str) -> None:
    where = cuda.device()
    ways: dict[str, Callable[[], object]] = {
        "cuStreamCreate": cuda.Stream,
        "cuEventCreate": cuda.Event,
        "cuMemGetInfo": where.free_memory,
    }
    with (
        answering(gpu, name, 1),
        pytest.raises(cuda.CudaError, match=f"{name} failed: meaning of 1"),
    ):
        ways[name]()
    assert gpu.stack == []
