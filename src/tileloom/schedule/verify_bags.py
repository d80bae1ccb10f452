"""Reductions that are cut up in different ways: the terms of both, as bags.

A block may combine what other blocks have combined already, as after `rfactor`. Its terms are those
of all of them together: a bag of formulas, of which the order is free. Two bags are the same when
they hold the same tuples of values, if no bag holds a tuple twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..expr import Add, BinaryOp, Expr, FloatImm, IntImm, Max, Min, Mul
from .verify_checks import executed
from .verify_model import Access
from .verify_trees import Leaf, NotComparable, Side, placeholder

_NEUTRAL: dict[type[BinaryOp], float] = {Add: 0, Mul: 1}


@dataclass(frozen=True, slots=True)
class Bag:
    """The terms that reduce to each element.

    Attributes:
        operation: how terms are combined.
        term: the formula of one.
        leaves: what it depends on; from terms.
        owner: from terms to the iteration of the outermost block, without what it reduces.
        starts: from those iterations to what the reduction starts from.
        parts: the accumulations whose terms these are.
    """

    operation: type[BinaryOp]
    term: Expr
    leaves: tuple[Leaf, ...]
    owner: Any
    starts: Any
    parts: tuple[Access, ...]

    @property
    def shape(self) -> tuple[object, ...]:
        """What must agree before values can be compared."""
        return self.operation, self.term, len(self.leaves)


def bag_of(side: Side, write: Access) -> Bag:
    """The terms of an accumulation, with those of the accumulations that it combines."""
    owner = _owner(side, write)
    starts = owner.reverse().apply_range(side.bases(write))
    operation, term, leaves = _split(side, write)
    current, parts = write, [write]
    while True:
        inner = _combined(side, term, leaves)
        if inner is None:
            return Bag(operation, term, tuple(leaves), owner, starts, tuple(parts))
        terms = _expand(side, inner)
        rel = leaves[0].values.apply_range(terms.reverse())
        kind, inner_term, inner_leaves = _split(side, inner)
        if kind is not operation or not _is_neutral(side, inner, kind, side.bases(current)):
            raise NotComparable
        if not rel.is_injective() or not executed(inner).to_union_set().is_subset(rel.range()):
            raise NotComparable  # a term counts more than once, or not at all
        owner = rel.reverse().apply_range(owner)
        term, leaves, current = inner_term, inner_leaves, inner
        parts.append(inner)


def tuples(bag: Bag) -> tuple[Any, Any]:
    """From terms to their owner and the values of all leaves; the terms that lack one."""
    joint = bag.owner
    for leaf in bag.leaves:
        joint = joint.range_product(leaf.values)
    return joint, bag.owner.domain().subtract(joint.domain())


def _owner(side: Side, write: Access) -> Any:
    """From iterations to their spatial part, as `Z[...]`."""
    names = [f"x{k}" for k in range(len(write.reduces))]
    kept = [name for name, reduces in zip(names, write.reduces) if not reduces]
    text = f"{{ [{','.join(names)}] -> Z[{','.join(kept)}] }}"
    return side.flow.model.integers.map(text).intersect_domain(executed(write)).to_union_map()


def _expand(side: Side, write: Access) -> Any:
    """From all iterations of an accumulation to the name of its result."""
    out = side.flow.model.integers.in_dim
    back = write.iters.intersect_domain(write.domain).reverse().set_tuple_name(out, "X")
    named = back.to_union_map().apply_range(side.made(write))
    plain = back.domain().identity().reset_tuple_id(out).to_union_map()
    return plain.apply_range(named)


def _split(side: Side, write: Access) -> tuple[type[BinaryOp], Expr, list[Leaf]]:
    """An accumulation as its operation and the term that it adds."""
    formula = side.block(write)
    shape = formula.shape
    own = placeholder("own", write.ordinal, shape.dtype)
    if not isinstance(shape, Add | Mul | Max | Min) or (shape.a is own) == (shape.b is own):
        raise NotComparable
    return type(shape), shape.b if shape.a is own else shape.a, formula.leaves


def _combined(side: Side, term: Expr, leaves: list[Leaf]) -> Access | None:
    """The accumulation of which the term is a result, if the other program does not have it."""
    if len(leaves) != 1 or term is not placeholder("leaf", 0, term.dtype):
        return None
    maps = leaves[0].values.get_map_list()
    names = {maps.get_at(k).range().get_tuple_name() for k in range(maps.n_map())}
    return next((w for w in side.flow.updates if names == {f"U{w.name}"}), None)


def _is_neutral(side: Side, write: Access, kind: type[BinaryOp], outer: Any) -> bool:
    """Whether what an inner reduction starts from makes no difference."""
    names = _range_names(side.bases(write))
    values = [value for value, k in side.constants.items() if f"K{k}" in names]
    if len(names) != 1 or len(values) != 1 or not isinstance(values[0], FloatImm | IntImm):
        return False
    if kind in _NEUTRAL:
        return values[0].value == _NEUTRAL[kind]
    return kind.idempotent and names == _range_names(outer)


def _range_names(union: Any) -> set[str]:
    maps = union.get_map_list()
    return {maps.get_at(k).range().get_tuple_name() for k in range(maps.n_map())}
