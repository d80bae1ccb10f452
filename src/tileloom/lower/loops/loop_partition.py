"""Loops are split where a `likely` condition turns, so that the long part runs without it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...expr import GE, LT, Expr, IntImm, Max, Min, Var, binary, conjunction, const
from ...tir import (
    PARALLEL,
    VECTORIZED,
    For,
    IfThenElse,
    PrimFunc,
    Stmt,
    StmtRewriter,
    seq,
    stmt_children,
)
from ..analysis.linear import linear
from ..common import branch, conjuncts, fresh_copy, on_body, replace_vars, replaced
from .loop_guards import (
    Guard,
    GuardFinder,
    bounds_of,
    cost_of,
    has_likely,
    is_exact,
    is_small,
    is_under,
    solve,
    to_choose,
)

GROWTH = 40  # statements that one function may gain: all of them are compiled
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
            known = isinstance(stmt, IfThenElse) and has_likely(stmt.condition)
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
        guards = GuardFinder(loop, self.has_guard).found
        loop, dead = _cut_dead(loop, guards)
        if isinstance(loop.extent, IntImm) and loop.extent.value <= 0:
            return seq()
        parts = self._parts(loop, guards)
        return self.visit(_single(loop)) if parts is None and dead else parts

    def _parts(self, loop: For, guards: Sequence[Guard]) -> Stmt | None:
        found = ((guard, bounds_of(loop, guard)) for guard in guards if not guard.left)
        bounded = [(guard, bounds) for guard, bounds in found if bounds is not None]
        exact = [(guard, bounds) for guard, bounds in bounded if is_exact(guard, loop)]
        bounded = exact or bounded
        if not bounded:
            return None
        start, end = loop.min, loop.min + loop.extent
        low = _clamped(Max, [bounds.low for _, bounds in bounded], start, start, end)
        high = _clamped(Min, [bounds.high for _, bounds in bounded], end, low, end)
        strip = _Strip({guard.condition for guard, _ in bounded}, self.has_guard)
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
        chosen = to_choose(loop.body, {guard.condition for guard, _ in bounded})
        if loop.kind == PARALLEL or is_small(chosen, loop.body):
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
        cost = sum(map(cost_of, parts))
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
        return super().visit_For(loop.replace(body=replaced(loop.body, swaps)))


def _cut_dead(loop: For, guards: Sequence[Guard]) -> tuple[For, bool]:
    """The loop without iterations in which its whole body is a branch that never runs."""
    if not isinstance(loop.min, IntImm) or not isinstance(loop.extent, IntImm):
        return loop, False
    first, end = loop.min.value, loop.min.value + loop.extent.value
    for guard in guards:
        solved = solve(loop, guard.ends[0]) if is_under(guard.condition, loop.body) else None
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
    return whole if linear(result).same_as(linear(whole)) else result


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
