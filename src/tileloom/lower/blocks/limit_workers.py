"""Parallel loops that run on one worker where there is little to do."""

from __future__ import annotations

from ...expr import GE, Expr, Select, binary, cast, const
from ...expr.analyzer import Analyzer
from ...tir import PARALLEL, Block, For, PrimFunc, Stmt, StmtRewriter, pre_order
from ..common import on_body

WORK, LIMIT = "worker_work", "max_workers"


def limit_workers(func: PrimFunc) -> PrimFunc:
    """A parallel loop with `worker_work` is only shared if its blocks run as often in all.

    How often, the domains of the blocks say, whose sizes are known when the loop is reached.

    Needs: the blocks stage.
    Ensures: the same program; `worker_work` has become `max_workers`.
    """
    return on_body(func, _Limit().visit)


class _Limit(StmtRewriter):
    def visit_For(self, stmt: For) -> Stmt:
        result = super().visit_For(stmt)
        if not isinstance(result, For) or WORK not in result.annotations:
            return result
        least = int(result.annotations[WORK])
        rest = {key: value for key, value in result.annotations.items() if key != WORK}
        if result.kind == PARALLEL:
            rest[LIMIT] = _limit(result, least)
        return result.replace(annotations=rest)


def _limit(loop: For, least: int) -> Expr:
    """0, which is no limit, where the blocks of a loop run so often, else 1."""
    total: Expr = const(0, "int64")
    for block in pre_order(loop):
        if isinstance(block, Block):
            times: Expr = const(1, "int64")
            for axis in block.iter_vars:
                times = times * cast("int64", axis.domain.extent)
            total = total + times
    enough = binary(GE, total, const(least, "int64"))
    return Analyzer().simplify(Select(enough, const(0, "int64"), const(1, "int64")))
