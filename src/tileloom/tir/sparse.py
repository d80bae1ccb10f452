"""Sparse tensors in tensor IR: axes, buffers over axes, and iterations over their coordinates.

    axis   ::= DenseFixed(name, length) | Axis(name, kind, parent, length, nnz, ...)
             | FusedAxis(group, index) | AttachedAxis(base, parent)
    buffer ::= SparseBuffer(..., axes, extra_storage, default_value)
    stmt   ::= SparseIteration(sp_iter_vars, name, body, init, annotations)

An axis says which coordinates are stored below each position of its parent:

    kind             stored             positions below position p of the parent
    dense_fixed      -                  length, and it has no parent
    dense_variable   indptr             indptr[p + 1] - indptr[p], coordinates 0, 1, ...
    sparse_fixed     indices            nnz_cols, coordinates indices[p * nnz_cols + ...]
    sparse_variable  indptr, indices    indptr[p + 1] - indptr[p], coordinates indices[...]

Positions are counted along the chain of parents: `J[p]` of CSR is the p-th stored element of all
rows. A function over sparse buffers is at one of three levels, its attribute "sparse_tir_level": 2
(iterations, indices are coordinates), 1 (loops and blocks, indices are positions below the parent)
or 0 (plain buffers). Source: SparseTIR (Ye et al., ASPLOS 2023).
"""

from __future__ import annotations

from ..base import DType, dtype
from ..base.late import TYPE_CHECKING
from ..base.record import Record, field
from ..expr import Expr, IntImm, Var, as_expr, const
from .nodes import Buffer, PrimFunc, Stmt

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

LEVEL = "sparse_tir_level"
COORDINATES, POSITIONS, PLAIN = 2, 1, 0

DENSE_FIXED, DENSE_VARIABLE = "dense_fixed", "dense_variable"
SPARSE_FIXED, SPARSE_VARIABLE = "sparse_fixed", "sparse_variable"


class Axis(Record):
    """One dimension of sparse tensors.

    Attributes:
        name: for people, and for the names of the index buffers.
        length: coordinates are in [0, length).
        nnz: how many positions there are below all positions of the parents.
        parent: the axis below whose positions this one's are counted; None for a root.
        nnz_cols: positions below each position of the parent; None where that varies.
        indptr: where the positions below each position of the parent start; None where all have
            as many.
        indices: the coordinate at each position; None where position and coordinate are the same.
        idtype: type of coordinates and positions.
        sorted: the coordinates below a position ascend; needed where coordinates are looked up.
    """

    name: str
    length: Expr
    nnz: Expr
    parent: Axis | None = None
    nnz_cols: Expr | None = None
    indptr: Var | None = None
    indices: Var | None = None
    idtype: DType = dtype("int32")
    sorted: bool = True

    @property
    def is_variable(self) -> bool:
        """Whether the number of positions differs between positions of the parent."""
        return self.indptr is not None

    @property
    def is_sparse(self) -> bool:
        """Whether coordinates are stored."""
        return self.indices is not None

    @property
    def kind(self) -> str:
        """One of "dense_fixed", "dense_variable", "sparse_fixed" and "sparse_variable"."""
        return f"{'sparse' if self.is_sparse else 'dense'}_{_WIDTH[self.is_variable]}"

    @property
    def root(self) -> Axis:
        """The first axis of the chain of parents."""
        return self if self.parent is None else self.parent.root

    @property
    def ancestors(self) -> tuple[Axis, ...]:
        """The parents, the root first, without this axis."""
        return () if self.parent is None else (*self.parent.ancestors, self.parent)

    @property
    def exprs(self) -> tuple[Expr, ...]:
        """The length and the numbers of positions."""
        width = () if self.nnz_cols is None else (self.nnz_cols,)
        return (self.length, self.nnz, *width)

    @property
    def positions(self) -> Expr:
        """An upper bound of the position below one position of the parent."""
        return self.nnz if self.nnz_cols is None else self.nnz_cols

    def __repr__(self) -> str:
        above = "" if self.parent is None else f" of {self.parent.name}"
        return f"Axis({self.name}: {self.kind}{above}, {self.length})"


_WIDTH = {True: "variable", False: "fixed"}


class FusedAxis(Axis):
    """A part of axes that are iterated as one loop over all positions of the last of them.

    The last part runs over the positions; the parts before it follow from the position.
    """

    group: tuple[Axis, ...] = ()
    index: int = 0

    @property
    def is_last(self) -> bool:
        """Whether this part has the loop."""
        return self.index == len(self.group) - 1

    @property
    def base(self) -> Axis:
        """The axis that this is the part of."""
        return self.group[self.index]


class AttachedAxis(Axis):
    """An axis below the coordinates of another one than its parent: it joins two structures."""

    base: Axis | None = None


class UnionAxis(Axis):
    """The coordinates that any of several axes below the same position stores, in order."""

    parts: tuple[Axis, ...] = ()


class IntersectionAxis(Axis):
    """The coordinates that all of several axes below the same position store, in order."""

    parts: tuple[Axis, ...] = ()


MERGED = (UnionAxis, IntersectionAxis)


def dense_fixed(name: str, length: Expr | int, idtype: str = "int32") -> Axis:
    """An axis that stores every coordinate.

    >>> dense_fixed("I", 8)
    Axis(I: dense_fixed, 8)
    """
    extent = as_expr(length)
    return Axis(name, extent, extent, None, extent, idtype=dtype(idtype))


def dense_variable(
    name: str,
    parent: Axis,
    length: Expr | int,
    nnz: Expr | int,
    indptr: Var,
    idtype: str = "int32",
) -> Axis:
    """An axis of coordinates 0, 1, ... up to a length that differs (ragged)."""
    return Axis(name, as_expr(length), as_expr(nnz), parent, None, indptr, None, dtype(idtype))


def sparse_fixed(
    name: str,
    parent: Axis,
    length: Expr | int,
    nnz_cols: Expr | int,
    indices: Var,
    idtype: str = "int32",
    sorted: bool = True,
) -> Axis:
    """An axis that stores as many coordinates below every position (ELL)."""
    width = as_expr(nnz_cols)
    nnz = parent.nnz * width
    return Axis(name, as_expr(length), nnz, parent, width, None, indices, dtype(idtype), sorted)


def sparse_variable(
    name: str,
    parent: Axis,
    length: Expr | int,
    nnz: Expr | int,
    indptr: Var,
    indices: Var,
    idtype: str = "int32",
    sorted: bool = True,
) -> Axis:
    """An axis that stores some coordinates below each position (CSR)."""
    return Axis(
        name, as_expr(length), as_expr(nnz), parent, None, indptr, indices, dtype(idtype), sorted
    )


def fuse(group: Sequence[Axis]) -> list[FusedAxis]:
    """The parts of axes that are iterated as one."""
    joined = "".join(axis.name for axis in group)
    last, one = group[-1], const(1, group[-1].nnz.dtype)
    parts = []
    for index, axis in enumerate(group):
        nnz = last.nnz if index == len(group) - 1 else one
        name = f"fused_{joined}_{axis.name}"
        parts.append(
            FusedAxis(
                name, nnz, nnz, None, nnz, idtype=axis.idtype, group=tuple(group), index=index
            )
        )
    return parts


def attach(base: Axis, parent: Axis) -> AttachedAxis:
    """`base` below the coordinates of `parent`, which are positions of its own parent."""
    return AttachedAxis(
        f"{base.name}_attach_{parent.name}",
        base.length,
        base.nnz,
        parent,
        base.nnz_cols,
        base.indptr,
        base.indices,
        base.idtype,
        base.sorted,
        base=base,
    )


def merge(kind: type[UnionAxis] | type[IntersectionAxis], parts: Sequence[Axis]) -> Axis:
    """The coordinates of any or of all of several axes."""
    joined = "_".join(axis.name for axis in parts)
    word = "union" if kind is UnionAxis else "intersect"
    nnz = parts[0].nnz
    if kind is UnionAxis:
        for axis in parts[1:]:
            nnz = nnz + axis.nnz
    first = parts[0]
    return kind(
        f"{word}_{joined}",
        first.length,
        nnz,
        first.parent,
        None,
        idtype=first.idtype,
        parts=tuple(parts),
    )


def to_dense(axis: Axis) -> Axis:
    """The axis of the positions of a sparse axis, over which its index buffer is stored."""
    name = f"{axis.name}_dense"
    if axis.indptr is not None:
        return Axis(name, axis.length, axis.nnz, axis.parent, None, axis.indptr, None, axis.idtype)
    width = axis.positions
    return Axis(name, width, width, None, width, idtype=axis.idtype)


class SparseBuffer(Buffer):
    """A tensor over axes: its memory holds the stored elements, one for each position.

    The shape bounds the positions of each axis. Elements that are not stored are `default_value`.

    Attributes:
        axes: outermost first; a parent stands before its children.
        extra_storage: elements beyond those of the positions (1 for an indptr).
        default_value: what an element that is not stored is; None means 0.
    """

    axes: tuple[Axis, ...] = ()
    extra_storage: Expr | None = None
    default_value: Expr | None = None

    @property
    def default(self) -> Expr:
        """The value of elements that are not stored."""
        return const(0, self.dtype) if self.default_value is None else self.default_value

    def __repr__(self) -> str:
        axes = ", ".join(axis.name for axis in self.axes)
        return f"SparseBuffer({self.name}: {self.dtype}[{axes}] in {self.scope})"


def make_sparse_buffer(
    name: str,
    axes: Sequence[Axis],
    dtype_: str | DType = "float32",
    *,
    scope: str = "global",
    data: Var | None = None,
    extra_storage: Expr | None = None,
    default_value: Expr | None = None,
) -> SparseBuffer:
    """A buffer over axes, with a pointer of its own unless `data` is given."""
    kind = dtype(dtype_)
    shape = [axis.positions for axis in axes]
    if extra_storage is not None and shape:
        shape[-1] = shape[-1] + extra_storage.astype(shape[-1].dtype)
    return SparseBuffer(
        Var(name, "handle", (kind, scope)) if data is None else data,
        kind,
        tuple(shape),
        name,
        scope=scope,
        axes=tuple(axes),
        extra_storage=extra_storage,
        default_value=default_value,
    )


class SpIterVar(Record):
    """A variable of a sparse iteration: the coordinate on an axis."""

    var: Var
    axis: Axis
    is_reduction: bool = False

    def same_as(self, other: object) -> bool:
        """Whether both are one variable."""
        return self is other

    def __repr__(self) -> str:
        return f"SpIterVar({self.var.name}: {self.axis.name}, {'R' if self.is_reduction else 'S'})"


class SparseIteration(Stmt):
    """`body` for all stored coordinates of axes, the first axis outermost.

    `init` is done once for each element that it stores to, before any `body`.
    """

    sp_iter_vars: tuple[SpIterVar, ...]
    name: str
    body: Stmt
    init: Stmt | None = None
    annotations: Mapping[str, Any] = field(default_factory=dict)


class BufferDomain(Record):
    """What is known of the values of an integer buffer: they are in [low, high)."""

    buffer: Buffer
    low: Expr
    high: Expr


class AxisMap:
    """Axes with other expressions in them: each axis becomes one other axis.

    Args:
        visit: the expression in place of one.
    """

    def __init__(self, visit: Callable[[Expr], Expr]) -> None:
        self.visit = visit
        self.known: dict[Axis, Axis] = {}

    def __call__(self, axis: Axis) -> Axis:
        """The axis in place of one; the very same where nothing changes."""
        found = self.known.get(axis)
        if found is None:
            found = self.known[axis] = self._made(axis)
        return found

    def all(self, axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
        """Several axes; the very same tuple where nothing changes."""
        new = tuple([self(axis) for axis in axes])
        return axes if all(a is b for a, b in zip(axes, new)) else new

    def buffer(self, buffer: SparseBuffer) -> SparseBuffer:
        """A buffer over the new axes."""
        axes = self.all(buffer.axes)
        extra = None if buffer.extra_storage is None else self.visit(buffer.extra_storage)
        default = None if buffer.default_value is None else self.visit(buffer.default_value)
        if axes is buffer.axes and (extra, default) == (buffer.extra_storage, buffer.default_value):
            return buffer
        shape = [axis.positions for axis in axes]
        if extra is not None and shape:
            shape[-1] = shape[-1] + extra.astype(shape[-1].dtype)
        return buffer.replace(
            axes=axes, shape=tuple(shape), extra_storage=extra, default_value=default
        )

    def iteration(self, stmt: SparseIteration) -> SparseIteration:
        """An iteration over the new axes."""
        axes = self.all(tuple(part.axis for part in stmt.sp_iter_vars))
        changed = any(part.axis is not axis for part, axis in zip(stmt.sp_iter_vars, axes))
        if not changed:
            return stmt
        pairs = zip(stmt.sp_iter_vars, axes)
        return stmt.replace(sp_iter_vars=tuple(part.replace(axis=axis) for part, axis in pairs))

    def _made(self, axis: Axis) -> Axis:
        changes: dict[str, Any] = {"length": self.visit(axis.length), "nnz": self.visit(axis.nnz)}
        if axis.nnz_cols is not None:
            changes["nnz_cols"] = self.visit(axis.nnz_cols)
        if axis.parent is not None:
            changes["parent"] = self(axis.parent)
        match axis:
            case FusedAxis():
                changes["group"] = self.all(axis.group)
            case AttachedAxis(base=Axis() as base):
                changes["base"] = self(base)
            case UnionAxis() | IntersectionAxis():
                changes["parts"] = self.all(axis.parts)
            case _:
                pass
        if all(getattr(axis, name) is new for name, new in changes.items()):
            return axis
        return axis.replace(**changes)


def sparse_level(func: PrimFunc) -> int:
    """At which level a function is: `COORDINATES`, `POSITIONS` or `PLAIN`."""
    level = func.attrs.get(LEVEL)
    if level is None:
        return COORDINATES if func.sp_axes else PLAIN
    return level.value if isinstance(level, IntImm) else int(level)
