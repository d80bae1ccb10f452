"""Ops made of other ops: written once as an expansion, with a reference of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...base import DType
from ..nodes import Tensor, TensorType
from ..op import Array, Attrs, apply1
from .choose import cast
from .common import Operand, Types, define, double, operands

Expansion = Callable[..., Tensor]


def composite(name: str, expansion: Expansion, reference: Callable[..., Any]) -> None:
    """Register an op with one output that is defined by other ops.

    Args:
        name: the op's name.
        expansion: `f(*tensors, **attrs)`, a tensor. Float tensors narrower than 32 bits arrive as
            float32, and the result is cast back.
        reference: `f(*arrays, **attrs)`, an array; floats arrive as float64.
    """

    def expand(tensors: Sequence[Tensor], attrs: Attrs) -> list[Tensor]:
        narrow = _narrow([tensor.dtype for tensor in tensors])
        if narrow is None:
            return [expansion(*tensors, **attrs)]
        wide = [cast(t, "float32") if _is_narrow(t.dtype) else t for t in tensors]
        result = expansion(*wide, **attrs)
        return [cast(result, narrow) if result.dtype.is_float else result]

    def infer(types: Types, attrs: Attrs) -> list[TensorType]:
        return [tensor.type for tensor in expand([Tensor(type_) for type_ in types], attrs)]

    def evaluate(arrays: Sequence[Array], attrs: Attrs, types: Types) -> list[Any]:
        return [reference(*map(double, arrays), **attrs)]

    define(name, "opaque", infer, evaluate, expand=expand)


def _is_narrow(kind: DType) -> bool:
    return kind.is_float and kind.bits < 32


def _narrow(kinds: Sequence[DType]) -> DType | None:
    return next((kind for kind in kinds if _is_narrow(kind)), None)


def build(name: str, *tensors: Operand | None, **attrs: Any) -> Tensor:
    """A node of a composite op; operands that are None are left out from the end."""
    given = list(tensors)
    while given and given[-1] is None:
        given.pop()
    return apply1(name, operands(*given), **attrs)  # type: ignore[arg-type]
