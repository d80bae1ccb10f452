"""The `likely` conditions below a loop: where they hold, and where it pays to ask."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...base import DType
from ...expr import GE, GT, LE, LT, Expr, FloorDiv, binary, const, free_vars, has_load
from ...expr.analyzer import Analyzer
from ...expr.bounds import type_range
from ...expr.linear import Linear
from ...tir import (
    SERIAL,
    Allocate,
    AttrStmt,
    DeclBuffer,
    For,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    pre_order,
    stmt_children,
)
from ..analysis.linear import linear
from ..analysis.regions import Interval, Scope, interval_of, relaxed
from ..common import LIKELY, conjuncts, unlikely_free

_WRAPPERS = (Allocate, DeclBuffer, AttrStmt)


@dataclass(frozen=True, slots=True)
class Guard:
    """A condition `excess <= 0` of a branch, with its range over the loops within.

    `left`: one of them can do better with it than the loop itself.
    """

    condition: Expr
    ends: Interval
    left: bool


@dataclass(frozen=True, slots=True)
class Bounds:
    """Where guards hold for all inner iterations: `low <= v < high`, None for no limit."""

    low: Expr | None
    high: Expr | None


def has_likely(condition: Expr) -> bool:
    return any(getattr(part, "op", "") == LIKELY for part in conjuncts(condition))


class GuardFinder:
    """Finds the conditions below a loop that move with it, with their worst cases."""

    def __init__(self, loop: For, has_guard: Callable[[Stmt], bool]) -> None:
        self.has_guard = has_guard
        self.moving = {loop.loop_var}
        self.found: list[Guard] = []
        self.visit(loop.body, ())

    def visit(self, stmt: Stmt, scopes: tuple[Scope, ...]) -> None:
        if isinstance(stmt, IfThenElse):
            for part in conjuncts(stmt.condition):
                if getattr(part, "op", "") == LIKELY and self.moves(part):
                    guard = _guard(part, scopes)
                    if guard is not None:
                        self.found.append(guard)
        elif isinstance(stmt, For):
            scopes = (*scopes, stmt)
            if self.moves(stmt.min) or self.moves(stmt.extent):
                self.moving.add(stmt.loop_var)
        elif isinstance(stmt, LetStmt):
            scopes = (*scopes, stmt)
            if self.moves(stmt.value):
                self.moving.add(stmt.var)
        for child in stmt_children(stmt):
            if self.has_guard(child):
                self.visit(child, scopes)

    def moves(self, expr: Expr) -> bool:
        return not free_vars(expr).isdisjoint(self.moving)


def _guard(condition: Expr, scopes: Sequence[Scope]) -> Guard | None:
    excess = _excess(condition)
    if excess is None:
        return None
    own = free_vars(condition)
    inner = any(not isinstance(scope, For) or scope.loop_var in own for scope in scopes)
    ends = interval_of(excess, relaxed(scopes)) if inner else (excess, excess)
    return None if ends is None else Guard(condition, ends, _is_left_to(condition, scopes))


def _is_left_to(condition: Expr, scopes: Sequence[Scope]) -> bool:
    """Whether a serial loop within can do better with a condition than one around it.

    It is not an innermost loop and runs just as far as the condition holds, or little of it is
    guarded.
    """
    own = free_vars(condition)
    moving = [s for s in scopes if isinstance(s, For) and s.loop_var in own]
    return any(
        loop.kind == SERIAL
        and (
            (loop is moving[-1] and _has_loops(loop.body) and is_under(condition, loop.body))
            or is_small(to_choose(loop.body, {condition}), loop.body)
        )
        for loop in moving
    )


def _excess(condition: Expr) -> Linear | None:
    """The amount that is positive exactly where the comparison fails (memoised)."""
    if "lower.excess" not in condition.memo:
        condition.memo["lower.excess"] = _new_excess(unlikely_free(condition))
    return condition.memo["lower.excess"]  # type: ignore[no-any-return]


def _new_excess(condition: Expr) -> Linear | None:
    if not isinstance(condition, LT | LE | GT | GE) or condition.a.dtype.code != "int":
        return None
    if condition.a.dtype.lanes != 1 or has_load(condition):
        return None
    a, b = linear(condition.a), linear(condition.b)
    excess = a.plus(b, -1) if isinstance(condition, LT | LE) else b.plus(a, -1)
    return excess.shifted(1) if isinstance(condition, LT | GT) else excess


def solve(loop: For, excess: Linear) -> tuple[int, Linear] | None:
    """The coefficient of the loop variable and the rest, if the excess is linear in it."""
    coefficient = excess.terms.get(loop.loop_var)
    if coefficient is None:
        return None
    rest = excess.without(loop.loop_var)
    if any(loop.loop_var in free_vars(atom) for atom in rest.terms):
        return None
    return coefficient, rest


def bounds_of(loop: For, guard: Guard) -> Bounds | None:
    solved = solve(loop, guard.ends[1])
    if solved is None:
        return None
    coefficient, rest = solved
    kind = loop.loop_var.dtype
    if rest.terms and _bits(guard.condition) > kind.bits:
        return None  # what it compares may not fit into the loop's type
    if coefficient > 0:  # c * v + r <= 0  <=>  v < floor(-r / c) + 1
        return Bounds(None, _floor(-rest, coefficient, kind, 1))
    # r <= d * v  <=>  v >= ceil(r / d), with d = -c
    return Bounds(_floor(rest.shifted(-coefficient - 1), -coefficient, kind, 0), None)


def _bits(condition: Expr) -> int:
    """The width of the operands of a comparison."""
    return unlikely_free(condition).children[0].dtype.bits


def _floor(value: Linear, divisor: int, kind: DType, plus: int) -> Expr:
    """`floor(value / divisor) + plus` as the limit of a loop.

    A number beyond the type is as good as the end of the type: the loop does not get there.
    """
    if not value.terms:
        least, most = type_range(kind)
        return const(max(least, min(most, value.const // divisor + plus)), kind)
    if divisor != 1:
        value = linear(binary(FloorDiv, value.to_expr(kind), const(divisor, kind)))
    return value.shifted(plus).to_expr(kind)


def is_exact(guard: Guard, loop: For) -> bool:
    """Whether nothing is done where a guard does not hold for all inner iterations."""
    return guard.ends[0].same_as(guard.ends[1]) and is_under(guard.condition, loop.body)


def is_under(condition: Expr, stmt: Stmt, scopes: tuple[Scope, ...] = ()) -> bool:
    """Whether everything in a statement is only done where a condition holds."""
    if isinstance(stmt, IfThenElse):
        parts = conjuncts(stmt.condition)
        under = any(part is condition or _implies(part, condition, scopes) for part in parts)
        return stmt.else_case is None and (under or is_under(condition, stmt.then_case, scopes))
    if isinstance(stmt, SeqStmt):
        return all(is_under(condition, part, scopes) for part in stmt.seq)
    if isinstance(stmt, For):
        return is_under(condition, stmt.body, (*scopes, stmt))
    return isinstance(stmt, _WRAPPERS) and is_under(condition, stmt.body, scopes)


def _implies(condition: Expr, other: Expr, scopes: Sequence[Scope]) -> bool:
    """Whether one comparison holds only where another does.

    With excesses a = m * b + rest, a <= 0 makes b < 1 where rest > -m.
    """
    a, b = _excess(condition), _excess(other)
    if a is None or b is None or not b.terms:
        return False
    var, step = next(iter(b.terms.items()))
    factor, odd = divmod(a.terms.get(var, 0), step)
    if odd or factor <= 0:
        return False
    ends = interval_of(a.plus(b, -factor), relaxed(scopes))
    if ends is None or not ends[0].terms:
        return ends is not None and ends[0].const > -factor
    kind = unlikely_free(condition).children[0].dtype
    return Analyzer().can_prove(ends[0].to_expr(kind) > -factor)


def to_choose(stmt: Stmt, guards: set[Expr]) -> list[Stmt]:
    """What is to be chosen for some guards: parts that are small, or all of a statement."""
    if isinstance(stmt, _WRAPPERS):
        return to_choose(stmt.body, guards)
    if isinstance(stmt, SeqStmt):
        parts = (to_choose(part, guards) for part in stmt.seq if _stand_in(guards, part))
        return [chosen for part in parts for chosen in part]
    if isinstance(stmt, For) and stmt.kind == SERIAL:
        inner = to_choose(stmt.body, guards)
        if is_small(inner, stmt.body):
            return inner
    return [stmt]


def _stand_in(guards: set[Expr], stmt: Stmt) -> bool:
    return any(
        isinstance(node, IfThenElse) and not guards.isdisjoint(conjuncts(node.condition))
        for node in pre_order(stmt)
    )


def _has_loops(stmt: Stmt) -> bool:
    return any(isinstance(node, For) for node in pre_order(stmt))


def cost_of(stmt: Stmt) -> int:
    """What a copy of a statement costs: its statements, all of which are compiled."""
    return sum(1 for _ in pre_order(stmt))


def is_small(parts: Sequence[Stmt], whole: Stmt) -> bool:
    """Whether parts are at most half of a statement."""
    return 2 * sum(map(cost_of, parts)) <= cost_of(whole)
