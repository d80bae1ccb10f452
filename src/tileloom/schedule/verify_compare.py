"""Whether a program computes what another one does: every value comes from the same instance.

Blocks are matched by name. Two of one name are taken for the same when they run over the same
domain and compute the same formula (see `verify_trees`); then the values that the formula depends
on must be the same in each iteration, and so must be what the parameters hold at the end. What has
no counterpart and cannot be looked through (the parts of an `rfactor`, say) is not judged.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..expr import Expr
from .verify_bags import Bag, bag_of, tuples
from .verify_checks import declared_domain, executed
from .verify_flow import Flow, union
from .verify_model import BODY, Access, Instance, Memory, Model
from .verify_report import Findings, Point, Violation
from .verify_trees import Formula, Leaf, NotComparable, Side, is_constant

_UPDATE = "_update"
Pairs = dict[Instance, Instance]


def compare(flow: Flow, origin: Flow, findings: Findings) -> None:
    """Report values that differ from those of the original; doubt what cannot be compared."""
    model = flow.model
    if _signature(model) != _signature(origin.model):
        model.doubt("not comparable with the original: the parameters differ")
        return
    if origin.model.unknown:
        model.doubt(f"not comparable with the original: {origin.model.unknown[0]}")
    _Comparison(flow, origin, findings).run()


def _signature(model: Model) -> list[object]:
    buffers = model.func.buffers
    return [(b.dtype, b.ndim, b.static_shape) for b in buffers]


@dataclass(frozen=True, slots=True)
class Difference:
    """A block, or a parameter at the end (None), that gets another value; and from which blocks."""

    place: Instance | None
    violation: Violation
    names: frozenset[str] = frozenset()


class _Comparison:
    def __init__(self, flow: Flow, origin: Flow, findings: Findings) -> None:
        self.flow, self.origin = flow, origin
        self.model = flow.model
        self.findings = findings
        self.found: list[Difference] = []
        self.doubts: list[str] = []
        self.whole: list[Access] = []

    def run(self) -> None:
        pairs = dict(self.candidates())
        while True:
            self.new, self.old = self.sides(pairs)
            # Only blocks of one formula may lend their names to values.
            doubtful = [place for place, old in pairs.items() if not self.alike(place, old)]
            if not doubtful:
                self.compare(pairs)
                doubtful = self.perhaps_renumbered(pairs)
            if not doubtful:
                break
            for place in doubtful:
                del pairs[place]
        for doubt in self.doubts:
            self.model.doubt(doubt)
        self.findings.violations += [difference.violation for difference in self.found]
        for write in self.whole:
            self.findings.has_all_terms(write)

    def compare(self, pairs: Pairs) -> None:
        self.found, self.doubts, self.whole = [], [], []
        for place, old in pairs.items():
            self.block(place, old)
        for memory, old_memory in zip(self.model.memories, self.origin.model.memories):
            if memory.param is not None:
                self.output(memory, old_memory)

    def perhaps_renumbered(self, pairs: Pairs) -> list[Instance]:
        """The blocks that differ, and so does what others take from them.

        Such a block may just have got other iteration variables (as reordered ones), so that its
        iterations are no names to compare values by.
        """
        differing = {difference.place for difference in self.found}
        taken = {name for difference in self.found for name in difference.names}
        return [p for k, p in enumerate(pairs) if p in differing and f"B{k}" in taken]

    def sides(self, pairs: Pairs) -> tuple[Side, Side]:
        constants: dict[Expr, int] = {}
        names = {place: f"B{k}" for k, place in enumerate(pairs)}
        olds = {old: names[place] for place, old in pairs.items()}
        return Side(self.flow, names, constants), Side(self.origin, olds, constants)

    # ------------------------------------------------------------------ matching

    def candidates(self) -> Iterator[tuple[Instance, Instance]]:
        """The blocks of the same name."""
        ours, theirs = _writing_places(self.model), _writing_places(self.origin.model)
        for name, place in ours.items():
            base = name.removesuffix(_UPDATE)
            known = base if name not in theirs and base not in ours else name
            other = theirs.get(known)
            if place is not None and other is not None:
                yield place, other

    def same_domain(self, place: Instance, other: Instance) -> bool:
        kinds = [[reduces for _, reduces, _, _ in p.axes()] for p in (place, other)]
        if kinds[0] != kinds[1]:
            return False
        mine = declared_domain(self.model, place)
        theirs = declared_domain(self.origin.model, other)
        return mine is not None and theirs is not None and bool(mine.is_equal(theirs))

    def alike(self, place: Instance, other: Instance) -> bool:
        """Whether two blocks compute the same if the leaves of their formulas are the same."""
        mine, theirs = _stores(self.flow, place), _stores(self.origin, other)
        if not self.same_domain(place, other):
            return self.same_terms(mine, theirs)
        if [_outline(w, self.flow) for w in mine] != [_outline(w, self.origin) for w in theirs]:
            return False
        try:
            return all(
                self.new.block(a).shape is self.old.block(b).shape for a, b in zip(mine, theirs)
            )
        except NotComparable:
            return False

    def same_terms(self, mine: list[Access], theirs: list[Access]) -> bool:
        """Whether two reductions over other domains have the same formula for their terms."""
        bags = self.bags(mine, theirs)
        if bags is None:
            return False
        owners = bags[0].owner.range(), bags[1].owner.range()
        return bags[0].shape == bags[1].shape and bool(owners[0].is_subset(owners[1]))

    def bags(self, mine: list[Access], theirs: list[Access]) -> tuple[Bag, Bag] | None:
        if len(mine) != 1 or len(theirs) != 1:
            return None
        if mine[0] not in self.flow.updates or theirs[0] not in self.origin.updates:
            return None
        try:
            return bag_of(self.new, mine[0]), bag_of(self.old, theirs[0])
        except NotComparable:
            return None

    # ------------------------------------------------------------------ comparing

    def block(self, place: Instance, old: Instance) -> None:
        """The leaves of a block's formulas are the same in each of its iterations."""
        mine, theirs = _stores(self.flow, place), _stores(self.origin, old)
        if not self.same_domain(place, old):
            bags = self.bags(mine, theirs)
            if bags is not None:
                self.terms(mine[0], *bags)
            return
        for write, other in zip(mine, theirs):
            runs = executed(write).to_union_set(), executed(other).to_union_set()
            if not runs[0].is_subset(runs[1]):
                self.doubts.append(f"block {place.name!r} runs for more iterations than originally")
            both = runs[0].intersect(runs[1])
            if write in self.flow.updates:
                base = [
                    Leaf(side.bases(w), both, write.memory.name)
                    for side, w in ((self.new, write), (self.old, other))
                ]
                left = self.different(base[0], base[1], both, write.block)
                self.report(write, left, f"starts from another value of {write.memory.name!r}")
            leaves = self.new.block(write).leaves, self.old.block(other).leaves
            for leaf, known in zip(*leaves):
                left = self.different(leaf, known, both, write.block)
                what = f"depends on another value of {leaf.name!r}"
                self.report(write, left, what, _names(leaf, known))

    def terms(self, write: Access, new: Bag, old: Bag) -> None:
        """Two reductions combine the same terms."""
        block, owners = write.block, (new.owner.range(), old.owner.range())
        if not owners[0].is_subset(owners[1]):
            self.doubts.append(f"block {block!r} runs for more iterations than originally")
        both = owners[0].intersect(owners[1])
        joints = []
        for bag in (new, old):
            joint, lacking = tuples(bag)
            unnamed = [_unnamed(leaf.values) for leaf in bag.leaves]
            known = lacking.is_empty() and all(part.is_empty() for part in unnamed)
            if not known or not joint.is_injective():
                self.doubts.append(
                    f"not comparable with the original: the terms of block {block!r}"
                )
                return
            joints.append(joint.range())
        for one, other in (joints, joints[::-1]):
            left = one.subtract(other)
            for k in range(left.get_set_list().n_set()):
                part = left.get_set_list().get_at(k)
                self.report_term(write, part, both, (*new.leaves, *old.leaves))
                return
        self.whole += new.parts
        starts = [Leaf(bag.starts, both, write.memory.name) for bag in (new, old)]
        left = self.different(starts[0], starts[1], both, block)
        self.report(write, left, f"starts from another value of {write.memory.name!r}")

    def report_term(self, write: Access, part: Any, both: Any, leaves: tuple[Leaf, ...]) -> None:
        """A term of one reduction that is not one of the other."""
        owner = part.to_union_set()
        for _ in range(len(leaves) // 2):
            owner = owner.unwrap().domain()
        owner = owner.intersect(both)
        names = frozenset[str]().union(*(_names(leaf, leaf) for leaf in leaves))
        self.report(write, owner, "combines other terms", names)

    def different(self, leaf: Leaf, known: Leaf, both: Any, block: str) -> Any:
        """The iterations for which one program has values that the other has not."""
        unnamed = _unnamed(leaf.values).union(_unnamed(known.values)).intersect(both)
        if not unnamed.is_empty():
            self.doubts.append(
                f"not comparable with the original: what block {block!r} gets from {leaf.name!r} "
                "comes from a block that the other program does not have"
            )
        parts = [
            leaf.values.subtract(known.values).domain(),
            known.values.subtract(leaf.values).domain(),
        ]
        left = union(parts, self.model.integers.isl.UnionSet)
        return left.intersect(both).subtract(unnamed)

    def report(
        self, write: Access, left: Any, what: str, names: frozenset[str] = frozenset()
    ) -> None:
        if not left.is_empty():
            message = f"block {write.block!r} {what} than originally"
            where = left.get_set_list().get_at(0)
            violation = self.findings.iterations("different", message, write, where)
            self.found.append(Difference(write.place, violation, names))

    def output(self, memory: Memory, old: Memory) -> None:
        """A parameter holds the same values at the end."""
        stores = [a for m in (memory, old) for a in m.accesses if a.is_write]
        if not stores:
            return
        mine = theirs = None
        if all(store.exact for store in stores):
            mine, theirs = self.formula(self.new, memory), self.formula(self.old, old)
        if mine is None or theirs is None or mine.shape is not theirs.shape:
            self.doubts.append(
                f"not comparable with the original: {memory.name!r} is computed by other blocks"
            )
            return
        writer = next((a.block for a in memory.accesses if a.is_write), "")
        for leaf, known in zip(mine.leaves, theirs.leaves):
            whole = leaf.runs.union(known.runs)
            left = self.different(leaf, known, whole, writer)
            if not left.is_empty():
                where = left.get_set_list().get_at(0)
                violation = self.output_differs(memory, where)
                self.found.append(Difference(None, violation, _names(leaf, known)))
                return

    @staticmethod
    def formula(side: Side, memory: Memory) -> Formula | None:
        try:
            return side.output(memory)
        except NotComparable:
            return None

    def output_differs(self, memory: Memory, where: Any) -> Violation:
        params, element = self.model.integers.point(where)
        blocks = tuple(dict.fromkeys(a.block for a in memory.accesses if a.is_write))
        named = self.findings.named(params)
        point = Point(blocks[0] if blocks else "", {}, {}, memory.name, element, named)
        message = f"{memory.name!r} holds another value at the end than originally"
        return Violation("different", message, blocks, point)


def _names(leaf: Leaf, known: Leaf) -> frozenset[str]:
    """The blocks that make the values of a leaf, as `B<number>`."""
    found = set()
    for values in (leaf.values, known.values):
        maps = values.get_map_list()
        for k in range(maps.n_map()):
            found.add(maps.get_at(k).range().get_tuple_name().split("_")[0])
    return frozenset(found)


def _unnamed(values: Any) -> Any:
    """The iterations whose values have no name that both programs know."""
    result = values.domain().subtract(values.domain())
    maps = values.get_map_list()
    for k in range(maps.n_map()):
        part = maps.get_at(k)
        if part.range().get_tuple_name().startswith("U"):
            result = result.union(part.domain().to_union_set())
    return result


def _writing_places(model: Model) -> dict[str, Instance | None]:
    """The blocks that store, by name; None where two have one name."""
    found: dict[str, Instance | None] = {}
    for place in dict.fromkeys(write.place for write in model.writes()):
        if place is not None:
            found[place.name] = None if place.name in found else place
    return found


def _stores(flow: Flow, place: Instance) -> list[Access]:
    """What a block stores; a constant that it starts from may also be set by another block."""
    return [
        write
        for write in flow.model.writes()
        if write.place is place and (write.role == BODY or not is_constant(write))
    ]


def _outline(write: Access, flow: Flow) -> tuple[object, ...]:
    return write.role, write.ordinal, len(write.inner), write in flow.updates
