"""Indices in terms of the loops around them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ...expr import Expr, IntImm, Var, free_vars, substitute
from ...expr.analyzer import Analyzer
from ...expr.linear import atom, constant
from ...lower.analysis.linear import linear
from .program import Form


class Forms:
    """Sums for expressions, in which the variables of blocks are what they are bound to.

    Args:
        analyzer: makes what knows the ranges of all loops, for what is to be simplified.
    """

    def __init__(self, analyzer: Callable[[], Analyzer]) -> None:
        self._values: dict[Expr, Form] = {}
        self._make_analyzer = analyzer
        self._analyzer: Analyzer | None = None
        self._simplified: dict[Expr, Expr] = {}

    def bind(self, var: Var, value: Form) -> None:
        """Tell what a variable stands for from here on."""
        self._values[var] = value

    def bind_number(self, var: Var, value: int) -> None:
        """Tell that a variable is a number."""
        self._values[var] = constant(var.dtype, value)

    def of(self, expr: Expr) -> Form:
        """The sum that an index is."""
        if isinstance(expr, Var):
            return self._values.get(expr) or atom(expr)
        base = linear(expr)
        terms: dict[Expr, int] = {}
        number, odd = base.const, 0
        for term, factor in base.terms.items():
            if not isinstance(term, Var):
                return self._simple(expr)
            value = self._values.get(term)
            if value is None:
                terms[term] = terms.get(term, 0) + factor
                continue
            number += value.const * factor
            for part, inner in value.terms.items():
                odd += not isinstance(part, Var)
                terms[part] = terms.get(part, 0) + inner * factor
        if odd > 1 and len(base.terms) > 1:
            return self._simple(expr)  # quotients and remainders may become one term
        if 0 in terms.values():
            terms = {term: factor for term, factor in terms.items() if factor}
        return type(base)(base.dtype, terms, number)

    def all(self, exprs: Sequence[Expr]) -> list[Form]:
        """The sums of several indices."""
        return [self.of(expr) for expr in exprs]

    def simplified(self, expr: Expr) -> Expr:
        """An expression in terms of the loops, in its simplest form."""
        inner = self.in_loops(expr)
        known = self._simplified.get(inner)
        if known is None:
            if self._analyzer is None:
                self._analyzer = self._make_analyzer()
            known = self._simplified[inner] = self._analyzer.simplify(inner)
        return known

    def in_loops(self, expr: Expr) -> Expr:
        """An expression in terms of the loops."""
        values = self._values
        return substitute(expr, {v: values[v].expr for v in free_vars(expr) if v in values})

    def _simple(self, expr: Expr) -> Form:
        return linear(self.simplified(expr))


def known_number(value: object) -> int:
    """The number in an annotation; 0 for anything else."""
    if isinstance(value, IntImm):
        return value.value
    return int(value) if isinstance(value, int) else 0


def difference(value: Form, start: Mapping[Expr, int], offset: int) -> Form:
    """`value - start - offset`, where `start` is a sum of terms."""
    if not start:
        return value.shifted(-offset)
    terms = dict(value.terms)
    for term, factor in start.items():
        rest = terms.get(term, 0) - factor
        if rest:
            terms[term] = rest
        else:
            terms.pop(term, None)
    return Form(value.dtype, terms, value.const - offset)
