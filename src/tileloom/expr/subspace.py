"""Dividing block bindings into an outer and an inner part, as `blockize` needs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .analyzer import Analyzer, is_true
from .build import as_expr, binary, const
from .itermap import detect_iter_map, domain_analyzer, normalize_iter_map_to_expr
from .itermap_nodes import IterMark, IterSplitExpr, IterSumExpr, mark_variables
from .itermap_rewrite import NotAffine
from .nodes import And, Expr, IntImm, Var, is_int
from .operators import ExprLike
from .reduction import Range
from .walk import free_vars


@dataclass(frozen=True, slots=True)
class Division:
    """`outer * inner_extent + inner`: `outer` without, `inner` with nothing but inner variables.

    Each part runs from its start over its extent; a start that is not given is zero.
    """

    outer: Expr
    outer_extent: Expr
    inner: Expr
    inner_extent: Expr
    outer_start: Expr | None = field(default=None, repr=False)
    inner_start: Expr | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class SubspaceDivision:
    """The parts of every binding and of the predicate; empty if it failed and `errors` says why."""

    divisions: tuple[Division, ...]
    outer_predicate: Expr
    inner_predicate: Expr
    errors: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return not self.errors


_TRUE = const(True)


def subspace_divide(
    bindings: Sequence[ExprLike],
    dom_map: Mapping[Var, Range],
    inner_vars: Sequence[Var],
    predicate: ExprLike = True,
    check_level: str = "surjective",
    analyzer: Analyzer | None = None,
) -> SubspaceDivision:
    """Each binding as `outer * inner_extent + inner`, and the predicate as outer and inner.

    >>> i, j = Var("i"), Var("j"); domains = {i: Range(0, 8), j: Range(0, 4)}
    >>> subspace_divide([i * 4 + j], domains, [j]).divisions
    (Division(outer=i, outer_extent=8, inner=j, inner_extent=4),)
    """
    condition = as_expr(predicate)
    found = detect_iter_map(bindings, dom_map, condition, check_level, analyzer)
    if not found:
        return SubspaceDivision((), _TRUE, _TRUE, found.errors)
    known = analyzer.copy() if analyzer is not None else domain_analyzer({})
    for var, domain in dom_map.items():
        known.bind(var, domain)
    divider = _Divider(known, frozenset(inner_vars))
    try:
        outer, inner = divider.predicates(condition)
        divisions = tuple(divider.divide(total) for total in found.indices)
    except NotAffine as error:
        return SubspaceDivision((), _TRUE, _TRUE, (str(error),))
    return SubspaceDivision(divisions, outer, inner)


class _Divider:
    def __init__(self, analyzer: Analyzer, inner: frozenset[Var]) -> None:
        self.analyzer = analyzer
        self.inner = inner

    def predicates(self, condition: Expr) -> tuple[Expr, Expr]:
        """The conditions of the outer and those of the inner variables."""
        if isinstance(condition, And):
            a, b = self.predicates(condition.a), self.predicates(condition.b)
            return binary(And, a[0], b[0]), binary(And, a[1], b[1])
        condition = self.analyzer.simplify(condition)
        if is_true(condition):
            return _TRUE, _TRUE
        variables = free_vars(condition)
        if variables.isdisjoint(self.inner):
            return condition, _TRUE
        if variables <= self.inner:
            return _TRUE, condition
        raise NotAffine(f"the predicate {condition} ties outer and inner variables together")

    def divide(self, total: IterSumExpr) -> Division:
        """The two parts of a binding."""
        kind = total.base.dtype
        zero, one = const(0, kind), const(1, kind)
        value = normalize_iter_map_to_expr(total, self.analyzer)
        if not total.args:
            return Division(value, one, zero, one, value)
        split = total.args[0]
        variables = mark_variables(split.source)
        reach, start = self._reach([split]), total.base
        if _counts_down(split):
            start = self.analyzer.simplify(start - reach + 1)
        if variables.isdisjoint(self.inner):
            return Division(value, reach, zero, one, start)
        if variables <= self.inner:
            return Division(zero, one, value, reach, None, start)
        if not is_int(split.scale, 1):
            raise NotAffine(f"{value} has the stride {split.scale}")
        outer, inner, inner_extent = self._halves(split)
        outer_extent = self.analyzer.simplify(split.extent // inner_extent)
        start = self._rows(total.base, inner_extent, total)
        outer = self.analyzer.simplify(outer + start)
        return Division(outer, outer_extent, inner, inner_extent, start)

    def _halves(self, split: IterSplitExpr) -> tuple[Expr, Expr, Expr]:
        """`(outer, inner, inner extent)` of a split that has both kinds of variables."""
        mark = split.source
        if split.extent is not mark.extent or not isinstance(mark.source, IterSumExpr):
            raise NotAffine(f"{split} is a split of outer and inner variables together")
        args = list(mark.source.args)
        below: list[IterSplitExpr] = []
        while args and mark_variables(args[-1].source) <= self.inner:
            below.insert(0, args.pop())
        outer, inner = self._sum(args), self._sum(below)
        if any(not mark_variables(arg.source).isdisjoint(self.inner) for arg in args[:-1]):
            raise NotAffine(f"outer and inner variables are interleaved in {outer}")
        last = args[-1]
        if mark_variables(last.source).isdisjoint(self.inner):
            extent = last.scale
        else:
            upper, lower, size = self._halves(last.scaled(const(1, last.scale.dtype)))
            outer = self._sum(args[:-1]) + upper * size * last.scale
            inner = lower * last.scale + inner
            extent = size * last.scale
        self._check_apart(args, below, extent, mark)
        self._check_full(mark, extent)
        simple = self.analyzer.simplify
        start = self._rows(mark.source.base, extent, mark)
        return simple(outer // extent + start), simple(inner), simple(extent)

    def _rows(self, start: Expr, extent: Expr, value: IterSumExpr | IterMark) -> Expr:
        """A start as a number of rows."""
        if is_int(start, 0):
            return start
        if not self.analyzer.can_prove_equal(start % extent, 0):
            raise NotAffine(f"the start {start} of {value} is no multiple of {extent}")
        return self.analyzer.simplify(start // extent)

    def _check_apart(
        self,
        args: Sequence[IterSplitExpr],
        below: Sequence[IterSplitExpr],
        extent: Expr,
        mark: IterMark,
    ) -> None:
        """Splits that overlap make no rows: what is inside must end before the next row."""
        prove = self.analyzer.can_prove_equal
        apart = self.analyzer.can_prove(self._reach(below) <= args[-1].scale)
        if not apart or not all(prove(arg.scale % extent, 0) for arg in args[:-1]):
            raise NotAffine(f"the splits of {mark.source} overlap")

    def _reach(self, args: Sequence[IterSplitExpr]) -> Expr:
        """How many values lie between the least and the largest sum of splits, both included."""
        if not args:
            return const(1)
        total: Expr = const(1, args[0].scale.dtype)
        for arg in args:
            scale = -arg.scale if _counts_down(arg) else arg.scale
            total = total + scale * (arg.extent - 1)
        return self.analyzer.simplify(total)

    def _check_full(self, mark: IterMark, extent: Expr) -> None:
        """A range that a predicate cut has no equal rows."""
        if not self.analyzer.can_prove_equal(mark.extent % extent, 0):
            raise NotAffine(f"{extent} does not divide the extent {mark.extent} of {mark.source}")

    def _sum(self, args: Sequence[IterSplitExpr]) -> Expr:
        zero = const(0, args[0].scale.dtype if args else "int32")
        return normalize_iter_map_to_expr(IterSumExpr(tuple(args), zero), self.analyzer)


def _counts_down(split: IterSplitExpr) -> bool:
    return isinstance(split.scale, IntImm) and split.scale.value < 0
