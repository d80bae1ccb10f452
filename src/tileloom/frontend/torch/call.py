"""One application of an ATen operator, as its handler sees it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ...base import DType, dtype
from ...base.errors import UnsupportedError
from ...graph import ops
from ...graph.nodes import Tensor, TensorType
from ...graph.symbols import is_symbolic
from .sizes import LARGEST, TracedSizes
from .types import kind_of


class Call:
    """What is known of a call besides its arguments.

    Attributes:
        name: the overload's full name.
        fakes: the arguments as PyTorch traced them; tensors without data.
        value: the traced result.
        sizes: what their sizes are as extents.
    """

    __slots__ = ("_types", "fakes", "name", "sizes", "value")

    def __init__(self, name: str, fakes: Sequence[Any], value: Any, sizes: TracedSizes) -> None:
        self.name = name
        self.fakes = fakes
        self.value = value
        self.sizes = sizes
        self._types: tuple[TensorType, ...] | None = None

    @property
    def types(self) -> tuple[TensorType, ...]:
        """The types of the results that there are."""
        if self._types is None:
            several = isinstance(self.value, (list, tuple))
            values = self.value if several else [self.value]
            self._types = tuple(self.sizes.type_of(v) for v in values if v is not None)
        return self._types

    @property
    def dtype(self) -> DType:
        """The element type of the (first) result."""
        return self.types[0].dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the (first) result."""
        return self.types[0].shape

    def promoted(self) -> DType:
        """The type that the first two arguments are promoted to, by PyTorch's rules."""
        a, b = map(_example, self.fakes[:2])
        return kind_of(torch.result_type(a, b))

    def cast(self, x: Any) -> Tensor:
        """A tensor or number as a tensor of the type of the result."""
        return as_tensor(x, self.dtype)

    def to_result(self, x: Tensor) -> Tensor:
        """Broadcast to the shape, and cast to the type, of the result."""
        return ops.broadcast_to(as_tensor(x, self.dtype), self.shape)


def _example(value: Any) -> Any:
    """A number for a symbolic one, whose type is all that is asked."""
    if isinstance(value, torch.SymInt):
        return 2
    return 2.0 if isinstance(value, torch.SymFloat) else value


def as_tensor(x: Any, kind: DType | str) -> Tensor:
    """A tensor cast to a type, or a number or extent as a scalar of it."""
    if isinstance(x, Tensor):
        return ops.cast(x, kind)
    if is_symbolic(x):
        return _scalar(x, dtype(kind))
    if not isinstance(x, (bool, int, float)):
        raise UnsupportedError(f"an operand of type {type(x).__name__}")
    return ops.constant(x, kind)


def _scalar(extent: int, kind: DType) -> Tensor:
    """An extent as a tensor without dimensions."""
    if not -LARGEST <= extent <= LARGEST:
        raise UnsupportedError("numbers that do not fit into 32 bits")
    return ops.extent(extent, kind)


def wide(kind: DType) -> DType:
    """The type in which PyTorch computes functions of a type.

    >>> from tileloom.base import dtype
    >>> wide(dtype("bfloat16")), wide(dtype("float64"))
    ('float32', 'float64')
    """
    return kind_of(torch.float32) if kind.is_float and kind.bits < 32 else kind
