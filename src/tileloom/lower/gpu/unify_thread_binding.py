"""One launch for each kernel: loops bound to the same thread share one variable."""

from __future__ import annotations

from ...base.errors import UserError
from ...expr import Expr, IntImm, IterVar, Range, Var, const, free_vars
from ...tir import THREAD_BINDING, For, LetStmt, PrimFunc, Stmt
from ..analysis.linear import constant_difference
from ..analysis.threads import GRID_TAGS, THREAD_TAGS, is_virtual, tag_of
from ..common import Replacer, on_body

_ORDER = (*reversed(GRID_TAGS), *THREAD_TAGS)


def unify_thread_binding(func: PrimFunc) -> PrimFunc:
    """Thread loops move to the head of their kernel, one for each tag.

    A kernel begins at the outermost loop bound to a thread; two loops inside that are bound to one
    tag become one. Virtual threads stay where they are.

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

    def visit_For(self, stmt: For) -> Stmt:
        if stmt.kind != THREAD_BINDING or stmt.thread_binding is None:
            if self.kernel is not None:
                self.inside.add(stmt.loop_var)
            return super().visit_For(stmt)
        if self.kernel is not None:
            return self._thread(stmt)
        self.kernel, self.inside = {}, set()
        body = self._thread(stmt)
        for axis in sorted(self.kernel.values(), key=_rank, reverse=True):
            extent = axis.domain.extent
            low = const(0, extent.dtype)
            body = For(axis.var, low, extent, THREAD_BINDING, body, axis)
        self.kernel = None
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
        return self.visit(stmt.body)


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
