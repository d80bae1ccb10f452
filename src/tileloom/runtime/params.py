"""What a compiled kernel takes: one `ParamSpec` for each parameter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import Any, Literal

from ..base.dtype import DType, dtype
from ..base.errors import InternalError


@dataclass(frozen=True)
class ParamSpec:
    """One parameter of a kernel.

    A name in `shape` is a symbol: the first array that has it binds it, and every later use must
    agree. A scalar parameter with a symbol's name is tied to it; if it is `implicit`, callers do
    not pass it, and its value is read off the shapes. A "map" is a `base.tensor_map.TensorMap`,
    for kernels of GPUs alone.
    """

    name: str
    kind: Literal["buffer", "scalar", "map"]
    dtype: DType
    shape: tuple[int | str, ...] = ()
    strides: tuple[int | str, ...] | None = None  # in elements; None: compact, row-major
    access: Literal["r", "w", "rw"] = "r"
    alignment: int = 0  # bytes; 0: that of an element
    implicit: bool = False

    @staticmethod
    def of(plain: Sequence[Any]) -> ParamSpec:
        """The parameter that `plain` says."""
        name, kind, item, shape, strides, *rest = plain
        steps = None if strides is None else tuple(strides)
        return ParamSpec(name, kind, dtype(item), tuple(shape), steps, *rest)

    def plain(self) -> list[Any]:
        """All of it, as JSON has it."""
        return [str(part) if isinstance(part, DType) else part for part in astuple(self)]

    @property
    def is_buffer(self) -> bool:
        """Whether callers pass an array."""
        return self.kind == "buffer"

    @property
    def is_written(self) -> bool:
        """Whether the kernel writes to the array."""
        return self.access != "r"

    @property
    def needed_alignment(self) -> int:
        """Bytes that the data's address must be a multiple of."""
        return self.alignment or self.dtype.element.bytes

    def __str__(self) -> str:
        """The parameter as error messages show it: `float32 array of shape (4, n)`."""
        if self.kind == "map":
            return "map of a tensor"
        if not self.is_buffer:
            return f"{self.dtype} number"
        return f"{self.dtype} array of shape {show_shape(self.shape)}"


def show_shape(shape: tuple[int | str, ...]) -> str:
    """A shape as Python writes a tuple, with symbols by name.

    >>> show_shape((4, "n")), show_shape((3,)), show_shape(())
    ('(4, n)', '(3,)', '()')
    """
    inner = ", ".join(map(str, shape))
    return f"({inner},)" if len(shape) == 1 else f"({inner})"


def number_symbols(params: tuple[ParamSpec, ...]) -> dict[str, int]:
    """Every symbol in the shapes and strides, numbered from zero in the order of first use.

    Raises:
        InternalError: when an implicit scalar is no symbol of a shape.
    """
    symbols: dict[str, int] = {}
    for param in params:
        for extent in (*param.shape, *(param.strides or ())):
            if isinstance(extent, str):
                symbols.setdefault(extent, len(symbols))
    for param in params:
        if param.implicit and param.name not in symbols:
            raise InternalError(f"no shape binds the implicit parameter {param.name!r}")
    return symbols
