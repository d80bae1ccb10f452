"""`tvm.tir.stmt_functor`: visiting and rewriting programs with Python functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from .... import expr, tir
from ....expr import Expr, Range, Var, as_expr
from ....tir import Stmt, StmtRewriter, stmt_children, stmt_exprs
from .._names import missing


def _children(node: Any) -> Iterator[Any]:
    """What stands directly below, expressions first."""
    if isinstance(node, Expr):
        yield from node.children
    elif isinstance(node, Stmt):
        yield from stmt_exprs(node)
        yield from stmt_children(node)
    else:
        yield node.body


def post_order_visit(stmt: Any, fvisit: Callable[[Any], Any]) -> None:
    """Call `fvisit` on every statement and expression, what is below first, shared nodes once."""
    seen: set[int] = set()
    stack = [(stmt, False)]
    while stack:
        node, done = stack.pop()
        if done:
            fvisit(node)
        elif id(node) not in seen:
            seen.add(id(node))
            stack.append((node, True))
            stack.extend((child, False) for child in reversed(list(_children(node))))


def pre_order_visit(stmt: Any, fvisit: Callable[[Any], bool]) -> None:
    """Call `fvisit` on every node before what is below; where it answers False, skip that."""
    seen: set[int] = set()
    stack = [stmt]
    while stack:
        node = stack.pop()
        if id(node) not in seen:
            seen.add(id(node))
            if fvisit(node):
                stack.extend(reversed(list(_children(node))))


def substitute(node: Any, vmap: Mapping[Var, Any]) -> Any:
    """An expression, statement, range or buffer region with variables replaced."""
    values = {var: as_expr(value, var.dtype) for var, value in vmap.items()}
    match node:
        case Expr():
            return expr.substitute(node, values)
        case Range():
            return Range(expr.substitute(node.min, values), expr.substitute(node.extent, values))
        case tir.BufferRegion():
            return tir.BufferRegion(
                node.buffer, tuple(substitute(part, values) for part in node.region)
            )
        case _:
            return tir.substitute_stmt(node, values)


def ir_transform(
    stmt: Any,
    preorder: Callable[[Any], Any] | None,
    postorder: Callable[[Any], Any] | None,
    only_enable: Sequence[str] | None = None,
) -> Any:
    """Rewrite what the two functions choose.

    Args:
        stmt: a statement or an expression.
        preorder: called before what is below is visited; what it returns, unless None, stands.
        postorder: called on the rebuilt node; what it returns, unless None, takes its place.
        only_enable: the nodes to call them on, such as `["tir.For", "tir.Call"]`; all if None.
    """
    names = None if only_enable is None else {n.rpartition(".")[2] for n in only_enable}
    transform = _Transform(preorder, postorder, names)
    return transform.visit_expr(stmt) if isinstance(stmt, Expr) else transform.visit(stmt)


class _Transform(StmtRewriter):
    def __init__(self, preorder: Any, postorder: Any, names: set[str] | None) -> None:
        self.preorder, self.postorder, self.names = preorder, postorder, names

    def visit(self, stmt: Stmt) -> Stmt:
        return self._around(stmt, super().visit)  # type: ignore[no-any-return]

    def visit_expr(self, expr: Expr) -> Expr:
        return self._around(expr, self._rebuilt)  # type: ignore[no-any-return]

    def _rebuilt(self, node: Expr) -> Expr:
        return node.with_children([self.visit_expr(child) for child in node.children])

    def _around(self, node: Any, below: Callable[[Any], Any]) -> Any:
        if self.names is not None and type(node).__name__ not in self.names:
            return below(node)
        before = None if self.preorder is None else self.preorder(node)
        if before is not None:
            return before
        node = below(node)
        after = None if self.postorder is None else self.postorder(node)
        return node if after is None else after


__getattr__ = missing(__name__)
