"""PyTorch's tensors, sparse and dense: their parts, and results as tensors.

PyTorch is never imported here: whoever has one of its tensors has loaded it. Tensors on the CPU are
read as NumPy arrays over the same memory; those on a GPU stay tensors.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ...base.dtype import dtype
from ...base.errors import ArgumentError, ShapeError, UnsupportedError
from .formats import Bsc, Bsr, Coo, Csc, Csr, Sparse
from .operand import DenseOperand
from .parts import plain
from .refusals import not_dense, not_sparse

__all__ = ["dense_like", "dense_reader", "reader", "with_values", "wrap"]

_new = tuple.__new__
_Reader = Callable[[Any, str], Sparse]
_Class = type[Csr] | type[Csc] | type[Bsr] | type[Bsc]


def reader(base: type) -> _Reader | None:
    """How a tensor is read, if this is the class of all tensors."""
    return _read if base is sys.modules["torch"].Tensor else None


def dense_reader(base: type) -> Callable[[Any, str], DenseOperand] | None:
    """How a dense tensor is read, if this is the class of all tensors."""
    return _read_dense if base is sys.modules["torch"].Tensor else None


class _Layout(NamedTuple):
    """A compressed layout: its format, and the functions that take it apart and make it."""

    format: _Class
    indptr: Callable[[Any], Any]
    indices: Callable[[Any], Any]
    make: Callable[..., Any]


@cache
def _layouts() -> dict[Any, _Layout]:
    torch = sys.modules["torch"]
    tensor = torch.Tensor
    by_rows = (tensor.crow_indices, tensor.col_indices)
    by_columns = (tensor.ccol_indices, tensor.row_indices)
    return {
        torch.sparse_csr: _Layout(Csr, *by_rows, torch.sparse_csr_tensor),
        torch.sparse_csc: _Layout(Csc, *by_columns, torch.sparse_csc_tensor),
        torch.sparse_bsr: _Layout(Bsr, *by_rows, torch.sparse_bsr_tensor),
        torch.sparse_bsc: _Layout(Bsc, *by_columns, torch.sparse_bsc_tensor),
    }


class _Carrier(NamedTuple):
    """Types of one element, one of which carries the bits of the other from package to package."""

    torch_carrier: Any
    numpy_carrier: np.dtype[Any]
    torch: Any
    numpy: np.dtype[Any]


@cache
def _carriers() -> dict[Any, _Carrier]:
    """What NumPy itself has no type for, by PyTorch's type and by that of ml_dtypes."""
    torch = sys.modules["torch"]
    found: dict[Any, _Carrier] = {}
    for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        if hasattr(torch, name):
            own, known = getattr(torch, name), dtype(name).numpy
            bits = "int16" if known.itemsize == 2 else "uint8"
            found[own] = found[known] = _Carrier(getattr(torch, bits), np.dtype(bits), own, known)
    return found


def _numpy(tensor: Any, what: str) -> Any:
    """The array over the memory of a tensor on the CPU."""
    carrier = _carriers().get(tensor.dtype)
    try:
        if carrier is None:
            return tensor.numpy()
        return tensor.view(carrier.torch_carrier).numpy().view(carrier.numpy)
    except (TypeError, RuntimeError) as error:
        hint = f"{what}.resolve_conj().resolve_neg()" if _is_pending(tensor) else None
        raise ArgumentError(f"{what} has no memory to read: {error}", hint=hint) from None


def _is_pending(tensor: Any) -> bool:
    return bool(tensor.is_conj() or tensor.is_neg())


def _tensor(array: Any) -> Any:
    """The tensor over an array's memory."""
    if not isinstance(array, np.ndarray):
        return array  # on a GPU
    torch = sys.modules["torch"]
    try:
        return torch.from_numpy(array)
    except TypeError:
        carrier = _carriers().get(array.dtype)
        if carrier is None:
            raise
        return torch.from_numpy(array.view(carrier.numpy_carrier)).view(carrier.torch)


def _read(tensor: Any, what: str) -> Sparse:
    layout = _layouts().get(tensor.layout)
    if layout is None:
        return _read_coo(tensor, what)
    if tensor.requires_grad:
        tensor = tensor.detach()
    made, indptr_of, indices_of, _ = layout
    indptr, indices, data = indptr_of(tensor), indices_of(tensor), tensor.values()
    if tensor.is_cpu:
        indptr, indices, data = indptr.numpy(), indices.numpy(), _numpy(data, what)
        if not (
            data.flags.c_contiguous and indices.flags.c_contiguous and indptr.flags.c_contiguous
        ):
            indptr, indices = plain(indptr, f"{what}'s indptr"), plain(indices, f"{what}'s indices")
            data = plain(data, f"{what}.values()")
    elif not tensor.is_cuda:
        raise UnsupportedError(f"{what} is a tensor on {tensor.device}, not on cpu or cuda")
    shape = tuple(tensor.shape)
    if len(shape) != 2:
        _refuse_rank(tensor, what, made)
    view: Sparse = _new(made, (indptr, indices, data, shape))
    return view


def _refuse_rank(tensor: Any, what: str, made: _Class) -> None:
    shape = tuple(tensor.shape)
    if tensor.dense_dim():
        text = f"{what} of shape {shape} has {tensor.dense_dim()} dense dimension(s) for each entry"
        raise UnsupportedError(
            text, hint=f"{what}.to_dense().to_sparse_csr() for each matrix of it"
        )
    raise UnsupportedError(
        f"{what} is a batch of {made.format} matrices, of shape {shape}; one matrix is meant here",
        hint=f"{what}[k] is matrix k of them",
    )


def _read_coo(tensor: Any, what: str) -> Sparse:
    torch = sys.modules["torch"]
    if tensor.layout is torch.strided:
        raise not_sparse(tensor, what)
    if tensor.layout is not torch.sparse_coo:
        raise UnsupportedError(
            f"{what} is a torch tensor of layout {str(tensor.layout).removeprefix('torch.')}",
            hint="sparse_coo, sparse_csr, sparse_csc, sparse_bsr and sparse_bsc are known",
        )
    if tensor.requires_grad:
        tensor = tensor.detach()
    if tensor.dense_dim():
        raise UnsupportedError(
            f"{what} of shape {tuple(tensor.shape)} is a hybrid tensor, "
            f"with {tensor.dense_dim()} dense dimension(s) for each entry",
            hint=f"{what}.to_dense().to_sparse() has none",
        )
    # The public names refuse tensors that are not coalesced, in which equal coordinates add up.
    coords, data = tensor._indices(), tensor._values()
    if not tensor.is_cuda:
        coords, data = _numpy(coords, what), plain(_numpy(data, what), f"{what}._values()")
    parts = (tuple(coords), data, tuple(tensor.shape), tensor.is_coalesced())
    view: Coo = _new(Coo, parts)
    return view


def _read_dense(tensor: Any, what: str) -> DenseOperand:
    torch = sys.modules["torch"]
    needs_grad = tensor.requires_grad
    if needs_grad:
        tensor, needs_grad = tensor.detach(), torch.is_grad_enabled()
    if tensor.layout is not torch.strided:
        raise not_dense(tensor, what, f"{what}.to_dense() has the zeros too")
    array = tensor if tensor.is_cuda else _numpy(tensor, what)
    operand: DenseOperand = _new(DenseOperand, (array, tensor.is_contiguous(), needs_grad))
    return operand


def wrap(view: Sparse, like: Any) -> Any:
    """A sparse tensor of the layout that the view's format is.

    Indices of coordinates become int64 and one tensor, which they are at once where the
    coordinates are rows of one array.
    """
    if isinstance(view, Coo):
        coords, values = _tensor(view.stacked), _tensor(view.data)
        make = sys.modules["torch"].sparse_coo_tensor
        return make(coords, values, view.shape, is_coalesced=view.is_canonical)
    for layout in _layouts().values():
        if type(view) is layout.format:
            parts = _tensor(view.indptr), _tensor(view.indices)
            return layout.make(*parts, _tensor(view.data), view.shape)
    raise UnsupportedError(f"PyTorch has no layout for {view.format}, as {view!r} is stored")


def with_values(data: Any, like: Any) -> Any:
    """A tensor of the same index tensors with other values."""
    values = _tensor(data)
    layout = _layouts().get(like.layout)
    has_blocks = layout is not None and layout.format.block_rank
    wanted = like.values().shape if has_blocks else (like._nnz(),)
    if values.shape != wanted:
        raise ShapeError(f"values of shape {tuple(values.shape)} for indices of {tuple(wanted)}")
    if layout is None:
        make, is_coalesced = sys.modules["torch"].sparse_coo_tensor, like.is_coalesced()
        return make(like._indices(), values, like.shape, is_coalesced=is_coalesced)
    if like.requires_grad:
        like = like.detach()
    return layout.make(layout.indptr(like), layout.indices(like), values, like.shape)


def dense_like(array: Any, like: Any) -> Any:
    """The tensor over the memory of an array."""
    return _tensor(array)
