"""The statements of one scope of a script while it is parsed, and what names stand for."""

from __future__ import annotations

from ..base.late import TYPE_CHECKING
from ..expr import const
from ..tir import Evaluate, SeqStmt, Stmt, parts_of
from .syntax import ast

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    Wrap = Callable[[Stmt], Stmt]


class Frame:
    """The statements of one scope, and what is still waiting for its body."""

    def __init__(self) -> None:
        self.stmts: list[Stmt] = []
        self.pending: list[tuple[int, Wrap]] = []

    def close(self) -> Stmt:
        """All as one statement."""
        stmts = self.stmts
        for place, wrap in reversed(self.pending):
            stmts[place:] = [wrap(_sequence(stmts[place:]))]
        return _sequence(stmts)


def _sequence(stmts: Sequence[Stmt]) -> Stmt:
    """Exactly these statements, no-ops too."""
    flat: list[Stmt] = []
    for stmt in stmts:
        flat.extend(parts_of(stmt))
    if not flat:
        return Evaluate(const(0))
    return flat[0] if len(flat) == 1 else SeqStmt(tuple(flat))


def starred(targets: Sequence[ast.expr], values: Sequence[Any]) -> list[Any] | None:
    """A value for each target, a list for one with a star; None where they do not fit."""
    stars = [k for k, target in enumerate(targets) if isinstance(target, ast.Starred)]
    if not stars:
        return list(values) if len(values) == len(targets) else None
    if len(stars) > 1 or len(values) < len(targets) - 1:
        return None
    before, after = stars[0], len(targets) - stars[0] - 1
    end = len(values) - after
    return [*values[:before], list(values[before:end]), *values[end:]]
