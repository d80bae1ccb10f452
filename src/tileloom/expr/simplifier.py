"""The simplifier: canonical sums for index arithmetic, rule tables for everything else.

One simplifier works under one set of facts and memoises every node it meets. An index expression
(`int32` or wider, signed, scalar) is brought into a `Linear` sum of canonical terms; other nodes
get simplified children and then the rules of their class.
"""

from __future__ import annotations

from math import gcd
from operator import is_not
from typing import Any

from . import canonical, compare
from .arithmetic import LINEAR
from .assume import assume
from .bounds import BoundAnalyzer, ConstIntBound, is_index
from .facts import Facts, Prover, interval
from .linear import Linear, atom, constant
from .logic import LOGIC
from .modular import ModularAnalyzer, ModularSet, modular
from .nodes import CompareOp, Expr, FloatImm, IntImm, Max, Min, Var
from .rebuild import is_pure, rebuild
from .rules import apply_rules
from .walk import free_vars


class Impure(Exception):
    """A call with side effects is in an index sum, where terms are merged and dropped freely."""


class Simplifier:
    """Simplification under fixed facts."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.bounds = BoundAnalyzer(facts.bounds)
        self.moduli = ModularAnalyzer(facts.modular)
        self._prover = Prover(self.bounds, facts)
        self._plain = not facts.sums
        self.knows_moduli = bool(facts.modular)
        self._simple: dict[Expr, Expr] = {}
        self._linear: dict[Expr, Linear] = {}

    # ------------------------------------------------------------------ questions

    def bound(self, value: Linear) -> ConstIntBound:
        """Constant bounds of a sum."""
        if self._plain:
            for term in value.terms:
                if type(term) is Min or type(term) is Max:
                    break
            else:
                return interval(self.bounds, value)
        return self._prover.bound(value, self.linear)

    def bound_of(self, expr: Expr) -> ConstIntBound:
        """Constant bounds of an expression as it stands."""
        return self.bounds.of(expr)

    def value_of(self, var: Var) -> Expr | None:
        """The expression that the variable stands for, if it was told."""
        return self.facts.values.get(var)

    def apply_rules(self, expr: Expr) -> Expr | None:
        """What the first rule that fits makes of the node, or None."""
        return apply_rules(expr, self)

    def remainders(self, value: Linear) -> ModularSet:
        """The modular set of a sum."""
        result = ModularSet(0, value.const)
        for term, k in value.terms.items():
            part = self.moduli.of(term)
            result = modular(gcd(result.coeff, part.coeff * k), result.base + part.base * k)
        return result

    def combine(self, a: Linear, b: Linear, factor: int = 1) -> Linear:
        """`a + factor * b` in canonical form."""
        return canonical.combine(self, a, b, factor)

    # ------------------------------------------------------------------ the two forms

    def simplify(self, expr: Expr) -> Expr:
        """The simplest known form of `expr`."""
        found = self._simple.get(expr)
        if found is None:
            kind = expr.dtype
            try:
                if kind.lanes == 1 and is_index(kind):
                    found = self.linear(expr).expr
                else:
                    found = self._generic(expr)
            except Impure:
                found = self.with_simple_children(expr)
            self._simple[expr] = found
        return found

    def linear(self, expr: Expr) -> Linear:
        """The canonical sum of an index expression."""
        found = self._linear.get(expr)
        if found is None:
            rule = LINEAR.get(type(expr))
            found = self.opaque(expr) if rule is None else rule(self, expr)
            self._linear[expr] = found
            # A canonical term is its own sum, however it came about.
            for term in found.terms:
                if term not in self._linear:
                    self._linear[term] = atom(term)
        return found

    def opaque(self, expr: Expr) -> Linear:
        """Of a node that is no arithmetic: its own simplification, then a term or a sum."""
        simple = self._generic(expr)
        if not is_pure(simple):
            raise Impure
        if simple is not expr and type(simple) in LINEAR:
            return self.linear(simple)
        least, most = self.bounds.of(simple)
        return constant(expr.dtype, least) if least == most else atom(simple)

    def _generic(self, expr: Expr) -> Expr:
        rule = LOGIC.get(type(expr))
        if rule is not None:
            return rule(self, expr)
        if isinstance(expr, CompareOp):
            return self._compare(expr)
        return self.finish(self.with_simple_children(expr))

    def with_simple_children(self, expr: Expr) -> Expr:
        """`expr` rebuilt over simplified children, constants folded."""
        old = expr.children
        if not old:
            return expr
        new = [self.simplify(child) for child in old]
        return rebuild(expr, new) if any(map(is_not, new, old)) else expr

    def finish(self, expr: Expr) -> Expr:
        """`expr`, whose children are simple, after the rules of its class."""
        if not is_pure(expr):
            return expr
        changed = apply_rules(expr, self)
        if changed is not None and changed is not expr:
            return self.simplify(changed)
        if expr.dtype.lanes == 1 and expr.children and (expr.dtype.is_int or expr.dtype.is_bool):
            least, most = self.bounds.of(expr)
            if least == most:
                return IntImm(expr.dtype, least)
            coeff, base = self.moduli.of(expr)
            if coeff == 0:
                return IntImm(expr.dtype, base)
        return expr

    # ------------------------------------------------------------------ nodes

    def _compare(self, expr: Any) -> Expr:
        kind = expr.a.dtype
        if kind.lanes == 1 and is_index(kind):
            result = compare.compare(self, type(expr), self.linear(expr.a), self.linear(expr.b))
            return self.known(result)
        return self.known(self.finish(self.with_simple_children(expr)))

    def known(self, condition: Expr) -> Expr:
        """The condition, or its truth value where that was told."""
        known = self.facts.truths.get(condition)
        return condition if known is None else compare.truth(known)

    def under(self, condition: Expr, expr: Expr, holds: bool = True) -> Expr:
        """`expr` simplified where the simplified condition holds (or does not)."""
        if isinstance(expr, (IntImm, FloatImm)) or not share_terms(condition, expr):
            return self.simplify(expr)
        if not is_pure(condition):
            return self.simplify(expr)
        facts = self.facts.copy()
        assume(self, facts, condition, holds)
        return Simplifier(facts).simplify(expr)


def share_terms(condition: Expr, expr: Expr) -> bool:
    """Whether knowing the condition can say anything about the expression."""
    return not free_vars(condition).isdisjoint(free_vars(expr))
