"""Parallel loops that run on no more workers than there is work for."""

from __future__ import annotations

from ...expr import Expr, FloorDiv, Max, Min, cast, const
from ...expr.analyzer import Analyzer
from ...tir import PARALLEL, Block, For, PrimFunc, Stmt, StmtRewriter, pre_order
from ..common import on_body

WORK, LIMIT = "worker_work", "max_workers"
#: More workers than any machine has.
MOST = 1 << 16


def limit_workers(func: PrimFunc) -> PrimFunc:
    """A parallel loop gets a worker for each `worker_work` runs of its blocks, one at least.

    How often they run, the domains of the blocks say, whose sizes are known at the loop.

    Needs: the blocks stage.
    Ensures: the same program; `worker_work` has become `max_workers`.
    """
    return on_body(func, _Limit().visit)


class _Limit(StmtRewriter):
    def visit_For(self, stmt: For) -> Stmt:
        result = super().visit_For(stmt)
        if not isinstance(result, For) or WORK not in result.annotations:
            return result
        each = int(result.annotations[WORK])
        rest = {key: value for key, value in result.annotations.items() if key != WORK}
        if result.kind == PARALLEL:
            rest[LIMIT] = _limit(result, each)
        return result.replace(annotations=rest)


def _limit(loop: For, each: int) -> Expr:
    """One worker for so many runs of the blocks of a loop."""
    total: Expr = const(0, "int64")
    for block in pre_order(loop):
        if isinstance(block, Block):
            times: Expr = const(1, "int64")
            for axis in block.iter_vars:
                times = times * cast("int64", axis.domain.extent)
            total = total + times
    workers = Min(FloorDiv(total, const(max(1, each), "int64")), const(MOST, "int64"))
    return Analyzer().simplify(Max(workers, const(1, "int64")))
