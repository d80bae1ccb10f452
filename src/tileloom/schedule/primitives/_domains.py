"""Which iterations of a block cover a region: what compute_at and its reverse share.

One instance of the block touches a small region, which depends on its iteration variables. Given
the region that is needed altogether, the domain of each variable follows by inverting the index
expressions: exactly where they are a bijective affine map, else dimension by dimension.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ...expr import (
    Add,
    Analyzer,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    IntSet,
    IterSumExpr,
    IterVar,
    Mul,
    Range,
    Sub,
    Var,
    const,
    detect_iter_map,
    free_vars,
    free_vars_of,
    inverse_affine_iter_map,
    post_order,
    substitute,
)
from ...expr.int_set import intersect, union
from ...tir import Buffer
from ..analysis.tree import is_one, is_zero
from ..errors import Place, refuse

Box = Sequence[IntSet]
Change = Callable[[Expr], Expr]


@dataclass(frozen=True, slots=True)
class InstanceBounds:
    """What a variable runs over: `dom`, and in it only what is in `bound`; None says nothing."""

    dom: IntSet | None = None
    bound: IntSet | None = None

    def joined(self, other: InstanceBounds, analyzer: Analyzer) -> InstanceBounds:
        """The hull of two."""
        return InstanceBounds(
            _hull(analyzer, self.dom, other.dom), _hull(analyzer, self.bound, other.bound)
        )


def _hull(analyzer: Analyzer, a: IntSet | None, b: IntSet | None) -> IntSet | None:
    if a is None or b is None or a == b:
        return b if a is None else a
    return union(analyzer, a, b)


class Inversion:
    """Collects what regions ask of the iteration variables of a block.

    Args:
        axes: the iteration variables.
        analyzer: knows the loops outside.
        at: what to show in a refusal.
    """

    def __init__(self, axes: Sequence[IterVar], analyzer: Analyzer, at: Sequence[Place]) -> None:
        self.axes = axes
        self.analyzer = analyzer
        self.at = at
        self.found: dict[Var, InstanceBounds] = {axis.var: InstanceBounds() for axis in axes}
        #: Buffers of which the domains reach more than is needed.
        self.inexact: list[Buffer] = []

    def domains(self) -> list[InstanceBounds]:
        """The domain of each variable; its own where no region asks for less."""
        return [self._settled(axis) for axis in self.axes]

    def _settled(self, axis: IterVar) -> InstanceBounds:
        info = self.found[axis.var]
        own = _interval(axis.domain)
        bound = own if info.bound is None else intersect(self.analyzer, info.bound, own)
        if info.dom is None:
            return InstanceBounds(bound)
        if _is_within(self.analyzer, info.dom, bound):
            return InstanceBounds(info.dom)
        both = intersect(self.analyzer, info.dom, bound)
        same = self._same
        if same(both.min_value, info.dom.min_value) and same(both.max_value, info.dom.max_value):
            return InstanceBounds(info.dom)
        if same(both.min_value, bound.min_value) and same(both.max_value, bound.max_value):
            return InstanceBounds(bound)
        if isinstance(both.min_value, IntImm) and isinstance(both.max_value, IntImm):
            return InstanceBounds(both)
        return InstanceBounds(info.dom, bound)

    def _same(self, a: Expr | None, b: Expr | None) -> bool:
        if a is None or b is None:
            return a is b
        return a is b or self.analyzer.can_prove_equal(a, b)

    def require(self, buffer: Buffer, provided: Sequence[Range], required: Box) -> None:
        """Take account of a buffer: one instance has the region, the box is needed."""
        whole = [
            IntSet(const(0, s.dtype), self.analyzer.simplify(s - 1 if not is_zero(s) else s))
            for s in buffer.shape
        ]
        if all(is_one(part.extent) for part in provided) and self._affine(
            buffer, [part.min for part in provided], required, whole
        ):
            return
        for part, wanted, limit in zip(provided, required, whole, strict=True):
            self._dimension(buffer, part, wanted, limit)

    # ------------------------------------------------------------------ bijective maps

    def _affine(self, buffer: Buffer, indices: Sequence[Expr], required: Box, whole: Box) -> bool:
        if self._plain(indices):
            for index, wanted, limit in zip(indices, required, whole, strict=True):
                if isinstance(index, Var):
                    self._note(buffer, index, InstanceBounds(wanted, limit))
            return True
        used = free_vars_of(indices)
        if not used <= self.found.keys():
            return False
        doms = {axis.var: axis.domain for axis in self.axes if axis.var in used}
        found = detect_iter_map(indices, doms, True, "bijective")
        if not found:
            return False
        outputs = [Var(f"o{i}", index.dtype) for i, index in enumerate(indices)]
        back = inverse_affine_iter_map(found.indices, outputs)
        required = [_clipped(box, limit) for box, limit in zip(required, whole, strict=True)]
        if not all(self._holds(limit, box) for box, limit in zip(required, whole, strict=True)):
            self.inexact.append(buffer)  # what is beyond one row is in the next one
        if not self._holds_fixed(found.indices, required):
            self.inexact.append(buffer)  # every instance touches what may not be there
        reached: dict[Var, IntSet] = {}
        for var, value in back.items():
            if var in self.found:
                dom = reached[var] = self._values(value, outputs, required)
                self._note(buffer, var, InstanceBounds(dom, self._values(value, outputs, whole)))
        if all(is_one(total.args[-1].scale) for total in found.indices if total.args):
            # The map is bijective: a box of domains is exact if it has as many elements.
            count = self._count(required)
            exact = count is not None and count == self._count([*reached.values()])
        else:
            # What is needed may be between two multiples.
            exact = self._stays_in(indices, reached, required)
        if not exact:
            self.inexact.append(buffer)
        return True

    def _holds_fixed(self, indices: Sequence[IterSumExpr], box: Box) -> bool:
        """Whether a box holds the indices that are the same for all instances."""
        return all(
            self._holds(part, IntSet(index.base, index.base))
            for index, part in zip(indices, box, strict=True)
            if not index.args
        )

    def _stays_in(
        self, indices: Sequence[Expr], domains: Mapping[Var, IntSet], required: Box
    ) -> bool:
        """Whether indices are in a box while variables run over their domains."""
        variables = list(domains)
        taken = [self._values(index, variables, [*domains.values()]) for index in indices]
        return all(self._holds(box, own) for box, own in zip(required, taken, strict=True))

    def _count(self, box: Box) -> int | None:
        """How many elements a box has, if that is a number."""
        total = 1
        for low, high in box:
            size = None if low is None or high is None else self.analyzer.simplify(high - low + 1)
            if not isinstance(size, IntImm):
                return None
            total *= size.value
        return total

    def _values(self, value: Expr, outputs: Sequence[Var], box: Box) -> IntSet:
        """What an expression takes while variables run over a box."""
        points: dict[Var, Expr] = {}
        domains: dict[Var, IntSet] = {}
        for output, interval in zip(outputs, box, strict=True):
            if interval.is_point and interval.min_value is not None:
                points[output] = interval.min_value
            else:
                domains[output] = interval
        value = self.analyzer.simplify(substitute(value, points))
        return self.analyzer.int_set(value, domains)

    def _plain(self, indices: Sequence[Expr]) -> bool:
        """Whether all indices are different iteration variables."""
        return len(set(indices)) == len(indices) and all(
            isinstance(i, Var) and i in self.found for i in indices
        )

    def _note(self, buffer: Buffer, var: Var, domain: InstanceBounds) -> None:
        known = self.found[var]
        if known.dom is not None and domain.dom is not None:
            ends = zip(known.dom, domain.dom, strict=True)
            if not all(self._same(a, b) for a, b in ends):
                self.inexact.append(buffer)
        self.found[var] = known.joined(domain, self.analyzer)

    # ------------------------------------------------------------------ one dimension

    def _dimension(self, buffer: Buffer, part: Range, required: IntSet, limit: IntSet) -> None:
        simple = self.analyzer.simplify
        low, high = simple(part.min), simple(part.min + part.extent - 1)
        if free_vars(low).isdisjoint(self.found) and free_vars(high).isdisjoint(self.found):
            # It does not depend on the instance, so all instances must have what is needed.
            if not self._holds(IntSet(low, high), intersect(self.analyzer, required, limit)):
                raise self._stuck(buffer, low)
            return
        solved = self._solve(buffer, low, low is high, required, limit)
        if solved is None:
            raise self._stuck(buffer, low)
        var, domain = solved
        if var in self.found:
            self._note(buffer, var, domain)

    def _holds(self, big: IntSet, small: IntSet) -> bool:
        return (
            big.min_value is not None
            and big.max_value is not None
            and small.min_value is not None
            and small.max_value is not None
            and self.analyzer.can_prove_less_equal(big.min_value, small.min_value)
            and self.analyzer.can_prove_less_equal(small.max_value, big.max_value)
        )

    def _stuck(self, buffer: Buffer, index: Expr) -> Exception:
        return refuse(
            f"the index {index} of {buffer.name!r} cannot be solved for the iteration variables",
            at=self.at,
            hint="an index can be a variable, a variable times a number, or digits of variables",
            fast="BufferRegion pattern match failed",
        )

    def _solve(
        self, buffer: Buffer, index: Expr, is_point: bool, required: IntSet, limit: IntSet
    ) -> tuple[Var, InstanceBounds] | None:
        """The variable in an index, and the values for which the index is in the interval."""
        match index:
            case Mul(Var() as var, e) | Mul(e, Var() as var) if isinstance(e, IntImm):
                if e.value <= 0:
                    return None
                low = required.min_value
                if low is None or not self.analyzer.can_prove_equal(low % e, 0):
                    self.inexact.append(buffer)  # the first multiple may be before what is needed
                return var, InstanceBounds(self._divided(required, e), self._divided(limit, e))
            case Var() as var if is_point:
                return var, InstanceBounds(required, limit)
            case Add(inner, e) | Add(e, inner) if is_point and self._is_fixed(e):
                wide, most = self._moved(required, e), self._moved(limit, e)
                return self._solve(buffer, inner, True, wide, most)
            case Sub(e, inner) if is_point and self._is_fixed(e):
                wide, most = self._mirrored(required, e), self._mirrored(limit, e)
                return self._solve(buffer, inner, True, wide, most)
            case FloorDiv(inner, e) if is_point and self.analyzer.can_prove(e >= 1):
                wide, most = self._times(required, e), self._times(limit, e)
                return self._solve(buffer, inner, True, wide, most)
            case FloorMod(Var() as var, e) if is_point:
                last = self.analyzer.simplify(e - 1)
                if not self._holds(required, IntSet(const(0, last.dtype), last)):
                    self.inexact.append(buffer)
                return var, InstanceBounds()
            case _:
                return None

    def _is_fixed(self, value: Expr) -> bool:
        """Whether a value is the same for all instances."""
        return free_vars(value).isdisjoint(self.found)

    def _moved(self, interval: IntSet, e: Expr) -> IntSet:
        """All x with x + e in the interval."""
        return self._mapped(interval, lambda end: end - e)

    def _mirrored(self, interval: IntSet, e: Expr) -> IntSet:
        """All x with e - x in the interval."""
        low, high = interval
        return self._mapped(IntSet(high, low), lambda end: e - end)

    def _divided(self, interval: IntSet, e: Expr) -> IntSet:
        return self._mapped(interval, lambda end: end // e)

    def _times(self, interval: IntSet, e: Expr) -> IntSet:
        """All x with x // e in the interval."""
        return self._mapped(interval, lambda end: end * e, lambda end: end * e + e - 1)

    def _mapped(self, interval: IntSet, first: Change, last: Change | None = None) -> IntSet:
        """The interval between what its ends become; open ones stay open."""
        low, high = interval
        simple, last = self.analyzer.simplify, last or first
        return IntSet(
            None if low is None else simple(first(low)),
            None if high is None else simple(last(high)),
        )


def _clipped(box: IntSet, limit: IntSet) -> IntSet:
    """An interval without what is beyond a limit, where both have numbers as ends."""
    (low, high), (first, last) = box, limit
    if isinstance(low, IntImm) and isinstance(first, IntImm) and low.value < first.value:
        low = first
    if isinstance(high, IntImm) and isinstance(last, IntImm) and high.value > last.value:
        high = last
    return IntSet(low, high)


def _interval(part: Range) -> IntSet:
    low, extent = part.min, part.extent
    if isinstance(low, IntImm) and isinstance(extent, IntImm):
        return IntSet(low, IntImm(low.dtype, low.value + extent.value - 1))
    return IntSet(low, low + extent - 1)


def _is_within(analyzer: Analyzer, small: IntSet, big: IntSet) -> bool:
    """A quick yes where the outer interval has numbers as ends."""
    (low, high), (first, last) = small, big
    if low is None or high is None:
        return False
    if not (isinstance(first, IntImm) and isinstance(last, IntImm)):
        return False
    return (
        analyzer.const_int_bound(low)[0] >= first.value
        and analyzer.const_int_bound(high)[1] <= last.value
    )


def hull_of(analyzer: Analyzer, boxes: Sequence[Box]) -> Box:
    """The least box that holds all of them."""
    result = list(boxes[0])
    for box in boxes[1:]:
        result = [a if a == b else union(analyzer, a, b) for a, b in zip(result, box, strict=True)]
    return result


def covering(analyzer: Analyzer, interval: IntSet, own: Range) -> Range:
    """An interval as a range; the variable's own domain if an end is open."""
    low, high = interval
    if low is None or high is None:
        return own
    if low is high:
        return Range(low, const(1, low.dtype))
    extent = analyzer.simplify(high - low + 1)
    for part in post_order(extent):
        if isinstance(part, (FloorDiv, FloorMod)) and not analyzer.can_prove(part.b != 0):
            raise refuse(
                f"how much is needed, {extent}, is not defined where {part.b} is zero: a loop "
                "inside may not run at all",
                hint="choose a loop further out, or split by factors that divide",
            )
    return Range(low, extent)
