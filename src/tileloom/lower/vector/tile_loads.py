"""What a tile of two loops loads: in vectors along the outer loop, where the program would."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...expr import (
    Add,
    And,
    Call,
    Cast,
    Expr,
    Mul,
    Ramp,
    Var,
    binary,
    broadcast_to,
    conjunction,
    const,
    free_vars,
)
from ...expr.dot_ops import WORD
from ...tir import Buffer, BufferLoad, Stmt, pre_order, stmt_exprs
from ..analysis.conditions import negate
from ..analysis.linear import linear
from ..common import IF_THEN_ELSE, Replacer, conjuncts, unlikely_free
from .body import CannotVectorize, Vectorizer
from .words import loaded_word, word_load

_Conditions = tuple[Expr, ...]


@dataclass(frozen=True)
class TileLoad:
    """A load, or a word that is loaded.

    Attributes:
        value: what is loaded in one iteration.
        loads: the elements; only the first one of a word of neighbours.
        parts: how many neighbours each of them stands for.
        conditions: those under which the program loads it.
    """

    value: Expr
    loads: tuple[BufferLoad, ...]
    parts: int
    conditions: _Conditions

    @property
    def buffers(self) -> set[Buffer]:
        """What it reads."""
        return {load.buffer for load in self.loads}

    def is_transposed(self, outer: Var, inner: Var) -> bool:
        """Whether it walks along the outer loop, and in longer steps along the inner one."""
        return all(self._walks(load, outer, inner) for load in self.loads)

    def _walks(self, load: BufferLoad, outer: Var, inner: Var) -> bool:
        terms = linear(load.indices[0]).terms
        own = {outer, inner}
        moving = [atom for atom in terms if atom not in own and not own.isdisjoint(free_vars(atom))]
        if any(outer in free_vars(atom) or not _is_multiple(atom, inner) for atom in moving):
            return False
        far = bool(moving) or terms.get(inner, 0) not in (0, self.parts)
        return terms.get(outer, 0) == self.parts and far

    def vector(self, outer: Var, row: Expr, at: Mapping[Var, Expr], lanes: int) -> Expr:
        """What iterations `row`, `row + 1`, ... of the outer loop load, at a place of others."""
        lane = Var("lane", row.dtype)
        ramp = Ramp(const(0, row.dtype), const(1, row.dtype), lanes)
        along = {**at, outer: binary(Add, row, lane)}
        scalars, mask = [], None
        for condition in self.conditions:
            value = Vectorizer(lane, ramp).expr(Replacer(along, {}).visit_expr(condition))
            if value.dtype.lanes == 1:
                scalars.append(value)
            else:
                mask = value if mask is None else And(mask, value)
        places = [
            Replacer({**at, outer: row}, {}).visit_expr(load.indices[0]) for load in self.loads
        ]
        vectors = [
            self._load(load.buffer, place, lanes, mask)
            for load, place in zip(self.loads, places, strict=True)
        ]
        kind = self.value.dtype.with_lanes(lanes)
        value = vectors[0] if len(vectors) == 1 else Call(kind, WORD, vectors)
        if not scalars:
            return value
        zeros = broadcast_to(const(0, self.value.dtype), lanes)
        return Call(kind, IF_THEN_ELSE, (conjunction(scalars), value, zeros))

    def _load(self, buffer: Buffer, place: Expr, lanes: int, mask: Expr | None) -> Expr:
        if self.parts > 1:
            return word_load(buffer, place, self.parts, lanes, mask)
        return BufferLoad(buffer, (Ramp(place, const(1, place.dtype), lanes),), mask)


def _is_multiple(atom: Expr, var: Var) -> bool:
    """Whether it is a variable times what does not depend on it."""
    if not isinstance(atom, Mul):
        return atom is var or (isinstance(atom, Cast) and _is_multiple(atom.value, var))
    moving = [factor for factor in (atom.a, atom.b) if var in free_vars(factor)]
    return len(moving) == 1 and _is_multiple(moving[0], var)


def find_loads(body: Stmt) -> list[TileLoad]:
    """What a body without branches loads.

    Raises:
        CannotVectorize: something is loaded under one condition or under another.
    """
    finder = _Finder()
    for stmt in pre_order(body):
        for expr in stmt_exprs(stmt):
            finder.visit(expr, ())
    return [_load_of(value, conditions) for value, conditions in finder.found.items()]


class _Finder:
    def __init__(self) -> None:
        self.found: dict[Expr, _Conditions] = {}
        self.seen: set[tuple[Expr, _Conditions]] = set()

    def visit(self, expr: Expr, conditions: _Conditions) -> None:
        """Note the loads of an expression that is evaluated under conditions."""
        if (expr, conditions) in self.seen or not expr.children:
            return
        self.seen.add((expr, conditions))
        if isinstance(expr, Call) and expr.op == IF_THEN_ELSE:
            condition, yes, no = expr.args
            self.visit(condition, conditions)
            parts = tuple(map(unlikely_free, conjuncts(condition)))
            self.visit(yes, (*conditions, *parts))
            self.visit(no, (*conditions, negate(conjunction(parts))))
            return
        plain = isinstance(expr, BufferLoad) and expr.predicate is None
        if plain or _is_word(expr):
            self._note(expr, conditions)
        if not _is_word(expr):
            for child in expr.children:
                self.visit(child, conditions)

    def _note(self, value: Expr, conditions: _Conditions) -> None:
        known = self.found.setdefault(value, conditions)
        fewer, more = sorted((known, conditions), key=len)
        if not set(fewer) <= set(more):
            raise CannotVectorize(f"{value} is loaded under several conditions")
        self.found[value] = fewer


def _is_word(expr: Expr) -> bool:
    """Whether it is a word of what is loaded."""
    return (
        isinstance(expr, Call)
        and expr.op == WORD
        and all(isinstance(part, BufferLoad) and part.predicate is None for part in expr.args)
    )


def _load_of(value: Expr, conditions: _Conditions) -> TileLoad:
    first = loaded_word(value)
    loads: Sequence[Expr] = (value,) if isinstance(value, BufferLoad) else value.children
    if first is not None:
        return TileLoad(value, (first,), len(value.children), conditions)
    return TileLoad(value, tuple(n for n in loads if isinstance(n, BufferLoad)), 1, conditions)
