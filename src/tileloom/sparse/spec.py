"""Which programs over coordinates are legal, and with which arguments.

* The parents of an axis are axes of the function before it, up to a dense_fixed root.
* A buffer is over axes of the function, each behind its parents; a variable axis is the last of the
  axes that hang together.
* An iteration has an axis behind its parent, or inside an iteration that has the parent.
* Coordinates are looked up on sorted axes only: an index that is the variable over the axis of the
  buffer itself, below the variable over its parent, needs no search.
"""

from __future__ import annotations

from typing import Any

from ..base import Span
from ..base.errors import VerifyError
from ..base.late import TYPE_CHECKING
from ..expr import Expr, Var, free_vars
from ..tir import (
    COORDINATES,
    Axis,
    Block,
    BufferStore,
    IRModule,
    PrimFunc,
    SparseBuffer,
    SparseIteration,
    SpIterVar,
    Stmt,
    all_exprs,
    collect,
    sparse_level,
)
from ..tir.sparse import DENSE_FIXED, LEVEL, MERGED, AttachedAxis, FusedAxis
from .arguments import bind_arguments
from .iteration_scope import (
    IterationScope,
    in_scope,
    loops_of,
    own_axis,
    parts_of_axis,
    sparse_accesses,
)
from .starts import HORIZONTAL_FUSE, INITIALIZED_BY
from .stored import dimensions

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn


def verify(program: PrimFunc | IRModule) -> None:
    """Does nothing if functions are legal programs over coordinates (sparse_tir_level 2).

    Raises:
        VerifyError: names the function, the axis, buffer or iteration, and what is wrong with it.
    """
    functions = program.functions.values() if isinstance(program, IRModule) else (program,)
    for func in functions:
        _Verifier(func).function()


def check_arguments(func: PrimFunc, *args: Any) -> None:
    """Does nothing if arguments fit a program, and its index arrays describe axes.

    An indptr starts with 0, does not descend and ends with the number of positions; coordinates are
    in range. They ascend without a repetition on axes that the program looks coordinates up on;
    other axes may have them in any order, and may repeat them, as rows that are padded do.

    Raises:
        VerifyError: for a program that breaks the rules.
        ArgumentError: names the axis and the position.
    """
    verify(func)
    bind_arguments(func, args)


class _Verifier:
    def __init__(self, func: PrimFunc) -> None:
        self.func = func
        self.where = [f"function {func.name!r}"]
        self.axes: set[Axis] = set()
        self.buffers: set[SparseBuffer] = set()

    def fail(self, problem: str, span: Span | None = None, hint: str | None = None) -> NoReturn:
        place = f"\n  in: {' > '.join(self.where)}"
        raise VerifyError(
            f"not a legal program over coordinates: {problem}{place}",
            span=span or self.func.span,
            hint=hint,
        )

    def function(self) -> None:
        """Check all of the function."""
        self.level()
        for axis in self.func.sp_axes:
            self.axis(axis)
        for buffer in self.func.buffers:
            if isinstance(buffer, SparseBuffer):
                self.buffer(buffer)
        for block in collect(self.func.body, Block):
            for buffer in block.alloc_buffers:
                if isinstance(buffer, SparseBuffer):
                    self.buffer(buffer)
        self.starts()
        for stmt, scope in in_scope(self.func.body):
            self.where[1:] = [f"iteration {item.name!r}" for item in scope.around]
            if isinstance(stmt, SparseIteration):
                self.iteration(stmt, scope)
            for buffer, indices in sparse_accesses(stmt):
                self.access(buffer, indices, scope, stmt)

    def level(self) -> None:
        level = self.func.attrs.get(LEVEL)
        if sparse_level(self.func) != COORDINATES:
            self.fail(
                f'its "{LEVEL}" is {level}, not {COORDINATES}'
                if level is not None
                else f'it has no axes and no "{LEVEL}"'
            )

    # ------------------------------------------------------------------ axes

    def axis(self, axis: Axis) -> None:
        name = f"axis {axis.name!r}"
        if axis.parent is None:
            if axis.kind != DENSE_FIXED:
                self.fail(
                    f"{name} is {axis.kind} and has no parent",
                    hint="the root of axes is dense_fixed; T.dense_fixed(1) holds one position",
                )
        elif axis.kind == DENSE_FIXED:
            self.fail(f"{name} is dense_fixed, but below {axis.parent.name!r}")
        elif axis.parent not in self.axes:
            declared = axis.parent in self.func.sp_axes
            what = "declared after it" if declared else "no axis of the function"
            self.fail(f"{name} is an orphan: its parent {axis.parent.name!r} is {what}")
        for what, pointer in (("indptr", axis.indptr), ("indices", axis.indices)):
            if pointer is not None and pointer not in self.func.params:
                self.fail(f"the {what} of {name}, {pointer.name!r}, is no parameter")
        self.sizes(axis)
        self.axes.add(axis)

    def sizes(self, axis: Axis) -> None:
        """The sizes are parameters; the number of positions is known from an indptr, too."""
        known = set(self.func.params)
        for other in (*self.axes, axis):
            if other.is_variable and isinstance(other.nnz, Var):
                known.add(other.nnz)
        for what, size in (("length", axis.length), ("number of positions", axis.nnz)):
            unknown = sorted(var.name for var in free_vars(size) - known)
            if unknown:
                self.fail(
                    f"the {what} of axis {axis.name!r} depends on {unknown[0]!r}, which is no"
                    " parameter"
                )

    # ------------------------------------------------------------------ buffers

    def buffer(self, buffer: SparseBuffer) -> None:
        name = f"buffer {buffer.name!r}"
        for k, axis in enumerate(buffer.axes):
            if axis not in self.axes:
                what = "" if own_axis(axis) is axis and not parts_of_axis(axis) else "derived "
                self.fail(f"{name} is over the {what}axis {axis.name!r}, no axis of the function")
            before = buffer.axes[:k]
            if axis in before and (axis.parent is not None or self._has_children(axis, buffer)):
                self.fail(f"{name} is over the axis {axis.name!r} twice")
            if axis.parent is not None and axis.parent not in before:
                self.fail(
                    f"{name} is over axis {axis.name!r} without its parent {axis.parent.name!r}"
                    " before it, below whose positions it counts"
                )
        for part in dimensions(buffer):
            last = buffer.axes[part.axis]
            for number in part.members:
                other = buffer.axes[number]
                if other is not last and other not in last.ancestors:
                    self.fail(
                        f"{name} is over {other.name!r} and {last.name!r}, which are not one below"
                        " the other: the elements below a position would have two numbers",
                        hint="store one of them below the other, by an indptr of its own",
                    )
        self.buffers.add(buffer)

    def _has_children(self, axis: Axis, buffer: SparseBuffer) -> bool:
        return any(axis in other.ancestors for other in buffer.axes)

    # ------------------------------------------------------------------ iterations

    def starts(self) -> None:
        """What starts the results of others exists."""
        iterations = collect(self.func.body, SparseIteration)
        names = {stmt.name for stmt in iterations}
        for stmt in iterations:
            other = stmt.annotations.get(INITIALIZED_BY)
            if other is not None and str(other) not in names and not self._is_one_launch():
                self.fail(
                    f"iteration {stmt.name!r} is initialized by {str(other)!r}, and there is no"
                    " iteration of that name",
                    stmt.span,
                )

    def _is_one_launch(self) -> bool:
        return bool(self.func.attrs.get(HORIZONTAL_FUSE, False))

    def iteration(self, stmt: SparseIteration, outer: IterationScope) -> None:
        self.where.append(f"iteration {stmt.name!r}")
        scope = IterationScope(outer)
        for loop in loops_of(stmt.sp_iter_vars):
            for item in loop:
                self.iterated(item, loop, scope, stmt)
            for item in loop:
                scope.enter(item)
        if stmt.init is not None:
            self.init(stmt, stmt.init)
        self.where.pop()

    def iterated(
        self,
        item: SpIterVar,
        loop: Sequence[SpIterVar],
        scope: IterationScope,
        stmt: SparseIteration,
    ) -> None:
        axis = item.axis
        for part in parts_of_axis(axis) or (own_axis(axis),):
            if part not in self.axes:
                self.fail(
                    f"variable {item.var.name!r} runs over {part.name!r}, no axis of the function",
                    stmt.span,
                )
        match axis:
            case FusedAxis():
                self.fused(axis, loop, stmt)
            case AttachedAxis(base=Axis() as base):
                self.parent(axis, scope, stmt)
                if base.parent is None or base.parent.parent is not None:
                    self.fail(
                        f"axis {base.name!r} is attached to coordinates, but the positions of its"
                        " own parent are no coordinates: it is no dense_fixed root",
                        stmt.span,
                    )
            case _ if isinstance(axis, MERGED):
                for part in parts_of_axis(axis):
                    self.parent(part, scope, stmt)
                    self.sorted(part, f"iteration {stmt.name!r} merges it with others", stmt.span)
            case _:
                self.parent(axis, scope, stmt)

    def parent(self, axis: Axis, scope: IterationScope, stmt: SparseIteration) -> None:
        """The parent of an axis is iterated."""
        if axis.parent is None or scope.above(axis) is not None:
            return
        later = any(own_axis(item.axis) is axis.parent for item in stmt.sp_iter_vars)
        place = f"it stands behind {axis.name!r}" if later else "neither here nor around"
        self.fail(
            f"parent axis {axis.parent.name!r} of {axis.name!r} does not appear before it: {place}",
            stmt.span,
            hint=f"list {axis.parent.name!r} first" if later else None,
        )

    def fused(self, axis: FusedAxis, loop: Sequence[SpIterVar], stmt: SparseIteration) -> None:
        """Fused axes stand together, from a root down."""
        if [getattr(item.axis, "index", None) for item in loop] != list(range(len(axis.group))):
            self.fail(
                f"the parts of the fused axes {_names(axis.group)} do not stand together in order",
                stmt.span,
            )
        for above, below in zip((None, *axis.group), axis.group):
            if below.parent is not above:
                what = "has a parent" if above is None else f"is not below {above.name!r}"
                self.fail(
                    f"axes {_names(axis.group)} are fused, but {below.name!r} {what}",
                    stmt.span,
                    hint="fuse a root and the axes below it",
                )

    def init(self, stmt: SparseIteration, init: Stmt) -> None:
        reduced = {item.var for item in stmt.sp_iter_vars if item.is_reduction}
        for expr in all_exprs(init):
            for var in sorted(free_vars(expr) & reduced, key=lambda v: v.name):
                self.fail(
                    f"T.init uses {var.name!r}, which iteration {stmt.name!r} reduces over",
                    init.span or stmt.span,
                )

    # ------------------------------------------------------------------ accesses

    def access(
        self, buffer: SparseBuffer, indices: Sequence[Expr], scope: IterationScope, stmt: Stmt
    ) -> None:
        is_store = isinstance(stmt, BufferStore) and indices is stmt.indices
        what = f"{'store to' if is_store else 'load of'} buffer {buffer.name!r}"
        if buffer not in self.buffers:
            self.fail(f"{what}, which is not declared", stmt.span)
        if len(indices) != len(buffer.axes):
            self.fail(f"{what} has {len(indices)} indices for {len(buffer.axes)} axes", stmt.span)
        for index, axis in zip(indices, buffer.axes, strict=True):
            if not index.dtype.is_int or index.dtype.lanes > 1:
                self.fail(f"{what} has a {index.dtype} as index on axis {axis.name!r}", stmt.span)
        own = scope.own_indices(buffer, indices)
        for k, axis in enumerate(buffer.axes):
            if k not in own and axis.is_sparse:
                self.sorted(axis, f"the {what} looks coordinates up on it", stmt.span)

    def sorted(self, axis: Axis, why: str, span: Span | None) -> None:
        if not axis.sorted:
            self.fail(
                f"axis {axis.name!r} is not sorted, and {why}",
                span,
                hint="declare it with sorted=True and sort its coordinates",
            )


def _names(axes: Sequence[Axis]) -> str:
    return ", ".join(axis.name for axis in axes)
