"""Kernels made again by their traces, as those are written into JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence

from tileloom.base.polynomial import Polynomial
from tileloom.driver.plan_cuda import EACH_SIZE
from tileloom.expr import IntImm, const
from tileloom.graph.program import Program
from tileloom.graph.variants import Planned
from tileloom.schedule import Schedule
from tileloom.schedule.trace import Trace
from tileloom.tir import BlockRealize, PrimFunc, Stmt, StmtRewriter, pre_order
from tileloom.tir.structural import assert_structural_equal


def check_traces(program: Program) -> list[PrimFunc]:
    """The kernels of a program, each made again by the steps that made it.

    Returns:
        the kernels; of those that choose by sizes what they choose from.
    """
    called = {call.kernel for segment in program.segments for call in segment.calls}
    conditions = {
        bucket.kernel: bucket.predicates
        for kernel in called
        for bucket in program.buckets.get(kernel, ())
    }
    launched = [kernel for kernel in called if kernel not in program.buckets] + [*conditions]
    assert program.planned.keys() == set(launched)
    return [check_trace(program, name, conditions.get(name, ())) for name in launched]


def check_trace(program: Program, name: str, predicates: Sequence[Polynomial]) -> PrimFunc:
    """Make a kernel again where what it was planned for holds.

    The planner found that out step by step, so that a step which is taken again may know more, and
    leave out the predicate of a block.
    """
    planned, space = program.planned[name], program.space
    assert_structural_equal(planned.func, program.module.functions[name])
    if EACH_SIZE in planned.func.attrs:
        return planned.func  # it is scheduled when sizes are known
    if space is None:
        made = replayed(planned)
        assert_structural_equal(made, planned.func)
        return made
    before = [*space.guards]
    with space.assuming(*predicates):
        made = replayed(planned)
    assert before == [*space.guards]
    if not predicates or _guards(made) == _guards(planned.func):
        assert_structural_equal(made, planned.func)
    else:
        assert _guards(made) < _guards(planned.func)
        assert_structural_equal(_unguarded(made), _unguarded(planned.func))
    return made


def _guards(func: PrimFunc) -> int:
    blocks = [stmt for stmt in pre_order(func.body) if isinstance(stmt, BlockRealize)]
    return sum(not isinstance(realize.predicate, IntImm) for realize in blocks)


def _unguarded(func: PrimFunc) -> PrimFunc:
    return func.with_body(_Unguarded().visit(func.body))


class _Unguarded(StmtRewriter):
    def visit_BlockRealize(self, stmt: BlockRealize) -> Stmt:
        return super().visit_BlockRealize(stmt.replace(predicate=const(True)))


def replayed(planned: Planned) -> PrimFunc:
    """The function that the steps make, without those that define what no other needs."""
    steps = planned.trace.simplified(remove_postproc=False)
    text = json.dumps(steps.as_json())
    sch = Schedule(planned.blocks)
    Trace.apply_json_to_schedule(json.loads(text), sch)
    assert sch.trace is not None
    assert json.dumps(sch.trace.as_json()) == text
    (func,) = sch.mod.functions.values()
    return func
