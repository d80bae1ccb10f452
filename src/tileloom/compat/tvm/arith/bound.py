"""`tvm.arith.bound`: what regions are touched while variables run over their domains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ....expr import Analyzer, ExprLike, Range, Var, as_expr
from ....schedule.analysis import regions
from .._names import missing
from .int_set import IntervalSet, from_interval


def estimate_region_lower_bound(
    region: Sequence[Range], var_dom: Mapping[Var, Range], predicate: ExprLike
) -> list[IntervalSet] | None:
    """A box that is touched completely, or None."""
    found = regions.lower_bound(region, var_dom, as_expr(predicate), Analyzer())
    return None if found is None else [from_interval(part) for part in found]


#: What is touched completely is found from its very ends, so it is all that is touched.
estimate_region_strict_bound = estimate_region_lower_bound


def estimate_region_upper_bound(
    region: Sequence[Range], var_dom: Mapping[Var, Range], predicate: ExprLike
) -> list[IntervalSet]:
    """A box that holds all that is touched."""
    found = regions.upper_bound(region, var_dom, as_expr(predicate), {})
    return [from_interval(part) for part in found]


__all__ = [
    "estimate_region_lower_bound",
    "estimate_region_strict_bound",
    "estimate_region_upper_bound",
]
__getattr__ = missing(__name__)
