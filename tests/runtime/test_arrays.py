"""Memory of others: what is read off arrays, tensors and DLPack capsules."""

from __future__ import annotations

import array
import ctypes
import gc
import sys
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tileloom.base.errors import ArgumentError
from tileloom.runtime import as_numpy, as_view, dlpack, from_dlpack
from tileloom.runtime.arrays import ArrayView, compact_strides

ALL_TYPES = [
    np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64,
    np.float16, np.float32, np.float64, np.bool_, ml_dtypes.bfloat16,
    ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2,
]  # fmt: skip


@pytest.mark.parametrize("kind", ALL_TYPES)
def test_numpy_arrays_of_every_type(kind: type[Any]) -> None:
    a = np.zeros((2, 3, 5), kind)[:, ::-1, ::2]
    view = as_view(a)
    assert (view.shape, view.strides, view.pointer) == (a.shape, a.strides, a.ctypes.data)
    assert view.dtype.numpy == a.dtype and view.device == "cpu" and not view.readonly
    assert view.owner is a and not view.is_compact


def test_extent_of_any_layout() -> None:
    base = np.zeros((7, 11), np.int32)
    start = base.ctypes.data
    cases = [base, base[1:3], base[:, 2:4], base[::-1], base[::2, ::-3], base.T, base[3, 4]]
    cases += [base[:1], base[2:3, ::-1], base[::-1, 4:5], base[::3, 4:5], base[::-1, :1][::2]]
    for a in cases:
        a = np.asarray(a)
        low, high = as_view(a).extent
        byte_bounds = np.lib.array_utils.byte_bounds(a)
        assert (low, high) == byte_bounds
    assert as_view(base[:0]).extent == (start, start)


def test_compactness_ignores_axes_of_extent_one() -> None:
    base = np.zeros((4, 6), np.int32)
    assert as_view(base[:1, :3]).is_compact
    assert as_view(base[:, :1]).is_compact is False
    assert as_view(base[1:2, 2:3].T).is_compact
    assert as_view(base[:0, ::2]).is_compact
    assert compact_strides((), 4) == ()


def test_read_only_and_foreign_order() -> None:
    a = np.zeros(3)
    a.flags.writeable = False
    assert as_view(a).readonly
    assert as_view(b"abcd").readonly and as_view(bytearray(4)).dtype == "uint8"
    with pytest.raises(ArgumentError, match="byte order"):
        as_view(np.zeros(3, ">f4"))


@pytest.mark.parametrize(
    "value",
    [
        np.zeros(2, complex),
        np.array(["a"]),
        np.array([None]),
        np.zeros(2, "M8[s]"),
        np.zeros(2, "V3"),
    ],
)
def test_types_without_a_meaning_here(value: np.ndarray[Any, Any]) -> None:
    with pytest.raises(ArgumentError, match="unsupported type"):
        as_view(value)


@pytest.mark.parametrize("value", [None, 3, 2.5, "x", [1.0], (1,), {}, np.float32(1), object])
def test_no_arrays(value: Any) -> None:
    with pytest.raises(ArgumentError, match="not an array but"):
        as_view(value)


def test_array_that_would_copy_is_refused() -> None:
    class Copies:
        def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
            if copy is False:
                raise ValueError("only by copying")
            return np.zeros(3)

    with pytest.raises(ArgumentError, match=r"Copies gives no memory without a copy: only by"):
        as_view(Copies())


def test_as_numpy_shares_memory() -> None:
    a: Any = np.arange(12, dtype=np.float32).reshape(3, 4)[:, ::2]

    class Interface:
        __array_interface__ = a.__array_interface__

    for value in (a, Interface(), memoryview(a)):
        same = as_numpy(value)
        assert np.array_equal(same, a) and np.shares_memory(same, a) and same.strides == a.strides


class Capsule:
    """Speaks DLPack over its own copy of the structures."""

    def __init__(
        self,
        values: np.ndarray[Any, Any],
        shape: tuple[int, ...],
        code: int,
        bits: int,
        strides: tuple[int, ...] | None = None,
        **rest: Any,
    ) -> None:
        self.values = values
        self.extents = (ctypes.c_int64 * len(shape))(*shape)
        self.steps = (ctypes.c_int64 * len(shape))(*strides) if strides else None
        self.device = rest.get("device", (1, 0))
        self.version = rest.get("version")
        tensor = dlpack.Tensor(
            values.ctypes.data, *self.device, len(shape), code, bits, rest.get("lanes", 1),
            self.extents, self.steps, rest.get("offset", 0),
        )  # fmt: skip
        self.managed = dlpack.VersionedTensor(
            *(self.version or (1, 0)), 0, 0, rest.get("flags", 0), tensor
        )
        self.plain = tensor

    def __dlpack_device__(self) -> Any:
        return self.device

    def __dlpack__(self, **options: object) -> Any:
        if self.version is None and options:
            raise TypeError("older than the keyword")
        make = ctypes.pythonapi.PyCapsule_New
        make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p] * 3
        if self.version is None:
            self.name = ctypes.create_string_buffer(b"dltensor")
            return make(ctypes.addressof(self.plain), ctypes.addressof(self.name), None)
        self.name = ctypes.create_string_buffer(b"dltensor_versioned")
        return make(ctypes.addressof(self.managed), ctypes.addressof(self.name), None)


@pytest.mark.parametrize("version", [None, (1, 0), (1, 1)])
@pytest.mark.parametrize(
    ("kind", "code", "bits"),
    [
        (np.int16, 0, 16),
        (np.uint64, 1, 64),
        (np.float16, 2, 16),
        (np.float64, 2, 64),
        (ml_dtypes.bfloat16, 4, 16),
        (np.bool_, 6, 8),
        (ml_dtypes.float8_e4m3fn, 10, 8),
        (ml_dtypes.float8_e5m2, 12, 8),
    ],
)
def test_dlpack_of_every_type_and_version(
    version: tuple[int, ...] | None, kind: type[Any], code: int, bits: int
) -> None:
    values = np.arange(6).astype(kind)
    capsule = Capsule(values, (2, 3), code, bits, version=version)
    view = as_view(capsule)
    assert (view.shape, view.pointer) == ((2, 3), values.ctypes.data)
    assert view.is_compact and view.dtype.numpy == values.dtype and not view.readonly
    assert np.array_equal(as_numpy(capsule), values.reshape(2, 3))


def test_dlpack_strides_offset_and_flags() -> None:
    values = np.arange(20, dtype=np.int32)
    view = from_dlpack(
        Capsule(values, (2, 3), 0, 32, strides=(10, 2), offset=8, version=(1, 0), flags=1)
    )
    assert view.strides == (40, 8) and view.pointer == values.ctypes.data + 8 and view.readonly
    assert as_numpy(Capsule(values, (2, 3), 0, 32, strides=(10, 2), offset=8)).tolist() == [
        [2, 4, 6],
        [12, 14, 16],
    ]
    assert from_dlpack(Capsule(values, (), 0, 32)).shape == ()
    assert as_numpy(Capsule(values, (0, 3), 0, 32)).shape == (0, 3)
    nothing = Capsule(values, (3, 0), 2, 16)
    nothing.plain.data = None
    assert as_numpy(nothing).shape == (3, 0) and as_numpy(nothing).dtype == np.float16


def test_dlpack_that_we_do_not_know() -> None:
    values = np.zeros(4, np.float32)
    rest: Any
    for code, bits, rest in [(5, 64, {}), (2, 32, {"lanes": 4}), (3, 64, {}), (99, 8, {})]:
        with pytest.raises(ArgumentError, match="unsupported type"):
            from_dlpack(Capsule(values, (4,), code, bits, **rest))
    with pytest.raises(ArgumentError, match="version 2"):
        from_dlpack(Capsule(values, (4,), 2, 32, version=(2, 0)))


@pytest.mark.parametrize(
    ("device", "name"),
    [
        ((2, 3), "cuda:3"),
        ((8, 0), "metal:0"),
        ((13, 0), "cuda-managed:0"),
        ((77, 1), "device type 77:1"),
    ],
)
def test_dlpack_elsewhere_is_not_touched(device: tuple[int, ...], name: str) -> None:
    view = as_view(Capsule(np.zeros(4, np.float32), (4,), 2, 32, device=device))
    assert view.device == name and view.pointer == 0 and view.dtype == "void"
    with pytest.raises(ArgumentError, match="not in the CPU's memory"):
        as_numpy(Capsule(np.zeros(4, np.float32), (4,), 2, 32, device=device))


def test_dlpack_memory_lives_as_long_as_the_view() -> None:
    values = np.arange(5.0)
    count = sys.getrefcount(values)

    class Producer:
        def __dlpack__(self, **options: Any) -> Any:
            return values.__dlpack__(**options)

        def __dlpack_device__(self) -> tuple[int, ...]:
            return values.__dlpack_device__()

    view = as_view(Producer())
    assert sys.getrefcount(values) == count + 1
    same = as_numpy(Producer())
    assert same.tolist() == values.tolist()
    del view, same
    gc.collect()
    assert sys.getrefcount(values) == count


def test_broken_producers() -> None:
    class Refuses:
        def __dlpack_device__(self) -> tuple[int, ...]:
            return (1, 0)

        def __dlpack__(self, **options: object) -> Any:
            raise BufferError("not today")

    class NotACapsule(Refuses):
        def __dlpack__(self, **options: object) -> Any:
            return 3

    with pytest.raises(ArgumentError, match="Refuses gives no memory through DLPack: not today"):
        as_view(Refuses())
    with pytest.raises(ArgumentError, match="no capsule but int"):
        as_view(NotACapsule())


def test_pytorch_tensors() -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.arange(12, dtype=torch.bfloat16).reshape(3, 4)[:, ::2]
    view = as_view(tensor)
    assert view == ArrayView(tensor.data_ptr(), (3, 2), (8, 4), "bfloat16", False, tensor)  # type: ignore[arg-type]
    assert as_numpy(tensor).astype(float).tolist() == [[0, 2], [4, 6], [8, 10]]
    with pytest.raises(ArgumentError, match="conjugation or negation"):
        as_view(torch.zeros(2, dtype=torch.complex64).conj().imag)
    with pytest.raises(ArgumentError, match="unsupported type"):
        as_view(torch.zeros(2, dtype=torch.complex64))


def test_arrays_of_the_standard_library() -> None:
    numbers = array.array("d", [1, 2, 3])
    assert as_view(numbers).dtype == "float64"
    assert as_numpy(memoryview(numbers)).tolist() == [1, 2, 3]
