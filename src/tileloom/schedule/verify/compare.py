"""Whether a program computes what another one does: the same term for every element of a result.

Blocks need not correspond. The proof starts at the elements of the results and goes backwards
through both programs: whatever two equal values are computed from must be equal in turn, until
arguments and constants are reached. That two stores agree for some pairs of runs is an
*obligation*; it may be used while it is being proven, as values only depend on earlier ones. The
terms of two reductions are paired by their fingerprints (see `fingerprints`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ...expr import Expr, FloatImm, IntImm
from .flow import Flow
from .model import Memory, Model
from .multisets import Different, TermMultisets
from .report import Findings, Point, Violation
from .sums import Sums
from .values import (
    Constant,
    Element,
    Indirect,
    NotComparable,
    Number,
    Operation,
    Resolved,
    Side,
    Stored,
    ValueNode,
    stored_node,
)

_WIDEN, _GIVE_UP = 3, 6


def compare(
    flow: Flow, origin: Flow, findings: Findings, layouts: Mapping[int, Any] | None = None
) -> bool:
    """Whether all results are the same; reports those that differ, doubts what is undecided.

    Args:
        flow: the program.
        origin: the original one, over the same parameters.
        findings: where to report.
        layouts: for parameters in another layout, the map from indices of the original.
    """
    model, layouts = flow.model, layouts or {}
    if _signature(model, set(layouts)) != _signature(origin.model, set(layouts)):
        model.doubt("not comparable with the original: the parameters differ")
        return False
    backwards = {param: layout.reverse() for param, layout in layouts.items()}
    new, old = Sums(Side(flow, backwards)), Sums(Side(origin))
    same = True
    for memory, other in zip(model.memories, origin.model.memories):
        if memory.param is not None:
            same &= _result(new, old, findings, (memory, other), layouts.get(memory.param))
    return same


def _signature(model: Model, moved: set[int]) -> list[object]:
    buffers = model.func.buffers
    return [
        (b.dtype, *(() if k in moved else (b.ndim, b.static_shape))) for k, b in enumerate(buffers)
    ]


def _result(
    new: Sums, old: Sums, findings: Findings, memories: tuple[Memory, Memory], layout: Any
) -> bool:
    """Whether a parameter holds the same at the end."""
    memory, other = memories
    if not any(a.is_write for m in memories for a in m.accesses):
        return True
    try:
        Proof(new, old).result(memory, other, layout)
    except Different as difference:
        findings.violations.append(_violation(new.side, findings, memory, difference))
        return False
    except NotComparable as reason:
        findings.model.doubt(f"not comparable with the original: {reason}")
        return False
    return True


def _violation(side: Side, findings: Findings, memory: Memory, found: Different) -> Violation:
    if found.write is not None and found.write.iters is not None:
        runs = found.start.intersect_domain(found.where).range()
        iters = runs.apply(side.of_runs(found.write, found.write.iters))
        message = f"block {found.write.block!r} {found.message} than originally"
        return findings.iterations("different", message, found.write, iters)
    params, element = findings.model.integers.point(found.where)
    blocks = tuple(dict.fromkeys(a.block for a in memory.writes))
    named = findings.named(params)
    point = Point(blocks[0] if blocks else "", {}, {}, memory.name, element, named)
    message = f"{memory.name!r} holds another value at the end than originally"
    return Violation("different", message, blocks, point)


@dataclass(frozen=True, slots=True, eq=False)
class Obligation:
    """Two expressions in stores, and the pairs of runs for which they must agree."""

    new: ValueNode
    old: ValueNode
    pairs: Any
    above: tuple[object, ...] = ()  # the obligations that it comes from
    guess: bool = False  # whether more pairs are asked about than need be

    @property
    def key(self) -> object:
        """What it is about."""
        return self.new.write, self.new.expr, self.old.write, self.old.expr


class Proof:
    """That two programs leave the same in one parameter."""

    def __init__(self, new: Sums, old: Sums) -> None:
        self.new, self.old = new, old
        self.known: dict[object, Any] = {}
        self.open: list[Obligation] = []
        self.now: Obligation | None = None
        self.multisets = TermMultisets(self)

    def result(self, memory: Memory, other: Memory, layout: Any) -> None:
        """Prove it.

        Raises:
            Different: when it is not so.
            NotComparable: when it is not known.
        """
        cells = _all_cells(self.old.side, other)
        plain = cells.identity()
        moved = plain
        if layout is not None:
            into = self.new.flow.model.integers.in_dim
            moved = layout.set_tuple_name(into, f"Q{memory.param}").intersect_domain(cells)
        asked = moved.domain()
        if not cells.is_subset(asked):
            raise NotComparable(f"the layout of {memory.name!r} leaves elements out")
        ours = _at_end(self.new.side, memory, moved)
        theirs = _at_end(self.old.side, other, plain)
        for where, head in ours:
            for both, known in _restricted(where, theirs):
                untouched = isinstance(head, Element) and head.param == memory.param
                if untouched and not isinstance(known, Element | Indirect):
                    raise self.different(both, "is left as it was")
                self.values(both, head, known)
        while self.open:
            self.now = self.open.pop()
            self.settle(self.now)

    # ------------------------------------------------------------------ obligations

    def owe(self, new: ValueNode, old: ValueNode, pairs: Any) -> None:
        """Take an obligation on, unless it is known."""
        pairs = self.new.side.tidy(pairs)
        above = () if self.now is None else (*self.now.above, self.now.key)
        found = Obligation(new, old, pairs, above, self.now is not None and self.now.guess)
        known = self.known.get(found.key)
        if known is not None:
            if pairs.is_subset(known):
                return
            found = replace(found, pairs=pairs.subtract(known))
        times = above.count(found.key)
        if times >= _GIVE_UP:
            raise NotComparable(f"values of block {new.write.block!r} that depend on one another")
        if times >= _WIDEN:
            found = self.widened(found, known)
        total = found.pairs if known is None else known.union(found.pairs)
        self.known[found.key] = total.coalesce()
        self.open.append(found)

    def widened(self, found: Obligation, known: Any) -> Obligation:
        """The same for all pairs that are like those known, to come to an end."""
        seen = found.pairs if known is None else known.union(found.pairs)
        integers = self.new.flow.model.integers
        wide = integers.isl.Map.from_basic_map(seen.affine_hull())
        wide = wide.intersect_domain(self.new.side.runs(found.new.write))
        wide = wide.intersect_range(self.old.side.runs(found.old.write))
        return replace(found, pairs=wide, guess=True)

    def settle(self, duty: Obligation) -> None:
        """Prove an obligation from others."""
        where = duty.pairs.wrap()
        new = replace(duty.new, start=duty.pairs.domain_map())
        old = replace(duty.old, start=duty.pairs.range_map())
        if new.expr is new.write.value and old.expr is old.write.value:
            self.stores(where, Stored(new.write, new.start), Stored(old.write, old.start))
        else:
            self.nodes(where, new, old)

    def stores(self, where: Any, new: Stored, old: Stored) -> None:
        """What two stores leave is the same."""
        whole, rest = self.new.finished(new, where)
        for part, is_whole in ((whole, True), (rest, False)):
            if part.is_empty():
                continue
            both, alone = self.old.finished(old, part)
            nodes = stored_node(new.write, new.start), stored_node(old.write, old.start)
            if is_whole and not both.is_empty():
                self.multisets.compare(both, new, old)
            elif not both.is_empty():
                for some, head in self.new.side.resolve(nodes[0], both):
                    self.values(some, head, old)
            if is_whole and not alone.is_empty():
                for some, head in self.old.side.resolve(nodes[1], alone):
                    self.values(some, new, head)
            elif not alone.is_empty():
                self.nodes(alone, *nodes)

    # ------------------------------------------------------------------ values

    def nodes(self, where: Any, new: ValueNode, old: ValueNode) -> None:
        """Two expressions have the same value."""
        theirs = self.old.side.resolve(old, where)
        for part, head in self.new.side.resolve(new, where):
            for both, known in _restricted(part, theirs):
                self.values(both, head, known)

    def values(self, where: Any, new: Resolved, old: Resolved) -> None:
        """Two values are the same."""
        match new, old:
            case Stored(), Stored():
                start = new.start.intersect_domain(where)
                pairs = start.reverse().apply_range(old.start)
                ours, theirs = (stored_node(s.write, s.start) for s in (new, old))
                self.owe(ours, theirs, pairs)
            case (Stored(), _) | (_, Stored()):
                self.opened(where, new, old)
            case Element(), Element():
                if new.param != old.param:
                    raise self.different(where, "depends on another argument")
                names = self.new.flow.model.memories
                name = next(m.name for m in names if m.param == new.param)
                self.same_map(where, new.cells, old.cells, f"depends on another value of {name!r}")
            case Number(), Number():
                self.same_map(where, new.values, old.values, "depends on another index")
            case (Number(), Constant()) | (Constant(), Number()):
                self.same_number(where, new, old)
            case Constant(), Constant():
                self.constants(where, new.value, old.value)
            case Operation(), Operation():
                self.operations(where, new, old)
            case Indirect(), Indirect():
                self.indirect(where, new, old)
            case (Indirect(), _) | (_, Indirect()):
                self.direct(where, new, old)
            case _:
                raise self.other(new, old)

    def opened(self, where: Any, new: Resolved, old: Resolved) -> None:
        """One of two values is that of a store: it is looked into."""
        for sums, head in ((self.new, new), (self.old, old)):
            if not isinstance(head, Stored):
                continue
            whole, rest = sums.finished(head, where)
            if not whole.is_empty():
                self.multisets.compare(whole, new, old)
            if rest.is_empty():
                return
            for part, inner in sums.side.resolve(stored_node(head.write, head.start), rest):
                pair = (inner, old) if sums is self.new else (new, inner)
                self.values(part, *pair)
            return

    def operations(self, where: Any, new: Operation, old: Operation) -> None:
        """Two operations are the same, on the same operands."""
        if new.shape is not old.shape:
            raise self.other(new, old)
        for ours, theirs in zip(new.operands, old.operands, strict=True):
            self.nodes(where, ours, theirs)

    def constants(self, where: Any, new: Expr, old: Expr) -> None:
        """Two numbers or texts are the same."""
        if new is old:
            return
        plain = isinstance(new, IntImm | FloatImm) and isinstance(old, IntImm | FloatImm)
        if not plain or new.dtype is not old.dtype:
            raise NotComparable(f"{new} where {old} was")
        raise self.different(where, f"uses {new} where {old} was, another number")

    def same_number(self, where: Any, new: Resolved, old: Resolved) -> None:
        """An expression over the iterations is constant."""
        integers = self.new.flow.model.integers
        maps = []
        for head in (new, old):
            if isinstance(head, Number):
                maps.append(head.values)
            elif isinstance(head, Constant) and isinstance(head.value, IntImm):
                point = integers.set(f"{{ [{head.value.value}] }}")
                maps.append(integers.isl.Map.from_domain_and_range(where, point))
            else:
                raise self.other(new, old)
        self.same_map(where, maps[0], maps[1], "depends on another index")

    def same_map(self, where: Any, new: Any, old: Any, message: str) -> None:
        """Two functions are the same for some questions."""
        asked = new.intersect_domain(where)
        equations = type(asked).from_basic_map(asked.affine_hull())
        if equations.intersect_domain(where).is_subset(old):
            return  # with what may be far more quotients than equations, as those of tiles are
        left = asked.subtract(old)
        if not left.is_empty():
            raise self.different(left.domain(), message)

    # ------------------------------------------------------------------ indirect loads

    def indirect(self, where: Any, new: Indirect, old: Indirect) -> None:
        """Two loads whose places depend on data: the same data, and the same for all of it."""
        if len(new.symbols) != len(old.symbols):
            raise self.other(new, old)
        for ours, theirs in zip(new.symbols, old.symbols):
            self.nodes(where, ours, theirs)
        parts = [s.side.each_symbol(v, where) for s, v in ((self.new, new), (self.old, old))]
        asked = parts[0][0].intersect(parts[1][0]).wrap()
        cases = [
            s.side.loaded(v.read, runs.intersect_domain(asked))
            for s, v, (_, runs) in zip((self.new, self.old), (new, old), parts)
        ]
        try:
            for part, head in cases[0]:
                for both, known in _restricted(part, cases[1]):
                    self.values(both, head, known)
        except Different as found:
            found.where = found.where.unwrap().domain()
            raise

    def direct(self, where: Any, new: Resolved, old: Resolved) -> None:
        """One of two places depends on data: on numbers that are known, as when they are cached."""
        if isinstance(new, Indirect):
            for part, head in self.pinned(self.new.side, new, where):
                self.values(part, head, old)
        elif isinstance(old, Indirect):
            for part, head in self.pinned(self.old.side, old, where):
                self.values(part, new, head)

    def pinned(self, side: Side, value: Indirect, where: Any) -> list[tuple[Any, Resolved]]:
        """What an indirect load gets if its symbols have values that are known."""
        asked, runs = side.each_symbol(value, where)
        tuples = None
        for symbol in value.symbols:
            cases = self.numbers(side, symbol, where)
            tuples = cases if tuples is None else tuples.flat_range_product(cases)
        chosen = runs.intersect_domain(asked.intersect(tuples).wrap())
        reached = asked.domain_map().reverse().apply_range(chosen)
        if not where.is_subset(reached.domain()):
            raise NotComparable(f"an index into {value.read.memory.name!r} that is out of bounds")
        return side.loaded(value.read, reached.intersect_domain(where))

    def numbers(self, side: Side, node: ValueNode, where: Any) -> Any:
        """From questions to what an integer value is."""
        result: Any = None
        sums = self.new if side is self.new.side else self.old
        cases = side.resolve(node, where)
        while cases:
            part, head = cases.pop()
            if isinstance(head, Stored) and sums.group(head.write) is None:
                cases += side.resolve(stored_node(head.write, head.start), part)
                continue
            if not isinstance(head, Number):
                raise NotComparable("an index that depends on data in one of the programs alone")
            values = head.values.intersect_domain(part)
            result = values if result is None else result.union(values)
        return result

    # ------------------------------------------------------------------ failure

    def different(self, where: Any, message: str) -> Exception:
        """The error for a value that differs."""
        if self.now is not None and self.now.guess:
            return NotComparable("values that depend on one another")
        if self.now is None:
            return Different(where, message, None, None)
        return Different(where, message, self.now.new.write, self.now.pairs.domain_map())

    def guess(self) -> None:
        """From here on more may be asked about than need be."""
        if self.now is not None:
            self.now = replace(self.now, guess=True)

    def other(self, new: Resolved, old: Resolved) -> NotComparable:
        """The error for values that are computed in different ways."""
        write = None if self.now is None else self.now.new.write
        block = f" in block {write.block!r}" if write is not None else ""
        return NotComparable(f"{_title(new)}{block} where the original has {_title(old)}")


def _title(value: Resolved) -> str:
    match value:
        case Constant(number):
            return f"the constant {number}"
        case Operation(_, node):
            return f"{node.expr}"
        case Element():
            return "an argument"
        case Stored(write):
            return f"the result of block {write.block!r}"
        case Indirect(read):
            return f"a load from {read.memory.name!r}"
    return "an index"


def _restricted(where: Any, cases: list[tuple[Any, Resolved]]) -> list[tuple[Any, Resolved]]:
    """The cases of some questions."""
    found = [(where.intersect(part), head) for part, head in cases]
    return [(part, head) for part, head in found if not part.is_empty()]


def _all_cells(side: Side, memory: Memory) -> Any:
    """All elements of a parameter."""
    model = side.flow.model
    cells = model.integers.box(memory.buffer.shape)
    if cells is None:
        raise NotComparable(f"the shape of {memory.name!r}")
    return cells.intersect_params(model.parameters.params()).set_tuple_name(f"Q{memory.param}")


def _at_end(side: Side, memory: Memory, cells: Any) -> list[tuple[Any, Resolved]]:
    """What a parameter holds at the end; `cells` goes from questions to its elements."""
    out = side.flow.model.integers.out_dim
    name = f"E{memory.index}"
    reached, where = cells.set_tuple_name(out, name), cells.domain()
    result: list[tuple[Any, Resolved]] = []
    for write, last in side.sources(memory, name):
        start = reached.apply_range(last)
        part = start.domain()
        if not part.is_empty():
            where = where.subtract(part)
            result += side.stored(write, start)
    if not where.is_empty() and memory.param is not None:
        given = side.given(memory.param, cells.intersect_domain(where))
        result.append((where, Element(memory.param, given)))
    return result
