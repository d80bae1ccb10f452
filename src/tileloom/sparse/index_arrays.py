"""The index arrays of axes as buffers that a program may read."""

from __future__ import annotations

from collections.abc import Sequence

from ..base.errors import UserError
from ..expr import Expr, Var, cast, const
from ..tir import Axis, Buffer, BufferDomain, BufferLoad, PrimFunc, SparseBuffer
from ..tir.sparse import AttachedAxis, make_sparse_buffer, to_dense

Path = tuple[Expr, ...]  # the position below each axis of a chain, the root's first


class IndexArrays:
    """The buffers of the index arrays of a function's axes: `J_indptr`, `J_indices`.

    An indptr is over the axes above, the coordinates over these and the dense twin (`J_dense`).

    Attributes:
        axes: those of the function, each followed by its dense twin.
        buffer_map: that of the function with the buffers of the index arrays.
        domains: what values the index arrays have.
    """

    def __init__(self, func: PrimFunc) -> None:
        self.axes: list[Axis] = []
        self.buffer_map: dict[Var, Buffer] = dict(func.buffer_map)
        self.domains: list[BufferDomain] = list(func.buffer_domains)
        self._indptr: dict[Axis, SparseBuffer] = {}
        self._indices: dict[Axis, SparseBuffer] = {}
        for axis in func.sp_axes:
            self._enter(axis)

    def _enter(self, axis: Axis) -> None:
        self.axes.append(axis)
        above = axis.ancestors
        if axis.indptr is not None:
            one = const(1, axis.idtype)
            self._indptr[axis] = self._declare(axis, "indptr", axis.indptr, above, one)
            end = axis.nnz + const(1, axis.nnz.dtype)
            self.domains.append(BufferDomain(self._indptr[axis], const(0, end.dtype), end))
        if axis.indices is not None:
            twin = to_dense(axis)
            self.axes.append(twin)
            over = [*above, twin]
            self._indices[axis] = self._declare(axis, "indices", axis.indices, over, None)
            low = const(0, axis.length.dtype)
            self.domains.append(BufferDomain(self._indices[axis], low, axis.length))

    def _declare(
        self, axis: Axis, what: str, param: Var, over: Sequence[Axis], extra: Expr | None
    ) -> SparseBuffer:
        known = self.buffer_map.get(param)
        if known is not None:
            if isinstance(known, SparseBuffer) and known in (
                *self._indptr.values(),
                *self._indices.values(),
            ):
                return known  # another axis with the same array
            raise UserError(
                f"{param.name!r} is the {what} of axis {axis.name!r} and has the buffer "
                f"{known.name!r}, too",
                hint="the buffers of index arrays are made by the lowering",
            )
        name = f"{axis.name}_{what}"
        buffer = make_sparse_buffer(name, over, axis.idtype, extra_storage=extra)
        self.buffer_map[param] = buffer
        return buffer

    # ------------------------------------------------------------------------ reading

    @property
    def buffers(self) -> tuple[SparseBuffer, ...]:
        """All index arrays."""
        return (*self._indptr.values(), *self._indices.values())

    def start(self, axis: Axis, above: Path, ahead: int = 0) -> Expr:
        """`indptr` at a position of the parent, or so many positions further."""
        *outer, last = above
        at = last + const(ahead, last.dtype) if ahead else last
        return BufferLoad(self._indptr[structure(axis)], (*outer, at))

    def starts(self, axis: Axis) -> SparseBuffer:
        """The buffer of the `indptr` of an axis."""
        return self._indptr[structure(axis)]

    def coordinates(self, axis: Axis) -> SparseBuffer:
        """The buffer of the `indices` of an axis."""
        return self._indices[structure(axis)]

    def extent(self, axis: Axis, above: Path) -> Expr:
        """How many positions there are below a position of the parent."""
        if not axis.is_variable:
            return cast(axis.idtype, axis.positions)
        count: Expr = self.start(axis, above, 1) - self.start(axis, above)
        return count

    def coordinate(self, axis: Axis, path: Path) -> Expr:
        """The coordinate at a position."""
        if not axis.is_sparse:
            return path[-1]
        return BufferLoad(self._indices[structure(axis)], path)


def structure(axis: Axis) -> Axis:
    """The axis that has the index arrays."""
    return axis.base if isinstance(axis, AttachedAxis) and axis.base is not None else axis


def same_structure(a: Axis, b: Axis) -> bool:
    """Whether two axes store the same coordinates because they have the same arrays."""
    if a is b:
        return True
    if (a.indptr, a.indices) != (b.indptr, b.indices) or a.nnz_cols is not b.nnz_cols:
        return False
    if a.parent is None or b.parent is None:
        return False
    return a.indices is not None and same_structure(a.parent, b.parent)


def path_of_count(axis: Axis, count: Expr) -> Path:
    """The path to a position that is counted along the whole chain of parents."""
    if axis.parent is None:
        return (count,)
    if axis.is_variable:
        zero = const(0, count.dtype)
        return (*(zero for _ in axis.ancestors), count)
    width = cast(count.dtype, axis.positions)
    return (*path_of_count(axis.parent, count // width), count % width)
