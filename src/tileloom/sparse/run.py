"""The meaning of programs over coordinates: tensor IR's interpreter, with sparse iterations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ..base.errors import ArgumentError, UnsupportedError, UserError
from ..expr import Expr, Var
from ..expr.bounds import type_range
from ..tir import (
    Axis,
    Buffer,
    BufferLoad,
    BufferStore,
    PrimFunc,
    SparseBuffer,
    SparseIteration,
    SpIterVar,
    Stmt,
    collect,
)
from ..tir.run_ints import ValueCode
from ..tir.run_stmts import StmtCompiler
from ..tir.sparse import MERGED, AttachedAxis, FusedAxis, UnionAxis
from . import stored
from .arguments import bind_arguments, without_sparse_buffers
from .iteration_scope import IterationScope, loops_of, needed_vars, own_axis, parts_of_axis
from .spec import verify
from .starts import INITIALIZED_BY


def run(func: PrimFunc, *args: Any) -> None:
    """Run a function of sparse iterations on arrays and numbers, writing into the arrays given.

    An iteration runs over the stored coordinates of its axes, in the order that they are stored in.
    An element that is not stored is the default value of its buffer, and a store to it is dropped.
    `T.init` is done once for every element that it stores to, before any step of the iteration.

    Args:
        func: a function at the level of coordinates (2).
        args: one for each parameter: an array for a handle, a number for a scalar. The memory of a
            sparse buffer is an array of any shape with as many elements as are stored.

    Raises:
        VerifyError: for a program that breaks the rules of its level.
        ArgumentError: for arguments that do not fit, or index arrays that describe no structure.

    >>> from tileloom.script import tir as T
    >>> @T.prim_func
    ... def row_sums(a: T.handle, b: T.handle, p: T.handle, q: T.handle, m: T.int32, nnz: T.int32):
    ...     I = T.dense_fixed(m)
    ...     J = T.sparse_variable(I, (8, nnz), (p, q))
    ...     A = T.match_sparse_buffer(a, [I, J])
    ...     B = T.match_sparse_buffer(b, [I])
    ...     with T.sp_iter([I, J], "SR", "sums") as [i, j]:
    ...         with T.init():
    ...             B[i] = 0.0
    ...         B[i] = B[i] + A[i, j]
    >>> values, sums = np.ones(3, "float32"), np.zeros(2, "float32")
    >>> run(row_sums, values, sums, np.int32([0, 2, 3]), np.int32([1, 7, 0]), 2, 3)
    >>> sums
    array([2., 1.], dtype=float32)
    """
    main = _compiled(func)
    with np.errstate(all="ignore"):
        given = bind_arguments(func, args)
        try:
            main(given)
        except ZeroDivisionError as error:
            raise UserError(f"integer division by zero in {func.name!r}") from error
        except ValueError as error:
            raise ArgumentError(f"in {func.name!r}: {error}") from error


@lru_cache(maxsize=128)
def _compiled(func: PrimFunc) -> Callable[[Mapping[Any, Any]], Any]:
    verify(func)
    return _SparseCompiler(func).function()


class _SparseCompiler(StmtCompiler):
    """Adds axes, iterations over them and accesses by coordinates."""

    def __init__(self, func: PrimFunc) -> None:
        super().__init__(without_sparse_buffers(func), strict=False)
        self.whole_func = func
        self.globals |= {"_union": stored.union, "_intersection": stored.intersection}
        self.axes: dict[Axis, str] = {}
        self.elements: dict[SparseBuffer, str] = {}
        self.sparse_memory: dict[SparseBuffer, str] = {}
        self.positions: dict[Var, str] = {}
        self.scope = IterationScope()
        self.names = {stmt.name for stmt in collect(func.body, SparseIteration)}

    def head(self) -> None:
        super().head()
        for axis in self.whole_func.sp_axes:
            self.axes[axis] = self._given(axis.name, axis)
            nnz = axis.nnz
            if isinstance(nnz, Var) and nnz not in self.vars:
                self.vars[nnz] = ValueCode(self._given(nnz.name, nnz), *type_range(nnz.dtype))
        for param, buffer in self.whole_func.buffer_map.items():
            if isinstance(buffer, SparseBuffer):
                self.elements[buffer] = self._given(f"{buffer.name} elements", buffer)
                self.sparse_memory[buffer] = self.memory[param][0]

    def _given(self, name: str, key: object) -> str:
        name = self.fresh(name)
        self.emit(f"{name} = given[{self.constant(key)}]")
        return name

    def allocate_buffer(self, buffer: Buffer) -> None:
        if not isinstance(buffer, SparseBuffer):
            super().allocate_buffer(buffer)
            return
        elements = self.elements[buffer] = self._given(f"{buffer.name} elements", buffer)
        self.enter_memory(
            buffer.data, f"_allocate({self.dtype(buffer.dtype)}, ({elements}.size,))", False
        )
        self.sparse_memory[buffer] = self.memory[buffer.data][0]

    # ------------------------------------------------------------------ iterations

    def run_SparseIteration(self, stmt: SparseIteration) -> None:
        if stmt.init is not None and stmt.annotations.get(INITIALIZED_BY) not in self.names:
            self.iterate(needed_vars(stmt, stmt.init), stmt.init)
        self.iterate(stmt.sp_iter_vars, stmt.body)

    def iterate(self, items: Sequence[SpIterVar], body: Stmt) -> None:
        """Loops over the coordinates of variables, and a statement inside."""
        outer, self.scope = self.scope, IterationScope(self.scope)
        self._loops(loops_of(items), body)
        self.scope = outer

    def _loops(self, loops: Sequence[Sequence[SpIterVar]], body: Stmt) -> None:
        if not loops:
            self.stmt(body)
            return
        loop, *inner = loops
        axis = loop[0].axis
        rule = self._fused if isinstance(axis, FusedAxis) else self._plain
        rule = self._merged if isinstance(axis, MERGED) else rule
        rule(loop, lambda: self._loops(inner, body))

    def _plain(self, loop: Sequence[SpIterVar], body: Callable[[], None]) -> None:
        (item,) = loop
        stored_axis, above = self.axes[own_axis(item.axis)], self._above(item.axis)
        position = self.positions[item.var] = self.fresh(f"at {item.var.name}")

        def inside() -> None:
            self._define(item, f"{stored_axis}.coordinate({above}, {position})")
            body()

        self.scope.enter(item)
        self.loop(f"for {position} in {stored_axis}.below({above}):", inside)

    def _fused(self, loop: Sequence[SpIterVar], body: Callable[[], None]) -> None:
        """One loop over the positions of the last axis; positions of the others follow from it."""
        places = [self.fresh(f"at {item.var.name}") for item in loop]
        axes = [self.axes[own_axis(item.axis)] for item in loop]

        def inside() -> None:
            for k in range(len(loop) - 1, 0, -1):
                self.emit(f"{places[k - 1]} = {axes[k]}.above({places[k]})")
            for k, item in enumerate(loop):
                above = places[k - 1] if k else "0"
                self._define(item, f"{axes[k]}.coordinate({above}, {places[k]})")
            body()

        for item, place in zip(loop, places, strict=True):
            self.positions[item.var] = place
            self.scope.enter(item)
        self.loop(f"for {places[-1]} in range({axes[-1]}.count):", inside)

    def _merged(self, loop: Sequence[SpIterVar], body: Callable[[], None]) -> None:
        (item,) = loop
        function = "_union" if isinstance(item.axis, UnionAxis) else "_intersection"
        rows = [
            f"{self.axes[part]}.coordinates_below({self._above(part)})"
            for part in parts_of_axis(item.axis)
        ]
        coordinate = self._variable(item)
        self.scope.enter(item)
        self.loop(f"for {coordinate} in {function}({', '.join(rows)}):", body)

    def _above(self, axis: Axis) -> str:
        """The position below which an axis is iterated."""
        above = self.scope.above(axis)
        if above is None:
            return "0"
        return self.vars[above].code if isinstance(axis, AttachedAxis) else self.positions[above]

    def _define(self, item: SpIterVar, coordinate: str) -> None:
        self.emit(f"{self._variable(item)} = {coordinate}")

    def _variable(self, item: SpIterVar) -> str:
        """The name of a coordinate."""
        name = self.fresh(item.var.name)
        self.vars[item.var] = ValueCode(name, 0, type_range(item.var.dtype)[1])
        return name

    # ------------------------------------------------------------------ accesses

    def offset(self, buffer: SparseBuffer, indices: Sequence[Expr]) -> tuple[str, int]:
        """Where an element is in the memory of its buffer, -1 where it is not stored."""
        own = self.scope.own_indices(buffer, indices)
        codes: list[str] = []
        places: dict[Axis | None, str] = {None: "0"}
        depth = 0
        for k, (axis, index) in enumerate(zip(buffer.axes, indices, strict=True)):
            if k in own and isinstance(index, Var):
                places[axis] = self.positions[index]
                codes.append(places[axis])
                continue
            value, place = self.compile(index), self.fresh(f"at {axis.name}")
            codes.append(
                f"({place} := {self.axes[axis]}.find({places[axis.parent]}, {value.code}))"
            )
            places[axis] = place
            depth = max(depth, value.depth + 2)
        return f"{self.elements[buffer]}.offset({', '.join(codes)})", depth + 1

    def compile_node(self, expr: Expr) -> ValueCode:
        if isinstance(expr, BufferLoad) and isinstance(expr.buffer, SparseBuffer):
            return self.sparse_load(expr, expr.buffer)
        return super().compile_node(expr)

    def sparse_load(self, expr: BufferLoad, buffer: SparseBuffer) -> ValueCode:
        """A stored element, or the default value."""
        _refuse_vectors(buffer, (*expr.indices, expr), expr.predicate)
        code, depth = self.offset(buffer, expr.indices)
        default, place = self.compile(buffer.default), self.fresh("offset")
        element = f"{self.sparse_memory[buffer]}[{place}]"
        low, high = 0, 1
        if not buffer.dtype.is_float:
            element = f"{'bool' if buffer.dtype.is_bool else 'int'}({element})"
            low, high = type_range(buffer.dtype)
        code = f"({element} if ({place} := {code}) >= 0 else {default.code})"
        return ValueCode(code, low, high, max(depth, default.depth) + 2)

    def run_BufferStore(self, stmt: BufferStore) -> None:
        buffer = stmt.buffer
        if not isinstance(buffer, SparseBuffer):
            super().run_BufferStore(stmt)
            return
        _refuse_vectors(buffer, (*stmt.indices, stmt.value), stmt.predicate)
        code, _ = self.offset(buffer, stmt.indices)
        place = self.fresh("offset")
        self.emit(f"{place} = {code}")

        def store() -> None:
            value = self.whole(stmt.value)
            self.emit(f"{self.sparse_memory[buffer]}[{place}] = {value.code}")

        self.inside(f"if {place} >= 0:", store)


def _refuse_vectors(buffer: SparseBuffer, parts: Sequence[Expr], predicate: Expr | None) -> None:
    if predicate is not None or any(part.dtype.lanes > 1 for part in parts):
        raise UnsupportedError(
            f"the interpreter has no vectors of elements of the sparse buffer {buffer.name!r}"
        )
