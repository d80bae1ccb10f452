"""Rewriting index expressions into sums of splits, and fusing a sum into one iterator."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..base.dtype import DType
from ..base.errors import TileloomError
from .analyzer import Analyzer, is_true, without_likely
from .build import binary, const
from .itermap_nodes import IterMark, IterSplitExpr, IterSumExpr, whole
from .nodes import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    Add,
    And,
    Cast,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    Sub,
    Var,
    is_int,
)
from .reduction import Range
from .walk import free_vars


class NotAffine(TileloomError):
    """Why an expression is no affine map; caught by the detection."""


class IterMapRewriter:
    """One detection: the variables' iterators, those cut by the predicate, those fused so far."""

    def __init__(self, dom_map: Mapping[Var, Range], analyzer: Analyzer, level: str) -> None:
        self.analyzer = analyzer
        self.level = level
        self.variables: dict[Var, IterSumExpr] = {}
        self.constrained: list[tuple[IterSumExpr, IterMark]] = []
        self.types: dict[Var, DType] = {}
        self.wide: dict[Var, IterSumExpr] = {}
        self._fused: dict[tuple[Any, ...], IterMark] = {}
        for var, domain in dom_map.items():
            self._enter(var, domain.min, domain.extent)

    def _enter(self, var: Var, first: Expr, extent: Expr) -> None:
        first, extent = (
            self._simple(first.astype(var.dtype)),
            self._simple(extent.astype(var.dtype)),
        )
        if is_int(extent, 1):
            self.variables[var] = IterSumExpr((), first)
            return
        source = var if is_int(first, 0) else Sub(var, first)
        self.variables[var] = IterSumExpr((whole(IterMark(source, extent)),), first)

    def _simple(self, expr: Expr) -> Expr:
        return expr if isinstance(expr, (IntImm, Var)) else self.analyzer.simplify(expr)

    # ------------------------------------------------------------------ predicates

    def constrain(self, predicate: Expr) -> None:
        """Cut iterators by the conditions of a predicate."""
        conditions = [
            condition
            for condition in _conjunction(without_likely(predicate))
            if not is_true(self.analyzer.simplify(condition))
        ]
        # A cut moves the start of its variable and may leave it one value only, so that sums are
        # taken anew; those that are left are of several variables.
        while True:
            bounded = [self._bounded_sum(condition) for condition in conditions]
            single = next(
                (i for i, (sums, _, _) in enumerate(bounded) if len(sums.args) == 1), None
            )
            if single is None:
                break
            self._cut_single(conditions.pop(single), *bounded[single])
        for total, low, high in sorted(bounded, key=lambda bounded: len(bounded[0].args)):
            self._cut_sum(total, low, high)

    def _bounded_sum(self, condition: Expr) -> tuple[IterSumExpr, Expr | None, Expr | None]:
        """`(sum, low, high)` with `low <= sum < high` for a comparison; the sum has base 0."""
        kind = type(condition)
        if kind not in (LT, LE, GT, GE, EQ):
            raise NotAffine(f"the predicate {condition} is no comparison")
        a, b = condition.children
        if kind in (GT, GE):
            a, b, kind = b, a, LT if kind is GT else LE
        if not (free_vars(a) | free_vars(b)) & set(self.variables):
            raise NotAffine(f"the predicate {condition} is about no iterator")
        total = self.add(self.rewrite(a), self.rewrite(b), -1)
        base = total.base
        if kind is EQ:
            raise NotAffine(f"the predicate {condition} is an equality")
        one = const(1, base.dtype)
        limit = -base if kind is LT else one - base
        if all(_is_negative(split.scale) for split in total.args) and total.args:
            args = tuple(split.scaled(self._simple(-split.scale)) for split in total.args)
            low = base + one if kind is LT else base
            return IterSumExpr(args, const(0, base.dtype)), self._simple(low), None
        return IterSumExpr(total.args, const(0, base.dtype)), None, self._simple(limit)

    def _cut_single(
        self, condition: Expr, total: IterSumExpr, low: Expr | None, high: Expr | None
    ) -> None:
        """Cut the range of one variable."""
        (split,) = total.args
        var = self._variable_of(split.source)
        scale = split.scale
        if (
            var is None
            or not is_int(split.lower_factor, 1)
            or split.extent is not split.source.extent
        ):
            raise NotAffine(f"the predicate {condition} is about a split of an iterator")
        if not self.analyzer.can_prove(scale >= 1):
            raise NotAffine(f"the scale {scale} in the predicate {condition} may not be positive")
        if low is not None:
            low = self._simple((low + scale - 1) // scale)
        if high is not None:
            high = self._simple((high + scale - 1) // scale)
        first = self.variables[var].base
        start, end = self._clip(split.extent, low, high)
        self._enter(var, self._simple(first + start), self._simple(end - start))

    def _variable_of(self, mark: IterMark) -> Var | None:
        for var, total in self.variables.items():
            if total.args and total.args[0].source is mark:
                return var
        return None

    def _clip(self, extent: Expr, low: Expr | None, high: Expr | None) -> tuple[Expr, Expr]:
        zero = const(0, extent.dtype)
        prove = self.analyzer.can_prove
        start = zero if low is None or prove(low <= 0) else self._bound(Max, low, zero)
        end = extent if high is None or prove(high >= extent) else self._bound(Min, high, extent)
        if prove(end < start):
            return start, start  # nothing is left
        return start, end

    def _bound(self, kind: type[Max] | type[Min], limit: Expr, own: Expr) -> Expr:
        """The tighter of two bounds, where it is not known which that is."""
        tighter = limit >= own if kind is Max else limit <= own
        return limit if self.analyzer.can_prove(tighter) else self._simple(binary(kind, limit, own))

    def _cut_sum(self, total: IterSumExpr, low: Expr | None, high: Expr | None) -> None:
        total = self._with_constrained(total)
        fused = self.fuse(total)
        if not fused.args:
            raise NotAffine(f"the predicate bounds {total}, which is constant")
        split, base = fused.args[0], fused.base
        mark, scale = split.source, split.scale
        if not is_int(split.lower_factor, 1) or split.extent is not mark.extent:
            raise NotAffine(f"the predicate bounds {total}, a split of an iterator")
        low = None if low is None else self._simple((low - base + scale - 1) // scale)
        high = None if high is None else self._simple((high - base + scale - 1) // scale)
        start, end = self._clip(mark.extent, low, high)
        if is_int(start, 0) and end is mark.extent:
            return
        source = mark.source
        if isinstance(source, IterSumExpr) and not is_int(start, 0):
            source = IterSumExpr(source.args, self._simple(source.base - start))
        cut = IterMark(source, self._simple(end - start))
        for i, (flattened, known) in enumerate(self.constrained):
            if known is mark:
                first = self._simple(flattened.base + start)
                self.constrained[i] = IterSumExpr(flattened.args, first), cut
                return
        step = tuple(s.scaled(self._simple(s.scale // scale)) for s in total.args)
        self.constrained.append((IterSumExpr(step, start), cut))

    # ------------------------------------------------------------------ expressions

    def normalized(self, expr: Expr) -> IterSumExpr:
        """The index as at most one split plus a base."""
        return self.fuse(self.rewrite(expr))

    def rewrite(self, expr: Expr) -> IterSumExpr:
        """The expression as a sum of splits."""
        if isinstance(expr, Var) and expr in self.variables:
            self._use(expr, expr.dtype)
            return self.variables[expr]
        if free_vars(expr).isdisjoint(self.variables):
            return IterSumExpr((), self._simple(expr))
        match expr:
            case Add(a, b):
                return self.add(self.rewrite(a), self.rewrite(b), 1)
            case Sub(a, b):
                return self.add(self.rewrite(a), self.rewrite(b), -1)
            case Mul(a, b):
                return self._multiply(expr, self.rewrite(a), self.rewrite(b))
            case FloorDiv(a, b):
                return self._divide(expr, self._as_split(a), self.rewrite(b), self._div_split)
            case FloorMod(a, b):
                return self._divide(expr, self._as_split(a), self.rewrite(b), self._mod_split)
            case Cast(kind, Var() as var) if kind.is_int and var.dtype.is_int:
                return self._widened(expr, var)
            case _:
                raise NotAffine(f"{expr} is not affine")

    def _use(self, var: Var, kind: DType) -> None:
        """Note in which type a variable is used: its splits are told apart in one type only."""
        if self.types.setdefault(var, kind) is not kind:
            raise NotAffine(f"{var} is used as {self.types[var]} and as {kind}")

    def _widened(self, expr: Cast, var: Var) -> IterSumExpr:
        """A variable in a wider integer type."""
        kind, total = expr.dtype, self.variables[var]
        if kind.bits < var.dtype.bits or kind.code != var.dtype.code:
            raise NotAffine(f"{expr} may lose splits of {var}")
        self._use(var, kind)
        if var not in self.wide:
            first = total.base.astype(kind)
            source = expr if is_int(first, 0) else Sub(expr, first)
            args = tuple(whole(IterMark(source, s.extent.astype(kind))) for s in total.args)
            self.wide[var] = IterSumExpr(args, first)
        return self.wide[var]

    def _as_split(self, expr: Expr) -> IterSumExpr:
        return self.normalized(expr)

    def add(self, a: IterSumExpr, b: IterSumExpr, sign: int) -> IterSumExpr:
        """`a + sign * b`, with scales of one split added up."""
        scales: dict[tuple[int, Expr, Expr], IterSplitExpr] = {s.position: s for s in a.args}
        for split in b.args:
            scale = split.scale if sign == 1 else self._simple(-split.scale)
            known = scales.get(split.position)
            if known is not None:
                scale = self._simple(known.scale + scale)
            scales[split.position] = split.scaled(scale)
        args = tuple(split for split in scales.values() if not is_int(split.scale, 0))
        base = a.base + b.base if sign == 1 else a.base - b.base
        return IterSumExpr(args, self._simple(base))

    def _multiply(self, expr: Expr, a: IterSumExpr, b: IterSumExpr) -> IterSumExpr:
        if a.args and b.args:
            raise NotAffine(f"{expr} is a product of iterators")
        if not b.args:
            a, b = b, a
        args = tuple(split.scaled(self._simple(split.scale * a.base)) for split in b.args)
        kept = tuple(split for split in args if not is_int(split.scale, 0))
        return IterSumExpr(kept, self._simple(b.base * a.base))

    def _divide(
        self, expr: Expr, a: IterSumExpr, b: IterSumExpr, apply: Callable[..., IterSumExpr]
    ) -> IterSumExpr:
        if b.args:
            raise NotAffine(f"{expr} divides by an iterator")
        divisor = b.base
        if not self.analyzer.can_prove(divisor >= 1):
            raise NotAffine(f"{expr} divides by {divisor}, which may not be positive")
        if not a.args:
            return IterSumExpr((), self._simple(expr.with_children((a.base, divisor))))
        return apply(expr, a.args[0], a.base, divisor)

    def _divisible(self, a: Expr, b: Expr) -> bool:
        if isinstance(a, IntImm) and isinstance(b, IntImm):
            return a.value % b.value == 0
        return self.analyzer.can_prove_equal(a % b, 0)

    def _div_split(
        self, expr: Expr, split: IterSplitExpr, base: Expr, divisor: Expr
    ) -> IterSumExpr:
        """`(split * scale + base) // divisor`."""
        if self._divisible(base, divisor):
            offset = self._simple(base // divisor)
            base = const(0, base.dtype)
        else:
            offset = const(0, base.dtype)
        if self._divisible(split.scale, divisor) and self._fits(base, divisor):
            scale = self._simple(split.scale // divisor)
            return IterSumExpr((split.scaled(scale),), offset)
        divisor = self._unscaled(expr, split, base, divisor)
        extent, top = split.extent, self._is_top(split)
        if not top and not self._divisible(extent, divisor):
            raise NotAffine(f"in {expr}, {divisor} does not divide the extent {extent} of a split")
        lower = self._simple(split.lower_factor * divisor)
        count = self._simple((extent + (divisor - 1)) // divisor)
        if is_int(count, 1):
            return IterSumExpr((), offset)
        one = const(1, extent.dtype)
        return IterSumExpr((IterSplitExpr(split.source, lower, count, one),), offset)

    def _mod_split(
        self, expr: Expr, split: IterSplitExpr, base: Expr, divisor: Expr
    ) -> IterSumExpr:
        """`(split * scale + base) % divisor`."""
        if self._divisible(base, divisor):
            base = const(0, base.dtype)
        if self._divisible(split.scale, divisor) and self._fits(base, divisor):
            return IterSumExpr((), base)
        scale = split.scale
        divisor = self._unscaled(expr, split, base, divisor)
        if self.analyzer.can_prove(split.extent <= divisor):
            return IterSumExpr((split,), base)
        if not self._is_top(split) and not self._divisible(split.extent, divisor):
            raise NotAffine(
                f"in {expr}, {divisor} does not divide the extent {split.extent} of a split"
            )
        # Only where ranges do not count may a split have values that do not occur.
        if self.level != "none" and not self.analyzer.can_prove(divisor <= split.extent):
            raise NotAffine(f"in {expr}, {divisor} and the extent {split.extent} are not ordered")
        split = IterSplitExpr(split.source, split.lower_factor, divisor, scale)
        return IterSumExpr((split,), base)

    def _fits(self, base: Expr, limit: Expr) -> bool:
        return is_int(base, 0) or self.analyzer.can_prove(And(base >= 0, base < limit))

    def _unscaled(self, expr: Expr, split: IterSplitExpr, base: Expr, divisor: Expr) -> Expr:
        """The divisor of the split itself, where `0 <= base < scale` cannot carry."""
        if not self._divisible(divisor, split.scale) or not self._fits(base, split.scale):
            raise NotAffine(f"in {expr}, {divisor} does not divide {split} + {base} evenly")
        plain = self._simple(divisor // split.scale)
        if not self.analyzer.can_prove(plain >= 1):
            raise NotAffine(f"in {expr}, {split} may count backwards")
        return plain

    def _is_top(self, split: IterSplitExpr) -> bool:
        """Whether the split has no split above it, so that nothing is cut off by a modulo."""
        end = split.lower_factor * split.extent
        return end is split.source.extent or self.analyzer.can_prove(end >= split.source.extent)

    # ------------------------------------------------------------------ fusion

    def fuse(self, total: IterSumExpr) -> IterSumExpr:
        """The sum as one split plus a base: the scales must step through a contiguous range."""
        total = self._with_constrained(total)
        if not total.args:
            return total
        if len(total.args) == 1:
            return total
        args, extents = self._chain(total)
        scale = args[-1].scale
        relative = tuple(s.scaled(self._simple(s.scale // scale)) for s in args)
        key = tuple((*split.position, split.scale) for split in relative)
        mark = self._fused.get(key)
        if mark is None:
            zero = const(0, total.base.dtype)
            mark = IterMark(IterSumExpr(relative, zero), extents)
            self._fused[key] = mark
        split = whole(mark).scaled(scale)
        return IterSumExpr((split,), total.base)

    def _chain(self, total: IterSumExpr) -> tuple[list[IterSplitExpr], Expr]:
        """The splits from the highest scale down, and the extent of their sum in lowest scales."""
        left = list(total.args)
        first = self._lowest(total, left)
        chain = [first]
        left.remove(first)
        count = first.extent
        while left:
            expected = self._simple(count * first.scale)
            split, exact = self._next(total, left, expected, first.scale)
            left.remove(split)
            chain.append(split)
            if exact:
                count = self._simple(count * split.extent)
            else:
                count = self._simple((split.scale // first.scale) * (split.extent - 1) + count)
        return chain[::-1], count

    def _lowest(self, total: IterSumExpr, left: list[IterSplitExpr]) -> IterSplitExpr:
        constants = [s for s in left if isinstance(s.scale, IntImm)]
        if not constants:
            for split in left:
                if all(o is split or self._divisible(o.scale, split.scale) for o in left):
                    return split
            raise NotAffine(f"the scales of {total} have no common step")
        if any(_is_negative(s.scale) for s in constants):
            raise NotAffine(f"{total} counts backwards")
        # Of splits with one scale the one with extent 1 comes first, then the written order.
        return min(constants, key=lambda s: (s.scale.value, not is_int(s.extent, 1)))  # type: ignore[attr-defined]

    def _next(
        self, total: IterSumExpr, left: list[IterSplitExpr], expected: Expr, step: Expr
    ) -> tuple[IterSplitExpr, bool]:
        for split in left:
            if split.scale is expected or self.analyzer.can_prove_equal(split.scale, expected):
                return split, True
        if self.level != "bijective":
            # Overlapping splits still reach every value, though some more than once.
            reachable = [
                s
                for s in left
                if self._divisible(s.scale, step) and self.analyzer.can_prove(s.scale <= expected)
            ]
            for split in reachable:
                if all(self.analyzer.can_prove(split.scale <= o.scale) for o in reachable):
                    return split, False
        raise NotAffine(f"in {total} no iterator has the scale {expected}")

    def _with_constrained(self, total: IterSumExpr) -> IterSumExpr:
        """The sum with what a predicate bounds replaced by its cut iterator."""
        for flattened, mark in self.constrained:
            factor = self._factor(total, flattened)
            if factor is None:
                continue
            kept = {id(split.source): split for split in flattened.args}
            positions = {split.position for split in kept.values()}
            rest = tuple(split for split in total.args if split.position not in positions)
            base = self._simple(total.base + flattened.base * factor)
            total = IterSumExpr((*rest, whole(mark).scaled(factor)), base)
        return total

    def _factor(self, total: IterSumExpr, part: IterSumExpr) -> Expr | None:
        """`f` such that `f * part` is in the sum."""
        scales = {split.position: split.scale for split in total.args}
        if not all(split.position in scales for split in part.args):
            return None
        first = part.args[0]
        if not self._divisible(scales[first.position], first.scale):
            return None
        factor = self._simple(scales[first.position] // first.scale)
        for split in part.args:
            if not self.analyzer.can_prove_equal(scales[split.position], split.scale * factor):
                return None
        return factor


def _is_negative(scale: Expr) -> bool:
    return isinstance(scale, IntImm) and scale.value < 0


def _conjunction(condition: Expr) -> Iterator[Expr]:
    if isinstance(condition, And):
        yield from _conjunction(condition.a)
        yield from _conjunction(condition.b)
    else:
        yield condition
