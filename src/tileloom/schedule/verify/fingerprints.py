"""Fingerprints of values: what tells the terms of a reduction apart, and pairs those of two.

The fingerprint of a value is the outline of how it is computed and the first few elements of
arguments that it is computed from, left to right; of a reduction the least element, of an
indirect load the least one that it may reach. Equal values have equal fingerprints, in
every program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from ...expr import Add, Cast, Expr, FloatImm, IntImm, Max, Min, Mul, Sub
from .model import Access
from .sums import Sums
from .tidy import least
from .values import (
    Constant,
    Element,
    Indirect,
    NotComparable,
    Number,
    Operation,
    Resolved,
    Stored,
    ValueNode,
    stored_node,
)

Above = tuple[Access, ...]  # the stores that are looked into
_MORE = ("more",)
_FOLDS: dict[type[Expr], Callable[[float, float], float]] = {
    Add: lambda a, b: a + b,
    Sub: lambda a, b: a - b,
    Mul: lambda a, b: a * b,
    Max: lambda a, b: max(a, b),
    Min: lambda a, b: min(a, b),
}


@dataclass(frozen=True, slots=True, eq=False)
class Fingerprint:
    """A fingerprint for some of the questions.

    Attributes:
        where: the questions.
        shape: the outline: nested tuples.
        leaves: from questions to indices of arguments, or to numbers.
        whole: whether two values with this fingerprint are surely the same.
    """

    where: Any
    shape: tuple[Any, ...]
    leaves: tuple[Any, ...]
    whole: bool = True

    @property
    def number(self) -> float | None:
        """The value, if it is a number whatever the question."""
        return None if self.leaves else _fold(self.shape)


def is_cut(shape: tuple[Any, ...]) -> bool:
    """Whether an outline ends at values that depend on themselves: it may differ for equal ones."""
    return shape == _MORE or any(isinstance(part, tuple) and is_cut(part) for part in shape)


def fingerprints(
    sums: Sums, value: Resolved | ValueNode, where: Any, room: int, above: Above = ()
) -> list[Fingerprint]:
    """The fingerprints of a value, with at most `room` leaves each, for all questions."""
    match value:
        case ValueNode():
            cases = sums.side.resolve(value, where)
            return [p for w, h in cases for p in fingerprints(sums, h, w, room, above)]
        case Constant(number):
            return [Fingerprint(where, ("number", number), ())]
        case Element(param, cells):
            return [Fingerprint(where, ("element", param), (cells.intersect_domain(where),))]
        case Number(values):
            return [Fingerprint(where, ("index",), (values.intersect_domain(where),))]
        case Operation():
            return _operation(sums, value, where, room, above)
        case Stored():
            return _stored(sums, value, where, room, above)
        case Indirect():
            return _indirect(sums, value, where, above)
    raise NotComparable(f"a {type(value).__name__}")


def _operation(
    sums: Sums, value: Operation, where: Any, room: int, above: Above
) -> list[Fingerprint]:
    found = [Fingerprint(where, ("op", value.shape), ())]
    for operand in value.operands:
        longer = []
        for known in found:
            left = room - len(known.leaves)
            if left <= 0:
                longer.append(replace(known, whole=False))
                continue
            for more in fingerprints(sums, operand, known.where, left, above):
                shape, leaves = (*known.shape, more.shape), (*known.leaves, *more.leaves)
                longer.append(Fingerprint(more.where, shape, leaves, known.whole and more.whole))
        found = longer
    return found


def _stored(sums: Sums, value: Stored, where: Any, room: int, above: Above) -> list[Fingerprint]:
    if value.write in above:
        return [Fingerprint(where, _MORE, (), False)]
    whole, rest = sums.finished(value, where)
    above = (*above, value.write)
    found = [] if whole.is_empty() else _reduction(sums, value, whole, above)
    if not rest.is_empty():
        node = stored_node(value.write, value.start)
        found += fingerprints(sums, node, rest, room, above)
    return found


def _reduction(sums: Sums, value: Stored, where: Any, above: Above) -> list[Fingerprint]:
    kind, terms = sums.terms(value, where)
    cells = []
    for term in terms:
        found = _elements(fingerprints(sums, term.value, term.where, 1, above))
        cells += [term.owner.reverse().apply_range(element) for element in found]
    return _least(sums, ("reduction", kind.__name__), cells, where)


def _indirect(sums: Sums, value: Indirect, where: Any, above: Above) -> list[Fingerprint]:
    asked, runs = sums.side.each_symbol(value, where)
    cells = []
    try:
        cases = sums.side.loaded(value.read, runs)
    except NotComparable:
        cases = []
    for some, head in cases:
        found = _elements(fingerprints(sums, head, some, 1, above))
        cells += [asked.domain_map().reverse().apply_range(element) for element in found]
    return _least(sums, ("indirect",), [c for c in cells if c.range().is_bounded()], where)


def _elements(found: list[Fingerprint]) -> list[Any]:
    """The leaves that are elements of arguments."""
    first = [mark.leaves[0] for mark in found if mark.leaves]
    return [leaf for leaf in first if leaf.range().get_tuple_name().startswith("G")]


def _least(
    sums: Sums, shape: tuple[Any, ...], cells: Iterable[Any], where: Any
) -> list[Fingerprint]:
    """Fingerprints of the least element of the first argument that there is."""
    integers = sums.flow.model.integers
    by_name: dict[str, Any] = {}
    for part in cells:
        name = part.range().get_tuple_name()
        by_name[name] = by_name[name].union(part) if name in by_name else part
    found = []
    for name in sorted(by_name):
        first = least(integers, by_name[name].intersect_domain(where))
        part = first.domain()
        if not part.is_empty():
            found.append(Fingerprint(part, (*shape, name), (first,), False))
            where = where.subtract(part)
    if not where.is_empty():
        found.append(Fingerprint(where, shape, (), False))
    return found


def _fold(shape: tuple[Any, ...]) -> float | None:
    match shape:
        case ("number", IntImm(_, value) | FloatImm(_, value)):
            return value
        case ("op", Cast(), inner):
            return _fold(inner)
        case ("op", outline, first, second) if type(outline) in _FOLDS:
            a, b = _fold(first), _fold(second)
            return None if a is None or b is None else _FOLDS[type(outline)](a, b)
    return None
