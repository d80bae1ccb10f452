"""Index maps: a layout as a function from old indices to new ones."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence

from ..base import DType
from ..base.errors import UserError
from .analyzer import Analyzer
from .build import as_expr, cast, const
from .itermap import detect_iter_map, domain_analyzer, inverse_affine_iter_map
from .itermap_nodes import IterSplitExpr
from .nodes import Expr, Var, is_int
from .operators import ExprLike
from .padded_map import PaddedInverse, padded_inverse
from .reach import Interval, Reach
from .reduction import Range
from .retype import index_type, retyped
from .walk import substitute


class IndexMap:
    """`final_indices` as a function of the variables `initial_indices`.

    `inverse_index_map` may be given by hand where it cannot be derived.

    >>> tiles = IndexMap.from_func(lambda i, j: [i // 4, j, i % 4])
    >>> tiles.map_indices([9, 2]), tiles.map_shape([16, 8]), tiles.inverse([16, 8])
    ([2, 2, 1], [4, 8, 4], IndexMap((axis0, axis1, axis2) -> (axis0 * 4 + axis2, axis1)))
    """

    __slots__ = ("final_indices", "initial_indices", "inverse_index_map")

    def __init__(
        self,
        initial_indices: Sequence[Var],
        final_indices: Sequence[ExprLike],
        inverse_index_map: IndexMap | None = None,
    ) -> None:
        self.initial_indices = tuple(initial_indices)
        self.final_indices = tuple(as_expr(index) for index in final_indices)
        self.inverse_index_map = inverse_index_map

    @staticmethod
    def from_func(
        function: Callable[..., Sequence[ExprLike] | ExprLike],
        ndim: int | None = None,
        inverse: Callable[..., Sequence[ExprLike] | ExprLike] | None = None,
        dtype: str = "int32",
    ) -> IndexMap:
        """The map that a Python function computes; `ndim` is how many `*args` it gets."""
        variables = _parameters(function, ndim, dtype)
        result = function(*variables)
        finals = list(result) if isinstance(result, (list, tuple)) else [result]
        back = None if inverse is None else IndexMap.from_func(inverse, len(finals), dtype=dtype)
        return IndexMap(variables, finals, back)

    def fitting(self, shape: Sequence[ExprLike | Range]) -> IndexMap:
        """The same map in a type in which nothing overflows on this shape, or on these ranges.

        A map of int32 variables becomes one of int64 where the shape is of int64, or where an index
        goes beyond 32 bits.

        >>> rows = IndexMap.from_func(lambda i, j: i * 70000 + j)
        >>> [rows.fitting([n, n]).final_indices[0].dtype for n in (30000, 70000)]
        ['int32', 'int64']
        """
        domains = self._ranges(shape)
        parts = [part for domain in domains for part in (domain.min, domain.extent)]
        ends = map(_ends, domains)
        ranges = dict(zip(self.initial_indices, ends, strict=True))
        return self._in_type(index_type((*parts, *self.final_indices), ranges))

    def _in_type(self, kind: DType) -> IndexMap:
        """The map computed in an integer type, if that is wider than its own."""
        if all(
            part.dtype.bits >= kind.bits for part in (*self.initial_indices, *self.final_indices)
        ):
            return self
        wide = {var: Var(var.name, kind) for var in self.initial_indices}
        finals = [retyped(final, kind, wide) for final in self.final_indices]
        back = self.inverse_index_map
        return IndexMap(list(wide.values()), finals, None if back is None else back._in_type(kind))

    def _for(self, indices: Sequence[ExprLike]) -> IndexMap:
        """The map in the type of these indices, if that is wider."""
        return self._in_type(index_type([i for i in indices if isinstance(i, Expr)]))

    def _values(self, indices: Sequence[ExprLike]) -> dict[Var, Expr]:
        if len(indices) != len(self.initial_indices):
            count = len(self.initial_indices)
            raise UserError(f"the index map {self} takes {count} indices, got {len(indices)}")
        # Numbers and indices of another width come in the type of the map's own.
        pairs = zip(self.initial_indices, indices, strict=True)
        return {var: as_expr(index, var.dtype).astype(var.dtype) for var, index in pairs}

    def map_indices(
        self, indices: Sequence[ExprLike], analyzer: Analyzer | None = None
    ) -> list[Expr]:
        """The new indices of an element."""
        analyzer = analyzer or Analyzer()
        own = self._for(indices)
        values = own._values(indices)
        return [analyzer.simplify(substitute(final, values)) for final in own.final_indices]

    def map_ranges(self, ranges: Sequence[Range], analyzer: Analyzer | None = None) -> list[Range]:
        """The ranges of the new indices; where the map is affine they are exact."""
        own = self.fitting(ranges)
        return own._map_ranges(own._domains(ranges), analyzer)

    def _map_ranges(self, domains: dict[Var, Range], analyzer: Analyzer | None) -> list[Range]:
        known = domain_analyzer(domains) if analyzer is None else analyzer.copy()
        for var, domain in domains.items() if analyzer is not None else ():
            known.bind(var, domain)
        found = detect_iter_map(self.final_indices, domains, analyzer=analyzer)
        if found and all(_unit_scale(total.args) for total in found.indices):
            return [
                Range(
                    total.base, total.args[0].extent if total.args else const(1, total.base.dtype)
                )
                for total in found.indices
            ]
        return [self._hull(final, domains, known) for final in self.final_indices]

    def _hull(self, final: Expr, domains: Mapping[Var, Range], known: Analyzer) -> Range:
        interval = known.int_set(final, domains)
        if interval.min_value is None or interval.max_value is None:
            raise UserError(f"no bounds are known for the index {final} of {self}")
        extent = known.simplify(interval.max_value - interval.min_value + 1)
        return Range(interval.min_value, extent)

    def map_shape(self, shape: Sequence[ExprLike], analyzer: Analyzer | None = None) -> list[Expr]:
        """The new shape of a buffer."""
        ranges = [Range.from_extent(extent) for extent in shape]
        known = analyzer or Analyzer()
        return [known.simplify(r.min + r.extent) for r in self.map_ranges(ranges, analyzer)]

    def inverse(
        self, shape: Sequence[ExprLike | Range], analyzer: Analyzer | None = None
    ) -> IndexMap:
        """The map back, for a bijective map of a buffer of this shape.

        Raises:
            UserError: when the map is not bijective on the shape; says why.
        """
        own = self.fitting(shape)
        return own._inverse(own._domains(shape), analyzer)

    def _inverse(self, domains: dict[Var, Range], analyzer: Analyzer | None) -> IndexMap:
        if self.inverse_index_map is not None:
            return self.inverse_index_map
        found = detect_iter_map(self.final_indices, domains, True, "bijective", analyzer)
        if not found:
            raise UserError(f"the index map {self} is not bijective: {found.errors[0]}")
        outputs = [Var(f"axis{i}", final.dtype) for i, final in enumerate(self.final_indices)]
        known = analyzer.copy() if analyzer is not None else Analyzer()
        for output, extent in zip(outputs, self._map_ranges(domains, analyzer)):
            known.bind(output, extent)
        back = inverse_affine_iter_map(found.indices, outputs, known)
        fixed = {v: known.simplify(domain.min) for v, domain in domains.items()}
        return IndexMap(outputs, [back.get(v, fixed[v]) for v in self.initial_indices])

    def _ranges(self, shape: Sequence[ExprLike | Range]) -> list[Range]:
        ranges = [s if isinstance(s, Range) else Range.from_extent(s) for s in shape]
        if len(ranges) != len(self.initial_indices):
            self._values([r.min for r in ranges])
        return ranges

    def _domains(self, shape: Sequence[ExprLike | Range]) -> dict[Var, Range]:
        """The ranges of the variables, in the variables' types."""
        pairs = zip(self.initial_indices, self._ranges(shape), strict=True)
        return {v: Range(cast(v.dtype, r.min), cast(v.dtype, r.extent)) for v, r in pairs}

    def non_surjective_inverse(
        self, shape: Sequence[ExprLike], analyzer: Analyzer | None = None
    ) -> tuple[IndexMap, Expr]:
        """The map back and the condition on the new indices under which they are padding.

        >>> tiles = IndexMap.from_func(lambda i: [i // 4, i % 4])
        >>> back, padding = tiles.non_surjective_inverse([14]); back, padding
        (IndexMap((axis0, axis1) -> (axis0 * 4 + axis1)), axis0 == 3 and 1 < axis1)

        Raises:
            UserError: when two elements may go to one place.
        """
        sizes = [as_expr(extent) for extent in shape]
        padded = self.padded_inverse(sizes, analyzer)
        if padded is None:
            return self.inverse(sizes, analyzer), const(False)
        return IndexMap(padded.outputs, padded.back), padded.outside

    def padded_inverse(
        self, shape: Sequence[ExprLike], analyzer: Analyzer | None = None
    ) -> PaddedInverse | None:
        """The map back with its padding and the new shape; None where nothing is padding."""
        own = self.fitting(shape)
        kinds = [var.dtype for var in own.initial_indices]
        sizes = [cast(kind, extent) for kind, extent in zip(kinds, shape, strict=True)]
        return own._padded_inverse(sizes, analyzer)

    def _padded_inverse(
        self, sizes: Sequence[Expr], analyzer: Analyzer | None
    ) -> PaddedInverse | None:
        domains = self._domains(sizes)
        if self.inverse_index_map is not None:
            return None
        exact = detect_iter_map(self.final_indices, domains, True, "bijective", analyzer)
        if exact and all(is_int(t.base, 0) and _unit_scale(t.args) for t in exact.indices):
            return None
        known = analyzer or Analyzer()
        try:
            found = padded_inverse(self.initial_indices, self.final_indices, sizes, known)
        except UserError:
            if exact:
                return None
            raise
        return None if is_int(found.outside, 0) else found

    def is_equivalent(self, other: IndexMap) -> bool:
        """Whether both compute the same function.

        >>> a = IndexMap.from_func(lambda i: [i // 4 * 4 + i % 4])
        >>> a.is_equivalent(IndexMap.from_func(lambda k: [k]))
        True
        """
        if len(self.initial_indices) != len(other.initial_indices):
            return False
        if len(self.final_indices) != len(other.final_indices):
            return False
        mine, theirs = (
            self.map_indices(self.initial_indices),
            other.map_indices(self.initial_indices),
        )
        return all(a is b for a, b in zip(mine, theirs, strict=True))

    def is_equivalent_to(self, other: IndexMap) -> bool:
        """`is_equivalent`, as TVM calls it."""
        return self.is_equivalent(other)

    def __repr__(self) -> str:
        before = ", ".join(v.name for v in self.initial_indices)
        return f"IndexMap(({before}) -> ({', '.join(map(str, self.final_indices))}))"


def _ends(domain: Range) -> Interval:
    """The values in a range, as far as they are known."""
    reach = Reach()
    first, count = reach.of(domain.min), reach.of(domain.extent)
    return first[0], max(first[0], first[1] + count[1] - 1)


def _unit_scale(args: Sequence[IterSplitExpr]) -> bool:
    return not args or is_int(args[0].scale, 1)


def _parameters(function: Callable[..., object], ndim: int | None, dtype: str) -> list[Var]:
    names: list[str] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            if ndim is None:
                raise UserError(f"how many indices are *{parameter.name}?", hint="pass ndim")
            names.extend(f"{parameter.name}_{i}" for i in range(ndim - len(names)))
        else:
            names.append(parameter.name)
    return [Var(name, dtype) for name in names]
