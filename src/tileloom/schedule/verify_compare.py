"""Whether a program computes what another one does: every value comes from the same instance.

Blocks are matched by name. Two of one name are taken for the same when they run over the same
domain and compute the same formula (see `verify_trees`); then the values that the formula depends
on must be the same in each iteration, and so must be what the parameters hold at the end. What has
no counterpart and cannot be looked through (the parts of an `rfactor`, say) is not judged.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..expr import Expr
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


class _Comparison:
    def __init__(self, flow: Flow, origin: Flow, findings: Findings) -> None:
        self.flow, self.origin = flow, origin
        self.model = flow.model
        self.findings = findings

    def run(self) -> None:
        pairs = dict(self.candidates())
        while True:
            # Only blocks of one formula may lend their names to values.
            self.new, self.old = self.sides(pairs)
            unlike = [place for place, old in pairs.items() if not self.alike(place, old)]
            if not unlike:
                break
            for place in unlike:
                del pairs[place]
        for place, old in pairs.items():
            self.block(place, old)
        for memory, old_memory in zip(self.model.memories, self.origin.model.memories):
            if memory.param is not None:
                self.output(memory, old_memory)

    def sides(self, pairs: Pairs) -> tuple[Side, Side]:
        constants: dict[Expr, int] = {}
        names = {place: f"B{k}" for k, place in enumerate(pairs)}
        olds = {old: names[place] for place, old in pairs.items()}
        return Side(self.flow, names, constants), Side(self.origin, olds, constants)

    # ------------------------------------------------------------------ matching

    def candidates(self) -> Iterator[tuple[Instance, Instance]]:
        """The blocks of the same name over the same domain."""
        ours, theirs = _writing_places(self.model), _writing_places(self.origin.model)
        for name, place in ours.items():
            base = name.removesuffix(_UPDATE)
            known = base if name not in theirs and base not in ours else name
            other = theirs.get(known)
            if place is not None and other is not None and self.same_domain(place, other):
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
        if [_outline(w, self.flow) for w in mine] != [_outline(w, self.origin) for w in theirs]:
            return False
        try:
            return all(
                self.new.block(a).shape is self.old.block(b).shape for a, b in zip(mine, theirs)
            )
        except NotComparable:
            return False

    # ------------------------------------------------------------------ comparing

    def block(self, place: Instance, old: Instance) -> None:
        """The leaves of a block's formulas are the same in each of its iterations."""
        for write, other in zip(_stores(self.flow, place), _stores(self.origin, old)):
            runs = executed(write).to_union_set(), executed(other).to_union_set()
            if not runs[0].is_subset(runs[1]):
                self.model.doubt(f"block {place.name!r} runs for more iterations than originally")
            both = runs[0].intersect(runs[1])
            if write in self.flow.updates:
                base = [
                    Leaf(side.bases(w), both, write.memory.name)
                    for side, w in ((self.new, write), (self.old, other))
                ]
                left = self.different(base[0], base[1], both, write.block)
                self.report(write, left, f"starts from another value of {write.memory.name!r}")
            mine, theirs = self.new.block(write), self.old.block(other)
            for leaf, known in zip(mine.leaves, theirs.leaves):
                left = self.different(leaf, known, both, write.block)
                self.report(write, left, f"depends on another value of {leaf.name!r}")

    def different(self, leaf: Leaf, known: Leaf, both: Any, block: str) -> Any:
        """The iterations for which one program has values that the other has not."""
        unnamed = _unnamed(leaf.values).union(_unnamed(known.values)).intersect(both)
        if not unnamed.is_empty():
            self.model.doubt(
                f"not comparable with the original: what block {block!r} gets from {leaf.name!r} "
                "comes from a block that the other program does not have"
            )
        parts = [
            leaf.values.subtract(known.values).domain(),
            known.values.subtract(leaf.values).domain(),
        ]
        left = union(parts, self.model.integers.isl.UnionSet)
        return left.intersect(both).subtract(unnamed)

    def report(self, write: Access, left: Any, what: str) -> None:
        if not left.is_empty():
            message = f"block {write.block!r} {what} than originally"
            self.findings.at_iters("different", message, write, left.get_set_list().get_at(0))

    def output(self, memory: Memory, old: Memory) -> None:
        """A parameter holds the same values at the end."""
        stores = [a for m in (memory, old) for a in m.accesses if a.is_write]
        if not stores:
            return
        mine = theirs = None
        if all(store.exact for store in stores):
            mine, theirs = self.formula(self.new, memory), self.formula(self.old, old)
        if mine is None or theirs is None or mine.shape is not theirs.shape:
            self.model.doubt(
                f"not comparable with the original: {memory.name!r} is computed by other blocks"
            )
            return
        writer = next((a.block for a in memory.accesses if a.is_write), "")
        for leaf, known in zip(mine.leaves, theirs.leaves):
            whole = leaf.runs.union(known.runs)
            left = self.different(leaf, known, whole, writer)
            if not left.is_empty():
                self.report_output(memory, left.get_set_list().get_at(0))
                return

    @staticmethod
    def formula(side: Side, memory: Memory) -> Formula | None:
        try:
            return side.output(memory)
        except NotComparable:
            return None

    def report_output(self, memory: Memory, where: Any) -> None:
        params, element = self.model.integers.point(where)
        blocks = tuple(dict.fromkeys(a.block for a in memory.accesses if a.is_write))
        named = self.findings.named(params)
        point = Point(blocks[0] if blocks else "", {}, {}, memory.name, element, named)
        message = f"{memory.name!r} holds another value at the end than originally"
        self.findings.violations.append(Violation("different", message, blocks, point))


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
