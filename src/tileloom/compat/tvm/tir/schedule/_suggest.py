"""`suggest_index_map`: the layout of a buffer in which its accesses follow the loops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from .....expr import (
    Analyzer,
    Expr,
    IndexMap,
    IntImm,
    IterSumExpr,
    Range,
    Var,
    as_expr,
    const,
    detect_iter_map,
)
from .....tir import Buffer, For


@dataclass(frozen=True)
class _Split:
    """A part of one loop's variable: its extent, and the step that it makes in the buffer."""

    scale: int
    extent: int
    place: tuple[int, int]  # the loop's number and, negated, what the part is divided by


def suggest_index_map(
    buffer: Buffer, indices: Sequence[Any], loops: Sequence[For], predicate: Any = True
) -> IndexMap | None:
    """A layout of a buffer in which one access of it touches neighbours, loop by loop.

    Args:
        buffer: the buffer.
        indices: the access.
        loops: the loops around the access, outermost first.
        predicate: when the access happens.

    The new axes are the splits that the access consists of, in the order of their loops. None where
    the access is no sum of such splits, or skips elements, or a size is not a constant.

    >>> from tileloom.compat.tvm import tir
    >>> i, j, k = (tir.Var(name, "int32") for name in "ijk")
    >>> loops = [tir.For(v, 0, n, tir.ForKind.SERIAL, tir.Evaluate(0)) for v, n in
    ...          ((j, 8), (i, 32), (k, 8))]
    >>> suggest_index_map(tir.decl_buffer((32, 64)), [i, j * 8 + k], loops)
    IndexMap((i0, i1) -> (i1 // 8, i0, i1 % 8))
    """
    sizes = [size.value for size in buffer.shape if isinstance(size, IntImm)]
    if len(sizes) != buffer.ndim or not indices or 0 in sizes:
        return None
    exprs = [as_expr(index) for index in indices]
    splits = _splits(_flat(exprs, sizes), loops, predicate)
    return _ordered(splits, sizes, str(exprs[0].dtype)) if splits else None


def _known(domains: Mapping[Var, Range]) -> Analyzer:
    known = Analyzer()
    for var, domain in domains.items():
        known.bind(var, domain)
    return known


def _flat(indices: Sequence[Expr], sizes: Sequence[int]) -> Expr:
    """The place of an element in row-major order."""
    return reduce(lambda flat, axis: flat * axis[1] + axis[0], zip(indices, sizes), const(0))


def _splits(flat: Expr, loops: Sequence[For], predicate: Any) -> list[_Split] | None:
    """The splits of a place from the finest to the coarsest, if they leave no gap."""
    domains = {loop.loop_var: loop.domain for loop in loops}
    found = detect_iter_map([_known(domains).simplify(flat)], domains, predicate, "none")
    if not found:
        return None
    splits = _leaves(found.indices[0], 1, {var: k for k, var in enumerate(domains)})
    if splits is None:
        return None
    splits.sort(key=lambda split: split.scale)
    reach = 1
    for split in splits:
        if not 0 < split.scale <= reach:
            return None
        reach = split.scale * split.extent
    return splits


def _leaves(total: IterSumExpr, scale: int, order: Mapping[Var, int]) -> list[_Split] | None:
    """The splits of variables that a sum consists of."""
    splits: list[_Split] = []
    for part in total.args:
        numbers = part.scale, part.extent, part.lower_factor, part.source.extent
        values = [number.value for number in numbers if isinstance(number, IntImm)]
        if len(values) != len(numbers):
            return None
        step, extent, lower, whole = values
        source = part.source.source
        if isinstance(source, IterSumExpr):
            inner = _leaves(source, scale * step, order)
            if inner is None or lower != 1 or extent != whole:
                return None
            splits += inner
        elif isinstance(source, Var) and source in order:
            splits.append(_Split(scale * step, extent, (order[source], -lower)))
        else:
            return None
    return splits


def _ordered(splits: Sequence[_Split], sizes: Sequence[int], dtype: str) -> IndexMap:
    """The map to the splits in the order of the loops; the coarsest takes what is left."""
    variables = [Var(f"i{k}", dtype) for k in range(len(sizes))]
    known = _known({var: Range(0, size) for var, size in zip(variables, sizes, strict=True)})
    flat, below = _flat(variables, sizes), 1
    values: dict[tuple[int, int], Expr] = {}
    for split in splits:
        value = flat // below
        if split is not splits[-1]:
            value = value % split.extent
        values[split.place] = known.simplify(value)
        below *= split.extent
    return IndexMap(variables, [values[place] for place in sorted(values)])


__all__ = ["suggest_index_map"]
