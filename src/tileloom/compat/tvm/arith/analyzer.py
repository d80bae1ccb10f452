"""`tvm.arith.Analyzer`."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from enum import IntEnum
from typing import Any, ClassVar

from ....expr import Analyzer as _Analyzer
from ....expr import ConstIntBound as _ConstIntBound
from ....expr import Expr, ExprLike, Range, Var, as_expr
from ....expr import ModularSet as _ModularSet
from .._names import NodeType, missing
from .int_set import IntervalSet, from_interval, to_interval


class ProofStrength(IntEnum):
    """How hard to try; ours always tries all it can."""

    DEFAULT = 0
    SYMBOLIC_BOUND = 1


class Extension(IntEnum):
    """Optional rewritings of TVM's simplifier; accepted and without effect."""

    NoExtensions = 0
    TransitivelyProveInequalities = 1
    ConvertBooleanToAndOfOrs = 2
    ApplyConstraintsToBooleanBranches = 4
    ComparisonOfProductAndSum = 8


class ConstIntBound(metaclass=NodeType, node=_ConstIntBound):
    """Constant bounds, both included; the infinities of TVM are the ends of int64."""

    POS_INF: ClassVar[int] = (1 << 63) - 1
    NEG_INF: ClassVar[int] = -POS_INF

    @staticmethod
    def build(min_value: int, max_value: int) -> _ConstIntBound:
        """The bounds."""
        return _ConstIntBound(int(min_value), int(max_value))


class ModularSet(metaclass=NodeType, node=_ModularSet):
    """`coeff * k + base` for integers k."""

    @staticmethod
    def build(coeff: int, base: int) -> _ModularSet:
        """The set."""
        return _ModularSet(int(coeff), int(base))


class Analyzer:
    """Simplification and proofs under facts.

    >>> x = Var("x"); analyzer = Analyzer(); analyzer.bind(x, Range(0, 16))
    >>> analyzer.simplify((x * 4 + 3) // 4), analyzer.const_int_bound(x + 1).max_value
    (x, 16)
    """

    def __init__(self) -> None:
        self._known = _Analyzer()
        self.enabled_extensions = Extension.NoExtensions

    def bind(self, var: Var, expr: Any) -> None:
        """Tell that a variable lies in a range, or is an expression."""
        self._known.bind(var, expr)

    def update(self, var: Var, info: Any, override: bool = False) -> None:
        """Tell the constant bounds, the modular set or the interval of a variable."""
        known = _Analyzer() if override else self._known
        if isinstance(info, _ConstIntBound):
            known.bind_bound(var, info.min_value, info.max_value)
        elif isinstance(info, _ModularSet):
            known.bind_modular(var, info.coeff, info.base)
        elif isinstance(info, IntervalSet):
            known.bind(var, Range(info.min_value, info.max_value - info.min_value + 1))
        else:
            known.bind(var, info)
        self._known = known

    def constraint_scope(self, constraint: ExprLike) -> AbstractContextManager[None]:
        """A scope in which a condition holds."""
        return self._known.constraint(constraint)

    def simplify(self, expr: ExprLike, steps: int = 2) -> Expr:
        """The simplest known form."""
        return self._known.simplify(expr)

    def rewrite_simplify(self, expr: ExprLike) -> Expr:
        """The simplest known form: there is one simplifier."""
        return self._known.simplify(expr)

    def canonical_simplify(self, expr: ExprLike) -> Expr:
        """The simplest known form: there is one simplifier."""
        return self._known.simplify(expr)

    def can_prove(self, expr: ExprLike, strength: ProofStrength = ProofStrength.DEFAULT) -> bool:
        """Whether a condition always holds."""
        return self._known.can_prove(expr)

    def can_prove_equal(self, lhs: ExprLike, rhs: ExprLike) -> bool:
        """Whether both always have one value."""
        return self._known.can_prove_equal(lhs, rhs)

    def can_prove_greater_equal(self, expr: ExprLike, lower_bound: int) -> bool:
        """Whether the expression is never below a number."""
        return self._known.can_prove_greater_equal(expr, lower_bound)

    def can_prove_less(self, expr: ExprLike, upper_bound: int) -> bool:
        """Whether the expression is always below a number."""
        return self._known.can_prove_less(expr, upper_bound)

    def const_int_bound(self, expr: ExprLike) -> _ConstIntBound:
        """Constant bounds."""
        low, high = self._known.const_int_bound(expr)
        return _ConstIntBound(max(low, ConstIntBound.NEG_INF), min(high, ConstIntBound.POS_INF))

    def const_int_bound_is_bound(self, var: Var) -> bool:
        """Whether constant bounds of a variable are known beyond those of its type."""
        return self._known.const_int_bound(var) != _Analyzer().const_int_bound(var)

    def modular_set(self, expr: ExprLike) -> _ModularSet:
        """What is known of the value modulo something."""
        return self._known.modular_set(as_expr(expr))

    def int_set(self, expr: ExprLike, dom_map: Mapping[Var, Any]) -> IntervalSet:
        """The interval of the value while variables run over their domains."""
        domains = {var: to_interval(dom) for var, dom in dom_map.items()}
        return from_interval(self._known.int_set(expr, domains))


__getattr__ = missing(__name__)
