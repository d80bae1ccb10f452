"""One launch for each kernel: loops bound to the same thread share one variable."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ...base.errors import UserError
from ...expr import EQ, Expr, IntImm, IterVar, Range, Var, conjunction, const, free_vars
from ...tir import (
    THREAD_BINDING,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    PrimFunc,
    Stmt,
    StmtRewriter,
)
from ...tir.atomics import atomic_calls, atomic_place
from ..analysis.linear import constant_difference
from ..analysis.threads import (
    GRID_TAGS,
    THREAD_TAGS,
    is_virtual,
    pointer_scope,
    shared_over,
    tag_of,
)
from ..common import Replacer, loaded_buffers, on_body

_ORDER = (*reversed(GRID_TAGS), *THREAD_TAGS)


def unify_thread_binding(func: PrimFunc) -> PrimFunc:
    """Thread loops move to the head of their kernel, one for each tag.

    A kernel begins at the outermost loop bound to a thread; two loops inside that are bound to one
    tag become one. Virtual threads stay where they are. What stands outside of some thread loops of
    its kernel is run by all their threads from then on, but for changes that count as often as they
    are made, atomic ones and those of an element in place: one thread makes them.

    Needs: the blocks stage or the loops stage; buffers placed and compacted, as what a block
    shares is told by where its thread loops stand.
    Ensures: thread loops stand directly inside each other, outermost the grid, from zero on.

    Raises:
        UserError: two loops of one tag have different extents, or an extent that is not known
            where the kernel begins.
    """
    return on_body(func, _Unify().visit)


class _Unify(Replacer):
    def __init__(self) -> None:
        super().__init__({}, {})
        self.kernel: dict[str, IterVar] | None = None  # the threads of the kernel we are in
        self.inside: set[Var] = set()  # variables that are defined inside it
        self.around: list[str] = []  # the tags of the thread loops around
        self.once: dict[Var, Callable[[str], bool]] = {}  # conditions, and the tags they are on

    def visit_For(self, stmt: For) -> Stmt:
        if stmt.kind != THREAD_BINDING or stmt.thread_binding is None:
            if self.kernel is not None:
                self.inside.add(stmt.loop_var)
            return super().visit_For(stmt)
        if self.kernel is not None:
            return self._thread(stmt)
        self.kernel, self.inside = {}, set()
        body = _OneThread(self.once, self.kernel).visit(self._thread(stmt))
        for axis in sorted(self.kernel.values(), key=_rank, reverse=True):
            extent = axis.domain.extent
            low = const(0, extent.dtype)
            body = For(axis.var, low, extent, THREAD_BINDING, body, axis)
        self.kernel, self.once = None, {}
        return body

    def visit_LetStmt(self, stmt: LetStmt) -> Stmt:
        self.inside.add(stmt.var)
        return super().visit_LetStmt(stmt)

    def _thread(self, stmt: For) -> Stmt:
        tag = tag_of(stmt)
        if is_virtual(tag) or self.kernel is None or stmt.thread_binding is None:
            self.inside.add(stmt.loop_var)
            return super().visit_For(stmt)
        unknown = free_vars(stmt.extent) & self.inside
        if unknown:
            names = ", ".join(sorted(var.name for var in unknown))
            raise UserError(f"the number of threads of {tag} depends on {names}")
        self.inside.add(stmt.loop_var)
        extent = self.visit_expr(stmt.extent)
        axis = self.kernel.get(tag)
        if axis is None:
            var = stmt.loop_var.with_name(tag.replace(".", "_"))
            axis = IterVar(Range.from_extent(extent), var, 1, tag)
            self.kernel[tag] = axis
        _check_same(tag, axis.domain.extent, extent)
        value = axis.var + self.visit_expr(stmt.min)
        self.define(stmt.loop_var, value.astype(stmt.loop_var.dtype))
        self.define(stmt.thread_binding.var, value.astype(stmt.thread_binding.var.dtype))
        self.around.append(tag)
        body = self.visit(stmt.body)
        self.around.pop()
        return body

    def visit_Evaluate(self, stmt: Evaluate) -> Stmt:
        new = super().visit_Evaluate(stmt)
        scopes = [pointer_scope(atomic_place(call).data) for call in atomic_calls(stmt.value)]
        return self._once(new, scopes) if scopes else new

    def visit_BufferStore(self, stmt: BufferStore) -> Stmt:
        new = super().visit_BufferStore(stmt)
        in_place = stmt.buffer in loaded_buffers(stmt.value)
        return self._once(new, [stmt.buffer.scope]) if in_place else new

    def _once(self, stmt: Stmt, scopes: Sequence[str]) -> Stmt:
        """A change of memory that counts as often as it is made, under a condition still open."""
        if self.kernel is None:
            return stmt
        condition, around = Var("once", "bool"), frozenset(self.around)
        self.once[condition] = lambda tag: (
            tag not in around and all(shared_over(scope, tag) for scope in scopes)
        )
        return IfThenElse(condition, stmt)


class _OneThread(StmtRewriter):
    """Settles the conditions of changes that one thread makes.

    Args:
        once: the conditions, and whether they are on threads of a tag.
        kernel: the threads.
    """

    def __init__(
        self, once: Mapping[Var, Callable[[str], bool]], kernel: Mapping[str, IterVar]
    ) -> None:
        self.once, self.kernel = once, kernel

    def visit(self, stmt: Stmt) -> Stmt:
        return super().visit(stmt) if self.once else stmt

    def visit_IfThenElse(self, stmt: IfThenElse) -> Stmt:
        is_on = self.once.get(stmt.condition) if isinstance(stmt.condition, Var) else None
        if is_on is None:
            return super().visit_IfThenElse(stmt)
        axes = [axis for tag, axis in self.kernel.items() if is_on(tag)]
        several = [axis.var for axis in axes if not _is_one(axis.domain.extent)]
        if not several:
            return stmt.then_case
        first = conjunction(EQ(var, const(0, var.dtype)) for var in several)
        return stmt.replace(condition=first)


def _is_one(extent: Expr) -> bool:
    return isinstance(extent, IntImm) and extent.value == 1


def _rank(axis: IterVar) -> int:
    return _ORDER.index(axis.thread_tag) if axis.thread_tag in _ORDER else -1


def _check_same(tag: str, known: Expr, extent: Expr) -> None:
    if known is extent or constant_difference(known, extent) == 0:
        return
    sizes = f"{known} and {extent}"
    hint = "split the loops so that both have one extent, and guard the shorter one"
    if isinstance(known, IntImm) and isinstance(extent, IntImm):
        hint += f" (by {max(known.value, extent.value)} threads)"
    raise UserError(f"loops of one kernel are bound to {tag} with the extents {sizes}", hint=hint)
