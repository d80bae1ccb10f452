"""`tvm.meta_schedule.arg_info`: what a function takes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from ....base import dtype as parse_dtype
from ....tir import IRModule, PrimFunc
from .._names import missing
from ..runtime import DataType
from .utils import plain


class ArgInfo(ABC):
    """What one parameter takes."""

    @abstractmethod
    def as_json(self) -> Any:
        """The information as JSON data."""

    @staticmethod
    def from_json(json_obj: Any) -> TensorInfo:
        """What `as_json` has written."""
        return TensorInfo.from_json(json_obj)

    @staticmethod
    def from_prim_func(func: PrimFunc) -> list[TensorInfo]:
        """What each parameter of a function takes."""
        buffers = [func.buffer_map[param] for param in func.params]
        return [TensorInfo(str(buffer.dtype), plain(list(buffer.shape))) for buffer in buffers]

    @staticmethod
    def from_entry_func(mod: IRModule, remove_preproc: bool = True) -> list[TensorInfo]:
        """What each parameter of the function that is run takes."""
        functions = dict(mod.functions)
        func = functions.get("main") or next(iter(functions.values()))
        return ArgInfo.from_prim_func(func)


class TensorInfo(ArgInfo):
    """A tensor.

    >>> TensorInfo("float32", [2, 3])
    TensorInfo("float32", [2, 3])
    """

    def __init__(self, dtype: Any, shape: Sequence[Any]) -> None:
        self.dtype = DataType(dtype) if isinstance(dtype, str) else parse_dtype(dtype)
        self.shape = [int(size) for size in plain(list(shape))]

    def as_json(self) -> Any:
        """`["TENSOR", type, shape]`."""
        return ["TENSOR", str(self.dtype), self.shape]

    @staticmethod
    def from_json(json_obj: Any) -> TensorInfo:
        """What `as_json` has written."""
        kind, dtype, shape = json_obj
        if kind != "TENSOR":
            raise ValueError(f"arguments are tensors, not {kind!r}")
        return TensorInfo(dtype, shape)

    def __repr__(self) -> str:
        return f'TensorInfo("{self.dtype}", {self.shape})'


__all__ = ["ArgInfo", "TensorInfo"]
__getattr__ = missing(__name__)
