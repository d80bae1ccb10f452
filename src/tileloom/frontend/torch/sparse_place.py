"""Operators of `tileloom.sparse` on tensors of PyTorch: on a GPU, or on the emulator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from ...base import dtype
from ...base.errors import ArgumentError, DTypeError, ShapeError, UnsupportedError
from ...sparse.arrays import dense, dense_like
from ..sparse.compiled import compiled

Kind = np.dtype[Any]
#: What the addresses of arrays must be multiples of, in bytes.
_ALIGNMENT = 16


class TorchPlace:
    """A device of PyTorch; see `frontend.sparse.gpu.place.OperatorPlace`.

    Kernels go to PyTorch's current stream, and results come from its allocator.
    """

    def __init__(self, where: str, target: Any, device: str) -> None:
        self.where = torch.device(where)
        self.target = target
        self.device = device

    def own(self, array: Any) -> torch.Tensor:
        """The tensor over an operand's memory."""
        found: torch.Tensor = dense_like(array, _LIKE)
        return found

    def kind(self, array: torch.Tensor) -> Kind:
        """The type of its elements."""
        return dtype(str(array.dtype).removeprefix("torch.")).numpy

    def prepared(self, array: torch.Tensor, kind: Kind) -> torch.Tensor:
        """It, or a copy; at an address that kernels take."""
        found = array.to(_torch_type(kind)).contiguous().resolve_neg()
        return found.clone() if found.data_ptr() % _ALIGNMENT else found

    def empty(self, shape: tuple[int, ...], kind: Kind) -> torch.Tensor:
        """A new tensor."""
        return torch.empty(shape, dtype=_torch_type(kind), device=self.where)

    def zeros(self, shape: tuple[int, ...], kind: Kind) -> torch.Tensor:
        """A new tensor of zeros."""
        return torch.zeros(shape, dtype=_torch_type(kind), device=self.where)

    def picked(self, array: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        """The elements at places."""
        return array[places]

    def upload(self, array: np.ndarray[Any, Any]) -> torch.Tensor:
        """A copy of an array of the CPU's on the device."""
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.where)

    def given(
        self, out: Any, shape: tuple[int, ...], kind: Kind, **inputs: torch.Tensor
    ) -> torch.Tensor:
        """The memory of the caller's tensor for a result."""
        tensor = self.own(dense(out, what="out").array)
        if tensor.device != self.where:
            raise UnsupportedError(f"out is on {tensor.device}, the result is on {self.where}")
        if tuple(tensor.shape) != shape:
            raise ShapeError(f"out has shape {tuple(tensor.shape)}, the result has {shape}")
        if tensor.dtype != _torch_type(kind):
            raise DTypeError(f"out holds {self.kind(tensor)}, the result is {kind}")
        if not tensor.is_contiguous():
            raise ArgumentError("out must be a row-major array that can be written to")
        if tensor.data_ptr() % _ALIGNMENT:
            raise ArgumentError(f"out starts at an address that is no multiple of {_ALIGNMENT}")
        for name, other in inputs.items():
            if _overlap(tensor, other):
                raise ArgumentError(f"out shares memory with {name}, which is read meanwhile")
        return tensor

    def run(self, make: Callable[..., Any], case: Any, *arguments: Any) -> None:
        """Run the kernel that a function makes for a case; it is compiled once."""
        kernel = compiled(make, case, target=self.target, device=self.device)
        if self.where.type == "cpu":
            arguments = tuple(
                dense(value).array if isinstance(value, torch.Tensor) else value
                for value in arguments
            )
        kernel(*arguments)


_LIKE = torch.empty(0)


def _overlap(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether tensors without gaps share memory."""
    return bool(a.data_ptr() < b.data_ptr() + b.nbytes and b.data_ptr() < a.data_ptr() + a.nbytes)


def _torch_type(kind: Kind) -> Any:
    name = str(dtype(str(kind)))
    found = getattr(torch, name, None)
    if found is None:
        raise DTypeError(f"PyTorch has no type {name}")
    return found
