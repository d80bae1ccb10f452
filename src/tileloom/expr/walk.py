"""Visiting and rewriting expressions. Shared sub-expressions are visited once."""

from __future__ import annotations

from operator import is_not

from ..base.late import TYPE_CHECKING
from .nodes import Expr, IntImm, Let, Var
from .reduction import Reduce

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping


def post_order(expr: Expr) -> Iterator[Expr]:
    """Every distinct sub-expression, children before parents.

    >>> x = Var("x"); [str(e) for e in post_order((x + 1) * (x + 1))]
    ['x', '1', 'x + 1', '(x + 1) * (x + 1)']
    """
    seen: set[Expr] = set()
    stack: list[Expr | None] = [expr]  # after a None comes a node whose children are done
    while stack:
        node = stack.pop()
        if node is None:
            yield stack.pop()  # type: ignore[misc]
        elif node not in seen:
            seen.add(node)
            children = node.children
            if children:
                stack += (node, None, *children[::-1])
            else:
                yield node


def rewrite(expr: Expr, rule: Callable[[Expr], Expr | None]) -> Expr:
    """`expr` with `rule` applied bottom-up once; the rule answers None to leave a node."""
    return _rewrite(expr, rule, {})


def _rewrite(expr: Expr, rule: Callable[[Expr], Expr | None], done: dict[Expr, Expr]) -> Expr:
    known = done.get(expr)
    if known is not None:
        return known
    children = expr.children
    result = expr
    if children:
        new = tuple([_rewrite(child, rule, done) for child in children])
        if any(map(is_not, new, children)):
            result = expr.with_children(new)
    changed = rule(result)
    if changed is not None:
        result = changed
    done[expr] = result
    return result


def free_vars(expr: Expr) -> frozenset[Var]:
    """The variables of `expr` that it does not bind itself (memoised)."""
    if isinstance(expr, Var):  # not memoised: it would hold itself, a cycle
        return frozenset((expr,))
    memo = expr.memo
    known = memo.get("free_vars")
    if known is not None:
        return known  # type: ignore[no-any-return]
    result: frozenset[Var] = frozenset().union(*[free_vars(child) for child in expr.children])
    if isinstance(expr, Let):
        result = free_vars(expr.value) | (free_vars(expr.body) - {expr.var})
    elif isinstance(expr, Reduce):
        result -= {axis.var for axis in expr.axis}
    memo["free_vars"] = result
    return result


def free_vars_of(exprs: Iterable[Expr]) -> frozenset[Var]:
    """The variables of all of them."""
    return frozenset().union(*map(free_vars, exprs))


def substitute(expr: Expr, values: Mapping[Var, Expr]) -> Expr:
    """`expr` with variables replaced, without simplification.

    >>> x, y = Var("x"), Var("y"); substitute(x * 2, {x: y + 1})
    (y + 1) * 2
    """
    if not values or type(expr) is IntImm:
        return expr
    return _substitute(expr, values, {})


def _substitute(expr: Expr, values: Mapping[Var, Expr], done: dict[Expr, Expr]) -> Expr:
    if isinstance(expr, Var):
        return values.get(expr, expr)
    children = expr.children
    if not children:
        return expr
    known = done.get(expr)
    if known is not None:
        return known
    result = expr
    if not free_vars(expr).isdisjoint(values):
        new = tuple([_substitute(child, values, done) for child in children])
        if any(map(is_not, new, children)):
            result = expr.with_children(new)
    done[expr] = result
    return result
