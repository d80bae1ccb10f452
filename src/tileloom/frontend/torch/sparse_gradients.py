"""Gradients of the operators of `tileloom.sparse`, for tensors that require them.

The gradient of a sparse matrix has its structure: what is not stored is no variable.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
import torch

from ...base.errors import ArgumentError
from ...sparse.arrays import Coo, Sparse, dense, view, with_values
from ..sparse.gpu.place import OperatorPlace, place_of
from ..sparse.gpu.reduce import product as placed_product
from ..sparse.gpu.reduce import stored_as
from ..sparse.gpu.rows import Matrix, placed
from ..sparse.rows import compressed_rows
from ..sparse.sddmm import sddmm as _sddmm
from ..sparse.spmm import product
from ..sparse.spmm import spmm as _spmm
from ..sparse.structure import Structure
from .once import differentiated_once

Array = np.ndarray[Any, Any]


def spmm(a: Any, x: Any, target: Any = None, device: str | None = None) -> Any:
    """`a @ x` whose gradients are recorded; see `tileloom.sparse.spmm`."""
    where = {"target": target, "device": device}
    return _Spmm.apply(_without_duplicates(a), torch.as_tensor(x), where)


def sddmm(
    mask: Any, x: Any, y: Any, values: str, target: Any = None, device: str | None = None
) -> Any:
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
    where = {"target": target, "device": device}
    return _Sddmm.apply(mask, torch.as_tensor(x), torch.as_tensor(y), values, where)


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
    def forward(ctx: Any, a: Any, x: torch.Tensor, where: dict[str, Any]) -> Any:
        """The product."""
        save(ctx, a, x)
        ctx.where = where
        return _spmm(a, x, **where)

    @staticmethod
    @differentiated_once
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        """The gradients of both operands."""
        a, x = saved(ctx)
        of_a = of_x = None
        if ctx.needs_input_grad[0]:
            of_a = _sddmm(a, gradient, x, values="ignore", **ctx.where).to(a.dtype)
        if ctx.needs_input_grad[1]:
            rows = _rows(a, a, "a", ctx.where, gradient)
            of_x = rows.transposed_times(gradient).to(x.dtype)
        return of_a, of_x, None


class _Sddmm(torch.autograd.Function):  # type: ignore[misc]
    """z = mask * (x @ y.T): with w = mask * gradient of z, which is sparse, that of x is w @ y,
    that of y the transposed w times x, and that of mask the products times the gradient of z."""

    @staticmethod
    def forward(
        ctx: Any, mask: Any, x: torch.Tensor, y: torch.Tensor, values: str, where: dict[str, Any]
    ) -> Any:
        """The products."""
        save(ctx, mask, x, y)
        ctx.values, ctx.where = values, where
        return _sddmm(mask, x, y, values=values, **where)

    @staticmethod
    @differentiated_once
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        """The gradients of the sparse and the dense operands."""
        mask, x, y = saved(ctx)
        of_mask = of_x = of_y = None
        weighs = ctx.values == "multiply"
        each = _values_at(gradient, mask)
        if ctx.needs_input_grad[0] and weighs:
            dots = view(_sddmm(mask, x, y, values="ignore", **ctx.where)).data
            of_mask = with_values(dots * each, mask).to(mask.dtype)
        if any(ctx.needs_input_grad[1:3]):
            weighted = with_values(each * view(mask).data if weighs else each, mask)
            rows = _rows(mask, weighted, "mask", ctx.where, x)
            of_x, of_y = rows.times(y).to(x.dtype), rows.transposed_times(x).to(y.dtype)
        return of_mask, of_x, of_y, None, None


def save(ctx: Any, matrix: Any, *tensors: torch.Tensor) -> None:
    """Keep a sparse matrix, which may be no tensor, and dense tensors for the backward pass."""
    ctx.matrix = None if isinstance(matrix, torch.Tensor) else matrix
    ctx.save_for_backward(*tensors, *([matrix] if ctx.matrix is None else []))


def saved(ctx: Any) -> tuple[Any, ...]:
    """What `save` kept: the sparse matrix, then the dense tensors."""
    tensors = ctx.saved_tensors
    if ctx.matrix is None:
        return tensors[-1], *tensors[:-1]
    return ctx.matrix, *tensors


def _values_at(gradient: torch.Tensor, mask: torch.Tensor) -> Any:
    """The values of a gradient at the elements of a matrix, in the order of that."""
    if gradient.layout is mask.layout:
        is_coo = gradient.layout is torch.sparse_coo
        values = gradient._values() if is_coo else gradient.values()
        if not values.is_contiguous():  # as that of a sum, which is one number
            gradient = gradient.clone()
        found, wanted = view(gradient), view(mask)
        if all(map(_are_equal, _indices(found), _indices(wanted))):
            return found.data
    if gradient.layout is not torch.strided:
        gradient = gradient.to_dense()
    return view(gradient.sparse_mask(mask)).data


def _are_equal(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray):
        return np.array_equal(a, b)
    return bool(a.data_ptr() == b.data_ptr() or torch.equal(a, b))


def _indices(parts: Sparse) -> tuple[Any, ...]:
    return parts.coords if isinstance(parts, Coo) else (parts.indptr, parts.indices)


# ---------------------------------------------------------------------------- products by rows


class _Rows(Protocol):
    """A sparse matrix by rows, wherever it is."""

    def times(self, x: torch.Tensor) -> torch.Tensor:
        """The matrix times a dense one."""

    def transposed_times(self, x: torch.Tensor) -> torch.Tensor:
        """The transposed matrix times a dense one."""


def _rows(known: Any, matrix: Any, what: str, where: dict[str, Any], x: torch.Tensor) -> _Rows:
    """A matrix by rows.

    Args:
        known: a matrix of the same structure, which was seen before.
        what: what errors call it.
        where: the target and the device that the caller asked for.
        x: a dense matrix.
    """
    parts = view(matrix)
    place = place_of(**where, like=x, a=parts.data, x=dense(x).array)
    if place is None:
        return _HostRows(*compressed_rows(known, parts, what))
    own = placed(place, known, parts, what)
    return _PlacedRows(place, own.matrix, own.in_row_order(place.own(parts.data)))


class _HostRows(NamedTuple):
    """On the CPU."""

    structure: Structure
    values: Array

    def times(self, x: torch.Tensor) -> torch.Tensor:
        """The matrix times a dense one."""
        return torch.from_numpy(product(self.structure, self.values, dense(x)))

    def transposed_times(self, x: torch.Tensor) -> torch.Tensor:
        """The transposed matrix times a dense one."""
        transposed, order = self.structure.transposed
        return torch.from_numpy(product(transposed, self.values[order], dense(x)))


class _PlacedRows(NamedTuple):
    """On a GPU, or the emulator."""

    place: OperatorPlace
    matrix: Matrix
    values: torch.Tensor

    def times(self, x: torch.Tensor) -> torch.Tensor:
        """The matrix times a dense one."""
        return self._product(self.matrix, self.values, x)

    def transposed_times(self, x: torch.Tensor) -> torch.Tensor:
        """The transposed matrix times a dense one."""
        transposed, order = self.matrix.transposed
        return self._product(transposed, self.place.picked(self.values, order), x)

    def _product(self, matrix: Matrix, values: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        place, x = self.place, x.detach()
        kind = stored_as(np.result_type(place.kind(values), place.kind(x)), "a @ x")
        operands = place.prepared(values, kind), place.prepared(x, kind)
        found: torch.Tensor = placed_product(place, matrix, *operands, None)
        return found
