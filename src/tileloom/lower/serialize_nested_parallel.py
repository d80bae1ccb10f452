"""One level of parallelism."""

from __future__ import annotations

from ..tir import PARALLEL, SERIAL, For, PrimFunc, Stmt, StmtRewriter
from .common import on_body


def serialize_nested_parallel(func: PrimFunc) -> PrimFunc:
    """A parallel loop inside a parallel loop becomes serial: all workers are busy already.

    Needs: any stage.
    Ensures: no parallel loop is inside another.
    """
    return on_body(func, _Serialize().visit)


class _Serialize(StmtRewriter):
    inside = False

    def visit_For(self, stmt: For) -> Stmt:
        if stmt.kind != PARALLEL:
            return super().visit_For(stmt)
        if self.inside:
            return super().visit_For(stmt.replace(kind=SERIAL))
        self.inside = True
        result = super().visit_For(stmt)
        self.inside = False
        return result
