"""Loops that are shared out over nests, seen as the nests.

    for number in parallel(4):             for i in range(300): A
        for i in quarter number of 300: A  B
        if number == 1: B                  for j in range(64): C
        for j in quarter number of 64: C

Which of the nests runs first is not said.
"""

from __future__ import annotations

from ..expr import EQ, Analyzer, Expr, IntImm, Var, const, substitute
from ..tir import PARALLEL, SERIAL, For, IfThenElse, LetStmt, SeqStmt, Stmt, seq
from ..tir.analysis import undefined_vars


def shared_nests(loop: For) -> Stmt | None:
    """What all iterations of a loop do together, or None if it is no such loop."""
    extent = _number(loop.extent)
    if loop.kind != PARALLEL or _number(loop.min) != 0 or extent is None or extent < 2:
        return None
    return _whole(loop.body, loop.loop_var, extent)


def _whole(body: Stmt, number: Var, extent: int) -> Stmt | None:
    """What the loop's body does for all numbers together."""
    parts: list[Stmt] = []
    for part in body.seq if isinstance(body, SeqStmt) else (body,):
        if isinstance(part, IfThenElse):
            once = part.else_case is None and _is_one_of(part.condition, number, extent)
            whole = part.then_case if once else None
        else:
            whole = _joined(part, number, extent)
        if whole is None or number in undefined_vars(whole):
            return None
        parts.append(whole)
    return seq(*parts)


def _is_one_of(condition: Expr, number: Var, count: int) -> bool:
    """Whether a condition holds for exactly one of the numbers below a count."""
    match condition:
        case EQ(a, IntImm(_, value)):
            return a is number and 0 <= value < count
        case _:
            return False


def _joined(stmt: Stmt, number: Var, count: int) -> Stmt | None:
    """A loop from what is its stretch `first <= v < last` for each number."""
    match stmt:
        case LetStmt(first, start, LetStmt(last, end, For(step, zero, extent, kind, let))):
            pass
        case _:
            return None
    if not isinstance(let, LetStmt):
        return None
    if kind != SERIAL or _number(zero) != 0 or {first, last, step} & set(undefined_vars(let.body)):
        return None
    analyzer = Analyzer()
    if _number(analyzer.simplify(extent - (last - first))) != 0:
        return None
    if _number(analyzer.simplify(let.value - (first + step))) != 0:
        return None
    total = 0
    for k in range(count):
        here, there = (_number(substitute(e, {number: const(k)})) for e in (start, end))
        if here != total or there is None or there < here:
            return None
        total = there
    return For(let.var, const(0), const(total), SERIAL, let.body)


def _number(expr: Expr) -> int | None:
    """The value of a constant expression."""
    value = Analyzer().simplify(expr)
    return value.value if isinstance(value, IntImm) else None
