"""Sparse programs in scripts: axes, buffers over axes, and iterations over coordinates."""

from __future__ import annotations

from ..base import DType
from ..base.errors import ShapeError, UserError
from ..base.late import TYPE_CHECKING
from ..base.record import Record
from ..expr import Expr, ExprLike, Var, as_expr, const
from ..tir.sparse import (
    Axis,
    FusedAxis,
    IntersectionAxis,
    SpIterVar,
    UnionAxis,
    attach,
    dense_fixed,
    dense_variable,
    fuse,
    make_sparse_buffer,
    merge,
    sparse_fixed,
    sparse_variable,
)
from .notes import BlockFact, Suite, VarNote, as_dtype

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from ..tir import Buffer, SparseBuffer, Stmt


class SpAxisNote(Record):
    """An axis without a name yet."""

    make: Callable[[str], Axis]


class SparseBufferNote(Record):
    """A sparse buffer without a name yet, of a parameter or (`param` None) with its own memory."""

    param: Var | None
    make: Callable[[str], SparseBuffer]


class SpIterNote(Suite):
    """`T.sp_iter(axes, kinds, name)`."""

    axes: tuple[Axis, ...]
    kinds: str
    name: str


class DomainNote(Record):
    """`T.assume_buffer_domain(buffer, [low, high])`."""

    buffer: Buffer
    low: Expr
    high: Expr


class IterationState:
    """A sparse iteration that is still open."""

    def __init__(self, note: SpIterNote) -> None:
        self.note = note
        self.init: Stmt | None = None
        self.annotations: dict[str, Any] = {}

    def variables(self, names: Sequence[str]) -> tuple[SpIterVar, ...]:
        """Its variables under the names that the script gives them."""
        axes, kinds = self.note.axes, self.note.kinds
        if len(names) != len(axes):
            raise UserError(f"{len(names)} names for {len(axes)} axes")
        return tuple(
            SpIterVar(Var(name, axis.idtype), axis, kind == "R")
            for name, axis, kind in zip(names, axes, kinds, strict=True)
        )


# ---------------------------------------------------------------------------- axes


def _dense_fixed(length: ExprLike, idtype: Any = "int32") -> SpAxisNote:
    """An axis that stores every coordinate."""
    kind = as_dtype(idtype)
    return SpAxisNote(lambda name: dense_fixed(name, _size(length, kind), kind))


def _dense_variable(parent: Axis, sizes: Any, data: Any, idtype: Any = "int32") -> SpAxisNote:
    """A ragged axis. `sizes` is the length, or the length and the number of positions."""
    above, pointer = _parent("dense_variable", parent), _pointer("dense_variable", "indptr", data)
    pair = sizes if isinstance(sizes, list | tuple) else (sizes, None)
    if len(pair) != 2:
        raise UserError(f"dense_variable takes (length, nnz), got {len(pair)} sizes")
    length, nnz = pair

    def make(name: str) -> Axis:
        kind = as_dtype(idtype)
        count = Var(f"{name}_nnz", kind) if nnz is None else _size(nnz, kind)
        return dense_variable(name, above, _size(length, kind), count, pointer, kind)

    return SpAxisNote(make)


def _sparse_fixed(
    parent: Axis, sizes: Any, data: Any, idtype: Any = "int32", sorted: bool = True
) -> SpAxisNote:
    """As many stored coordinates below each position: `sizes` is (length, positions)."""
    above, pointer = _parent("sparse_fixed", parent), _pointer("sparse_fixed", "indices", data)
    length, width = _pair("sparse_fixed", "(length, nnz_cols)", sizes)
    kind = as_dtype(idtype)
    return SpAxisNote(
        lambda name: sparse_fixed(
            name, above, _size(length, kind), _size(width, kind), pointer, kind, sorted
        )
    )


def _sparse_variable(
    parent: Axis, sizes: Any, data: Any, idtype: Any = "int32", sorted: bool = True
) -> SpAxisNote:
    """Some stored coordinates below each position: `sizes` is (length, nnz)."""
    above = _parent("sparse_variable", parent)
    length, nnz = _pair("sparse_variable", "(length, nnz)", sizes)
    starts, coordinates = _pair("sparse_variable", "(indptr, indices)", data)
    indptr = _pointer("sparse_variable", "indptr", starts)
    indices = _pointer("sparse_variable", "indices", coordinates)
    kind = as_dtype(idtype)
    return SpAxisNote(
        lambda name: sparse_variable(
            name, above, _size(length, kind), _size(nnz, kind), indptr, indices, kind, sorted
        )
    )


def _size(size: ExprLike, idtype: DType) -> Expr:
    """A length or a count; a number is of the axis' type."""
    return const(size, idtype) if isinstance(size, int) else as_expr(size)


def _parent(function: str, parent: Any) -> Axis:
    if not isinstance(parent, Axis):
        raise UserError(
            f"T.{function} stands below an axis, got {parent!r}",
            hint="an axis without a parent is T.dense_fixed(length)",
        )
    return parent


def _pair(function: str, what: str, value: Any) -> tuple[Any, Any]:
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise UserError(f"T.{function} takes {what}, got {value!r}")
    return value[0], value[1]


def _pointer(function: str, what: str, data: Any) -> Var:
    if isinstance(data, VarNote):
        data = data.named(what)
    if not isinstance(data, Var) or not data.dtype.is_handle:
        raise UserError(f"the {what} of T.{function} is a handle parameter, got {data!r}")
    return data


def _attach(axis: Axis, parent: Axis) -> Axis:
    """An axis below the coordinates of another than its parent."""
    return attach(_parent("attach", axis), _parent("attach", parent))


def _fuse(*axes: Any) -> list[FusedAxis]:
    """Axes that are iterated as one loop over the positions of the last."""
    group = [_parent("fuse", axis) for axis in _flat(axes)]
    for k, axis in enumerate(group[1:]):
        above = group[k]
        if axis.parent is not above:
            raise ShapeError(
                f"T.fuse joins an axis and its children: {axis.name} is not below {above.name}"
            )
    return fuse(group)


def _union(*axes: Any) -> Axis:
    """The coordinates that any of several axes stores."""
    return merge(UnionAxis, _siblings("union", axes))


def _intersect(*axes: Any) -> Axis:
    """The coordinates that all of several axes store."""
    return merge(IntersectionAxis, _siblings("intersect", axes))


def _siblings(function: str, axes: Any) -> list[Axis]:
    parts = [_parent(function, axis) for axis in _flat(axes)]
    if len(parts) < 2:
        raise UserError(f"T.{function} takes two axes or more")
    for axis in parts:
        if axis.parent is None or not axis.is_sparse:
            raise UserError(f"T.{function} merges axes that store coordinates, not {axis.kind}")
    return parts


def _flat(axes: Any) -> list[Any]:
    found: list[Any] = []
    for axis in axes:
        found.extend(_flat(axis) if isinstance(axis, list | tuple) else [axis])
    return found


# ---------------------------------------------------------------------------- buffers


def _match_sparse_buffer(
    param: Any,
    axes: Any,
    dtype: Any = "float32",
    extra_storage: Any = None,
    default_value: Any = None,
) -> SparseBufferNote:
    """The sparse buffer of a handle parameter."""
    if isinstance(param, VarNote):
        param = param.named("param")
    if not isinstance(param, Var) or not param.dtype.is_handle:
        raise UserError(f"match_sparse_buffer takes a handle parameter, got {param!r}")
    return SparseBufferNote(param, _maker(axes, dtype, extra_storage, default_value, "global"))


def _alloc_sparse_buffer(
    axes: Any,
    dtype: Any = "float32",
    scope: str = "global",
    extra_storage: Any = None,
    default_value: Any = None,
) -> SparseBufferNote:
    """Memory over axes for the length of the block around it."""
    return SparseBufferNote(None, _maker(axes, dtype, extra_storage, default_value, scope))


def _maker(
    axes: Any, kind: Any, extra: Any, default: Any, scope: str
) -> Callable[[str], SparseBuffer]:
    listed = [_parent("match_sparse_buffer", axis) for axis in _flat([axes])]
    element = as_dtype(kind)
    more = None if extra is None or extra == 0 else as_expr(extra)
    value = None if default is None else as_expr(default, element)
    return lambda name: make_sparse_buffer(
        name, listed, element, scope=scope, extra_storage=more, default_value=value
    )


def _assume_buffer_domain(buffer: Any, domain: Any) -> DomainNote:
    """The values of an integer buffer are in [low, high)."""
    low, high = _pair("assume_buffer_domain", "[low, high]", domain)
    return DomainNote(buffer, as_expr(low), as_expr(high))


# ---------------------------------------------------------------------------- iterations


def _sp_iter(axes: Any, iter_types: str, name: str = "") -> SpIterNote:
    """All stored coordinates of axes; a letter for each axis, R where it is combined over."""
    listed = [_parent("sp_iter", axis) for axis in _flat([axes])]
    if len(iter_types) != len(listed):
        raise UserError(f"{len(iter_types)} kinds ({iter_types!r}) for {len(listed)} axes")
    return SpIterNote(tuple(listed), iter_types, name)


def _sp_iter_attr(attrs: Mapping[str, Any]) -> BlockFact:
    """Annotations of a sparse iteration."""
    return BlockFact("sp_iter_attr", dict(attrs))


SPARSE_FUNCTIONS: dict[str, Any] = {
    "dense_fixed": _dense_fixed,
    "dense_variable": _dense_variable,
    "sparse_fixed": _sparse_fixed,
    "sparse_variable": _sparse_variable,
    "attach": _attach,
    "fuse": _fuse,
    "union": _union,
    "intersect": _intersect,
    "match_sparse_buffer": _match_sparse_buffer,
    "alloc_sparse_buffer": _alloc_sparse_buffer,
    "assume_buffer_domain": _assume_buffer_domain,
    "sp_iter": _sp_iter,
    "iter": _sp_iter,
    "sp_iter_attr": _sp_iter_attr,
    "iter_attr": _sp_iter_attr,
}
