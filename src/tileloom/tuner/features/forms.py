"""Indices in terms of the loops around them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ...expr import Add, Expr, FloorDiv, FloorMod, IntImm, Mul, Sub, Var, free_vars, substitute
from ...expr.analyzer import Analyzer
from ...expr.bounds import BoundAnalyzer, ConstIntBound
from ...expr.linear import atom, constant
from ...lower.analysis.linear import linear
from .program import Form
from .quotients import expr_of, is_plain, joined, quotient, quotient_of_remainder, remainder


class Forms:
    """Sums for expressions, in which the variables of blocks are what they are bound to.

    Args:
        ranges: of all loops that there are so far.
        analyzer: makes what knows the ranges of all loops, for what is to be simplified.
    """

    def __init__(
        self, ranges: Mapping[Expr, ConstIntBound], analyzer: Callable[[], Analyzer]
    ) -> None:
        self.bounds = BoundAnalyzer(ranges)
        self._values: dict[Expr, Form] = {}
        self._written: dict[Expr, Expr] = {}
        self._make_analyzer = analyzer
        self._analyzer: Analyzer | None = None
        self._simplified: dict[Expr, Expr] = {}

    def bind(self, var: Var, value: Form, written: Expr | None = None) -> None:
        """Tell what a variable stands for from here on, and how that is written."""
        self._values[var] = value
        if written is not None:
            self._written[var] = written

    def written(self, expr: Expr) -> Expr:
        """What a variable is bound to, as it is written; the expression itself if it is none."""
        return self._written.get(expr, expr)

    def bind_number(self, var: Var, value: int) -> None:
        """Tell that a variable is a number."""
        self._values[var] = constant(var.dtype, value)

    def of(self, expr: Expr) -> Form:
        """The sum that an index is."""
        if isinstance(expr, Var):
            return self._values.get(expr) or atom(expr)
        terms: dict[Expr, int] = {}
        number = self._collect(expr, 1, terms)
        if 0 in terms.values():
            terms = {term: factor for term, factor in terms.items() if factor}
        total = Form(expr.dtype, terms, number)
        return total if is_plain(total) else joined(total)

    def _collect(self, expr: Expr, factor: int, terms: dict[Expr, int]) -> int:
        """Add the terms of a multiple of an index to others; the number in it."""
        kind = type(expr)
        if kind is IntImm:
            return expr.value * factor  # type: ignore[attr-defined,no-any-return]
        if kind is Add or kind is Sub:
            a, b = expr.children
            second = factor if kind is Add else -factor
            return self._collect(a, factor, terms) + self._collect(b, second, terms)
        if kind is Mul and isinstance(expr.b, IntImm):  # type: ignore[attr-defined]
            return self._collect(expr.a, factor * expr.b.value, terms)  # type: ignore[attr-defined]
        if isinstance(expr, Var):
            value = self._values.get(expr)
            if value is None:
                terms[expr] = terms.get(expr, 0) + factor
                return 0
        else:
            value = self._divided(expr)
        for term, inner in value.terms.items():
            terms[term] = terms.get(term, 0) + inner * factor
        return value.const * factor

    def _divided(self, expr: Expr) -> Form:
        """The sum that a quotient or remainder is."""
        match expr:
            case FloorDiv(FloorMod(a, IntImm() as modulus), IntImm() as divisor) if (
                modulus.value > 0 and divisor.value > 0
            ):
                return quotient_of_remainder(self.of(a), modulus.value, divisor.value, self.bounds)
            case FloorDiv(a, IntImm() as divisor) if divisor.value > 0:
                return quotient(self.of(a), divisor.value, self.bounds)
            case FloorMod(a, IntImm() as divisor) if divisor.value > 0:
                return remainder(self.of(a), divisor.value, self.bounds)
            case _:
                return linear(self.simplified(expr))

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
        return substitute(expr, {v: expr_of(values[v]) for v in free_vars(expr) if v in values})


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
