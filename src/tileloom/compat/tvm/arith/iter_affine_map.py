"""`tvm.arith.iter_affine_map`: index expressions as digits of loop variables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any

from .... import expr
from ....expr import Expr, ExprLike, Range, Var, as_expr
from ....expr import itermap_nodes as nodes
from .._names import missing, node_type

Domains = Mapping[Var, Range]
IterMapExpr = (nodes.IterSplitExpr, nodes.IterSumExpr)
IterMapResult = node_type(nodes.IterMapResult)
IterMark = node_type(nodes.IterMark, lambda source, extent: nodes.IterMark(source, as_expr(extent)))
IterSumExpr = node_type(
    nodes.IterSumExpr, lambda args, base: nodes.IterSumExpr(tuple(args), as_expr(base))
)
IterSplitExpr = node_type(
    nodes.IterSplitExpr,
    lambda source, lower_factor=1, extent=None, scale=1: nodes.IterSplitExpr(
        source,
        as_expr(lower_factor, source.extent.dtype),
        as_expr(source.extent if extent is None else extent, source.extent.dtype),
        as_expr(scale, source.extent.dtype),
    ),
)


class IterMapLevel(IntEnum):
    """What an iteration map is to be."""

    Bijective = 0
    Surjective = 1
    NoCheck = 3

    @staticmethod
    def from_str(name: str | None) -> IterMapLevel:
        """The level of a name, any case."""
        levels = {level.name.lower(): level for level in IterMapLevel}
        if name is not None and name.lower() not in levels:
            raise ValueError(f"unknown check level {name!r}, one of {', '.join(levels)}")
        return levels["nocheck" if name is None else name.lower()]


def _level(level: Any) -> str:
    if level is None or isinstance(level, str):
        level = IterMapLevel.from_str(level)
    return {0: "bijective", 1: "surjective", 3: "none"}[int(level)]


def detect_iter_map(
    indices: Sequence[ExprLike],
    input_iters: Domains,
    predicate: ExprLike = True,
    check_level: Any = IterMapLevel.Surjective,
    simplify_trivial_iterators: bool = True,
) -> nodes.IterMapResult:
    """The indices as sums of digits; `.indices` is empty if there are none, `.errors` says why."""
    return expr.detect_iter_map(indices, input_iters, predicate, _level(check_level))


def normalize_to_iter_sum(index: ExprLike, input_iters: Domains) -> nodes.IterSumExpr:
    """An index as a sum of digits, whatever they cover."""
    found = expr.detect_iter_map([index], input_iters, True, "none")
    if not found:
        raise ValueError(f"{index} is no sum of splits: {found.errors[0]}")
    return found.indices[0]


def normalize_iter_map_to_expr(value: Any) -> Expr:
    """The expression that a sum, split or mark stands for."""
    if isinstance(value, Expr):
        return value
    return expr.normalize_iter_map_to_expr(value)


def iter_map_simplify(
    indices: Sequence[ExprLike],
    input_iters: Domains,
    predicate: ExprLike = True,
    check_level: Any = IterMapLevel.Surjective,
    simplify_trivial_iterators: bool = True,
) -> list[Expr]:
    """The indices simplified through their affine view."""
    return expr.iter_map_simplify(
        indices,
        input_iters,
        predicate,
        _level(check_level),
        simplify_trivial_iterators=simplify_trivial_iterators,
    )


def subspace_divide(
    bindings: Sequence[ExprLike],
    input_iters: Domains,
    sub_iters: Sequence[Var],
    predicate: ExprLike = True,
    check_level: Any = IterMapLevel.Surjective,
    simplify_trivial_iterators: bool = True,
) -> list[list[nodes.IterMark]]:
    """For each binding its outer and its inner part, then the outer and the inner predicate.

    An empty list if the space cannot be divided.
    """
    found = expr.subspace_divide(bindings, input_iters, sub_iters, predicate, _level(check_level))
    if not found:
        return []
    mark = nodes.IterMark
    parts = [
        [mark(d.outer, d.outer_extent), mark(d.inner, d.inner_extent)] for d in found.divisions
    ]
    nothing = expr.const(0)
    conditions = [mark(p, nothing) for p in (found.outer_predicate, found.inner_predicate)]
    return [*parts, conditions]


def inverse_affine_iter_map(
    iter_map: Sequence[nodes.IterSumExpr], outputs: Sequence[ExprLike]
) -> dict[Var, Expr]:
    """The variables in terms of the values of a bijective map."""
    return expr.inverse_affine_iter_map(iter_map, outputs)


__getattr__ = missing(__name__)
