"""Loops bound to threads become attributes: code that is run by threads, not repeated."""

from __future__ import annotations

from ..expr import IterVar, Range
from ..tir import THREAD_BINDING, AttrStmt, For, PrimFunc, Stmt
from .common import THREAD_EXTENT, VIRTUAL_THREAD, Replacer, on_body
from .threads import is_virtual, tag_of


def lower_thread_binding(func: PrimFunc) -> PrimFunc:
    """`for i in thread_binding(n, tag)` becomes the attribute "thread_extent" of its body.

    A virtual thread becomes the attribute "virtual_thread", which `inject_virtual_thread` takes.

    Needs: the loops stage.
    Ensures: no loop is bound to a thread.
    """
    return on_body(func, _Lower({}, {}).visit)


class _Lower(Replacer):
    def visit_For(self, stmt: For) -> Stmt:
        if stmt.kind != THREAD_BINDING or stmt.thread_binding is None:
            return super().visit_For(stmt)
        extent, binding = self.visit_expr(stmt.extent), stmt.thread_binding
        axis = IterVar(Range.from_extent(extent), binding.var, 1, tag_of(stmt))
        value = axis.var + self.visit_expr(stmt.min)
        if stmt.loop_var is not binding.var:
            self.define(stmt.loop_var, value.astype(stmt.loop_var.dtype))
        key = VIRTUAL_THREAD if is_virtual(axis.thread_tag) else THREAD_EXTENT
        return AttrStmt(axis, key, extent, self.visit(stmt.body))
