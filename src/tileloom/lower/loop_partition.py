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
    run are cut off. A loop that does something else beside what is guarded chooses per iteration.
    So does a parallel one, which has to stay one region, where it cannot leave the choice or an
    earlier end to a loop inside.

    Needs: the loops stage or flat code, conditions simplified.
    Ensures: the same program, fewer conditions evaluated.
    """
    return on_body(func, _Partition().visit)


@dataclass(frozen=True, slots=True)
class _Guard:
    """A condition `excess <= 0` of a branch, with its range over the loops within.

    `left`: to one of these, should a parallel loop ask.
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
        no = None if stmt.else_case is None else self.visit(stmt.else_case)
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
        if loop.kind == PARALLEL:
            guards = [guard for guard in guards if not guard.left]
        turning = [(guard, bounds) for guard in guards if (bounds := _where(loop, guard))]
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
        if _rest_is_dead(loop, turning):
            return self.visit(_piece(loop.replace(body=strip.visit(loop.body)), low, high))
        empty = isinstance(low, IntImm) and isinstance(high, IntImm) and high.value <= low.value
        if empty or self.budget == 0:
            return None
        worth = _is_worth(loop, low, high)
        guarded = _standing_in(loop.body, {guard.condition for guard, _ in turning})
        if loop.kind == PARALLEL or _has_loops_beside(loop.body, guarded):
            return self._chosen(loop, guarded, strip, low, high, worth)
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
        cost = sum(1 for part in parts for _ in pre_order(part))
        if cost > self.budget:
            return False
        self.budget -= cost
        return True

    def _chosen(
        self, loop: For, parts: Sequence[Stmt], strip: _Strip, low: Expr, high: Expr, worth: bool
    ) -> Stmt | None:
        """The loop, some parts of whose body are chosen in each iteration."""
        if not self._spend(*parts):
            return None
        self.settled.add(loop.loop_var)
        swaps: dict[Stmt, Stmt] = {}
        for part in _sequence(loop.body):
            if part in parts:
                here = loop.replace(body=part)
                body, condition, rest = _choose(here, strip.visit(part), low, high)
                swaps[part] = IfThenElse(condition, self.visit(body), self.rest(rest, worth))
            else:
                swaps[part] = self.visit(part)
        return loop.replace(body=_Swap(swaps).visit(loop.body))


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

    It runs just as far as the condition holds, or does something else too in each iteration.
    """
    own = free_vars(condition)
    moving = [s for s in scopes if isinstance(s, For) and s.loop_var in own]
    return any(
        loop.kind == SERIAL
        and (
            (loop is moving[-1] and condition in _branch_conditions(loop.body))
            or _has_loops_beside(loop.body, _standing_in(loop.body, {condition}))
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
    whole = _branch_conditions(loop.body)
    first, end = loop.min.value, loop.min.value + loop.extent.value
    for guard in guards:
        solved = _solve(loop, guard.ends[0]) if guard.condition in whole else None
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


def _rest_is_dead(loop: For, turning: Sequence[tuple[_Guard, _Bounds]]) -> bool:
    """Whether nothing runs where a guard does not hold for all inner iterations."""
    whole = _branch_conditions(loop.body)
    return all(
        guard.condition in whole and guard.ends[0].same(guard.ends[1]) for guard, _ in turning
    )


def _branch_conditions(stmt: Stmt) -> set[Expr]:
    """The conditions under which all of a body stands: of branches around everything in it."""
    found: set[Expr] = set()
    while True:
        if isinstance(stmt, IfThenElse) and stmt.else_case is None:
            found.update(conjuncts(stmt.condition))
            stmt = stmt.then_case
        elif isinstance(stmt, SeqStmt):
            return found.union(set.intersection(*map(_branch_conditions, stmt.seq)))
        elif isinstance(stmt, (For, *_WRAPPERS)):
            stmt = stmt.body
        else:
            return found


def _sequence(stmt: Stmt) -> Sequence[Stmt]:
    """The statements that are done one after another."""
    while isinstance(stmt, _WRAPPERS):
        stmt = stmt.body
    return stmt.seq if isinstance(stmt, SeqStmt) else (stmt,)


def _standing_in(stmt: Stmt, guards: set[Expr]) -> list[Stmt]:
    """Those of a sequence in which some guards stand."""

    def guarded(node: Stmt) -> bool:
        return isinstance(node, IfThenElse) and not guards.isdisjoint(conjuncts(node.condition))

    return [part for part in _sequence(stmt) if any(map(guarded, pre_order(part)))]


def _has_loops_beside(body: Stmt, parts: Sequence[Stmt]) -> bool:
    """Whether there are loops in a sequence besides those in some parts of it."""
    others = (part for part in _sequence(body) if part not in parts)
    return any(isinstance(node, For) for part in others for node in pre_order(part))


def _clamped(
    op: type[Min] | type[Max], limits: Sequence[Expr | None], whole: Expr, low: Expr, high: Expr
) -> Expr:
    """The tightest of the limits, kept within [low, high]."""
    known = [limit for limit in limits if limit is not None]
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


def _choose(loop: For, main: Stmt, low: Expr, high: Expr) -> tuple[Stmt, Expr, Stmt]:
    """Both bodies for one loop, and the condition on its variable that chooses the first."""
    var, tests = loop.loop_var, []
    if low is not loop.min:
        tests.append(binary(GE, var, low))
    if high is not loop.min + loop.extent:
        tests.append(binary(LT, var, high))
    last = linear(loop.min + loop.extent).plus(linear(high), -1)
    alone = low is loop.min and not last.terms and last.const == 1
    rest = fresh_copy(loop.body, {var: high} if alone else {})
    return main, conjunction(tests), rest


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
