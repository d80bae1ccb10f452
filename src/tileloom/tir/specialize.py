"""Functions with some of their sizes and scalar parameters made known."""

from __future__ import annotations

from collections.abc import Mapping

from ..base.errors import ArgumentError, ShapeError, UserError
from ..expr import BinaryOp, Expr, ExprLike, IntImm, Var, as_expr, binary, cast, free_vars, rewrite
from .nodes import (
    Buffer,
    BufferLoad,
    PrimFunc,
    Stmt,
)
from .sparse import AxisMap, BufferDomain, SparseBuffer, SparseIteration
from .walk import BufferRewriter, buffer_exprs


def specialize(func: PrimFunc, values: Mapping[Var | Buffer, ExprLike | Buffer]) -> PrimFunc:
    """`func` for given sizes, scalars and buffers; its other parameters stay.

    Args:
        func: the function.
        values: for a scalar parameter or a variable in the shape of a buffer, its value; for a
            buffer (or the parameter it belongs to), a buffer that has the shape it shall have.

    Scalar parameters that get a value disappear from the list of parameters.

    Raises:
        ShapeError: a buffer does not fit the one in its place.
        ArgumentError: a key is no parameter, no size and no buffer of the function.

    >>> from tileloom.expr import SizeVar
    >>> from tileloom.tir import Evaluate, make_buffer
    >>> n, p = SizeVar("n"), Var("p", "handle")
    >>> f = PrimFunc((p,), Evaluate(n * 2), {p: make_buffer((n, 4), "float32", "A")})
    >>> g = specialize(f, {n: 8}); g.buffers[0], g.body.value
    (Buffer(A: float32[8, 4] in global), 16)
    """
    known: dict[Var, Expr] = {}
    sizes = {v for b in func.buffers for e in buffer_exprs(b) for v in free_vars(e)}
    sizes |= {v for axis in func.sp_axes for e in axis.exprs for v in free_vars(e)}
    for key, value in values.items():
        buffer = key if isinstance(key, Buffer) else func.buffer_map.get(key)
        if buffer is not None:
            if buffer not in func.buffers:
                raise ArgumentError(f"{buffer.name!r} is no buffer parameter of {func.name!r}")
            if not isinstance(value, Buffer):
                raise ArgumentError(
                    f"buffer {buffer.name!r} is specialized by a buffer, got {value!r}"
                )
            _match(buffer, value, known)
        elif isinstance(key, Var) and (key in func.params or key in sizes):
            _bind(key, as_expr(value), known, key.name)
        else:
            raise ArgumentError(f"{key} is no parameter and no size of {func.name!r}")
    if not known:
        return func
    walk = _Specializer(known)
    params = tuple(param for param in func.params if param not in known)
    buffer_map = {param: walk.visit_buffer(buffer) for param, buffer in func.buffer_map.items()}
    domains = tuple(
        BufferDomain(walk.visit_buffer(d.buffer), walk.visit_expr(d.low), walk.visit_expr(d.high))
        for d in func.buffer_domains
    )
    return func.replace(
        params=params,
        buffer_map=buffer_map,
        body=walk.visit(func.body),
        sp_axes=walk.axes.all(func.sp_axes),
        buffer_domains=domains,
    )


def _match(old: Buffer, new: Buffer, known: dict[Var, Expr]) -> None:
    """Make `old` what `new` is, as far as its sizes are open."""
    if old.dtype is not new.dtype or old.ndim != new.ndim:
        raise ShapeError(f"buffer {old.name!r} is {old}, which {new} cannot stand for")
    for axis, (a, b) in enumerate(zip(old.shape, new.shape, strict=True)):
        _unify(a, b, known, f"extent {axis} of buffer {old.name!r}")
    if new.strides and len(old.strides) != len(new.strides):
        raise ShapeError(f"buffer {old.name!r} has no strides to be specialized")
    for axis, (a, b) in enumerate(zip(old.strides, new.strides)):
        _unify(a, b, known, f"stride {axis} of buffer {old.name!r}")
    if old.elem_offset is not None and new.elem_offset is not None:
        _unify(old.elem_offset, new.elem_offset, known, f"the offset of buffer {old.name!r}")


def _unify(old: Expr, new: Expr, known: dict[Var, Expr], what: str) -> None:
    if isinstance(old, Var):
        _bind(old, new, known, what)
        return
    wanted = _substituted(old, known)
    same = wanted is new or (
        isinstance(wanted, IntImm) and isinstance(new, IntImm) and wanted.value == new.value
    )
    if not same:
        raise ShapeError(f"{what} is {wanted}, got {new}")


def _bind(var: Var, value: Expr, known: dict[Var, Expr], what: str) -> None:
    if value.dtype.element.is_float != var.dtype.element.is_float or value.dtype.is_handle:
        raise ArgumentError(f"{what} is a {var.dtype}, got {value} of type {value.dtype}")
    value = cast(var.dtype, value)
    if known.setdefault(var, value) is not value:
        raise ShapeError(f"{what} is {known[var]}, got {value}")


def _substituted(expr: Expr, values: Mapping[Var, Expr]) -> Expr:
    return _Specializer(values).visit_expr(expr)


class _Specializer(BufferRewriter):
    """Puts values for variables, folding constants, in expressions and in buffers."""

    def __init__(self, values: Mapping[Var, Expr]) -> None:
        self.values = values
        self.buffers: dict[Buffer, Buffer] = {}
        self.axes = AxisMap(self.visit_expr)

    def visit_SparseIteration(self, stmt: SparseIteration) -> Stmt:
        rebuilt = super().visit_SparseIteration(stmt)
        return self.axes.iteration(rebuilt) if isinstance(rebuilt, SparseIteration) else rebuilt

    def visit_expr(self, expr: Expr) -> Expr:
        return rewrite(expr, self.rule)

    def rule(self, expr: Expr) -> Expr | None:
        if isinstance(expr, Var):
            return self.values.get(expr)
        if isinstance(expr, BufferLoad):
            buffer = self.visit_buffer(expr.buffer)
            if buffer is expr.buffer:
                return None
            return BufferLoad(buffer, expr.indices, expr.predicate)
        if isinstance(expr, BinaryOp) and (
            isinstance(expr.a, IntImm) or isinstance(expr.b, IntImm)
        ):
            try:
                return binary(type(expr), expr.a, expr.b)
            except UserError:  # a division by zero that may never be run
                return None
        return None

    def visit_buffer(self, buffer: Buffer) -> Buffer:
        """The buffer with values in its shape, strides and offset."""
        found = self.buffers.get(buffer)
        if found is None and isinstance(buffer, SparseBuffer):
            found = self.buffers[buffer] = self.axes.buffer(buffer)
        if found is None:
            shape = self.all(buffer.shape, self.visit_expr)
            strides = self.all(buffer.strides, self.visit_expr)
            offset = buffer.elem_offset
            offset = None if offset is None else self.visit_expr(offset)
            found = buffer
            if (shape, strides, offset) != (buffer.shape, buffer.strides, buffer.elem_offset):
                found = buffer.replace(shape=shape, strides=strides, elem_offset=offset)
            self.buffers[buffer] = found
        return found
