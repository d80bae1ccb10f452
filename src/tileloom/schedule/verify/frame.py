"""Where the walk over a program stands: loops around, what holds there, what names mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ...expr import And, Expr, Var, substitute
from ..integer_sets import Space
from .model import BODY, Instance, LoopDim, Step


@dataclass(slots=True)
class Statement:
    """The loads of one statement are counted."""

    number: int
    loads: dict[Expr, int]


@dataclass(frozen=True, slots=True)
class Frame:
    """Where the walk stands."""

    dims: tuple[LoopDim, ...]
    space: Space
    domain: Any
    exact: bool
    path: tuple[Step, ...]
    values: Mapping[Var, Expr]
    place: Instance | None = None
    role: str = BODY
    lets: Mapping[Var, tuple[Expr, Statement]] = field(default_factory=dict)

    def at(self, position: int) -> Frame:
        """A place in a row of statements."""
        return replace(self, path=(*self.path, ("at", position)))

    def where(self, condition: Expr) -> Frame:
        """Only where a condition holds; where it may hold, if that cannot be said exactly."""
        match condition:
            case And(a, b):
                return self.where(a).where(b)
            case _:
                known = self.space.condition(condition)
                if known is None:
                    return replace(self, exact=False)
                return replace(self, domain=self.domain.intersect(known))

    def maybe(self) -> Frame:
        """What happens here may also not happen."""
        return replace(self, exact=False)

    def expr(self, expr: Expr) -> Expr:
        """An expression over the loops around."""
        return substitute(expr, self.values)
