"""Loops to be vectorised are cut where what they choose turns, so that the parts choose nothing."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from ...expr import GE, GT, LE, LT, Call, Expr, IntImm, conjunction, const, rewrite
from ...tir import (
    SERIAL,
    BufferStore,
    For,
    SeqStmt,
    Stmt,
    StmtRewriter,
    collect_exprs,
    pre_order,
    seq,
)
from ..analysis.linear import linear
from ..common import IF_THEN_ELSE, conjuncts, fresh_copy, loaded_buffers, unlikely_free
from .strips import LANES, TILE

#: A loop becomes so many parts at most.
MOST_PARTS = 4


def cut_loops(stmt: Stmt) -> Stmt:
    """Loops with annotations for vectors in parts that choose nothing by their variables.

    A copy that fills up rows with zeros becomes one of what there is, and zeros.
    """
    return _Cut().visit(stmt)


class _Cut(StmtRewriter):
    def visit_For(self, stmt: For) -> Stmt:
        inner = stmt.body
        if TILE in stmt.annotations and isinstance(inner, For):
            tiles = [stmt.replace(body=part) for part in _parts(inner)]
            return seq(*(part for tile in tiles for part in _parts(tile)))
        if LANES in stmt.annotations:
            return seq(*_parts(stmt))
        return super().visit_For(stmt)


def _parts(loop: For) -> list[For]:
    turns = _turns(loop)
    if not turns or len(turns) >= MOST_PARTS:
        return [loop]
    start, extent = _number(loop.min), _number(loop.extent)
    ends = [start, *turns, start + extent]
    return [_part(loop, low, high) for low, high in pairwise(ends)]


def _number(expr: Expr) -> int:
    return expr.value if isinstance(expr, IntImm) else 0


def _turns(loop: For) -> list[int]:
    """The values of the variable, but the first, from which on a condition in choices changes."""
    known = isinstance(loop.min, IntImm) and isinstance(loop.extent, IntImm)
    if loop.kind != SERIAL or not known or not _only_copies(loop.body):
        return []
    low, high = _number(loop.min), _number(loop.min) + _number(loop.extent)
    found = {_turn(loop, condition) for condition in _conditions(loop.body)}
    return sorted(turn for turn in found if turn is not None and low < turn < high)


def _only_copies(body: Stmt) -> bool:
    stmts = list(pre_order(body))
    stores = [stmt for stmt in stmts if isinstance(stmt, BufferStore)]
    loaded = {buffer for store in stores for buffer in loaded_buffers(store.value)}
    known = all(isinstance(stmt, BufferStore | SeqStmt | For) for stmt in stmts)
    return known and loaded.isdisjoint(store.buffer for store in stores)


def _conditions(body: Stmt) -> Iterator[Expr]:
    for call in collect_exprs(body, Call):
        if call.op == IF_THEN_ELSE:
            yield from conjuncts(call.args[0])


def _turn(loop: For, condition: Expr) -> int | None:
    """The least value of the variable from which on a condition is not what it is before."""
    condition = unlikely_free(condition)
    if not isinstance(condition, LT | LE | GT | GE) or not condition.a.dtype.is_int:
        return None
    form = linear(condition.a).plus(linear(condition.b), -1)
    step = form.terms.get(loop.loop_var, 0)
    if not step or len(form.terms) > 1:
        return None
    # step * v + rest, compared to 0: where it becomes at least, or more than, 0
    rest = form.const if step > 0 else -form.const
    strict = isinstance(condition, LT | GE) == (step > 0)
    return -(rest // abs(step)) if strict else -rest // abs(step) + 1


def _part(loop: For, low: int, high: int) -> For:
    kind = loop.loop_var.dtype
    var = loop.loop_var.with_name(loop.loop_var.name)
    body = fresh_copy(loop.body, {loop.loop_var: var})
    ends = {"min": const(low, kind), "extent": const(high - low, kind)}
    part = loop.replace(loop_var=var, body=body, **ends)
    return part.replace(body=_Decided(part, low).visit(body))


class _Decided(StmtRewriter):
    """A body in which conditions are what they are for one value of a variable."""

    def __init__(self, loop: For, value: int) -> None:
        self.loop = loop
        self.value = value

    def visit_expr(self, expr: Expr) -> Expr:
        return rewrite(expr, self._choice)

    def _choice(self, expr: Expr) -> Expr | None:
        if not isinstance(expr, Call) or expr.op != IF_THEN_ELSE:
            return None
        condition, yes, no = expr.args
        open_parts: list[Expr] = []
        for part in conjuncts(condition):
            holds = self._holds(part)
            if holds is False:
                return no
            if holds is None:
                open_parts.append(part)
        if len(open_parts) == len(conjuncts(condition)):
            return None
        return expr.with_children((conjunction(open_parts), yes, no)) if open_parts else yes

    def _holds(self, condition: Expr) -> bool | None:
        if _turn(self.loop, condition) is None:
            return None
        compared = unlikely_free(condition)
        form = linear(compared.children[0]).plus(linear(compared.children[1]), -1)
        value = form.terms[self.loop.loop_var] * self.value + form.const
        tests: dict[type, bool] = {LT: value < 0, LE: value <= 0, GT: value > 0, GE: value >= 0}
        return tests[type(compared)]
