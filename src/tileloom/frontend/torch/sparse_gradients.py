"""Gradients of the operators of `tileloom.sparse`, for tensors that require them.

The gradient of a sparse matrix has its structure: what is not stored is no variable.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.autograd.function import once_differentiable

from ...base.errors import ArgumentError
from ...sparse.arrays import Coo, Sparse, dense, view, with_values
from ..sparse.rows import compressed_rows
from ..sparse.sddmm import sddmm as _sddmm
from ..sparse.spmm import product
from ..sparse.spmm import spmm as _spmm
from ..sparse.structure import Structure

Array = np.ndarray[Any, Any]


def spmm(a: Any, x: Any) -> Any:
    """`a @ x` whose gradients are recorded; see `tileloom.sparse.spmm`."""
    return _Spmm.apply(_without_duplicates(a), torch.as_tensor(x))


def sddmm(mask: Any, x: Any, y: Any, values: str) -> Any:
    """`mask * (x @ y.T)` whose gradients are recorded; see `tileloom.sparse.sddmm`.

    Raises:
        ArgumentError: the result would not be a tensor.
    """
    if not isinstance(mask, torch.Tensor):
        raise ArgumentError(
            "mask is no tensor, so that the result is none, and has no gradient",
            hint="torch.sparse_csr_tensor(indptr, indices, values, shape) makes one",
        )
    mask = _without_duplicates(mask)
    return _Sddmm.apply(mask, torch.as_tensor(x), torch.as_tensor(y), values)


def _without_duplicates(matrix: Any) -> Any:
    """A matrix whose gradient can have its coordinates, as those of equal ones would add up."""
    is_coo = isinstance(matrix, torch.Tensor) and matrix.layout is torch.sparse_coo
    return matrix.coalesce() if is_coo else matrix


class _Spmm(torch.autograd.Function):  # type: ignore[misc]
    """y = a @ x.

    The gradient of x is that of y times the transposed a. That of a[i, j] is the product of row i
    of the gradient of y and row j of x.
    """

    @staticmethod
    def forward(ctx: Any, a: Any, x: torch.Tensor) -> Any:
        """The product."""
        _save(ctx, a, x)
        return _spmm(a, x)

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        """The gradients of both operands."""
        a, x = _saved(ctx)
        of_a = of_x = None
        if ctx.needs_input_grad[0]:
            of_a = _sddmm(a, gradient, x, values="ignore").to(a.dtype)
        if ctx.needs_input_grad[1]:
            structure, values = compressed_rows(a, view(a), "a")
            of_x = _transposed_product(structure, values, gradient).to(x.dtype)
        return of_a, of_x


class _Sddmm(torch.autograd.Function):  # type: ignore[misc]
    """z = mask * (x @ y.T): with w = mask * gradient of z, which is sparse, that of x is w @ y,
    that of y the transposed w times x, and that of mask the products times the gradient of z."""

    @staticmethod
    def forward(ctx: Any, mask: Any, x: torch.Tensor, y: torch.Tensor, values: str) -> Any:
        """The products."""
        _save(ctx, mask, x, y)
        ctx.values = values
        return _sddmm(mask, x, y, values=values)

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        """The gradients of the sparse and the dense operands."""
        mask, x, y = _saved(ctx)
        of_mask = of_x = of_y = None
        weighs = ctx.values == "multiply"
        each = _values_at(gradient, mask)
        if ctx.needs_input_grad[0] and weighs:
            dots = view(_sddmm(mask, x, y, values="ignore")).data
            of_mask = with_values(np.asarray(dots * each), mask).to(mask.dtype)
        if any(ctx.needs_input_grad[1:]):
            weighted = with_values(each * view(mask).data if weighs else each, mask)
            structure, values = compressed_rows(mask, view(weighted), "mask")
            of_x = torch.from_numpy(product(structure, values, dense(y))).to(x.dtype)
            of_y = _transposed_product(structure, values, x).to(y.dtype)
        return of_mask, of_x, of_y, None


def _save(ctx: Any, matrix: Any, *tensors: torch.Tensor) -> None:
    """Keep a sparse matrix, which may be no tensor, and dense tensors for the backward pass."""
    ctx.matrix = None if isinstance(matrix, torch.Tensor) else matrix
    ctx.save_for_backward(*tensors, *([matrix] if ctx.matrix is None else []))


def _saved(ctx: Any) -> tuple[Any, ...]:
    tensors = ctx.saved_tensors
    if ctx.matrix is None:
        return tensors[-1], *tensors[:-1]
    return ctx.matrix, *tensors


def _values_at(gradient: torch.Tensor, mask: torch.Tensor) -> Array:
    """The values of a gradient at the elements of a matrix, in the order of that."""
    if gradient.layout is mask.layout:
        found, wanted = view(gradient), view(mask)
        if all(map(np.array_equal, _indices(found), _indices(wanted))):
            return np.asarray(found.data)
    if gradient.layout is not torch.strided:
        gradient = gradient.to_dense()
    return np.asarray(view(gradient.sparse_mask(mask)).data)


def _indices(parts: Sparse) -> tuple[Array, ...]:
    return parts.coords if isinstance(parts, Coo) else (parts.indptr, parts.indices)


def _transposed_product(structure: Structure, values: Array, x: Any) -> torch.Tensor:
    """The transposed matrix times a dense one."""
    transposed, order = structure.transposed
    return torch.from_numpy(product(transposed, values[order], dense(x)))
