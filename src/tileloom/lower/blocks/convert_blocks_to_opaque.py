"""Blocks lose their iteration variables."""

from __future__ import annotations

from ...tir import BlockRealize, PrimFunc, Stmt
from ..common import Replacer, likely, on_body


def convert_blocks_to_opaque(func: PrimFunc) -> PrimFunc:
    """Iteration variables are replaced by what they are bound to; predicates become `likely`.

    Needs: blocks without init.
    Ensures: blocks have no iteration variables; what they hold is in terms of the loops.
    """
    return on_body(func, _ToOpaque({}, {}).visit)


class _ToOpaque(Replacer):
    def visit_BlockRealize(self, stmt: BlockRealize) -> Stmt:
        values = self.all(stmt.iter_values, self.visit_expr)
        predicate = likely(self.visit_expr(stmt.predicate))
        for axis, value in zip(stmt.block.iter_vars, values, strict=True):
            self.values[axis.var] = value
        if values:
            self._done = {}
        block = self.visit(stmt.block.replace(iter_vars=()) if values else stmt.block)
        return self.update(stmt, iter_values=(), predicate=predicate, block=block)
