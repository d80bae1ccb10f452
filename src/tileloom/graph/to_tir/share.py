"""Independent loop nests side by side: one parallel loop, shared out over them.

Each nest cuts its own parallel loop into one piece for each worker, who runs its pieces of all
nests one after another (a kind of AKG's block fusion). So all of them share one launch, no worker
waits for another between nests, and each has its part of every nest, whatever a nest costs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ...expr import EQ, Expr, IntImm, Var, binary, const
from ...tir import PARALLEL, SERIAL, For, IfThenElse, LetStmt, SeqStmt, Stmt, seq
from .kernel import Body, Machine
from .nest import PARALLEL_WORK


def side_by_side(make: Callable[[Machine], Sequence[Body]], machine: Machine) -> Stmt:
    """The nests of parts that do not depend on each other.

    Args:
        make: the parts as they are made for a machine.
    """
    bodies = make(replace(machine, parallel_work=0))
    work = sum(body.work for body in bodies)
    if machine.workers <= 1 or work < PARALLEL_WORK:
        return seq(*(body.stmt for body in make(replace(machine, workers=1))))
    apart = [body for body in bodies if not body.divisible]
    shared = [body for body in bodies if body.divisible]
    if len(shared) < 2:
        return seq(*(body.stmt for body in bodies))
    number, count = Var("number"), machine.workers
    pieces = [_Part(body, count, k).piece(number) for k, body in enumerate(shared)]
    common = For(number, const(0), const(count), PARALLEL, seq(*pieces))
    return seq(*(body.stmt for body in apart), common)


class _Part:
    """A nest in so many pieces, or in one if it is too short, which worker `turn` then takes."""

    def __init__(self, body: Body, steps: int, turn: int) -> None:
        stmts = body.stmt.seq if isinstance(body.stmt, SeqStmt) else (body.stmt,)
        self.loops = [s for s in stmts if isinstance(s, For) and s.kind == PARALLEL]
        self.rest = [s for s in stmts if s not in self.loops]
        longest = max((_extent(loop) for loop in self.loops), default=1)
        self.steps = steps if longest >= steps else 1
        self.turn = turn % steps

    def piece(self, number: Expr) -> Stmt:
        """Piece `number` of the nest."""
        if self.steps == 1:
            whole = seq(*(_serial(loop) for loop in self.loops), *self.rest)
            return IfThenElse(binary(EQ, number, const(self.turn)), whole)
        stmts: list[Stmt] = [self._stretch(loop, number) for loop in self.loops]
        if self.rest:
            stmts.append(IfThenElse(binary(EQ, number, const(self.turn)), seq(*self.rest)))
        return seq(*stmts)

    def _stretch(self, loop: For, number: Expr) -> Stmt:
        extent, kind = _extent(loop), loop.loop_var.dtype
        number = number.astype(kind)
        first, last, step = Var("first", kind), Var("last", kind), Var("step", kind)
        body = LetStmt(loop.loop_var, first + step, loop.body)
        stmt: Stmt = For(step, const(0, kind), last - first, SERIAL, body)
        stmt = LetStmt(last, (number + 1) * extent // self.steps, stmt)
        return LetStmt(first, number * extent // self.steps, stmt)


def _extent(loop: For) -> int:
    return loop.extent.value if isinstance(loop.extent, IntImm) else 1


def _serial(loop: For) -> Stmt:
    return For(loop.loop_var, loop.min, loop.extent, SERIAL, loop.body)
