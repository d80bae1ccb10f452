"""Element types: ONNX's numbers, NumPy's types, and which of them the graph computes in."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from onnx import TensorProto

from ...base import DType, dtype
from ...base.errors import UnsupportedError

#: The types that tensors of the graph may have. Values of other types (strings, four-bit numbers,
#: narrow floats, complex numbers) live on the host; see `values.py`.
GRAPH_TYPES = frozenset(
    dtype(name).numpy
    for name in (
        "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
        "float16", "bfloat16", "float32", "float64",
    )
)  # fmt: skip
#: NumPy types by ONNX's names where they differ; what this ml_dtypes lacks is not supported.
_SPECIAL = {
    "FLOAT": "float32", "DOUBLE": "float64", "STRING": "object", "BFLOAT16": "bfloat16",
    "FLOAT8E4M3FN": "float8_e4m3fn", "FLOAT8E4M3FNUZ": "float8_e4m3fnuz",
    "FLOAT8E5M2": "float8_e5m2", "FLOAT8E5M2FNUZ": "float8_e5m2fnuz",
    "FLOAT8E8M0": "float8_e8m0fnu", "FLOAT4E2M1": "float4_e2m1fn",
    "FLOAT6E2M3": "float6_e2m3fn", "FLOAT6E3M2": "float6_e3m2fn",
}  # fmt: skip


def _find_type(name: str) -> np.dtype[Any] | None:
    special = _SPECIAL.get(name, name.lower())
    try:
        return np.dtype(getattr(ml_dtypes, special, special))
    except TypeError:
        return None


_NAMES = {number: name for name, number in TensorProto.DataType.items()}
_BY_NUMBER = {
    number: kind for number, name in _NAMES.items() if (kind := _find_type(name)) is not None
}
_NUMBERS = {kind: number for number, kind in _BY_NUMBER.items()}
#: Bits of one element where storage packs several into a byte.
PACKED_BITS = {"INT4": 4, "UINT4": 4, "FLOAT4E2M1": 4, "INT2": 2, "UINT2": 2}


def numpy_type(elem_type: int) -> np.dtype[Any]:
    """The NumPy type of an ONNX element type.

    >>> numpy_type(1), numpy_type(8)
    (dtype('float32'), dtype('O'))
    """
    found = _BY_NUMBER.get(elem_type)
    if found is None:
        raise UnsupportedError(f"element type {type_name(elem_type)} of ONNX is not supported")
    return found


def elem_type_of(kind: np.dtype[Any]) -> int:
    """ONNX's number of a NumPy type.

    >>> elem_type_of(np.dtype("float32"))
    1
    """
    found: int | None = _NUMBERS.get(kind)
    if found is None:
        raise UnsupportedError(f"ONNX has no element type for {kind}")
    return found


def graph_dtype(elem_type: int) -> DType:
    """The graph's type of an ONNX element type; refused if there is none."""
    found = numpy_type(elem_type)
    if not is_graph_type(found):
        raise UnsupportedError(f"tensors of {type_name(elem_type)} are not computed with")
    return dtype(found)


def is_graph_type(kind: np.dtype[Any]) -> bool:
    """Whether tensors of the graph may have this type."""
    return kind in GRAPH_TYPES


def type_name(elem_type: int) -> str:
    """What ONNX calls the type: "FLOAT", "STRING", ..."""
    name: str = _NAMES.get(elem_type, f"number {elem_type}")
    return name


_SHORT = {"FLOAT": "float", "DOUBLE": "double"}


def display_name(elem_type: int) -> str:
    """The type as ONNX Runtime's `get_inputs` shows it: "float", "double", "int64", "string"."""
    name = type_name(elem_type)
    return _SHORT.get(name, name.lower())


def is_float(kind: np.dtype[Any]) -> bool:
    """Whether this is a floating-point type, ml_dtypes' included."""
    return kind.kind == "f" or (kind.kind == "V" and kind.name.startswith(("float", "bfloat")))


def is_integer(kind: np.dtype[Any]) -> bool:
    """Whether this is an integer type, four-bit ones included."""
    return kind.kind in "iu" or (kind.kind == "V" and kind.name.startswith(("int", "uint")))


_LIMITS = {"int4": (-8, 7), "uint4": (0, 15), "int2": (-2, 1), "uint2": (0, 3)}


def integer_range(kind: np.dtype[Any]) -> tuple[int, int]:
    """The least and greatest value of an integer type.

    >>> integer_range(np.dtype("int8"))
    (-128, 127)
    """
    if kind.name in _LIMITS:
        return _LIMITS[kind.name]
    info = np.iinfo(kind)
    return int(info.min), int(info.max)


def float_maximum(kind: np.dtype[Any]) -> float:
    """The greatest finite value of a floating-point type."""
    return float(ml_dtypes.finfo(kind).max)
