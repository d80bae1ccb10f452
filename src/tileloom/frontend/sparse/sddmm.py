"""Sampled products of dense matrices: dot products where a sparse matrix has elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base.errors import ArgumentError, ShapeError
from ...base.late import load
from ...sparse.arrays import Csr, dense, requires_grad, view, with_values
from .gpu.dots import sampled
from .gpu.place import place_of
from .kinds import computed_as
from .repeated import RepeatedCall, prepare, run_again
from .results import given, refuse_out
from .rows import in_row_order, row_order
from .sddmm_plan import planned
from .structure import Structure

Array = np.ndarray[Any, Any]
_ndarray = np.ndarray

# Bytes of the shortest type with kernels: shorter integers are the last bytes of longer ones.
_SHORTEST = 4


def sddmm(
    mask: Any, x: Any, y: Any, out: Any = None, *, values: str = "multiply",
    target: Any = None, device: str | None = None,
) -> Any:  # fmt: skip
    """Dot products of rows of `x` and `y` where a sparse matrix has elements, times its elements.

    `mask * (x @ y.T)`, of which nothing is computed where `mask` has no element (SDDMM). For the
    adjacency matrix of a graph it weighs edges by what is at their ends. With `values="ignore"` it
    is `torch.sparse.sampled_addmm(mask, x, y.T, beta=0)`.

    Args:
        mask: a sparse matrix of shape (m, n): of SciPy, PyTorch or pydata/sparse, or one of
            `tileloom.sparse.arrays`.
        x: a dense matrix of shape (m, k).
        y: a dense matrix of shape (n, k).
        out: a row-major array for the values of the result: of its type, and of the shape and in
            the order in which `mask` has its own.
        values: "multiply" the dot products with the values of `mask`, or "ignore" these.
        target, device: see `spmm`.

    Returns:
        A sparse matrix like `mask`, with which it shares its index arrays; its values are in `out`
        if that is given.

    Raises:
        ShapeError: the shapes do not fit.
        DTypeError: there is no kernel for the types.
        UnsupportedError: the arrays are in different memories.

    The index arrays of `mask` are checked when it is seen for the first time, and what suits its
    structure is decided then; changes of them in place are not noticed. For tensors that require
    gradients these are recorded, if `mask` is a tensor.

    >>> import numpy as np, scipy.sparse
    >>> mask = scipy.sparse.csr_array(np.float32([[0, 1], [2, 0]]))
    >>> x, y = np.float32([[1, 2], [3, 4]]), np.float32([[1, 0], [1, 1]])
    >>> sddmm(mask, x, y).toarray()
    array([[0., 3.],
           [6., 0.]], dtype=float32)
    """
    if values not in ("multiply", "ignore"):
        raise ArgumentError(f"values={values!r}", hint='"multiply" or "ignore"')
    if type(x) is _ndarray and type(y) is _ndarray and target is device is None:
        again = run_again(mask, ("sddmm", x.shape, x.dtype, values), (x, y), out)
        if again is not None:
            return with_values(again, mask)
    parts = view(mask, what="mask")
    first, second = dense(x, what="x"), dense(y, what="y")
    place = place_of(target, device, mask, mask=parts.data, x=first.array, y=second.array)
    if first.requires_grad or second.requires_grad or requires_grad(mask):
        refuse_out(out)
        gradients = load("tileloom.frontend.torch.sparse_gradients")
        return gradients.sddmm(mask, x, y, values, target, device)
    if place is not None:
        if len(parts.shape) == 2:
            _check(first.array, second.array, parts.shape)
        return with_values(
            sampled(place, mask, parts, first.array, second.array, out, values), mask
        )
    left, right = first.array, second.array
    structure, source = row_order(mask, parts, "mask")
    _check(left, right, structure.shape)
    own = parts.data
    operands = [left, right]
    if values == "multiply":
        operands.insert(0, in_row_order(own, structure, source))
    kind, found = _types(operands)
    memory = None if out is None else given(out, own.shape, kind, x=left, y=right, mask=own)
    operands = [np.ascontiguousarray(array, dtype=found) for array in operands]
    is_direct = source is None and kind == found and own.shape == (structure.nnz,)
    result = memory if is_direct and memory is not None else np.empty(structure.nnz, found)
    sampled_products(structure, operands, result, values)
    if type(parts) is Csr and is_direct and operands[-2] is x and operands[-1] is y:
        _prepare(mask, parts, structure, x, values)
    if not is_direct:
        result = in_own_order(
            result, source, np.zeros(own.shape, kind) if memory is None else memory
        )
    return with_values(result, mask)


def _check(x: Any, y: Any, shape: tuple[int, int]) -> None:
    """Refuse dense matrices that do not fit a sparse one of this shape."""
    for name, array, rows in (("x", x, shape[0]), ("y", y, shape[1])):
        if array.ndim != 2 or array.shape[0] != rows:
            raise ShapeError(
                f"mask has shape {shape} and {name} has shape {tuple(array.shape)}: "
                f"{name} must be a matrix of {rows} rows",
                hint="rows of x are multiplied with rows of y: pass y.T for x @ y",
            )
    if x.shape[1] != y.shape[1]:
        raise ShapeError(f"x has {x.shape[1]} columns and y has {y.shape[1]}: they must be as many")


def _types(operands: list[Array]) -> tuple[np.dtype[Any], np.dtype[Any]]:
    """The type of the result, and that in which it is computed."""
    kind = operands[0].dtype
    if not all(array.dtype is kind for array in operands):
        kind = np.result_type(*operands)
    found = computed_as(kind, "mask * (x @ y.T)")
    return kind, found if found.itemsize >= _SHORTEST else np.dtype("int32")


def sampled_products(
    structure: Structure, operands: list[Array], result: Array, values: str
) -> None:
    """The products in the order of the rows: of the mask's values, if they count, x and y."""
    features = operands[-1].shape[1]
    if not features:
        result[...] = operands[0] * result.dtype.type(0) if values == "multiply" else 0
        return
    key = ("sddmm", features, result.dtype, values)
    plan = structure.plans.get(key)
    if plan is None:
        plan = structure.plans[key] = planned(structure, features, result.dtype, values)
    plan.kernel(*operands, result, *plan.index, *structure.shape, structure.nnz, *plan.scalars)


def _prepare(mask: Any, parts: Csr, structure: Structure, x: Array, values: str) -> None:
    """Let the next products of these run at once."""
    plan = structure.plans.get(("sddmm", x.shape[1], x.dtype, values))
    if plan is not None:
        nnz = structure.nnz
        rest = (*plan.index, *structure.shape, nnz, *plan.scalars)
        weighs = values == "multiply"
        call = RepeatedCall(plan.kernel, plan.kernel, (nnz,), x.dtype, nnz, weighs, rest)
        prepare(mask, parts, ("sddmm", x.shape, x.dtype, values), call)


def in_own_order(result: Array, source: Array | None, target: Array) -> Array:
    """Results in the mask's own order, type and shape."""
    places = slice(len(result)) if source is None else source
    target.reshape(-1)[places] = result
    return target
