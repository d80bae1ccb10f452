"""Simpler forms of sets and maps of isl: the same points, with fewer constraints.

Relations that come out of tiled and fused loops are full of quotients, where all that they say may
be `i = i'`. The simple form is guessed and then proven to be the same.

Where equations such as `i = i'` only follow from inequalities, isl's search for least points may
overlook some of them. What it finds is checked here, and searched for again with the equations.
"""

from __future__ import annotations

from typing import Any

from ..integer_sets import Integers, TooHardError


def tidy_map(integers: Integers, relation: Any) -> Any:
    """The same map, as equations between its two sides where there are such."""
    # Without the equations that follow from inequalities, what is asked next can take minutes.
    relation = relation.detect_equalities().coalesce()
    if relation.is_empty() or _is_plain(relation.wrap()):
        return relation
    equations = type(relation).from_basic_map(relation.affine_hull())
    # Boxes first: to prove one side alone to be a box can take minutes.
    for form in (_box, tidy_set):
        domain, values = form(integers, relation.domain()), form(integers, relation.range())
        if domain is None or values is None:
            continue
        simple = equations.intersect_domain(domain).intersect_range(values)
        if simple.is_subset(relation):
            return simple
    return relation


def tidy_set(integers: Integers, points: Any) -> Any:
    """The same set, as a box or as one polyhedron if it is one.

    >>> integers = Integers()
    >>> points = integers.set("{ [i, j] : 0 <= 4i + j <= 7 and 0 <= j < 4; [1, 3] }")
    >>> tidy_set(integers, points).n_basic_set()
    1
    """
    points = points.coalesce()
    if points.is_empty() or _is_plain(points) or not points.is_bounded():
        return points
    hull = type(points).from_basic_set(points.bounded_simple_hull())
    for simple in (_box(integers, points), hull):
        if simple is not None and simple.is_subset(points):
            return simple
    return points


def least(integers: Integers, relation: Any) -> Any:
    """The least that each point is mapped to.

    Raises:
        TooHardError: where that is not found.

    >>> integers = Integers()
    >>> print(least(integers, integers.map("{ [i] -> [j] : i <= j <= 9 and 0 <= i }")))
    { [i] -> [j = i] : 0 <= i <= 9 }
    """
    for form in (relation, relation.detect_equalities()):
        found = form.lexmin()
        if _is_least(integers, found, relation):
            return found
    raise TooHardError("the least elements of some sets are not found")


def _is_least(integers: Integers, found: Any, relation: Any) -> bool:
    """Whether all points have a value, and none a lesser one in the relation."""
    if not relation.domain().is_subset(found.domain()):
        return False
    lesser = integers.isl.Map.lex_gt(relation.get_space().range())
    return bool(found.apply_range(lesser).intersect(relation).is_empty())


def function_of(integers: Integers, relation: Any) -> Any | None:
    """A single-valued map as a tuple of functions; None where that is not found."""
    for form in (relation, relation.detect_equalities()):
        found = integers.isl.PwMultiAff.from_map(form)
        if relation.domain().is_subset(found.domain()):
            return found
    return None


def _is_plain(points: Any) -> bool:
    """Whether it is one polyhedron without quotients."""
    return points.n_basic_set() == 1 and not points.involves_locals()


def _box(integers: Integers, points: Any) -> Any | None:
    """The least box around a set; None if it has parameters or is not bounded."""
    has_params = points.involves_dims(integers.param_dim, 0, points.dim(integers.param_dim))
    if has_params or not points.is_bounded():
        return None
    kind, box = integers.set_dim, type(points).universe(points.get_space())
    for k in range(points.n_dim()):
        box = box.lower_bound_val(kind, k, points.dim_min_val(k))
        box = box.upper_bound_val(kind, k, points.dim_max_val(k))
    return box
