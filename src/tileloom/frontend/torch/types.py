"""Element types of PyTorch as the graph knows them, and what values are."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

from ...base import DType, dtype
from ...base.errors import DTypeError, UnsupportedError


@cache
def kind_of(kind: Any) -> DType:
    """The element type of a PyTorch type.

    >>> kind_of(torch.bfloat16)
    'bfloat16'

    Raises:
        UnsupportedError: there is no such type here (complex and quantised numbers).
    """
    name = str(kind).removeprefix("torch.")
    try:
        return dtype(name)
    except DTypeError:
        raise UnsupportedError(f"tensors of {name}") from None


def check_dense(value: Any) -> None:
    """Refuse what is no dense tensor in the memory of a CPU or of an NVIDIA GPU."""
    if not isinstance(value, torch.Tensor):
        raise UnsupportedError(f"a value of type {type(value).__name__}")
    if value.device.type not in ("cpu", "cuda"):
        raise UnsupportedError(f"tensors on {value.device.type}")
    if value.layout is not torch.strided:
        raise UnsupportedError(f"tensors of layout {value.layout}")
    if value.is_neg() or value.is_conj():
        raise UnsupportedError("tensors with a pending negation or conjugation")


def is_static(value: Any) -> bool:
    """Whether a value of a traced graph has no symbols in it."""
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return False
    if isinstance(value, (list, tuple)):
        return all(map(is_static, value))
    if isinstance(value, torch.Tensor) and value.layout is torch.strided:
        sizes = (*value.shape, *value.stride(), value.storage_offset())
        return not any(isinstance(size, torch.SymInt) for size in sizes)
    return True
