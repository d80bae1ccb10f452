"""Arguments of programs over coordinates: what axes store, and whether that is a structure."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base import DType
from ..base.errors import ArgumentError
from ..expr import Expr, Var, free_vars
from ..expr.evaluate import evaluate
from ..tir import Axis, Block, PrimFunc, SparseBuffer, SparseIteration, collect
from ..tir.run import match_arguments
from ..tir.sparse import AttachedAxis
from .iteration_scope import looked_up_axes
from .stored import Array, StoredAxis, StoredElements


def bind_arguments(func: PrimFunc, args: tuple[Any, ...]) -> dict[Any, Any]:
    """The values of scalars and sizes, the memory of buffers, and what the axes store.

    Besides what `tir.run` gives its programs, there is a `StoredAxis` for each axis and a
    `StoredElements` for each sparse buffer.

    Raises:
        ArgumentError: as `spec.check_arguments`.
    """
    binding = _Binding(func, args)
    for axis in func.sp_axes:
        binding.axis(axis)
    for stmt in collect(func.body, SparseIteration):
        for item in stmt.sp_iter_vars:
            if isinstance(item.axis, AttachedAxis):
                binding.attached(item.axis)
    for param, buffer in func.buffer_map.items():
        if isinstance(buffer, SparseBuffer):
            binding.buffer(param, buffer)
    for block in collect(func.body, Block):
        for buffer in block.alloc_buffers:
            if isinstance(buffer, SparseBuffer):
                binding.given[buffer] = StoredElements(buffer, binding.value)
    for domain in func.buffer_domains:
        binding.domain(domain.buffer, domain.low, domain.high)
    return binding.given


def without_sparse_buffers(func: PrimFunc) -> PrimFunc:
    """The function with nothing but a pointer for each sparse buffer."""
    plain = {p: b for p, b in func.buffer_map.items() if not isinstance(b, SparseBuffer)}
    return func.replace(buffer_map=plain)


class _Binding:
    def __init__(self, func: PrimFunc, args: tuple[Any, ...]) -> None:
        self.func = func
        self.given = match_arguments(without_sparse_buffers(func), args, {})
        self.arrays = dict(zip(func.params, args, strict=True))
        self.looked_up = looked_up_axes(func)

    def value(self, expr: Expr) -> int:
        """A size."""
        missing = sorted(var.name for var in free_vars(expr) if var not in self.given)
        if missing:
            raise ArgumentError(
                f"the arguments of {self.func.name!r} do not tell the value of {missing[0]!r}"
            )
        return int(evaluate(expr, self.given))

    def array(self, param: Var, kind: DType, what: str) -> Array:
        """The memory of a parameter, its elements in a row."""
        array = self.arrays[param]
        what = f"{what} (parameter {param.name!r})"
        if not isinstance(array, np.ndarray):
            raise ArgumentError(f"{what} needs an array, got {type(array).__name__}")
        if array.dtype != kind.numpy:
            raise ArgumentError(f"{what} has elements of {kind}, got an array of {array.dtype}")
        if not array.flags.c_contiguous:
            raise ArgumentError(
                f"{what} is compact, got an array with strides {array.strides}",
                hint="pass a contiguous array",
            )
        return array.reshape(-1)

    # ------------------------------------------------------------------ axes

    def axis(self, axis: Axis) -> None:
        """Enter what an axis stores; those above it are known."""
        name = f"axis {axis.name!r}"
        above = 1 if axis.parent is None else self.given[axis.parent].count
        indptr = None
        if axis.indptr is not None:
            indptr = self.array(axis.indptr, axis.idtype, f"the indptr of {name}")
            _check_starts(axis, indptr, above)
            if isinstance(axis.nnz, Var):
                self.given.setdefault(axis.nnz, int(indptr[-1]))
            nnz = self.value(axis.nnz)
            if indptr[-1] != nnz:
                raise ArgumentError(
                    f"the indptr of {name} ends with {indptr[-1]}, but {axis.nnz} is {nnz}"
                    if isinstance(axis.nnz, Var)
                    else f"the indptr of {name} ends with {indptr[-1]}, not with {nnz}"
                )
        length = self._size(axis, "length", axis.length)
        width = 0 if axis.nnz_cols is None else self._size(axis, "width", axis.nnz_cols)
        count = above * width if indptr is None else int(indptr[-1])
        if indptr is not None and axis.indices is None:
            _check_widths(axis, indptr, length)
        indices = None
        if axis.indices is not None:
            indices = self.array(axis.indices, axis.idtype, f"the indices of {name}")
            _check_coordinates(axis, indices, count, length)
        stored = self.given[axis] = StoredAxis(length, count, width, indptr, indices)
        if axis in self.looked_up and indices is not None:
            _check_order(axis, stored, indices)

    def _size(self, axis: Axis, what: str, expr: Expr) -> int:
        size = self.value(expr)
        if size < 0:
            raise ArgumentError(f"the {what} of axis {axis.name!r} is {size}")
        return size

    def attached(self, axis: AttachedAxis) -> None:
        """Coordinates of the one axis are positions of the other."""
        if axis.parent is None or axis.base is None or axis.base.parent is None:
            return
        coordinates, positions = self.given[axis.parent], self.given[axis.base.parent]
        if coordinates.length > positions.count:
            raise ArgumentError(
                f"axis {axis.base.name!r} is attached to the coordinates of {axis.parent.name!r},"
                f" which are below {coordinates.length}, but {axis.base.parent.name!r}, its own"
                f" parent, has {positions.count} positions"
            )

    # ------------------------------------------------------------------ buffers

    def buffer(self, param: Var, buffer: SparseBuffer) -> None:
        """Enter the memory of a sparse buffer."""
        memory = self.array(param, buffer.dtype, f"buffer {buffer.name!r}")
        elements = StoredElements(buffer, self.value)
        if len(memory) != elements.size:
            over = ", ".join(axis.name for axis in buffer.axes)
            raise ArgumentError(
                f"buffer {buffer.name!r} (parameter {param.name!r}) over the axes {over} has"
                f" {elements.size} stored elements, got an array of {len(memory)}"
            )
        self.given[buffer] = elements

    def domain(self, buffer: Any, low: Expr, high: Expr) -> None:
        """Check the values that a program assumes of a buffer."""
        params = [param for param, found in self.func.buffer_map.items() if found is buffer]
        values = self.arrays[params[0]] if params else np.zeros(0)
        first, end = self.value(low), self.value(high)
        wrong = np.flatnonzero((values < first) | (values >= end))
        if len(wrong):
            raise ArgumentError(
                f"the values of buffer {buffer.name!r} are in [{first}, {end}), but element"
                f" {wrong[0]} is {values.reshape(-1)[wrong[0]]}"
            )


# ---------------------------------------------------------------------------- structures


def _check_starts(axis: Axis, indptr: Array, above: int) -> None:
    name = f"the indptr of axis {axis.name!r}"
    if len(indptr) != above + 1:
        parent = "" if axis.parent is None else axis.parent.name
        raise ArgumentError(
            f"{name} has {len(indptr)} elements, but {above + 1} for the {above} positions of"
            f" {parent!r} are needed"
        )
    if indptr[0] != 0:
        raise ArgumentError(f"{name} starts with {indptr[0]}, not with 0")
    descents = np.flatnonzero(indptr[1:] < indptr[:-1])
    if len(descents):
        at = int(descents[0])
        raise ArgumentError(
            f"{name} descends after position {at}, from {indptr[at]} to {indptr[at + 1]}"
        )


def _check_widths(axis: Axis, indptr: Array, length: int) -> None:
    """Coordinates that are not stored are in range if there are no more of them than the length."""
    wide = np.flatnonzero(np.diff(indptr) > length)
    if len(wide):
        at = int(wide[0])
        raise ArgumentError(
            f"axis {axis.name!r} has {indptr[at + 1] - indptr[at]} coordinates below position {at}"
            f" of {_parent(axis)}, but its length is {length}"
        )


def _check_coordinates(axis: Axis, indices: Array, count: int, length: int) -> None:
    name = f"the indices of axis {axis.name!r}"
    if len(indices) != count:
        raise ArgumentError(
            f"{name} have {len(indices)} elements, but the axis has {count} positions"
        )
    wrong = np.flatnonzero((indices < 0) | (indices >= length))
    if len(wrong):
        raise ArgumentError(
            f"{name} have {indices[wrong[0]]} at position {wrong[0]}, but coordinates are in"
            f" [0, {length})"
        )


def _check_order(axis: Axis, stored: StoredAxis, indices: Array) -> None:
    """Refuse coordinates that a search would not find."""
    starts = np.zeros(len(indices) + 1, bool)
    if stored.starts is not None:
        starts[stored.starts] = True
    elif stored.width:
        starts[:: stored.width] = True
    wrong = np.flatnonzero((indices[1:] <= indices[:-1]) & ~starts[1 : len(indices)])
    if not len(wrong):
        return
    at = int(wrong[0]) + 1
    before, now = indices[at - 1], indices[at]
    what = f"{now} a second time" if now == before else f"{now} after {before}"
    raise ArgumentError(
        f"the indices of axis {axis.name!r} have {what} at position {at}, below position"
        f" {stored.above(at)} of {_parent(axis)}; coordinates are looked up on the axis, so they"
        " must ascend",
        hint="sort them, and add up elements of the same coordinate",
    )


def _parent(axis: Axis) -> str:
    return "its parent" if axis.parent is None else repr(axis.parent.name)
