"""A tensor by the expression of its elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ....compute import Tensor, compute
from ....expr import ExprLike


def tensor(
    shape: Sequence[ExprLike],
    value: Callable[..., Any],
    name: str,
    attrs: dict[str, Any] | None = None,
) -> Tensor:
    """`te.compute` of one value; `attrs` are annotations of the block."""
    found = compute(shape, value, name=name, attrs=attrs)
    if not isinstance(found, Tensor):
        raise TypeError(f"{name} has several values")
    return found
