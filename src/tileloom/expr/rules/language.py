"""How rewrite rules are written, compiled and found.

A rule is a pattern, a result and a guard. Patterns and results are ordinary expressions over
wildcards, which say by their type what they match: `x, y, z` any integers of one type (which may
wrap around and may be vectors), `c1, c2` integer constants, `p, q` conditions, `f` a float and
`g` a float constant. The guard is a function whose parameter names say what it wants to see:
constants arrive as numbers, other wildcards as expressions, `facts` as the simplifier.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ...base import DType
from ..bounds import ConstIntBound
from ..build import binary, const, logical_not
from ..nodes import (
    BinaryOp,
    Broadcast,
    Cast,
    Div,
    Expr,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Mod,
    Not,
    Select,
    Var,
)

Bindings = dict[Var, Expr]
Matcher = Callable[[Expr, Bindings], bool]


class RuleContext(Protocol):
    """What guards may ask."""

    def bound_of(self, expr: Expr) -> ConstIntBound:
        """Constant bounds of an expression."""


class Wild(Var):
    """Stands for any expression of its kind: integers, conditions (bool) or floats."""

    __slots__ = ()

    def fits(self, expr: Expr) -> bool:
        """Whether the expression is of the kind."""
        mine, kind = self.dtype, expr.dtype
        return kind.is_int if mine.is_int else kind.is_bool if mine.is_bool else kind.is_float


class WildConstant(Wild):
    """Stands for a constant of its kind, or a vector of one constant."""

    __slots__ = ()

    def fits(self, expr: Expr) -> bool:
        """Whether the expression is such a constant."""
        value = expr.value if isinstance(expr, Broadcast) else expr
        return isinstance(value, (IntImm, FloatImm)) and super().fits(expr)


x, y, z = Wild("x"), Wild("y"), Wild("z")
c1, c2 = WildConstant("c1"), WildConstant("c2")
p, q = Wild("p", "bool"), Wild("q", "bool")
f = Wild("f", "float32")
g = WildConstant("g", "float32")
yes, no = const(True), const(False)
zero, one = const(0), const(1)


def number(value: Expr) -> Any:
    """The value of a constant, or of every lane of a vector of it."""
    return (value.value if isinstance(value, Broadcast) else value).value  # type: ignore[attr-defined]


class RewriteRule:
    """`pattern` becomes `result` where the guard holds."""

    __slots__ = ("_match", "asks", "guard", "pattern", "result")

    def __init__(self, pattern: Expr, result: Expr, guard: Callable[..., bool] | None) -> None:
        self.pattern = pattern
        self.result = result
        self.guard = guard
        code = None if guard is None else guard.__code__
        self.asks = () if code is None else code.co_varnames[: code.co_argcount]
        self._match: Matcher | None = None

    @property
    def match(self) -> Matcher:
        """A function that matches the pattern and binds its wildcards."""
        if self._match is None:  # compiled when it is first tried: most rules are for rare nodes
            self._match = compile_pattern(self.pattern)
        return self._match

    def rewrite(self, expr: Expr, facts: RuleContext) -> Expr | None:
        """The result for an expression, or None if the rule does not fit."""
        found: Bindings = {}
        if not self.match(expr, found):
            return None
        if self.guard is not None and not self.guard(**self._answers(found, facts)):
            return None
        return instantiate(self.result, found, expr)

    def _answers(self, found: Bindings, facts: RuleContext) -> dict[str, Any]:
        named: dict[str, Any] = {
            wild.name: number(value) if isinstance(wild, WildConstant) else value
            for wild, value in found.items()
        }
        named["facts"] = facts
        return {name: named[name] for name in self.asks}

    def __str__(self) -> str:
        return f"{self.pattern}  ->  {self.result}"


def rule(
    pattern: Expr, result: Expr, guard: Callable[..., bool] | None = None
) -> list[RewriteRule]:
    """The rule, once for every order of the operands of commutative operators in the pattern."""
    return [RewriteRule(order, result, guard) for order in orders(pattern)]


def table(*rules: list[RewriteRule]) -> tuple[RewriteRule, ...]:
    """The rules of one family, in the order in which they are tried."""
    return tuple(itertools.chain.from_iterable(rules))


def orders(pattern: Expr) -> list[Expr]:
    """The pattern with the operands of commutative operators in either order."""
    if isinstance(pattern, Var) or not pattern.children:
        return [pattern]
    variants: dict[Expr, None] = {}
    for children in itertools.product(*map(orders, pattern.children)):
        variants[pattern.with_children(children)] = None
        if isinstance(pattern, BinaryOp) and pattern.commutative:
            variants[pattern.with_children(children[::-1])] = None
    return list(variants)


# ---------------------------------------------------------------------------- compilation


def compile_pattern(pattern: Expr) -> Matcher:
    """A function that matches the pattern and binds its wildcards."""
    if isinstance(pattern, Wild):
        return _wild_matcher(pattern)
    if isinstance(pattern, IntImm):
        value = pattern.value
        if pattern.dtype.is_bool:  # a truth value is not the number one
            return lambda expr, _: expr is pattern
        return lambda expr, _: isinstance(expr, IntImm) and expr.value == value
    kind, parts = type(pattern), [compile_pattern(child) for child in pattern.children]
    if len(parts) == 2:
        first, second = parts

        def match_two(expr: Expr, found: Bindings) -> bool:
            if type(expr) is not kind:
                return False
            a, b = expr.children
            return first(a, found) and second(b, found)

        return match_two

    def match_all(expr: Expr, found: Bindings) -> bool:
        return type(expr) is kind and all(
            part(child, found) for part, child in zip(parts, expr.children, strict=True)
        )

    return match_all


def _wild_matcher(wild: Wild) -> Matcher:
    def match(expr: Expr, found: Bindings) -> bool:
        known = found.get(wild)
        if known is not None:
            return known is expr
        found[wild] = expr
        return wild.fits(expr)

    return match


def instantiate(template: Expr, found: Bindings, original: Expr) -> Expr:
    """The template over what the wildcards stand for; its constants take the matched type."""
    integers = next((e.dtype for w, e in found.items() if w.dtype.is_int), original.dtype)
    return _instantiate(template, found, integers, original.dtype.lanes)


def _instantiate(template: Expr, found: Bindings, integers: DType, lanes: int) -> Expr:
    if isinstance(template, Wild):
        return found[template]
    if isinstance(template, IntImm):
        kind = template.dtype.with_lanes(lanes) if template.dtype.is_bool else integers
        return const(template.value, kind)
    children = [_instantiate(child, found, integers, lanes) for child in template.children]
    if isinstance(template, BinaryOp):
        a, b = children
        if type(template) in (Div, Mod, FloorDiv, FloorMod) and isinstance(b, IntImm):
            return type(template)(a, b)
        return _fold_lanes(type(template), a, b)
    if isinstance(template, Not):
        return logical_not(children[0])
    if isinstance(template, Cast):
        return Cast(integers, children[0])
    if isinstance(template, Select):
        return Select(*children)
    return template.with_children(children)


def _fold_lanes(kind: type[BinaryOp], a: Expr, b: Expr) -> Expr:
    """The operation, once for vectors of one value."""
    if isinstance(a, Broadcast) and isinstance(b, Broadcast) and a.lanes == b.lanes:
        return Broadcast(binary(kind, a.value, b.value), a.lanes)
    return binary(kind, a, b)


# ---------------------------------------------------------------------------- dispatch


class Dispatch:
    """The rules that can match a node, found by the classes of the node and its first children."""

    def __init__(self, rules: Sequence[RewriteRule]) -> None:
        self._rules: dict[type[Expr], list[RewriteRule]] = {}
        for rule in rules:
            self._rules.setdefault(type(rule.pattern), []).append(rule)
        self._cache: dict[tuple[type[Expr], ...], tuple[RewriteRule, ...]] = {}

    def candidates(self, expr: Expr) -> tuple[RewriteRule, ...]:
        """The rules worth trying, in order."""
        children = expr.children
        key = (type(expr), *map(type, children[:2]))
        found = self._cache.get(key)
        if found is None:
            rules = self._rules.get(type(expr), ())
            found = tuple([rule for rule in rules if _can_match(rule.pattern, key[1:])])
            self._cache[key] = found
        return found


def _can_match(pattern: Expr, children: tuple[type[Expr], ...]) -> bool:
    return all(_class_fits(part, kind) for part, kind in zip(pattern.children, children))


def _class_fits(part: Expr, kind: type[Expr]) -> bool:
    if isinstance(part, WildConstant):
        return kind in (IntImm, FloatImm, Broadcast)
    return isinstance(part, Wild) or type(part) is kind
