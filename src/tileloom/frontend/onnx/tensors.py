"""TensorProto, SparseTensorProto -> NumPy arrays, trusting nothing that the file says."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from onnx import SparseTensorProto, TensorProto

from ...base.errors import UserError
from .elements import (
    PACKED_BITS,
    integer_range,
    is_float,
    is_integer,
    numpy_type,
    type_name,
)
from .fold import LARGEST_TENSOR
from .values import Array, as_object_array


def to_array(proto: TensorProto, folder: Path | None = None) -> Array:
    """The array of a TensorProto.

    Raises:
        UserError: when data and dimensions do not agree, or the data cannot be read.
    """
    kind = numpy_type(proto.data_type)
    shape = _shape(proto.dims, f"tensor {proto.name!r}")
    if proto.data_location == TensorProto.EXTERNAL:
        return _from_file(proto, kind, shape, folder)
    count = _count(shape)
    bits = PACKED_BITS.get(type_name(proto.data_type), kind.itemsize * 8)
    if kind == np.dtype(object):
        _expect(proto, len(proto.string_data), count)
        return as_object_array([_text(item) for item in proto.string_data], shape)
    if proto.HasField("raw_data"):
        _expect(proto, len(proto.raw_data), (count * bits + 7) // 8, "bytes")
        stored = np.frombuffer(proto.raw_data, np.uint8)
        return _unpack(stored, kind, bits, count).reshape(shape)
    return _from_fields(proto, kind, bits, count).reshape(shape)


def _unpack(stored: Array, kind: np.dtype[Any], bits: int, count: int) -> Array:
    """Elements from bytes; those of a few bits lie low bits first."""
    if bits == kind.itemsize * 8:
        return stored.view(_little(kind))
    parts = [(stored >> shift) & ((1 << bits) - 1) for shift in range(0, 8, bits)]
    codes = np.stack(parts, -1).reshape(-1)[:count]
    if not is_integer(kind):
        return codes.view(kind)
    low, high = integer_range(kind)
    return np.where(codes > high, codes.astype(np.int8) + 2 * low, codes).astype(kind)


_WIDE_FIELDS = {
    "FLOAT": "float_data", "DOUBLE": "double_data", "INT64": "int64_data",
    "UINT64": "uint64_data", "UINT32": "uint64_data", "COMPLEX64": "float_data",
    "COMPLEX128": "double_data",
}  # fmt: skip


def _from_fields(proto: TensorProto, kind: np.dtype[Any], bits: int, count: int) -> Array:
    """Elements from the typed fields; narrow ones are in `int32_data`, floats as bit patterns."""
    name = type_name(proto.data_type)
    field = _WIDE_FIELDS.get(name, "int32_data")
    values = getattr(proto, field)
    if kind.kind == "c":
        _expect(proto, len(values), 2 * count)
        return np.array(values, np.float64).view(np.complex128).astype(kind)
    packed = bits < 8
    _expect(proto, len(values), (count * bits + 7) // 8 if packed else count)
    if field != "int32_data":
        return np.array(values, kind)
    numbers = np.array(values, np.int32)
    if packed:
        return _unpack(numbers.astype(np.uint8), kind, bits, count)
    if is_float(kind):
        return numbers.astype(np.uint16 if kind.itemsize == 2 else np.uint8).view(kind)
    return numbers.astype(kind)


def _little(kind: np.dtype[Any]) -> np.dtype[Any]:
    return kind if kind.kind == "V" else kind.newbyteorder("<")


def _text(item: bytes) -> str:
    return item.decode("utf-8", errors="replace")


def _shape(dims: Sequence[int], what: str) -> tuple[int, ...]:
    shape = tuple(int(extent) for extent in dims)
    if any(extent < 0 for extent in shape):
        raise UserError(f"{what} has a negative dimension: {list(shape)}")
    return shape


def _count(shape: tuple[int, ...]) -> int:
    result = 1
    for extent in shape:
        result *= extent
    return result


def _expect(proto: TensorProto, found: int, needed: int, unit: str = "values") -> None:
    if found != needed:
        raise UserError(
            f"tensor {proto.name!r} of shape {list(proto.dims)} and type "
            f"{type_name(proto.data_type)} needs {needed} {unit}, but the file has {found}"
        )


# ---------------------------------------------------------------------------- external data


def _from_file(
    proto: TensorProto, kind: np.dtype[Any], shape: tuple[int, ...], folder: Path | None
) -> Array:
    entries = {entry.key: entry.value for entry in proto.external_data}
    path = _safe_path(proto.name, entries.get("location", ""), folder)
    offset = _number(proto.name, entries, "offset", 0)
    count = _count(shape)
    bits = PACKED_BITS.get(type_name(proto.data_type), kind.itemsize * 8)
    needed = (count * bits + 7) // 8
    length = _number(proto.name, entries, "length", needed)
    size = path.stat().st_size
    if kind == np.dtype(object) or length != needed or offset + needed > size:
        raise UserError(
            f"external data of tensor {proto.name!r}: needs {needed} bytes at offset {offset} of "
            f"{path.name!r}, which has {size} bytes; the model says the length is {length}"
        )
    if count == 0:
        return np.zeros(shape, kind)
    if bits == kind.itemsize * 8:
        flat = np.memmap(path, np.uint8, "r", offset, (needed,))
        return flat.view(np.ndarray).view(_little(kind)).reshape(shape)
    stored = np.fromfile(path, np.uint8, needed, offset=offset)
    return _unpack(stored, kind, bits, count).reshape(shape)


def _number(name: str, entries: dict[str, str], key: str, default: int) -> int:
    text = entries.get(key, "")
    if text == "":
        return default
    if not text.isdecimal():
        raise UserError(f"external data of tensor {name!r}: {key} {text!r} is not a number")
    return int(text)


def _safe_path(name: str, location: str, folder: Path | None) -> Path:
    """The data file, which must lie in the model's folder: a model must not read elsewhere."""
    what = f"external data {location!r} of tensor {name!r}"
    if folder is None:
        raise UserError(
            f"{what} cannot be found: the model was not loaded from a file",
            hint="load it by its path",
        )
    root = folder.resolve()
    try:
        path = (root / location).resolve()
        inside = path.is_relative_to(root) and not Path(location).is_absolute()
        found = inside and path.is_file()
    except (ValueError, OSError):
        raise UserError(f"{what} is not a usable path") from None
    if not inside:
        raise UserError(
            f"{what} lies outside the model's folder",
            hint="links that lead out of it are not followed either: put a copy there",
        )
    if not found:
        raise UserError(f"{what} is missing in {str(root)!r}")
    return path


# ---------------------------------------------------------------------------- sparse


def to_dense(proto: SparseTensorProto, folder: Path | None = None) -> Array:
    """The dense array of a SparseTensorProto."""
    name = proto.values.name
    shape = _shape(proto.dims, f"sparse tensor {name!r}")
    values = to_array(proto.values, folder).reshape(-1)
    indices = to_array(proto.indices, folder)
    count = _count(shape)
    if count * max(values.dtype.itemsize, 1) > LARGEST_TENSOR:
        raise UserError(f"sparse tensor {name!r} of shape {list(shape)} is too large when dense")
    if indices.ndim == 2 and indices.shape == (len(values), len(shape)):
        limits = np.asarray(shape, np.int64)
        _check_places(name, indices, limits)
        places = np.ravel_multi_index(tuple(indices.T), shape) if len(values) else []
    elif indices.shape == values.shape:
        _check_places(name, indices, np.int64(count))
        places = indices
    else:
        raise UserError(
            f"sparse tensor {name!r}: {len(values)} values, but indices of {indices.shape}"
        )
    dense = np.zeros(count, values.dtype)
    dense[places] = values
    return dense.reshape(shape)


def _check_places(name: str, indices: Array, limits: Any) -> None:
    if indices.dtype.kind != "i" or (indices < 0).any() or (indices >= limits).any():
        raise UserError(f"sparse tensor {name!r} has indices outside its shape")
