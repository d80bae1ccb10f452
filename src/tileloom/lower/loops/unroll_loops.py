"""Loops that ask for it are written out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...expr import IntImm, const
from ...tir import SERIAL, UNROLLED, AttrStmt, For, PrimFunc, Stmt, StmtRewriter, seq, stmt_children
from ..common import fresh_copy, on_body, replace_vars

MAX_STATEMENTS = 4096  # more than any sane tile; beyond, code grows and compilation crawls
AUTO_STEP, EXPLICIT = "pragma_auto_unroll_max_step", "pragma_unroll_explicit"


def unroll_loops(func: PrimFunc) -> PrimFunc:
    """A loop of kind "unrolled" and constant extent becomes its iterations, one after another.

    `pragma_auto_unroll_max_step` (an annotation of a loop, or an attribute around code) asks the
    same for serial loops whose written-out body has no more steps than that. With
    `pragma_unroll_explicit` 0 such loops only become "unrolled", for code generation to hint at.

    Needs: the loops stage or flat code.
    Ensures: an "unrolled" loop that is left has a symbolic extent or too many iterations, or was
    asked to be left; the two pragmas are gone.
    """
    return on_body(func, _Unroll().visit)


class _Unroll(StmtRewriter):
    def __init__(self) -> None:
        self.max_step = 0
        self.explicit = True

    def visit_AttrStmt(self, stmt: AttrStmt) -> Stmt:
        if stmt.attr_key not in (AUTO_STEP, EXPLICIT):
            return super().visit_AttrStmt(stmt)
        outer = self.max_step, self.explicit
        self._read({stmt.attr_key: stmt.value})
        body = self.visit(stmt.body)
        self.max_step, self.explicit = outer
        return body

    def visit_For(self, stmt: For) -> Stmt:
        outer = self.max_step, self.explicit
        self._read(stmt.annotations)
        result = super().visit_For(stmt)
        chosen = self._chosen(result) if isinstance(result, For) else None
        self.max_step, self.explicit = outer
        return _without_pragmas(result) if chosen is None else chosen

    def _read(self, annotations: Mapping[str, Any]) -> None:
        if AUTO_STEP in annotations:
            self.max_step = int(annotations[AUTO_STEP])
        if EXPLICIT in annotations:
            self.explicit = bool(int(annotations[EXPLICIT]))

    def _chosen(self, loop: For) -> Stmt | None:
        if not isinstance(loop.extent, IntImm):
            return None
        steps = loop.extent.value * step_count(loop.body)
        if loop.kind == SERIAL and 0 < steps <= self.max_step and loop.extent.value > 0:
            if not self.explicit:
                return _without_pragmas(loop.replace(kind=UNROLLED))
        elif loop.kind != UNROLLED:
            return None
        return None if steps > MAX_STATEMENTS else unroll(loop, loop.extent.value)


def _without_pragmas(stmt: Stmt) -> Stmt:
    if not isinstance(stmt, For) or not {AUTO_STEP, EXPLICIT} & stmt.annotations.keys():
        return stmt
    rest = {k: v for k, v in stmt.annotations.items() if k not in (AUTO_STEP, EXPLICIT)}
    return stmt.replace(annotations=rest)


def unroll(loop: For, extent: int) -> Stmt:
    """The iterations of a loop, one after another."""
    kind = loop.loop_var.dtype
    parts: list[Stmt] = []
    for k in range(extent):
        value = {loop.loop_var: loop.min + const(k, kind)}
        # The first copy keeps its own names, the others get new ones.
        parts.append(fresh_copy(loop.body, value) if k else replace_vars(loop.body, value))
    return seq(*parts)


def step_count(stmt: Stmt) -> int:
    """The statements a body runs, where loops of unknown extent count as one iteration.

    >>> from tileloom.expr import Var, const
    >>> from tileloom.tir import Evaluate
    >>> body = Evaluate(Var("x"))
    >>> step_count(For(Var("i"), const(0), const(4), "serial", seq(body, body)))
    8
    """
    children = stmt_children(stmt)
    if not children:
        return 1
    inner = sum(step_count(child) for child in children)
    if isinstance(stmt, For) and isinstance(stmt.extent, IntImm):
        return inner * max(stmt.extent.value, 1)
    return inner
