"""Simplification of the nodes whose parts hold under a condition: and, or, not, choices, let."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from .build import binary
from .compare import FALSE, OPPOSITE, TRUE, truth
from .linear import Context
from .nodes import (
    EQ,
    NE,
    And,
    Call,
    CompareOp,
    Expr,
    FloatImm,
    IntImm,
    Let,
    Not,
    Or,
    Select,
    Var,
)
from .rebuild import has_load, is_pure, is_total, rebuild
from .walk import substitute

MAX_JUNCTION = 8  # conditions of one conjunction that are simplified under each other


class LogicContext(Context, Protocol):
    """A context that can also simplify under a condition."""

    def under(self, condition: Expr, expr: Expr, holds: bool = True) -> Expr:
        """`expr` simplified where the simplified condition holds (or does not)."""

    def known(self, condition: Expr) -> Expr:
        """The condition, or its truth value where that was told."""

    def finish(self, expr: Expr) -> Expr:
        """`expr`, whose children are simple, after the rules of its class."""


def conjunction(parts: Iterable[Expr]) -> Expr:
    """The conjunction of conditions; true when there is none."""
    result: Expr = TRUE
    for part in parts:
        result = binary(And, result, part)
    return result


def negation(condition: Expr) -> Expr:
    """What holds exactly where the condition does not, without a `Not` where there is a way."""
    if isinstance(condition, IntImm):
        return truth(not condition.value)
    if isinstance(condition, Not):
        return condition.a
    if isinstance(condition, (And, Or)):
        other = Or if isinstance(condition, And) else And
        return other(negation(condition.a), negation(condition.b))
    opposite = OPPOSITE.get(type(condition))
    # A comparison of floats with NaN is false both ways, except for equality.
    flips = isinstance(condition, CompareOp) and (
        not condition.a.dtype.is_float or type(condition) in (EQ, NE)
    )
    if flips and opposite is not None:
        return opposite(*condition.children)
    return Not(condition)


def _flatten(kind: type[Expr], expr: Expr) -> list[Expr]:
    if type(expr) is not kind:
        return [expr]
    return [*_flatten(kind, expr.a), *_flatten(kind, expr.b)]  # type: ignore[attr-defined]


def _junction(self: LogicContext, expr: Any) -> Expr:
    """And, Or: every part is simplified where the others leave it open."""
    kind: type[Expr] = type(expr)
    if expr.dtype.lanes > 1:
        return self.finish(rebuild(expr, [self.simplify(expr.a), self.simplify(expr.b)]))
    parts = _flatten(kind, expr)
    holds = kind is And  # a part matters only where the earlier ones all hold (or all fail)
    neutral, absorbing = (TRUE, FALSE) if holds else (FALSE, TRUE)
    kept: list[Expr] = []
    for part in parts:
        simple = self.simplify(part)
        for piece in _flatten(kind, simple):
            reduced = _under_all(self, kept, piece, holds) if kept else piece
            if reduced is absorbing and all(is_pure(k) for k in kept):
                return absorbing
            if reduced is not neutral:
                kept.extend(_flatten(kind, reduced))
    kept = _without_implied(self, kept, neutral, absorbing)
    if not kept:
        return neutral
    result = kept[0]
    for part in kept[1:]:
        result = kind(result, part)  # type: ignore[call-arg]
    return self.known(result)


def _without_implied(
    self: LogicContext, kept: list[Expr], neutral: Expr, absorbing: Expr
) -> list[Expr]:
    """The parts that later ones do not make needless."""
    if len(kept) < 2 or len(kept) > MAX_JUNCTION:
        return kept
    for i in range(len(kept) - 2, -1, -1):
        if not is_pure(kept[i]):
            continue
        reduced = _under_all(self, kept[:i] + kept[i + 1 :], kept[i], neutral is TRUE)
        if reduced is neutral:
            kept = _without(self, kept, i, neutral)
        elif reduced is absorbing and all(is_pure(k) for k in kept):
            return [absorbing]
    return kept


def _without(self: LogicContext, kept: list[Expr], i: int, neutral: Expr) -> list[Expr]:
    """The parts without one that others imply, unless it guards what may fail where it does not
    hold: that has to stay behind what implies it."""
    before, after = kept[:i], kept[i + 1 :]
    first = next((k for k, part in enumerate(after) if not is_total(part)), len(after))
    safe, rest = after[:first], after[first:]
    ahead = [part for part in rest if is_total(part)]
    for moved in ([], ahead):
        guards = before + safe + moved
        if not rest or (guards and _under_all(self, guards, kept[i], neutral is TRUE) is neutral):
            return guards + [part for part in rest if not any(part is other for other in moved)]
    return kept


def _under_all(self: LogicContext, conditions: list[Expr], expr: Expr, holds: bool) -> Expr:
    if len(conditions) > MAX_JUNCTION:
        return expr
    kind = And if holds else Or
    joined = conditions[0]
    for condition in conditions[1:]:
        joined = kind(joined, condition)
    return self.under(joined, expr, holds)


def _not(self: LogicContext, expr: Any) -> Expr:
    inner = self.simplify(expr.a)
    result = negation(inner) if expr.dtype.lanes == 1 else rebuild(expr, [inner])
    return self.known(result) if isinstance(result, Not) else self.simplify(result)


def _choice(self: LogicContext, expr: Expr, condition: Expr, yes: Expr, no: Expr) -> Expr:
    """`Select` and `if_then_else`: each side is simplified under its condition."""
    condition = self.simplify(condition)
    if isinstance(condition, IntImm):
        return self.simplify(yes if condition.value else no)
    if condition.dtype.lanes != 1 or (isinstance(expr, Select) and has_load(expr)):
        # Both sides of a Select may be evaluated: its condition must not shape an address.
        yes, no = self.simplify(yes), self.simplify(no)
    else:
        yes, no = self.under(condition, yes), self.under(condition, no, False)
    if yes is no and is_pure(condition):
        return yes
    if isinstance(condition, Not):
        condition, yes, no = condition.a, no, yes
    return self.finish(expr.with_children([condition, yes, no]))


def _call(self: LogicContext, expr: Any) -> Expr:
    if expr.op == "tir.if_then_else":
        return _choice(self, expr, *expr.args)
    old = expr.args
    new = [self.simplify(arg) for arg in old]
    if expr.op == "tir.likely" and isinstance(new[0], IntImm):
        return new[0]
    if any(a is not b for a, b in zip(new, old, strict=True)):
        expr = expr.with_children(new)
    return self.finish(expr)


def _let(self: LogicContext, expr: Any) -> Expr:
    value = self.simplify(expr.value)
    if isinstance(value, (IntImm, FloatImm, Var)):
        return self.simplify(substitute(expr.body, {expr.var: value}))
    return self.finish(expr.with_children([value, self.simplify(expr.body)]))


def _variable(self: LogicContext, expr: Any) -> Expr:
    value = self.value_of(expr)
    return self.known(expr) if value is None else self.simplify(value)


LOGIC: dict[type[Expr], Callable[[Any, Any], Expr]] = {
    And: _junction,
    Or: _junction,
    Not: _not,
    Select: lambda self, e: _choice(self, e, e.condition, e.true_value, e.false_value),
    Call: _call,
    Let: _let,
    Var: _variable,
}
