"""The accesses inside a statement, with what must hold for each to be carried out."""

from __future__ import annotations

from collections.abc import Iterable

from ...expr import And, Call, Expr, Let, Or, Select, has_load, logical_not, substitute
from ...tir import Block, BufferLoad, BufferStore, Stmt, stmt_exprs
from ..common import ADDRESS_OF

#: An expression is looked at under so many different conditions at most.
MOST_WAYS = 64

Access = BufferLoad | BufferStore
#: An access, and the conditions under which it is carried out.
Guarded = tuple[Access, tuple[Expr, ...]]


def accesses_of(stmt: Stmt) -> list[Guarded]:
    """The accesses of a statement itself, those of its sub-statements left out.

    Each comes with the conditions of the choices around it (`if_then_else`, `Select`, the first
    operands of `and` and `or`). What an index is made of comes before what it is the index of. The
    operand of `address_of` is no access.
    """
    if isinstance(stmt, Block):  # its regions are said, not read
        return []
    found = accesses_in(stmt_exprs(stmt))
    if isinstance(stmt, BufferStore):
        found.append((stmt, ()))
    return found


def accesses_in(exprs: Iterable[Expr]) -> list[Guarded]:
    """The loads inside expressions, once for each set of conditions that says something new."""
    walk = _Walk()
    for expr in exprs:
        walk.visit(expr, ())
    return walk.found


class _Walk:
    def __init__(self) -> None:
        self.found: list[Guarded] = []
        self.seen: dict[Expr, list[frozenset[Expr]]] = {}

    def visit(self, expr: Expr, guards: tuple[Expr, ...]) -> None:
        if not has_load(expr):
            return
        now, seen = frozenset(guards), self.seen.setdefault(expr, [])
        # What is carried out under fewer conditions is known already. Choices between expressions
        # that share their parts are walked in as many ways as there are paths without that.
        if len(seen) >= MOST_WAYS or any(before <= now for before in seen):
            return
        seen.append(now)
        for part, inner in _parts(expr, guards):
            self.visit(part, inner)
        if isinstance(expr, BufferLoad):
            self.found.append((expr, guards))


def _parts(expr: Expr, guards: tuple[Expr, ...]) -> Iterable[tuple[Expr, tuple[Expr, ...]]]:
    """What an expression is made of, with the conditions under which each is evaluated."""
    match expr:
        case Select() | Call(op="tir.if_then_else"):
            condition, yes, no = expr.children
            return (
                (condition, guards),
                (yes, (*guards, condition)),
                (no, (*guards, logical_not(condition))),
            )
        case And(a, b):
            return (a, guards), (b, (*guards, a))
        case Or(a, b):
            return (a, guards), (b, (*guards, logical_not(a)))
        case Let(var, value, body):
            return (value, guards), (substitute(body, {var: value}), guards)
        case Call(op=op, args=args) if op == ADDRESS_OF:
            return [(child, guards) for arg in args for child in arg.children]
        case _:
            return [(child, guards) for child in expr.children]
