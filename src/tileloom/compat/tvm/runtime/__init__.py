"""`tvm.runtime`: arrays, devices and compiled modules."""

from __future__ import annotations

from typing import Any

from ....base import DType, dtype
from ....expr import Expr
from .._names import missing
from ..error import TVMError
from ..tir.expr import convert
from ..tir.op import const
from . import module, ndarray
from .module import BenchmarkResult, Module, PackedFunc, load_module
from .ndarray import Device, NDArray, cpu, cuda, device, from_dlpack

Object = object
ObjectGeneric = object
Executable = Module
String = str


class DataType:
    """A data type by name: `DataType("float32x4").lanes`."""

    def __new__(cls, type_str: Any) -> DType:  # type: ignore[misc]
        """The type, which is its name."""
        return dtype(type_str)


def enabled(target: str) -> bool:
    """Whether code for a target can be run."""
    return target.split()[0] in ("llvm", "cpu")


__all__ = [
    "BenchmarkResult", "DataType", "Device", "Executable", "Expr", "Module", "NDArray", "Object",
    "ObjectGeneric", "PackedFunc", "String", "TVMError", "const", "convert", "cpu", "cuda",
    "device", "enabled", "from_dlpack", "load_module", "module", "ndarray",
]  # fmt: skip
__getattr__ = missing(__name__)
