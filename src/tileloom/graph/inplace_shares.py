"""Loops that are shared out over nests, seen as the nests; see `to_tir.share`.

    for number in parallel(11):                      for i in range(300): A
        if number < 3: for i in a third of 300: A    B
        elif number < 4: B                           for j in range(64): C
        else: for j in a seventh of 64: C

Which of the nests runs first is not said.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..expr import Analyzer, Expr, IntImm, Var, const, substitute
from ..tir import PARALLEL, SERIAL, For, IfThenElse, LetStmt, SeqStmt, Stmt, seq
from ..tir.analysis import undefined_vars


def shared_nests(loop: For) -> Stmt | None:
    """What all iterations of a loop do together, or None if it is no such loop."""
    if loop.kind != PARALLEL or _number(loop.min) != 0 or not isinstance(loop.body, IfThenElse):
        return None
    extent = _number(loop.extent)
    if extent is None:
        return None
    nests: list[Stmt] = []
    for low, high, body in _branches(loop.body, loop.loop_var, extent):
        nest = None if body is None else _whole(body, loop.loop_var, low, high)
        if nest is None:
            return None
        nests.append(nest)
    return seq(*nests)


def _branches(stmt: Stmt | None, number: Var, end: int) -> Iterator[tuple[int, int, Stmt | None]]:
    """The ranges of `number` that a chain of conditions tells apart; None for any other chain."""
    low = 0
    while isinstance(stmt, IfThenElse):
        high = _bound(stmt.condition, number, low, end)
        if high is None or stmt.else_case is None:
            break
        yield low, high, stmt.then_case
        low, stmt = high, stmt.else_case
    yield low, end, stmt


def _bound(condition: Expr, number: Var, low: int, end: int) -> int | None:
    """`h` of a condition that means `number < h` for the numbers from `low` to `end`."""
    held = [_number(substitute(condition, {number: const(k)})) for k in range(low, end)]
    if None in held:
        return None
    true = sum(bool(value) for value in held)
    return low + true if all(held[:true]) and 0 < true < len(held) else None


def _whole(body: Stmt, number: Var, low: int, high: int) -> Stmt | None:
    """What a branch does for all of its numbers together."""
    if high - low == 1:
        return None if number in undefined_vars(body) else body
    parts: list[Stmt] = []
    for part in body.seq if isinstance(body, SeqStmt) else (body,):
        if isinstance(part, IfThenElse):
            once = part.else_case is None and _bound(part.condition, number, low, high) == low + 1
            whole = part.then_case if once else None
        else:
            whole = _joined(part, number, low, high)
        if whole is None or number in undefined_vars(whole):
            return None
        parts.append(whole)
    return seq(*parts)


def _joined(stmt: Stmt, number: Var, low: int, high: int) -> Stmt | None:
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
    for k in range(low, high):
        here, there = (_number(substitute(e, {number: const(k)})) for e in (start, end))
        if here != total or there is None or there < here:
            return None
        total = there
    return For(let.var, const(0), const(total), SERIAL, let.body)


def _number(expr: Expr) -> int | None:
    """The value of a constant expression."""
    value = Analyzer().simplify(expr)
    return value.value if isinstance(value, IntImm) else None
