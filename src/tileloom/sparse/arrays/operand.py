"""A dense operand over memory that belongs to others."""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["DenseOperand"]


class DenseOperand(NamedTuple):
    """A dense array and what kernels ask of it.

    Args:
        array: a NumPy array over the caller's memory; a PyTorch tensor where that is a GPU's.
        is_row_major: whether its elements lie in row-major order without gaps.
        requires_grad: whether a gradient is to be recorded: it is a tensor that requires one, and
            PyTorch records them at the moment.
    """

    array: Any
    is_row_major: bool
    requires_grad: bool = False
