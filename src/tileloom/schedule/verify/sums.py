"""Reductions as multisets of terms, however they are cut up.

All stores that combine into one memory with one operation are a *group*. What such a store leaves
is what the group started from, combined with the terms of all that went before. A term that is the
result of a reduction with the same operation gives way to the terms of that one, as after
`rfactor`; the order of terms is free, so a reduction is a multiset of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from ...base.cached import cached_property
from ...expr import Add, And, BinaryOp, Expr, FloatImm, IntImm, Max, Min, Mul, Or
from .flow import Flow, Sources, Update, union
from .model import Access, Memory
from .tidy import tidy_set
from .values import (
    Constant,
    Element,
    NotComparable,
    Resolved,
    Side,
    Stored,
    ValueNode,
    maps_of,
    stored_node,
)

_COMBINES = (Add, Mul, Max, Min, And, Or)
_NEUTRAL: dict[type[Expr], float] = {Add: 0, Mul: 1, And: 1, Or: 0}
_DEEPEST = 8


@dataclass(slots=True, eq=False)
class StoreGroup:
    """The stores that combine into a memory with one operation.

    Attributes:
        terms: what each of them adds.
        together: from (store, store) to the map between runs of one reduction.
        bases: from runs to the stores that the reduction starts from.
        fresh: the runs of reductions that start from what the function was given.
        last: the runs after which the reduction is finished.
    """

    kind: type[Expr]
    memory: Memory
    terms: dict[Access, Expr] = field(default_factory=dict)
    together: dict[tuple[Access, Access], Any] = field(default_factory=dict)
    bases: dict[Access, list[tuple[Access, Any]]] = field(default_factory=dict)
    fresh: dict[Access, Any] = field(default_factory=dict)
    last: dict[Access, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Term:
    """Terms of reductions.

    Attributes:
        value: of each.
        where: the terms: questions about the reduction, with an instance for each term.
        owner: from terms to those questions.
        starts: whether it is what the reduction starts from.
    """

    value: Resolved
    where: Any
    owner: Any
    starts: bool = False


class Sums:
    """The reductions of one program."""

    def __init__(self, side: Side) -> None:
        self.side = side
        self.flow: Flow = side.flow

    def group(self, write: Access) -> StoreGroup | None:
        """The group of a store that combines."""
        return self._groups.get(write)

    def finished(self, value: Resolved, where: Any) -> tuple[Any, Any]:
        """The questions for which a value is a whole reduction, and the others."""
        group = self.group(value.write) if isinstance(value, Stored) else None
        if group is None or not isinstance(value, Stored):
            return where.subtract(where), where
        whole = value.start.intersect_range(group.last[value.write]).domain().intersect(where)
        return whole, where.subtract(whole)

    # ------------------------------------------------------------------ groups

    @cached_property
    def _groups(self) -> dict[Access, StoreGroup]:
        result: dict[Access, StoreGroup] = {}
        found: dict[tuple[Memory, type[Expr]], list[tuple[Update, Expr]]] = {}
        for write, update in self.flow.updates.items():
            split = _split(update)
            if split is not None:
                found.setdefault((write.memory, split[0]), []).append((update, split[1]))
        for (memory, kind), members in found.items():
            group = self._build(memory, kind, members)
            if group is not None:
                result.update(dict.fromkeys(group.terms, group))
        return result

    def _build(
        self, memory: Memory, kind: type[Expr], members: list[tuple[Update, Expr]]
    ) -> StoreGroup | None:
        group = StoreGroup(kind, memory, {update.write: term for update, term in members})
        others = [w for w in memory.writes if w not in group.terms]
        if not all(write.exact for write in others):
            return None
        integers = self.flow.model.integers
        isl = integers.isl
        reads = [(update.read.cell, update.read.time) for update, _ in members]
        if len(members) == 1:
            start = Sources(members[0][0].base, members[0][0].fresh)
        else:
            start = self.flow.last_before(reads, others)
        by_name = {write.name: write for write in memory.writes}
        before = {(r.domain().get_tuple_name(), r.range().get_tuple_name()): r
                  for r in maps_of(start.last)}  # fmt: skip
        keys: dict[Access, list[Any]] = {}
        for update, _ in members:
            write, read = update.write, update.read
            mine = [(by_name[out], self._runs(write, part, by_name[out]))
                    for (name, out), part in before.items() if name == read.name]  # fmt: skip
            group.bases[write] = mine
            fresh = start.unwritten.intersect(read.domain.to_union_set())
            parts = fresh.get_set_list()
            bare = parts.get_at(0) if parts.n_set() else read.domain.subtract(read.domain)
            group.fresh[write] = bare.set_tuple_name(write.name).apply(self.side.place(write))
            cells = self.side.of_runs(write, write.cell)
            keys[write] = [cells.range_product(part) for _, part in mine]
            keys[write].append(cells.intersect_domain(group.fresh[write]))
        for first in group.terms:
            for second in group.terms:
                same = _same_key(keys[first], keys[second])
                group.together[first, second] = self.side.tidy(same)
        going_on = union((self._continued(update, memory) for update, _ in members), isl.UnionSet)
        for write in group.terms:
            left = write.domain.to_union_set().subtract(going_on).get_set_list()
            rest = left.get_at(0) if left.n_set() else write.domain.subtract(write.domain)
            group.last[write] = tidy_set(integers, rest.apply(self.side.place(write)))
        return group

    def _runs(self, write: Access, start: Any, base: Access) -> Any:
        """What a load of an accumulator finds, as a map between runs."""
        named = start.set_tuple_name(self.flow.model.integers.in_dim, write.name)
        return self.side.of_runs(write, named.apply_range(self.side.place(base)))

    def _continued(self, update: Update, memory: Memory) -> Any:
        """The stores whose results an accumulation combines further."""
        reads = update.read.domain.to_union_set()
        return self.flow.sources(memory).last.intersect_domain(reads).range()

    # ------------------------------------------------------------------ terms

    def terms(self, value: Stored, where: Any, depth: int = 0) -> tuple[type[Expr], list[Term]]:
        """The terms of finished reductions."""
        group = self.group(value.write)
        if group is None:
            raise NotComparable(f"the reduction in block {value.write.block!r}")
        start = value.start.intersect_domain(where)
        result: list[Term] = []
        for write, term in group.terms.items():
            reached = start.apply_range(group.together[value.write, write])
            if not reached.is_empty():
                asked = reached.wrap()
                node = ValueNode(term, write, reached.range_map(), write.statement, write.loads)
                result += self._flat(group, node, asked, reached.domain_map(), depth)
        for write, base in group.bases[value.write]:
            reached = start.apply_range(base)
            if not reached.is_empty():
                node = stored_node(write, reached.range_map())
                starts = self._flat(group, node, reached.wrap(), reached.domain_map(), depth)
                result += [replace(term, starts=True) for term in starts]
        result += self._given(group, value.write, start)
        return group.kind, result

    def _given(self, group: StoreGroup, write: Access, start: Any) -> Iterator[Term]:
        """What reductions start from that accumulate into what was given."""
        param = group.memory.param
        reached = start.intersect_range(group.fresh[write])
        if reached.is_empty():
            return
        if param is None:
            raise NotComparable(f"{group.memory.name!r} is read before it is written")
        elements = self.side.of_runs(write, write.element)
        cells = self.side.given(param, reached.apply_range(elements))
        named = cells.range_map().set_tuple_name(self.flow.model.integers.out_dim, f"G{param}")
        yield Term(Element(param, named), cells.wrap(), cells.domain_map(), True)

    def _flat(
        self, group: StoreGroup, node: ValueNode, asked: Any, owner: Any, depth: int
    ) -> Iterator[Term]:
        if depth > _DEEPEST:
            raise NotComparable("reductions of reductions")
        for where, head in self.side.resolve(node, asked):
            if isinstance(head, Constant) and is_neutral_value(group.kind, head.value):
                continue
            if isinstance(head, Stored) and self._is_of(head, group.kind):
                whole, where = self.finished(head, where)
                if not whole.is_empty():
                    _, inner = self.terms(head, whole, depth + 1)
                    for term in inner:
                        yield replace(term, owner=term.owner.apply_range(owner), starts=False)
            if not where.is_empty():
                yield Term(head, where, owner.intersect_domain(where))

    def _is_of(self, head: Stored, kind: type[Expr]) -> bool:
        group = self.group(head.write)
        return group is not None and group.kind is kind


def is_neutral(kind: type[Expr], number: float) -> bool:
    """Whether combining with a number changes nothing."""
    return kind in _NEUTRAL and number == _NEUTRAL[kind]


def is_neutral_value(kind: type[Expr], value: Expr) -> bool:
    """Whether it is a number of which that is so."""
    return isinstance(value, FloatImm | IntImm) and is_neutral(kind, value.value)


def _same_key(first: list[Any], second: list[Any]) -> Any:
    """Between the instances that share a cell and what it started from."""
    result: Any = None
    for one in first:
        for other in second:
            if one.range().get_space().is_equal(other.range().get_space()):
                both = one.apply_range(other.reverse())
                result = both if result is None else result.union(both)
    if result is None:
        a, b = first[0].domain(), second[0].domain()
        return a.subtract(a).product(b.subtract(b)).unwrap()
    return result


def _split(update: Update) -> tuple[type[Expr], Expr] | None:
    """An accumulation as its operation and the term that it adds."""
    write = update.write
    value = write.value
    if not isinstance(value, _COMBINES) or not isinstance(value, BinaryOp | And | Or):
        return None
    own = [write.loads.get(part) == update.read.slot for part in (value.a, value.b)]
    if own[0] == own[1]:
        return None
    return type(value), value.b if own[0] else value.a
