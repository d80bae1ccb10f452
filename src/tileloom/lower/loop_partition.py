"""Loops are split where a `likely` condition turns, so that the long part runs without it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ..base import DType
from ..expr import (
    GE,
    GT,
    LE,
    LT,
    Expr,
    FloorDiv,
    IntImm,
    Max,
    Min,
    Var,
    binary,
    const,
    free_vars,
)
from ..expr.bounds import type_range
from ..tir import (
    PARALLEL,
    SERIAL,
    VECTORIZED,
    Allocate,
    AttrStmt,
    DeclBuffer,
    For,
    IfThenElse,
    LetStmt,
    PrimFunc,
    SeqStmt,
    Stmt,
    StmtRewriter,
    pre_order,
    seq,
    stmt_children,
)
from .common import (
    LIKELY,
    branch,
    conjunction,
    conjuncts,
    fresh_copy,
    has_load,
    on_body,
    replace_vars,
    unlikely_free,
)
from .linear import Linear, linear
from .regions import Interval, Scope, interval_of, relaxed

GROWTH = 40  # statements that one function may gain: all of them are compiled
_WRAPPERS = (Allocate, DeclBuffer, AttrStmt)
WORTH = 8  # a rest of at least 1/8 of its loop may be split as well


def loop_partition(func: PrimFunc) -> PrimFunc:
    """A loop with a guard for imperfect tiles becomes a part without it and a guarded rest.

    The guards are the `likely` conditions of branches inside; each is taken at its worst over the
    loops within. A serial loop is split in two or three; of a vectorised loop only lanes that never
    run are cut off. Where little of a loop is guarded, that part alone is chosen per iteration, and
    so it is in a parallel loop, which has to stay one region. All leave the choice, or an earlier
    end, to a serial loop inside if there is one that can make it.

    Needs: the loops stage or flat code, conditions simplified.
    Ensures: the same program, fewer conditions evaluated.
    """
    return on_body(func, _Partition().visit)


@dataclass(frozen=True, slots=True)
class _Guard:
    """A condition `excess <= 0` of a branch, with its range over the loops within.

    `left`: to one of these.
    """

    condition: Expr
    ends: Interval
    left: bool


@dataclass(frozen=True, slots=True)
class _Bounds:
    """Where guards hold for all inner iterations: `low <= v < high`, None for no limit."""

    low: Expr | None
    high: Expr | None


class _Partition(StmtRewriter):
    def __init__(self) -> None:
        self.guarded: dict[Stmt, bool] = {}
        self.budget = GROWTH
        self.settled: set[Var] = set()  # of loops that a symbolic bound would split for ever
        self.seldom: set[Stmt] = set()  # branches whose other case few iterations reach

    def has_guard(self, stmt: Stmt) -> bool:
        """Whether some branch below has a `likely` condition (memoised)."""
        known = self.guarded.get(stmt)
        if known is None:
            known = isinstance(stmt, IfThenElse) and _has_likely(stmt.condition)
            known = known or any(map(self.has_guard, stmt_children(stmt)))
            self.guarded[stmt] = known
        return known

    def visit(self, stmt: Stmt) -> Stmt:
        return super().visit(stmt) if self.has_guard(stmt) else stmt

    def visit_For(self, stmt: For) -> Stmt:
        if stmt.thread_binding is None and stmt.loop_var not in self.settled:
            split = self._split(stmt)
            if split is not None:
                return split
        return super().visit_For(stmt)

    def visit_IfThenElse(self, stmt: IfThenElse) -> Stmt:
        # In program order: what comes first is the part without guards, which may spend first.
        yes = self.visit(stmt.then_case)
        other = stmt.else_case
        no = None if other is None else self.rest(other, stmt not in self.seldom)
        return self.update(stmt, then_case=yes, else_case=no)

    def rest(self, stmt: Stmt, worth: bool) -> Stmt:
        """A part that few iterations reach; unless it is worth it, it is not split further."""
        if worth:
            return self.visit(stmt)
        budget, self.budget = self.budget, 0
        result = self.visit(stmt)
        self.budget = budget
        return result

    def _split(self, loop: For) -> Stmt | None:
        """The loop in parts, each of them done; None if there is nothing to gain."""
        guards = _GuardFinder(loop, self.has_guard).found
        loop, dead = _cut_dead(loop, guards)
        if isinstance(loop.extent, IntImm) and loop.extent.value <= 0:
            return seq()
        parts = self._parts(loop, guards)
        return self.visit(_single(loop)) if parts is None and dead else parts

    def _parts(self, loop: For, guards: Sequence[_Guard]) -> Stmt | None:
        found = ((guard, _where(loop, guard)) for guard in guards if not guard.left)
        turning = [(guard, bounds) for guard, bounds in found if bounds is not None]
        exact = [(guard, bounds) for guard, bounds in turning if _is_exact(guard, loop)]
        turning = exact or turning
        if not turning:
            return None
        start, end = loop.min, loop.min + loop.extent
        low = _clamped(Max, [bounds.low for _, bounds in turning], start, start, end)
        high = _clamped(Min, [bounds.high for _, bounds in turning], end, low, end)
        strip = _Strip({guard.condition for guard, _ in turning}, self.has_guard)
        if low is start and high is end:
            return self.visit(loop.replace(body=strip.visit(loop.body)))
        if loop.kind == VECTORIZED:
            return None
        if exact:  # nothing is done beyond
            return self.visit(_piece(loop.replace(body=strip.visit(loop.body)), low, high))
        empty = isinstance(low, IntImm) and isinstance(high, IntImm) and high.value <= low.value
        if empty or self.budget == 0:
            return None
        worth = _is_worth(loop, low, high)
        chosen = _to_choose(loop.body, {guard.condition for guard, _ in turning})
        if loop.kind == PARALLEL or _is_small(chosen, loop.body):
            return self._choose(loop, chosen, strip, low, high, worth)
        if not self._spend(loop.body):
            return None
        before, body, after = _in_parts(loop, strip.visit(loop.body), low, high)
        pieces = (p for p in (before, body, after) if isinstance(p, For))
        self.settled.update(p.loop_var for p in pieces if not _known(p))
        body = self.visit(body)
        rests = [None if part is None else self.rest(part, worth) for part in (before, after)]
        return seq(rests[0], body, rests[1])

    def _spend(self, *parts: Stmt) -> bool:
        """Whether the function may gain copies of these."""
        cost = sum(map(_cost, parts))
        if cost > self.budget:
            return False
        self.budget -= cost
        return True

    def _choose(
        self, loop: For, parts: Sequence[Stmt], strip: _Strip, low: Expr, high: Expr, worth: bool
    ) -> Stmt | None:
        """The loop, some parts of whose body are chosen in each iteration."""
        if not self._spend(*parts):
            return None
        self.settled.add(loop.loop_var)
        swaps: dict[Stmt, Stmt] = {}
        for part in parts:
            here = loop.replace(body=part)
            swaps[part] = choice = _choice(here, strip.visit(part), low, high)
            if not worth:
                self.seldom.add(choice)
        return super().visit_For(loop.replace(body=_Swap(swaps).visit(loop.body)))


def _has_likely(condition: Expr) -> bool:
    return any(getattr(part, "op", "") == LIKELY for part in conjuncts(condition))


class _GuardFinder:
    """Finds the conditions below a loop that move with it, with their worst cases."""

    def __init__(self, loop: For, has_guard: Callable[[Stmt], bool]) -> None:
        self.has_guard = has_guard
        self.moving = {loop.loop_var}
        self.found: list[_Guard] = []
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


def _guard(condition: Expr, scopes: Sequence[Scope]) -> _Guard | None:
    excess = _excess(condition)
    if excess is None:
        return None
    own = free_vars(condition)
    inner = any(not isinstance(scope, For) or scope.loop_var in own for scope in scopes)
    ends = interval_of(excess, relaxed(scopes)) if inner else (excess, excess)
    return None if ends is None else _Guard(condition, ends, _is_left_to(condition, scopes))


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
            (loop is moving[-1] and _has_loops(loop.body) and _is_under(condition, loop.body))
            or _is_small(_to_choose(loop.body, {condition}), loop.body)
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
    return excess.shift(1) if isinstance(condition, LT | GT) else excess


def _solve(loop: For, excess: Linear) -> tuple[int, Linear] | None:
    """The coefficient of the loop variable and the rest, if the excess is linear in it."""
    coefficient = excess.terms.get(loop.loop_var)
    if coefficient is None:
        return None
    rest = excess.without(loop.loop_var)
    if any(loop.loop_var in free_vars(atom) for atom in rest.terms):
        return None
    return coefficient, rest


def _where(loop: For, guard: _Guard) -> _Bounds | None:
    solved = _solve(loop, guard.ends[1])
    if solved is None:
        return None
    coefficient, rest = solved
    kind = loop.loop_var.dtype
    if rest.terms and _bits(guard.condition) > kind.bits:
        return None  # what it compares may not fit into the loop's type
    if coefficient > 0:  # c * v + r <= 0  <=>  v < floor(-r / c) + 1
        return _Bounds(None, _floor(Linear({}, 0).plus(rest, -1), coefficient, kind, 1))
    # r <= d * v  <=>  v >= ceil(r / d), with d = -c
    return _Bounds(_floor(rest.shift(-coefficient - 1), -coefficient, kind, 0), None)


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
    return value.shift(plus).to_expr(kind)


def _cut_dead(loop: For, guards: Sequence[_Guard]) -> tuple[For, bool]:
    """The loop without iterations in which its whole body is a branch that never runs."""
    if not isinstance(loop.min, IntImm) or not isinstance(loop.extent, IntImm):
        return loop, False
    first, end = loop.min.value, loop.min.value + loop.extent.value
    for guard in guards:
        solved = _solve(loop, guard.ends[0]) if _is_under(guard.condition, loop.body) else None
        if solved is None or solved[1].terms:
            continue
        coefficient, rest = solved[0], solved[1].const
        if coefficient > 0:  # runs only where c * v + r <= 0
            end = min(end, -rest // coefficient + 1)
        else:
            first = max(first, -(-rest // -coefficient))
    if first == loop.min.value and end == loop.min.value + loop.extent.value:
        return loop, False
    kind, first = loop.loop_var.dtype, max(loop.min.value, min(first, end))
    return loop.replace(min=const(first, kind), extent=const(max(end - first, 0), kind)), True


def _is_exact(guard: _Guard, loop: For) -> bool:
    """Whether nothing is done where a guard does not hold for all inner iterations."""
    return guard.ends[0].same(guard.ends[1]) and _is_under(guard.condition, loop.body)


def _is_under(condition: Expr, stmt: Stmt, scopes: tuple[Scope, ...] = ()) -> bool:
    """Whether everything in a statement is only done where a condition holds."""
    if isinstance(stmt, IfThenElse):
        parts = conjuncts(stmt.condition)
        under = any(part is condition or _implies(part, condition, scopes) for part in parts)
        return stmt.else_case is None and (under or _is_under(condition, stmt.then_case, scopes))
    if isinstance(stmt, SeqStmt):
        return all(_is_under(condition, part, scopes) for part in stmt.seq)
    if isinstance(stmt, For):
        return _is_under(condition, stmt.body, (*scopes, stmt))
    return isinstance(stmt, _WRAPPERS) and _is_under(condition, stmt.body, scopes)


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
    return ends is not None and not ends[0].terms and ends[0].const > -factor


def _to_choose(stmt: Stmt, guards: set[Expr]) -> list[Stmt]:
    """What is to be chosen for some guards: parts that are small, or all of a statement."""
    if isinstance(stmt, _WRAPPERS):
        return _to_choose(stmt.body, guards)
    if isinstance(stmt, SeqStmt):
        parts = (_to_choose(part, guards) for part in stmt.seq if _stand_in(guards, part))
        return [chosen for part in parts for chosen in part]
    if isinstance(stmt, For) and stmt.kind == SERIAL:
        inner = _to_choose(stmt.body, guards)
        if _is_small(inner, stmt.body):
            return inner
    return [stmt]


def _stand_in(guards: set[Expr], stmt: Stmt) -> bool:
    return any(
        isinstance(node, IfThenElse) and not guards.isdisjoint(conjuncts(node.condition))
        for node in pre_order(stmt)
    )


def _has_loops(stmt: Stmt) -> bool:
    return any(isinstance(node, For) for node in pre_order(stmt))


def _cost(stmt: Stmt) -> int:
    """What a copy of a statement costs: its statements, all of which are compiled."""
    return sum(1 for _ in pre_order(stmt))


def _is_small(parts: Sequence[Stmt], whole: Stmt) -> bool:
    """Whether parts are at most half of a statement."""
    return 2 * sum(map(_cost, parts)) <= _cost(whole)


def _clamped(
    op: type[Min] | type[Max], limits: Sequence[Expr | None], whole: Expr, low: Expr, high: Expr
) -> Expr:
    """The tightest of the limits, kept within [low, high]."""
    known = [*dict.fromkeys(limit for limit in limits if limit is not None)]
    if not known:
        return whole
    result = known[0]
    for limit in known[1:]:
        result = binary(op, result, limit)
    result = binary(Min, binary(Max, result, low), high)
    return whole if linear(result).same(linear(whole)) else result


def _known(loop: For) -> bool:
    return isinstance(loop.min, IntImm) and isinstance(loop.extent, IntImm)


def _is_worth(loop: For, low: Expr, high: Expr) -> bool:
    """Whether the parts with guards have a good share of the loop's iterations."""
    main = linear(high).plus(linear(low), -1)
    if main.terms or not isinstance(loop.extent, IntImm):
        return False
    return (loop.extent.value - main.const) * WORTH >= loop.extent.value


def _in_parts(
    loop: For, main: Stmt, low: Expr, high: Expr
) -> tuple[Stmt | None, Stmt, Stmt | None]:
    start, end = loop.min, loop.min + loop.extent
    before = None if low is start else _piece(_renamed(loop), start, low)
    body = _piece(loop.replace(body=main), low, high)
    after = None if high is end else _piece(_renamed(loop), high, end)
    return before, body, after


def _renamed(loop: For) -> For:
    var = loop.loop_var.with_name(loop.loop_var.name)
    return loop.replace(loop_var=var, body=fresh_copy(loop.body, {loop.loop_var: var}))


def _piece(loop: For, low: Expr, high: Expr) -> Stmt:
    extent = linear(high).plus(linear(low), -1).to_expr(loop.loop_var.dtype)
    return _single(loop.replace(min=low, extent=extent))


def _single(loop: For) -> Stmt:
    """The loop, or its body where it has one iteration."""
    if isinstance(loop.extent, IntImm) and loop.extent.value == 1:
        return replace_vars(loop.body, {loop.loop_var: loop.min})
    return loop


def _choice(loop: For, main: Stmt, low: Expr, high: Expr) -> IfThenElse:
    """What chooses `main` for some values of the variable of a loop, else its body."""
    var, tests = loop.loop_var, []
    if low is not loop.min:
        tests.append(binary(GE, var, low))
    if high is not loop.min + loop.extent:
        tests.append(binary(LT, var, high))
    last = linear(loop.min + loop.extent).plus(linear(high), -1)
    alone = low is loop.min and not last.terms and last.const == 1
    return IfThenElse(conjunction(tests), main, fresh_copy(loop.body, {var: high} if alone else {}))


class _Swap(StmtRewriter):
    """Puts other statements for some."""

    def __init__(self, swaps: Mapping[Stmt, Stmt]) -> None:
        self.swaps = swaps

    def visit(self, stmt: Stmt) -> Stmt:
        found = self.swaps.get(stmt)
        return super().visit(stmt) if found is None else found


class _Strip(StmtRewriter):
    def __init__(self, known: set[Expr], has_guard: Callable[[Stmt], bool]) -> None:
        self.known = known
        self.has_guard = has_guard

    def visit(self, stmt: Stmt) -> Stmt:
        return super().visit(stmt) if self.has_guard(stmt) else stmt

    def visit_IfThenElse(self, stmt: IfThenElse) -> Stmt:
        result = super().visit_IfThenElse(stmt)
        if not isinstance(result, IfThenElse):
            return result
        parts = conjuncts(result.condition)
        kept = [part for part in parts if part not in self.known]
        if len(kept) == len(parts):
            return result
        return branch(conjunction(kept), result.then_case, result.else_case) or seq()
