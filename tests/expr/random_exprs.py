"""Random expressions, and what "the same value" means, for the tests of the algebra.

Expressions are drawn from a seeded generator, which is far cheaper than composing strategies; the
seeds come from hypothesis.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from tileloom.base.errors import UserError
from tileloom.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Call,
    Cast,
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    Select,
    Sub,
    Var,
    evaluate,
)

ARITHMETIC = (Add, Add, Sub, Sub, Mul, FloorDiv, FloorMod, Div, Mod, Min, Max)
SCALING = (Mul, FloorDiv, FloorMod, Div, Mod)
COMPARISONS = (EQ, NE, LT, LE, GT, GE)


class Generator:
    """Random integer expressions and conditions over some variables of one type."""

    def __init__(
        self, seed: int, variables: Sequence[Var], numbers: tuple[int, ...] = (-9, 20)
    ) -> None:
        self.random = random.Random(seed)
        self.variables = variables
        self.dtype = variables[0].dtype
        self.numbers = numbers

    def integer(self, size: int = 6) -> Expr:
        """An integer expression of about `size` leaves."""
        pick = self.random
        if size <= 1:
            if pick.random() < 0.65:
                return pick.choice(self.variables)
            return self.number()
        kind = pick.random()
        if kind < 0.5:
            left = pick.randint(1, size - 1)
            return pick.choice(ARITHMETIC)(self.integer(left), self.integer(size - left))
        if kind < 0.8:
            return pick.choice(SCALING)(self.integer(size - 1), self.number((1, 12)))
        if kind < 0.85:
            return Cast(self.dtype, self.condition(size - 1))
        third = max(1, size // 3)
        args = self.condition(third), self.integer(third), self.integer(third)
        return Select(*args) if kind < 0.93 else Call(self.dtype, "tir.if_then_else", args)

    def number(self, numbers: tuple[int, ...] | None = None) -> Expr:
        """A constant."""
        return IntImm(self.dtype, self.random.randint(*(numbers or self.numbers)))

    def condition(self, size: int = 5) -> Expr:
        """A condition of about `size` leaves."""
        pick = self.random
        half = max(1, size // 2)
        kind = pick.random()
        if size < 3 or kind < 0.5:
            return pick.choice(COMPARISONS)(self.integer(half), self.integer(half))
        if kind < 0.6:
            return Not(self.condition(size - 1))
        return pick.choice((And, Or, And, Or, EQ, NE))(self.condition(half), self.condition(half))

    def either(self, size: int = 6) -> Expr:
        """An integer expression or a condition."""
        return self.integer(size) if self.random.random() < 0.6 else self.condition(size)

    def environments(
        self, ranges: Mapping[Var, tuple[int, ...]], count: int
    ) -> list[dict[Var, int]]:
        """Values of the variables, from inclusive ranges."""
        draw = self.random.randint
        return [{v: draw(*ranges[v]) for v in self.variables} for _ in range(count)]


def value_or_none(expr: Expr, env: dict[Any, Any]) -> Any:
    """The value, or None where it is undefined (division by zero)."""
    try:
        return evaluate(expr, env)
    except UserError:
        return None
