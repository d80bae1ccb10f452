"""What compiled code depends on, and which devices and programs are refused."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tileloom
from tileloom.base.errors import InternalError, UnsupportedError, VerifyError
from tileloom.driver import functions
from tileloom.driver.backend import backend_of, device_of
from tileloom.driver.cuda import CudaBackend
from tileloom.driver.keys import _plain, _stamps_below
from tileloom.driver.launching import check_memory
from tileloom.runtime.device import HOST
from tileloom.script import from_source
from tileloom.target import target

# ---------------------------------------------------------------------------- stamps


def test_every_source_file_has_a_stamp(tmp_path: Path) -> None:
    for name in ("a.py", "b/c.py", "b/d/e.py", "b/__pycache__/f.py", "g.txt", "b/h.pyc"):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)
    found = {
        stamp.rsplit(":", 2)[0]: stamp.rsplit(":", 2)[1:] for stamp in _stamps_below(str(tmp_path))
    }
    assert found.keys() == {str(tmp_path / name) for name in ("a.py", "b/c.py", "b/d/e.py")}
    for name, (size, time) in found.items():
        assert (int(size), int(time)) == (os.stat(name).st_size, os.stat(name).st_mtime_ns)


def test_in_an_archive_there_is_one_stamp(tmp_path: Path) -> None:
    archive = tmp_path / "package.zip"
    archive.write_bytes(b"12345")
    (found,) = _stamps_below(str(archive / "tileloom" / "deep"))
    assert found == f"{archive}:5:{os.stat(archive).st_mtime_ns}"


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        ({"x": 1, "y": 2}, {"y": 2, "x": 1}, True), ({"x": 1}, {"x": 2}, False),
        ((1, 2), (1, 2), True), ((1, 2), [1, 2], False), ((1, (2,)), (1, 2), False),
        (1, 1.0, False), (1, True, False), (None, "None", False), ("1", 1, False),
        (np.arange(3), np.arange(3), True), (np.arange(3), np.arange(3)[::-1], False),
        (np.arange(3), np.arange(3.0), False), (np.float32(2), np.float32(2), True),
        (np.float32(2), np.float64(2), False), ([np.arange(2)], [np.arange(2)], True),
        (object, object, False), ({1}, {1}, False),  # like nothing that was seen before
    ],
)  # fmt: skip
def test_attributes_as_text(a: object, b: object, same: bool) -> None:
    assert (_plain(a) == _plain(b)) is same


# ---------------------------------------------------------------------------- devices


@pytest.mark.parametrize(
    ("where", "device", "said"),
    [
        ("cpu", "emulator", "there is no device 'emulator' for the target cpu"),
        ("cpu", "cuda:0", "there is no device 'cuda:0' for the target"),
        ("cuda", "cpu", "there is no device 'cpu' for the target cuda"),
        ("cuda -arch=sm_80", "abacus", "there is no device 'abacus'"),
    ],
)
def test_devices_that_do_not_run_such_code(where: str, device: str, said: str) -> None:
    for ask in (backend_of, device_of):
        with pytest.raises(UnsupportedError, match=said) as caught:
            ask(where, device)
        assert 'the device "emulator" runs code for the target "cuda"' in str(caught.value)


def test_devices_that_do() -> None:
    assert device_of("cpu") is HOST and device_of("cpu", "cpu") is HOST
    assert device_of("cuda", "emulator") is HOST and device_of("cuda") is not HOST
    one = backend_of("cuda -arch=sm_80", "emulator")
    assert one.target == target("cuda -arch=sm_80") and one.key.startswith("emulator ")
    assert one.key != backend_of("cuda -arch=sm_90", "emulator").key


# ---------------------------------------------------------------------------- programs


def function(body: str) -> Any:
    return from_source(f"""
@T.prim_func
def main(A: T.Buffer((8,), "float32"), n: T.int32):
    x = T.launch_thread("threadIdx.x", 32)
{body}
""")


def test_kernels_for_gpus_are_not_checked() -> None:
    backend: Any = object.__new__(CudaBackend)
    backend.target = target("cuda -arch=sm_80")
    with pytest.raises(UnsupportedError, match="kernels for GPUs check no indices") as caught:
        backend.build(tileloom.IRModule({"main": function("    A[0] = 1.0")}), checked=True)
    assert 'device="emulator"' in str(caught.value)


@pytest.mark.parametrize(("size", "said"), [("4, 2", None), ("n, 2", "n \\* 2 elements for each")])
def test_memory_of_a_thread_has_a_size(size: str, said: str | None) -> None:
    func = function(f'    R = T.allocate([{size}], "float32", "local")\n    A[0] = 1.0')
    if said is None:
        check_memory(func)
        return
    with pytest.raises(UnsupportedError, match=said):
        check_memory(func)


def test_a_variable_without_a_value_is_the_programs_mistake(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And a fault of ours stays ours where the program has none."""

    def broken(*_: object) -> Any:
        raise InternalError("a fault of ours")

    monkeypatch.setattr(functions, "_built", broken)
    right = from_source("""
@T.prim_func
def main(A: T.Buffer((8,), "float32")):
    for i in range(8):
        A[i] = 1.0
""")
    wrong: Any = from_source("""
@T.prim_func
def main(A: T.Buffer((8,), "float32")):
    for i in range(8):
        A[i] = 1.0
""")
    wrong = wrong.replace(body=wrong.body.body)  # `i` without its loop
    build: Callable[..., Any] = tileloom.build
    with pytest.raises(InternalError, match="a fault of ours"):
        build(right)
    with pytest.raises(VerifyError, match=r"\bi\b"):
        build(wrong)
