"""`tvm.tir.ir_builder`: statements made by Python code, one after another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from .... import tir
from ....base.errors import UserError
from ....expr import Expr, ExprLike, Var, as_expr, const, intrin, match_types
from ....tir import (
    Allocate,
    AttrStmt,
    Buffer,
    BufferLoad,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    Stmt,
    While,
    seq,
)
from .._names import missing

#: A statement, or what makes one of the statements after it.
Item = Stmt | Callable[[Stmt], Stmt]


class BufferVar:
    """A buffer whose elements are read by `b[i]` and written by `b[i] = value`."""

    def __init__(self, builder: IRBuilder, buffer: Buffer) -> None:
        self._builder, self._buffer = builder, buffer

    @property
    def dtype(self) -> Any:
        """The type of its elements."""
        return self._buffer.dtype

    def asobject(self) -> Var:
        """Its pointer."""
        return self._buffer.data

    def __tileloom_expr__(self) -> Expr:
        return self._buffer.data

    def _indices(self, index: Any) -> list[Expr]:
        parts = index if isinstance(index, (tuple, list)) else (index,)
        indices = [as_expr(part) for part in parts]
        shape = self._buffer.shape
        if len(indices) == 1:  # the number of the element
            flat, positions = indices[0], list[Expr]()
            for extent in reversed(shape[1:]):
                positions.insert(0, flat % extent)
                flat = flat // extent
            return [flat, *positions]
        return indices

    def __getitem__(self, index: Any) -> BufferLoad:
        return BufferLoad(self._buffer, self._indices(index))

    def __setitem__(self, index: Any, value: Any) -> None:
        stored = as_expr(value, None if isinstance(value, Expr) else self._buffer.dtype)
        if stored.dtype is not self._buffer.dtype:
            raise ValueError(
                f"cannot store {stored.dtype} in {self._buffer.name}, which holds {self.dtype}"
            )
        self._builder.emit(BufferStore(self._buffer, stored, tuple(self._indices(index))))


class IRBuilder:
    """Collects statements; scopes are `with` blocks.

    >>> ib = create()
    >>> a = ib.allocate("float32", (8,), name="a")
    >>> with ib.for_range(0, 8, name="i") as i:
    ...     a[i] = 1.0
    >>> print(ib.get())
    a = T.allocate([8], "float32", "global")
    a_1 = T.decl_buffer((8,), data=a)
    for i in range(8):
        a_1[i] = T.float32(1.0)
    """

    def __init__(self) -> None:
        self._scopes: list[list[Item]] = [[]]

    def emit(self, stmt: Any) -> None:
        """Add a statement, an expression for its effect, or what wraps the statements after it."""
        self._scopes[-1].append(Evaluate(as_expr(stmt)) if isinstance(stmt, Expr) else stmt)

    def _close(self) -> Stmt:
        body: list[Stmt] = []
        for item in reversed(self._scopes.pop()):
            if isinstance(item, Stmt):
                body.insert(0, item)
            else:
                body = [item(_sequence(body))]
        return _sequence(body)

    @contextmanager
    def _scope(self, made: Callable[[Stmt], Stmt], name: Any = None) -> Iterator[Any]:
        self._scopes.append([])
        yield name
        self.emit(made(self._close()))

    def for_range(
        self,
        begin: ExprLike,
        end: ExprLike,
        name: str = "i",
        dtype: Any = None,
        kind: str = "serial",
    ) -> Any:
        """`with ib.for_range(0, n) as i:` is a loop."""
        low, high = match_types(begin, end)
        if dtype is not None:
            low, high = low.astype(dtype), high.astype(dtype)
        var = Var(name, low.dtype)
        kinds = {"unroll": tir.UNROLLED, "vectorize": tir.VECTORIZED}
        chosen = kinds.get(kind, kind)
        extent = as_expr(high - low)
        return self._scope(lambda body: For(var, low, extent, chosen, body), var)

    def while_loop(self, condition: ExprLike) -> Any:
        """`with ib.while_loop(condition):`."""
        return self._scope(lambda body: While(as_expr(condition), body))

    def if_scope(self, cond: ExprLike) -> Any:
        """`with ib.if_scope(condition):`."""
        return self._scope(lambda body: IfThenElse(as_expr(cond), body))

    def else_scope(self) -> Any:
        """What runs where the `if_scope` right before does not."""
        last = self._scopes[-1][-1] if self._scopes[-1] else None
        if not isinstance(last, IfThenElse) or last.else_case is not None:
            raise UserError("else_scope can only follow an if_scope")
        self._scopes[-1].pop()
        return self._scope(lambda body: IfThenElse(last.condition, last.then_case, body))

    def new_scope(self) -> Any:
        """A scope of its own."""
        return self._scope(lambda body: body)

    def scope_attr(self, node: Any, attr_key: str, value: ExprLike) -> None:
        """Attach a fact to the statements after it."""
        shown = as_expr(value)
        self.emit(lambda body: AttrStmt(node, attr_key, shown, body))

    def let(self, var_name: str, value: ExprLike) -> Var:
        """A name for a value in the statements after it."""
        given = as_expr(value)
        var = Var(var_name, given.dtype)
        self.emit(lambda body: LetStmt(var, given, body))
        return var

    def allocate(
        self,
        dtype: str,
        shape: Sequence[ExprLike] | ExprLike,
        name: str = "buf",
        axis_separators: Sequence[int] | None = None,
        scope: str = "",
    ) -> BufferVar:
        """Memory for the statements after it."""
        extents = shape if isinstance(shape, (tuple, list)) else (shape,)
        buffer = tir.make_buffer(
            extents,
            dtype,
            name,
            scope=scope or "global",
            axis_separators=tuple(axis_separators or ()),
        )
        self.emit(
            lambda body: Allocate(
                buffer.data, buffer.dtype, buffer.shape, const(True), DeclBuffer(buffer, body)
            )
        )
        return BufferVar(self, buffer)

    def buffer_ptr(self, buf: Buffer, shape: Sequence[ExprLike] | None = None) -> BufferVar:
        """A buffer that is there already."""
        return BufferVar(self, buf)

    def pointer(self, content_type: str, name: str = "ptr", scope: str = "") -> BufferVar:
        """A pointer to elements, of which one does not know how many there are."""
        return BufferVar(self, tir.make_buffer((1,), content_type, name, scope=scope or "global"))

    def likely(self, expr: ExprLike) -> Expr:
        """A condition that mostly holds."""
        return intrin.likely(as_expr(expr))

    def get(self) -> Stmt:
        """All statements as one."""
        if len(self._scopes) != 1:
            raise UserError("a scope is still open")
        return self._close()


def _sequence(stmts: Sequence[Stmt]) -> Stmt:
    return seq(*stmts) if stmts else Evaluate(const(0))


def create() -> IRBuilder:
    """A builder with nothing in it."""
    return IRBuilder()


__all__ = ["BufferVar", "IRBuilder", "create"]
__getattr__ = missing(__name__)
