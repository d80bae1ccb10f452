"""What the functions of the `T` namespace give the parser: notes of what to build.

A note is complete but nameless: the parser gives it the name of the variable that it is assigned
to, and puts it where the text has it.
"""

from __future__ import annotations

from ..base import DType, dtype
from ..base.errors import UserError
from ..base.late import TYPE_CHECKING, package
from ..base.record import Record, field
from ..expr import Broadcast, Expr, ExprLike, IntImm, Ramp, Range, SizeVar, Var, as_expr, const
from ..expr.operators import Operators
from ..tir import Buffer, BufferLoad, BufferRegion
from .lengths import length

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    import numpy as np
else:
    np = package("numpy")

_UNSET: Any = object()


class Kind:
    """A type in the `T` namespace: an annotation, a constructor of constants and of variables."""

    __slots__ = ("dtype",)

    def __init__(self, name: str) -> None:
        self.dtype = dtype(name)

    def __call__(self, value: Any = _UNSET, *, is_size_var: bool = False) -> Any:
        if value is _UNSET or value is None:
            return VarNote(self.dtype, is_size_var)
        if isinstance(value, str) and (self.dtype.is_float or value.lstrip("-").isdigit()):
            return const(float(value) if self.dtype.is_float else int(value), self.dtype)
        if isinstance(value, (int, float)):
            return const(value, self.dtype)
        if not isinstance(value, Operators) and isinstance(value, np.number | np.bool_):
            return const(value, self.dtype)
        return as_expr(value).astype(self.dtype)

    def __repr__(self) -> str:
        return f"T.{self.dtype}"


class HandleKind(Kind):
    """`T.handle`: a pointer, which may say to what: `T.handle("float32", "shared")`."""

    __slots__ = ()

    def __call__(
        self, value: Any = _UNSET, storage_scope: str = "global", *, is_size_var: bool = False
    ) -> Any:
        pointee = None if value is _UNSET or value is None else (as_dtype(value), storage_scope)
        return VarNote(self.dtype, is_size_var, pointee)


def as_dtype(kind: Any) -> DType:
    """The type that a string, a `Kind` or whatever `dtype` takes means; "" is none, as in TVM."""
    return kind.dtype if isinstance(kind, Kind) else dtype("void" if kind == "" else kind)


class VarNote(Operators, Record):
    """A variable without a name yet, `T.int32()`."""

    dtype: DType
    is_size_var: bool = False
    pointee: tuple[DType, str] | None = None
    var: Var | None = None

    def named(self, name: str) -> Var:
        """The variable; the first name given stays."""
        if self.var is None:
            kind = SizeVar if self.is_size_var else Var
            object.__setattr__(self, "var", kind(name, self.dtype, self.pointee))
        return self.var  # type: ignore[return-value]

    def __tileloom_expr__(self) -> Expr:
        return self.named("v")


class Sliced(Operators, Record):
    """`A[0:4, j]`: a region where regions are wanted, else a load of vectors."""

    buffer: Buffer
    parts: tuple[Any, ...]  # expressions, numbers and slices

    def indices(self) -> tuple[Expr, ...]:
        """As the indices of a load or store: a slice is a ramp."""
        return tuple(self._index(axis, part) for axis, part in enumerate(self.parts))

    def region(self) -> BufferRegion:
        """As a box."""
        return BufferRegion(
            self.buffer, tuple(self._range(axis, part) for axis, part in enumerate(self.parts))
        )

    def __tileloom_expr__(self) -> Expr:
        return BufferLoad(self.buffer, self.indices())

    def _bounds(self, axis: int, part: slice) -> tuple[Expr, Expr]:
        extent = self.buffer.shape[axis]
        low = const(0, extent.dtype) if part.start is None else as_expr(part.start)
        return low, length(low, extent if part.stop is None else part.stop)

    def _index(self, axis: int, part: Any) -> Expr:
        if not isinstance(part, slice):
            return as_expr(part)
        low, extent = self._bounds(axis, part)
        step = 1 if part.step is None else part.step
        if not isinstance(extent, IntImm) or not isinstance(step, int | IntImm) or int(step) <= 0:
            raise UserError("a slice of a load or store needs a constant length and step")
        lanes = -(-extent.value // int(step))
        return Ramp(low, const(int(step), low.dtype), lanes) if lanes > 1 else low

    def _range(self, axis: int, part: Any) -> Range:
        if not isinstance(part, slice):
            index = as_expr(part)
            if isinstance(index, Ramp):
                return Range(index.base, const(index.lanes, index.base.dtype))
            if isinstance(index, Broadcast):
                index = index.value
            return Range(index, const(1, index.dtype))
        if part.step is not None and int(part.step) != 1:
            raise UserError("a region has no steps")
        return Range(*self._bounds(axis, part))


def as_region(value: Any) -> BufferRegion:
    """The region that a slice, a load, a buffer or a region means."""
    if isinstance(value, Sliced):
        return value.region()
    if isinstance(value, Buffer):
        return BufferRegion.full(value)
    if isinstance(value, BufferLoad):
        return Sliced(value.buffer, value.indices).region()
    if isinstance(value, BufferRegion):
        return value
    raise UserError(f"not a region of a buffer: {value!r}", hint="write A[i, j] or A[0:4, j]")


class BufferNote(Record):
    """A buffer without a name yet; `how` is match, alloc, decl or Buffer."""

    how: str
    fields: dict[str, Any]
    source: Any = None


class AxisNote(Record):
    """An iteration variable of a block; `dom` is None where the loop says it (`remap`)."""

    iter_type: int
    dom: Range | None
    value: Expr


class MetaVar(Record):
    """A value that the script computes with but that leaves no trace."""

    value: Any


class ForNote(Record):
    """A loop nest: a range for each variable."""

    kind: str
    ranges: tuple[Range, ...]
    thread: str | None = None
    annotations: Mapping[str, Any] = field(default_factory=dict)

    if TYPE_CHECKING:  # scripts are parsed, not run: to type checkers it is what a `for` goes over

        def __iter__(self) -> Iterator[Any]: ...


class Suite(Record):
    """What a script enters by `with`; it is parsed, not run, so only type checkers see how."""

    if TYPE_CHECKING:

        def __enter__(self) -> Any: ...

        def __exit__(self, *exception: object) -> None: ...


class BlockNote(Suite):
    """`T.block(name)`."""

    name: str


class InitNote(Suite):
    """`T.init()`."""


class BlockFact(Record):
    """What a block says of itself: reads, writes, where, block_attr; or func_attr of a function."""

    kind: str
    value: Any


class ScopeNote(Record):
    """A statement with the rest of the scope, or the suite of a `with`, as its body.

    `kind` is allocate, allocate_const, let, attr, assert or launch; the parser makes the variable
    of those that have one.
    """

    kind: str
    fields: dict[str, Any]


class StoreNote(Record):
    """`A.vstore(indices, value, predicate)`."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    value: ExprLike
    predicate: Expr | None


class EvaluateNote(Record):
    """`T.evaluate(value)`."""

    value: Expr


class ThreadNote(Record):
    """`T.env_thread(tag)`."""

    tag: str
    dtype: DType
