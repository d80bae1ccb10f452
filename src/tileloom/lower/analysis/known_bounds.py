"""What is known of integers at a place of a program: loop ranges, and the guards around it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    Add,
    Cast,
    CompareOp,
    Expr,
    IntImm,
    Mul,
    Not,
    Or,
    Sub,
    has_load,
)
from ...expr.bounds import BoundAnalyzer, ConstIntBound, is_index
from ...expr.compare import OPPOSITE
from ...tir import BlockRealize, PrimFunc
from ..common import conjuncts, unlikely_free

#: Annotation of a function's body: the least and the greatest value of variables, by name.
SIZES = "size_bounds"


def size_bounds(func: PrimFunc) -> Mapping[str, tuple[int, int]]:
    """The least and the greatest values of the variables that sizes are made of, by name."""
    block = func.body.block if isinstance(func.body, BlockRealize) else None
    found = block.annotations.get(SIZES, {}) if block is not None else {}
    return {str(name): (int(ends[0]), int(ends[1])) for name, ends in found.items()}


def under(known: BoundAnalyzer, guards: tuple[Expr, ...]) -> BoundAnalyzer | None:
    """What is known where guards hold as well; None where they provably never do.

    Conditions that read memory say nothing: what they have read may have changed since.
    """
    for guard in guards:
        for part in _normal(guard):
            facts = _facts(known, part)
            if facts is None:
                return None
            if facts:
                known = BoundAnalyzer({**known.facts, **facts})
    return known


def _normal(condition: Expr) -> Iterator[Expr]:
    """The comparisons that a condition is made of, negations taken into them."""
    for part in conjuncts(condition):
        inner = unlikely_free(part)
        if isinstance(inner, Not):
            negated = unlikely_free(inner.a)
            if isinstance(negated, Or):
                yield from _normal(Not(negated.a))
                yield from _normal(Not(negated.b))
            elif type(negated) in OPPOSITE:
                yield OPPOSITE[type(negated)](*negated.children)
            elif isinstance(negated, Not):
                yield from _normal(negated.a)
        else:
            yield inner


def _facts(known: BoundAnalyzer, condition: Expr) -> Mapping[Expr, ConstIntBound] | None:
    if isinstance(condition, IntImm):
        return {} if condition.value else None
    if not isinstance(condition, CompareOp) or has_load(condition):
        return {}
    a, b = condition.a, condition.b
    if a.dtype.lanes > 1 or not a.dtype.is_int:
        return {}
    found: dict[Expr, ConstIntBound] = {}
    for expr, bound in zip((a, b), _compared(condition, known.of(a), known.of(b)), strict=True):
        for part, limits in _inside(expr, bound):
            now = known.of(part)
            if max(now[0], limits[0]) > min(now[1], limits[1]):
                return None
            found[part] = now.intersect(limits)
    return found


def _compared(
    condition: CompareOp, a: ConstIntBound, b: ConstIntBound
) -> tuple[ConstIntBound, ConstIntBound]:
    """What a comparison that holds says of its sides."""
    if isinstance(condition, LT):
        return ConstIntBound(a[0], b[1] - 1), ConstIntBound(a[0] + 1, b[1])
    if isinstance(condition, LE):
        return ConstIntBound(a[0], b[1]), ConstIntBound(a[0], b[1])
    if isinstance(condition, GT):
        return ConstIntBound(b[0] + 1, a[1]), ConstIntBound(b[0], a[1] - 1)
    if isinstance(condition, GE):
        return ConstIntBound(b[0], a[1]), ConstIntBound(b[0], a[1])
    if isinstance(condition, EQ):
        return b, a
    return a, b


def _inside(expr: Expr, bound: ConstIntBound) -> Iterator[tuple[Expr, ConstIntBound]]:
    """Bounds of an expression, and those that follow for what it is made of."""
    while not isinstance(expr, IntImm):
        yield expr, bound
        if not is_index(expr.dtype):
            return
        match expr:
            case Cast(value=inner) if is_index(inner.dtype) and inner.dtype.bits <= expr.dtype.bits:
                expr = inner
            case Add(inner, IntImm(_, by)):
                expr, bound = inner, ConstIntBound(bound[0] - by, bound[1] - by)
            case Sub(inner, IntImm(_, by)):
                expr, bound = inner, ConstIntBound(bound[0] + by, bound[1] + by)
            case Mul(inner, IntImm(_, by)) if by > 0:
                expr, bound = inner, ConstIntBound(-(-bound[0] // by), bound[1] // by)
            case _:
                return
