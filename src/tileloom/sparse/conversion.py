"""How the arrays of a format follow from a rule and the coordinates of elements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, NoReturn

import numpy as np

from ..base.errors import ArgumentError, DTypeError, ShapeError, UserError
from ..expr import Expr, Var, evaluate, free_vars
from ..tir import Axis, SparseBuffer
from .convert import FormatAxis, StoredStructure, store
from .format_rule import FormatRewriteRule, listed, sparse_buffers
from .index_values import Array, evaluate_index, evaluate_map


class Conversion:
    """The arrays of a rule for some elements."""

    def __init__(
        self,
        rule: FormatRewriteRule,
        columns: Sequence[Array],
        shape: tuple[int, ...],
        sizes: Mapping[str, int],
    ) -> None:
        self.rule = rule
        self.func = rule.new_format_desc
        self.shape = shape
        params = {param.name: param for param in self.func.params if not param.dtype.is_handle}
        unknown = sorted(sizes.keys() - params.keys())
        if unknown:
            raise ArgumentError(f"rule {rule.name!r} has no size {unknown[0]!r}")
        self.given = {params[name]: int(size) for name, size in sizes.items()}
        self.sizes = dict(self.given)
        by_name = {axis.name: axis for axis in self.func.sp_axes}
        self.mapped = [by_name[name] for name in rule.axes_after_rewrite]
        buffers = sparse_buffers(self.func)
        self.buffers = [buffers[name] for name in rule.buffers_to_rewrite]
        self.axes = self.buffers[0].axes
        for buffer in self.buffers[1:]:
            if buffer.axes != self.axes:
                raise ShapeError(
                    f"buffers {self.buffers[0].name!r} and {buffer.name!r} of rule {rule.name!r} "
                    "are over other axes"
                )
        cuts = [axis for axis in self.axes if self._only_cuts(axis)]
        for axis, extent in zip(self.mapped, rule.idx_map.map_shape(shape), strict=True):
            if axis not in cuts:
                self._set_length(axis, size_of(extent, self.sizes))
        found = evaluate_map(rule.idx_map, columns, self.sizes)
        self.coordinates = dict(zip(self.mapped, found, strict=True))
        for axis in cuts:
            pieces = self.coordinates[axis] = self._cut(axis)
            self._set_length(axis, int(pieces.max(initial=-1)) + 1)

    # ------------------------------------------------------------------ sizes

    def _set_length(self, axis: Axis, value: int | None) -> None:
        """Enter a length that is a parameter on its own; several axes may have it."""
        length = axis.length
        if not isinstance(length, Var) or value is None:
            return
        if self.given.get(length, value) < value:
            self._refuse_size(length, self.given[length], value)
        self.sizes[length] = max(self.sizes.get(length, value), value)

    def _set(self, size: Expr, value: int) -> None:
        """Enter a number of positions that is a parameter on its own."""
        if isinstance(size, Var) and self.sizes.setdefault(size, value) != value:
            self._refuse_size(size, self.sizes[size], value)

    def _refuse_size(self, size: Var, known: int, value: int) -> NoReturn:
        raise UserError(
            f"size {size.name!r} of rule {self.rule.name!r} is {known}, but {value} is needed"
        )

    def _known(self, size: Expr, what: str) -> int:
        value = size_of(size, self.sizes)
        if value is None:
            missing = sorted(var.name for var in free_vars(size) - self.sizes.keys())
            raise ArgumentError(
                f"{what} of rule {self.rule.name!r} needs the size {missing[0]!r}",
                hint=f"sizes={{{missing[0]!r}: ...}}",
            )
        return value

    # ------------------------------------------------------------------ pieces

    def _only_cuts(self, axis: Axis) -> bool:
        """Whether an axis cuts what is under its parent into pieces; coordinates do not tell."""
        inverse = self.rule.inv_idx_map
        var = inverse.initial_indices[self.mapped.index(axis)]
        used = any(var in free_vars(final) for final in inverse.final_indices)
        return axis.kind == "dense_variable" and not used and self._child(axis) is not None

    def _child(self, axis: Axis) -> Axis | None:
        """The sparse_fixed axis below an axis, if there is no other."""
        children = [child for child in self.axes if child.parent is axis]
        is_fixed = len(children) == 1 and children[0].kind == "sparse_fixed"
        return children[0] if is_fixed else None

    def _cut(self, axis: Axis) -> Array:
        """The piece that each element is in, by how many coordinates below are before its own."""
        child = self._child(axis)
        if child is None:
            return self.coordinates[axis]
        width = self._known(child.positions, f"axis {child.name!r}")
        rank, place = self._ranks(axis.ancestors, child)
        pieces: Array = (rank // max(1, width))[place]
        return pieces

    def _ranks(self, above: Sequence[Axis], axis: Axis) -> tuple[Array, Array]:
        """The distinct coordinates under those of other axes, numbered, and where elements are."""
        lengths = [self._known(one.length, f"axis {one.name!r}") for one in (*above, axis)]
        if prod(lengths) > np.iinfo(np.int64).max:
            raise UserError(f"rule {self.rule.name!r} has more places than can be counted")
        group = np.zeros(len(self.coordinates[axis]), np.int64)
        for other, length in zip(above, lengths):
            group *= length
            group += self.coordinates[other]
        length = lengths[-1]
        distinct, place = np.unique(group * length + self.coordinates[axis], return_inverse=True)
        group_of = distinct // max(1, length)
        return np.arange(len(distinct)) - np.searchsorted(group_of, group_of), place.reshape(-1)

    # ------------------------------------------------------------------ arrays

    def stored(self) -> StoredStructure:
        """The structure; numbers of positions become known."""
        fixed = [axis for axis in self.axes if axis.kind == "sparse_fixed"]
        for axis in fixed:
            if size_of(axis.positions, self.sizes) is None:
                self._set(axis.positions, self._widest(axis))
        coordinates = [self.coordinates[axis] for axis in self.axes]
        try:
            made = store(coordinates, [self._format_axis(axis) for axis in self.axes])
        except UserError:
            for axis in fixed:
                self._refuse_narrow(axis)
            raise
        for axis, arrays in zip(self.axes, made.axes, strict=True):
            self._set(axis.nnz, arrays.size)
        return made

    def _widest(self, axis: Axis) -> int:
        """The most coordinates that lie under one position of the parent."""
        rank, _ = self._ranks(axis.ancestors, axis)
        return int(rank.max(initial=-1)) + 1

    def _refuse_narrow(self, axis: Axis) -> None:
        width, needed = self._known(axis.positions, "a width"), self._widest(axis)
        if needed > width:
            raise UserError(
                f"the width of axis {axis.name!r} of rule {self.rule.name!r} is {width}, but there "
                f"are {needed} coordinates in one place",
                hint="a greater width, a sparse_variable axis, or hyb, which cuts long rows",
            )

    def _format_axis(self, axis: Axis) -> FormatAxis:
        length = self._known(axis.length, f"axis {axis.name!r}")
        parent = None if axis.parent is None else self.axes.index(axis.parent)
        width = None
        if axis.kind == "sparse_fixed":
            width = self._known(axis.positions, f"axis {axis.name!r}")
        return FormatAxis(axis.kind, length, parent, width)  # type: ignore[arg-type]

    def arguments(self, slots: StoredStructure, values: Any) -> dict[str, Any]:
        """What is given for each parameter of the description."""
        found: dict[Var, Any] = dict(self.sizes)
        for axis, arrays in zip(self.axes, slots.axes, strict=True):
            for param, array in ((axis.indptr, arrays.indptr), (axis.indices, arrays.indices)):
                if param is not None and array is not None:
                    found[param] = _of_type(array, axis)
        names = [buffer.name for buffer in self.buffers]
        given = values if isinstance(values, Mapping) else {names[0]: values}
        unknown = sorted(given.keys() - set(names))
        if unknown:
            raise ArgumentError(
                f"rule {self.rule.name!r} rewrites {listed(names)}, not {unknown[0]!r}"
            )
        for param, buffer in self.func.buffer_map.items():
            if buffer in self.buffers and isinstance(buffer, SparseBuffer):
                found[param] = self._values(buffer, slots, given.get(buffer.name))
        for param in self.func.params:
            if param not in found and param.dtype.is_handle:
                raise ArgumentError(f"rule {self.rule.name!r} does not tell what {param.name!r} is")
            if param not in found:
                self._known(param, "the description")
        return {param.name: found[param] for param in self.func.params}

    def _values(self, buffer: SparseBuffer, slots: StoredStructure, given: Any) -> Array:
        """The elements of a buffer in their slots, its default value in all others."""
        kind = buffer.dtype.numpy
        default = kind.type(evaluate(buffer.default))
        if given is None:
            return np.full(slots.source.shape, default, kind)
        data = np.asarray(given)
        if data.shape != (slots.source_count,):
            raise ShapeError(
                f"the values of {buffer.name!r} have shape {data.shape}; the part has "
                f"{slots.source_count} elements"
            )
        return slots.values(data.astype(kind), default)


def size_of(size: Expr, sizes: Mapping[Var, int]) -> int | None:
    """The value of a size, if that of all variables in it is known."""
    return int(evaluate_index(size, sizes)) if free_vars(size) <= sizes.keys() else None


def _of_type(array: Array, axis: Axis) -> Array:
    """Indices in the type of their axis."""
    kind = axis.idtype.numpy
    if array.size and int(array.max()) > np.iinfo(kind).max:
        raise DTypeError(f"axis {axis.name!r} is of type {axis.idtype}; {array.max()} is too large")
    return array.astype(kind, copy=False)
