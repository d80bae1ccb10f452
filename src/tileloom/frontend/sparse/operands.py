"""Dense operands of the operators: whether they fit, and in which type they are computed with."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base.errors import ShapeError, UnsupportedError
from ...sparse.arrays import DenseOperand, Sparse, requires_grad
from .kinds import KINDS, computed_as

Array = np.ndarray[Any, Any]


def promoted(values: Array, operand: DenseOperand, what: str) -> tuple[Array, Array, np.dtype[Any]]:
    """The values of a sparse matrix and a row-major operand in the type that they are computed in.

    Returns:
        Both, and the type of the result, which may be another one.

    Raises:
        DTypeError: there is no kernel for the types.
    """
    x = operand.array
    kind = x.dtype
    if values.dtype is kind and operand.is_row_major and kind in KINDS:
        return values, x, kind
    kind = np.result_type(values.dtype, kind)
    found = computed_as(kind, what)
    return values.astype(found, copy=False), np.ascontiguousarray(x, dtype=found), kind


def check_columns(x: Any, shape: tuple[int, ...]) -> None:
    """Refuse what a matrix of this shape cannot be multiplied with from the right."""
    if x.ndim != 2 or x.shape[0] != shape[1]:
        raise ShapeError(
            f"a has shape {shape} and x has shape {tuple(x.shape)}: "
            f"x must be a matrix of {shape[1]} rows",
            hint="a product with a vector is spmv(a, x)",
        )


def refuse_gradient(array: Any, what: str, operator: str) -> None:
    """Refuse a tensor that requires a gradient where an operator records none.

    Raises:
        UnsupportedError: it does.
    """
    if requires_grad(array):
        raise UnsupportedError(
            f"{what} requires a gradient, which {operator} does not record",
            hint=f"{what}.detach(), or torch.no_grad()",
        )


def check_on_cpu(parts: Sparse, what: str) -> None:
    """Refuse a sparse array in a GPU's memory."""
    if not isinstance(parts.data, np.ndarray):
        raise UnsupportedError(
            f"{what} is in the memory of {parts.device}: there are kernels for CPUs only",
            hint=f"{what}.cpu()",
        )
