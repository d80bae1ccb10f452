"""Arrays of other packages: their doors, told by stand-ins that have the same attributes."""

from __future__ import annotations

import ctypes
import gc
import sys
import types
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from runtime.cuda import programs
from runtime.cuda.conftest import build
from runtime.cuda.fake_driver import FakeDriver
from tileloom.base.errors import ArgumentError
from tileloom.runtime import cuda, dlpack
from tileloom.runtime.cuda import exports, foreign
from tileloom.runtime.cuda.array import DeviceArray


class Interface:
    """An array that has the CUDA array interface and nothing else, as Numba's have."""

    def __init__(self, array: DeviceArray, **changes: Any) -> None:
        self.array = array
        self.__cuda_array_interface__ = {**array.__cuda_array_interface__, **changes}


class Capsules:
    """An array that speaks DLPack and nothing else, as JAX's do."""

    def __init__(self, array: DeviceArray, old: bool = False) -> None:
        self.array, self.old = array, old
        self.streams: list[Any] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()

    def __dlpack__(self, **keywords: Any) -> Any:
        if self.old and "max_version" in keywords:
            raise TypeError("an unexpected keyword")
        self.streams.append(keywords["stream"])
        return self.array.__dlpack__(**keywords)


@pytest.mark.parametrize("kind", [Interface, Capsules, lambda a: Capsules(a, old=True)])
def test_arrays_of_others(gpu: FakeDriver, kind: Any) -> None:
    kernel = build(gpu, programs.scaled())
    a, b = cuda.asarray(np.arange(96, dtype="float32")), cuda.zeros(96)
    for _ in range(2):
        kernel(kind(a), kind(b))
    assert np.array_equal(b.numpy(), np.arange(96) * 2 + 1)


def test_the_stream_is_told_to_producers(gpu: FakeDriver) -> None:
    kernel = build(gpu, programs.scaled())
    a, b, side = Capsules(cuda.zeros(96)), cuda.zeros(96), cuda.Stream()
    kernel(a, b)
    kernel(a, b, stream=side)
    assert a.streams == [1, side.handle]  # 0 would be ambiguous: the legacy stream is 1


def test_owners_live_until_the_kernel_has_run(gpu: FakeDriver) -> None:
    kernel = build(gpu, programs.scaled())
    given, b, side = Interface(cuda.zeros(96)), cuda.zeros(96), cuda.Stream()
    before = sys.getrefcount(given)
    kernel(given, b, stream=side)
    gc.collect()
    assert sys.getrefcount(given) > before
    side.synchronize()
    kernel(cuda.zeros(96), Interface(b), stream=side)
    assert sys.getrefcount(given) == before


def test_the_interface_waits_for_its_stream(gpu: FakeDriver) -> None:
    kernel = build(gpu, programs.scaled())
    side = cuda.Stream()
    a = cuda.asarray(np.ones(96, "float32"), stream=side)
    kernel(a, a2 := cuda.empty(96, stream=side), stream=side)
    b = cuda.zeros(96)
    kernel(Interface(a2), b)  # the interface says which stream is still at work
    assert np.all(b.numpy() == 7)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"mask": object()}, "an array with a mask"),
        ({"typestr": ">f4"}, "foreign byte order"),
        ({"typestr": "<c8"}, "unsupported type complex64"),
        ({"data": (12345, False)}, "belongs to no GPU"),
        ({"stream": "x"}, "is no CUDA stream"),
    ],
)
def test_interfaces_that_are_refused(gpu: FakeDriver, changes: Any, text: str) -> None:
    kernel = build(gpu, programs.scaled())
    with pytest.raises(ArgumentError, match=text):
        kernel(Interface(cuda.zeros(96), **changes), cuda.zeros(96))


def test_what_is_read_only_is_not_written(gpu: FakeDriver) -> None:
    kernel = build(gpu, programs.scaled())
    a = cuda.zeros(96)
    fixed = Interface(cuda.zeros(96), data=(cuda.zeros(96).pointer, True))
    kernel(fixed, a)
    with pytest.raises(ArgumentError, match=r"argument 2 \(B\): is written .* read-only"):
        kernel(a, fixed)


def test_arrays_of_jax_are_not_written(gpu: FakeDriver) -> None:
    kernel = build(gpu, programs.scaled())
    array_type = type("ArrayImpl", (Capsules,), {"__module__": "jaxlib._jax"})
    a, b = array_type(cuda.zeros(96)), cuda.zeros(96)
    kernel(a, b)
    with pytest.raises(ArgumentError, match="read-only"):
        kernel(b, a)


def test_zero_copies(gpu: FakeDriver) -> None:
    a = cuda.zeros((4, 5))
    for given in (Interface(a), Capsules(a)):
        taken = cuda.asarray(given)
        assert (taken.pointer, taken.shape, taken.dtype) == (a.pointer, (4, 5), "float32")
        taken.copy_from(np.ones((4, 5), "float32"))
        assert np.all(a.numpy() == 1)
        a.clear()
    with pytest.raises(ArgumentError, match="no array in a GPU's memory"):
        cuda.as_device_array(np.zeros(3))


# ---------------------------------------------------------------------------- what we give


@pytest.mark.parametrize("version", [None, (0, 8), (1, 0), (1, 3)])
@pytest.mark.parametrize("kind", ["float32", "bfloat16", "bool", "float8_e4m3fn", "uint16"])
def test_capsules(gpu: FakeDriver, version: Any, kind: str) -> None:
    a = cuda.zeros((2, 3), kind)
    count = len(exports._exported)
    capsule = a.__dlpack__(stream=None, max_version=version)
    found = dlpack._read_capsule(capsule, "cuda:0")
    assert (found.pointer, found.shape, found.strides) == (a.pointer, (2, 3), (3, 1))
    assert (found.dtype, found.readonly) == (kind, False)
    assert ("versioned" in repr(capsule)) == (version is not None and version[0] >= 1)
    assert len(exports._exported) == count + 1
    del capsule, found
    assert len(exports._exported) == count


def test_a_consumed_capsule_keeps_the_memory(gpu: FakeDriver) -> None:
    """As a consumer does: rename it, use it, call its deleter."""
    a = cuda.zeros(8)
    pointer = a.pointer
    capsule = a.__dlpack__(stream=1)
    api = ctypes.pythonapi
    api.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
    address = dlpack._get_pointer(capsule, b"dltensor")
    used = b"used_dltensor"
    api.PyCapsule_SetName(capsule, used)
    del capsule, a
    gc.collect()
    assert cuda.zeros(8).pointer != pointer
    managed = dlpack.ManagedTensor.from_address(address)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(managed.deleter)(address)
    assert address not in exports._exported
    several = [cuda.zeros(8) for _ in range(3)]
    assert pointer in [array.pointer for array in several]


def test_capsules_wait_for_their_consumers_stream(gpu: FakeDriver) -> None:
    kernel = build(gpu, programs.scaled())
    one, two = cuda.Stream(), cuda.Stream()
    a, b = cuda.zeros(96, stream=one), cuda.zeros(96, stream=one)
    kernel(a, b, stream=one)
    b.__dlpack__(stream=two.handle)
    assert b.block.last == two.handle
    two.synchronize()
    assert gpu.memory(b.pointer, 4).view("float32")[0] == 1
    before = gpu.calls.count("cuStreamWaitEvent")
    b.__dlpack__(stream=-1)
    assert gpu.calls.count("cuStreamWaitEvent") == before


def test_what_capsules_are_refused(gpu: FakeDriver) -> None:
    a = cuda.zeros(8)
    with pytest.raises(ValueError, match="ambiguous"):
        a.__dlpack__(stream=0)
    with pytest.raises(BufferError, match="cannot be given"):
        a.__dlpack__(dl_device=(1, 0))
    copied = dlpack._read_capsule(a.__dlpack__(copy=True), "cuda:0")
    assert copied.pointer != a.pointer
    assert a.__dlpack_device__() == (2, 0)


def test_the_interface(gpu: FakeDriver) -> None:
    side = cuda.Stream()
    a = cuda.zeros((3, 4), "int16", stream=side)
    assert a.__cuda_array_interface__ == {
        "shape": (3, 4), "typestr": "<i2", "data": (a.pointer, False), "strides": None,
        "version": 3, "stream": side.handle,
    }  # fmt: skip
    assert cuda.zeros(3).__cuda_array_interface__["stream"] == 1
    assert not hasattr(cuda.zeros(3, "bfloat16"), "__cuda_array_interface__")


# ---------------------------------------------------------------------------- PyTorch and CuPy


class Device:
    type = "cuda"

    def __str__(self) -> str:
        return "cuda:0"


class Tensor:
    """What the runtime asks of a torch.Tensor on a GPU."""

    is_cuda = True
    layout = "strided"

    def __init__(self, array: DeviceArray, negated: bool = False) -> None:
        self.array, self.negated = array, negated
        self.dtype = f"torch.{array.dtype}"
        self.shape = array.shape
        self.device = Device()

    def get_device(self) -> int:
        return self.array.device.index

    def stride(self) -> tuple[int, ...]:
        if self.layout != "strided":
            raise RuntimeError("no strides")
        return tuple(step // self.array.dtype.bytes for step in self.array.strides)

    def data_ptr(self) -> int:
        return self.array.pointer

    def is_neg(self) -> bool:
        return self.negated

    def is_conj(self) -> bool:
        return False


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> types.SimpleNamespace:
    """A stand-in for PyTorch whose current stream can be set."""
    module = types.SimpleNamespace(Tensor=Tensor, strided="strided", stream=0)
    module._C = types.SimpleNamespace(_cuda_getCurrentRawStream=lambda index: module.stream)
    monkeypatch.setitem(sys.modules, "torch", module)
    monkeypatch.setattr(foreign, "_torch", foreign._torch.__wrapped__)
    return module


class CupyArray:
    """What the runtime asks of a cupy.ndarray."""

    def __init__(self, array: DeviceArray) -> None:
        self.array = array
        self.dtype, self.shape, self.strides = array.dtype.numpy, array.shape, array.strides
        self.data = types.SimpleNamespace(ptr=array.pointer, device_id=array.device.index)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch) -> types.SimpleNamespace:
    module = types.SimpleNamespace(ndarray=CupyArray, stream=0)
    current = lambda: types.SimpleNamespace(ptr=module.stream)  # noqa: E731
    module.cuda = types.SimpleNamespace(get_current_stream=current)
    monkeypatch.setitem(sys.modules, "cupy", module)
    monkeypatch.setattr(foreign, "_cupy", foreign._cupy.__wrapped__)
    return module


@pytest.mark.parametrize("package", ["torch", "cupy"])
def test_packages_that_are_read_directly(
    gpu: FakeDriver, package: str, torch: Any, cupy: Any
) -> None:
    module, kind = {"torch": (torch, Tensor), "cupy": (cupy, CupyArray)}[package]
    kernel = build(gpu, programs.scaled())
    side = cuda.Stream()
    a, b = cuda.asarray(np.arange(96, dtype="float32")), cuda.zeros(96)
    for stream in (0, side.handle, side.handle):
        module.stream = stream
        kernel(kind(a), kind(b))
        assert gpu.launched[-1].stream == stream  # theirs is the current one
    assert len(kernel._prepared) == 1
    with cuda.Stream() as ours:
        kernel(kind(a), kind(b))
        assert gpu.launched[-1].stream == ours.handle
    cuda.device().synchronize()
    assert np.array_equal(b.numpy(), np.arange(96) * 2 + 1)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"negated": True}, "pending conjugation or negation"),
        ({"layout": "sparse"}, "of layout sparse"),
        ({"dtype": "torch.complex64"}, "unsupported type complex64"),
        ({"shape": (95,)}, r"got shape \(95,\)"),
    ],
)
def test_tensors_that_are_refused(
    gpu: FakeDriver, torch: Any, change: dict[str, Any], text: str
) -> None:
    kernel = build(gpu, programs.scaled())
    a, b = Tensor(cuda.zeros(96)), Tensor(cuda.zeros(96))
    kernel(a, b)
    for name, value in change.items():
        setattr(b, name, value)
    for _ in range(2):
        with pytest.raises(ArgumentError, match=text):
            kernel(a, b)


def test_tensors_of_the_cpu(gpu: FakeDriver) -> None:
    torch = pytest.importorskip("torch")
    kernel = build(gpu, programs.scaled())
    with pytest.raises(ArgumentError, match=r"(?s)got one on cpu.*asarray copies to the GPU"):
        kernel(cuda.zeros(96), torch.zeros(96))
    made = cuda.asarray(torch.ones(96))
    b = cuda.zeros(96)
    kernel(made, b)
    assert np.all(b.numpy() == 3)


def test_bfloat16_from_jax(gpu: FakeDriver) -> None:
    jax = pytest.importorskip("jax")
    host = jax.numpy.arange(6, dtype="bfloat16")
    assert cuda.asarray(host).numpy().dtype == ml_dtypes.bfloat16
