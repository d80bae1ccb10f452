"""Accesses that are certainly out of bounds, found before there is code that makes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod

from ...base.errors import OutOfBoundsError, UnsupportedError, UserError
from ...expr import Expr, IntImm, Var, free_vars, substitute
from ...expr.bounds import BoundAnalyzer
from ...expr.evaluate import evaluate
from ...tir import IRModule, PrimFunc, Stmt, first_line
from ..analysis.access_walk import AccessWalk, is_inside
from ..analysis.guarded_accesses import Access
from ..analysis.known_bounds import under
from ..analysis.linear import linear

_HUGE = 1 << 31  # bounds of what nothing is known of
_TRIED = 128  # combinations of values that are tried
Point = dict[Var, int]


def refuse_out_of_bounds(program: PrimFunc | IRModule) -> None:
    """Refuse a program that certainly reads or writes outside of a buffer.

    An access is refused where each execution of it is out of bounds, or where one that is certain
    to happen is: values of the loop variables for which every guard around it holds and an index
    is outside. What is guarded by arguments or by what memory holds is not refused; kernels built
    with `checked` find that.
    Takes functions at any stage.

    Raises:
        OutOfBoundsError: naming the statement, the index, its range and the buffer's extent.
    """
    functions = [program] if isinstance(program, PrimFunc) else program.functions.values()
    for func in functions:
        _Refuse().stmt(func.body)


class _Refuse(AccessWalk):
    def access(self, stmt: Stmt, access: Access, guards: tuple[Expr, ...]) -> None:
        if access.predicate is not None or is_inside(access, self.known):
            return
        known = under(self.known, guards) if guards else self.known
        if known is None or (guards and is_inside(access, known)):
            return
        for axis, (index, extent) in enumerate(
            zip(access.indices, access.buffer.shape, strict=False)
        ):
            reason = self._outside(index, extent, known, (*self.guards, *guards))
            if reason:
                count = f"{access.buffer.name} has {_count(extent)}"
                raise OutOfBoundsError(
                    f"{text_of(access)} is out of bounds: the index {index} of axis {axis} "
                    f"{reason}, and {count} there\n  in {first_line(stmt)}",
                    span=stmt.span,
                    hint="mend the index, or guard the access with T.if_then_else or a branch",
                )

    def _outside(
        self, index: Expr, extent: Expr, known: BoundAnalyzer, guards: tuple[Expr, ...]
    ) -> str:
        """How an index leaves its axis; nothing if it may be inside whenever it is used."""
        low, high = known.of(index)
        size = extent.value if isinstance(extent, IntImm) else None
        if low >= 0 and size is not None and high < size:
            return ""
        always = high < 0 or (_is_beyond(index, extent, known) if size is None else low >= size)
        if not always and (size is None or (low <= -_HUGE and high >= _HUGE - 1)):
            return ""
        possible = False
        for point in self._points(index, (low, high)):
            self._add_names(point)
            if not _hold(point, guards):  # or it depends on more whether they do
                continue
            runs = _hold(point, self.spans)
            possible |= runs is not False
            value = _value(index, point) if runs and self.certain else None
            if value is not None and size is not None:
                bad = [v for v in value if not 0 <= v < size]
                if bad:
                    return _range(low, high, bad[0])
        if not (always and possible):
            return ""
        return _range(low, high, None) if size is not None or high < 0 else "is never below that"

    def _add_names(self, point: Point) -> None:
        for var, expr in self.values:
            value = _value(expr, point)
            if value is not None and len(value) == 1:
                point[var] = value[0]

    def _points(self, index: Expr, ends: tuple[int, int]) -> Iterator[Point]:
        """Values of the loop variables where an index is likely to be at its ends."""
        ranges = self.ranges
        lows = {var: low for var, (low, _) in ranges.items()}
        highs = {var: high for var, (_, high) in ranges.items()}
        whole = index
        for var, value in reversed(self.values):
            whole = substitute(whole, {var: value})
        for others in (highs, lows):
            for target in reversed(ends):
                found = self._solved(whole, target)
                if found is not None:
                    yield {**others, **found}
        yield dict(highs)
        yield dict(lows)
        own = [var for var in ranges if var in free_vars(whole)]
        for corner in product(*_tried([ranges[var] for var in own])):
            yield {**lows, **dict(zip(own, corner, strict=True))}

    def _solved(self, index: Expr, target: int) -> Point | None:
        """Values for which an affine index has a value, or comes close to it."""
        if index.dtype.lanes > 1:
            return None
        form = linear(index)
        terms = sorted(form.terms.items(), key=lambda term: -abs(term[1]))
        point: Point = {}
        left = target - form.const
        for var, by in terms:
            if not isinstance(var, Var) or var not in self.ranges:
                return None
            low, high = self.ranges[var]
            point[var] = low if by > 0 else high
            left -= by * point[var]
        for var, by in terms:
            if isinstance(var, Var):
                low, high = self.ranges[var]
                steps = min(max(left, 0) // abs(by), high - low)
                point[var] += steps if by > 0 else -steps
                left -= steps * abs(by)
        return point


def _is_beyond(index: Expr, extent: Expr, known: BoundAnalyzer) -> bool:
    """Whether an index is never below an extent that is not a number."""
    if index.dtype.lanes > 1 or free_vars(index).isdisjoint(free_vars(extent)):
        return False
    difference = linear(index).plus(linear(extent), -1)
    return known.of(difference.to_expr(index.dtype))[0] >= 0


def _tried(ranges: list[tuple[int, int]]) -> list[Sequence[int]]:
    """Values to try of each variable: all, or those near the ends, or the ends, or none."""
    near = [sorted({low, min(low + 1, high), max(high - 1, low), high}) for low, high in ranges]
    every = [range(low, high + 1) for low, high in ranges]
    choices: tuple[list[Sequence[int]], ...] = (list(every), list(near), list(ranges))
    for values in choices:
        if prod(map(len, values)) <= _TRIED:
            return values
    return [()]


def _hold(point: Point, guards: tuple[Expr, ...]) -> bool | None:
    """Whether guards hold at a point; None where that depends on more."""
    result: bool | None = True
    for guard in guards:
        value = _value(guard, point)
        if value is None:
            result = None
        elif not all(value):
            return False
    return result


def _value(expr: Expr, point: Point) -> list[int] | None:
    """The value of an expression at a point, of each lane; None if that depends on more."""
    try:
        value = evaluate(expr, point)
    except (UserError, UnsupportedError):
        return None
    return value if isinstance(value, list) else [value]


def _range(low: int, high: int, reached: int | None) -> str:
    if low == high:
        return f"is {low}"
    text = f"runs from {low} to {high}"
    return text if reached is None or reached in (low, high) else f"{text} and is {reached} once"


def _count(extent: Expr) -> str:
    return f"{extent} element{'' if isinstance(extent, IntImm) and extent.value == 1 else 's'}"


def text_of(access: Access) -> str:
    return f"{access.buffer.name}[{', '.join(map(str, access.indices))}]"
