"""Whether a program computes what another one does: every value comes from the same instance.

Blocks are matched by name. A value has a name: the block and iteration that made it, the constant
that it is, or the element of an argument. Copies are looked through. Blocks that compute the same
formula over the same domain, whose loads get values of the same names, make equal values; so do
then the outputs. What has no counterpart (an inlined block, the parts of an `rfactor`) is not
judged.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..base.errors import InternalError
from ..expr import Expr, Var, post_order
from .verify_checks import declared_domain, executed
from .verify_flow import Flow, follow, made_by, union, values_of
from .verify_model import BODY, Access, Instance, Memory, Model
from .verify_report import Findings, Point, Violation

_UPDATE = "_update"
Slot = tuple[str, int, int]


def compare(flow: Flow, origin: Flow, findings: Findings) -> None:
    """Report values that differ from those of the original; doubt what cannot be compared."""
    model = flow.model
    if _signature(model) != _signature(origin.model):
        model.doubt("not comparable with the original: the parameters differ")
        return
    if origin.model.unknown:
        model.doubt(f"not comparable with the original: {origin.model.unknown[0]}")
    _Comparison(flow, origin, findings).run()


class _Side:
    """One of the two programs, with names for what its stores make."""

    def __init__(self, flow: Flow, names: dict[Instance, str], constants: dict[Expr, int]) -> None:
        self.flow = flow
        self.names = names
        self.constants = constants
        self._made: dict[Access, Any] = {}
        self._open: set[Access] = set()

    def made(self, write: Access) -> Any:
        """From instances of a store to names of what they store."""
        if write not in self._made:
            if write in self._open:  # a copy that hands on its own results
                return made_by(self.flow, write, f"U{write.name}")
            self._open.add(write)
            self._made[write] = self._make(write)
            self._open.discard(write)
        return self._made[write]

    def _make(self, write: Access) -> Any:
        integers = self.flow.model.integers
        read = self.copied(write)
        if read is not None:
            step = write.domain.identity().set_tuple_name(integers.out_dim, read.name)
            return step.to_union_map().apply_range(self.values(read))
        if write.pattern is not None and write not in self.flow.updates and _fixed(write.pattern):
            number = self.constants.setdefault(write.pattern, len(self.constants))
            dims = ",".join(f"d{k}" for k in range(len(write.dims)))
            text = f"{{ {write.name}[{dims}] -> K{number}[] }}"
            return integers.map(text).intersect_domain(write.domain).to_union_map()
        name = None if write.place is None else self.names.get(write.place)
        if name is None:
            return made_by(self.flow, write, f"U{write.name}")
        return made_by(self.flow, write, f"{name}_{write.role}_{write.ordinal}")

    def copied(self, write: Access) -> Access | None:
        """The load whose value a store hands on unchanged."""
        if not write.is_copy or not write.exact:
            return None
        for read in self.flow.model.reads():
            if read.statement == write.statement and read.exact and read.slot == 0:
                return read if read.dims == write.dims else None
        return None

    def values(self, read: Access) -> Any:
        """From instances of a load to names of what they load."""
        return values_of(self.flow, read, self.made)

    def bases(self, write: Access) -> Any:
        """From instances of an accumulation to names of what it starts from."""
        update = self.flow.updates[write]
        result = follow(self.flow, update.base, write.memory, self.made)
        if write.memory.param is not None:
            integers = self.flow.model.integers
            given = update.read.element.set_tuple_name(integers.out_dim, f"G{write.memory.param}")
            result = result.union(given.to_union_map().intersect_domain(update.fresh))
        return result

    def outputs(self, memory: Memory) -> Any:
        """From elements of a parameter to names of what they hold at the end."""
        return follow(self.flow, self.flow.final(memory), memory, self.made)


def _fixed(pattern: Expr) -> bool:
    return not any(isinstance(part, Var) for part in post_order(pattern))


class _Comparison:
    def __init__(self, flow: Flow, origin: Flow, findings: Findings) -> None:
        self.model = flow.model
        self.findings = findings
        self.pairs = dict(self.matching(flow.model, origin.model))
        constants: dict[Expr, int] = {}
        names = {place: f"B{k}" for k, place in enumerate(self.pairs)}
        olds = {old: names[place] for place, old in self.pairs.items()}
        self.new, self.old = _Side(flow, names, constants), _Side(origin, olds, constants)

    def run(self) -> None:
        for place, old in self.pairs.items():
            self.block(place, old)
        old_memories = self.old.flow.model.memories
        for memory, old_memory in zip(self.model.memories, old_memories):
            if memory.param is not None:
                self.output(memory, old_memory)

    # ------------------------------------------------------------------ matching

    def matching(self, new: Model, old: Model) -> Iterable[tuple[Instance, Instance]]:
        """The blocks of the same name that compute the same formulas over the same domain."""
        ours, theirs = _writing_places(new), _writing_places(old)
        for name, place in ours.items():
            base = name.removesuffix(_UPDATE)
            known = base if name not in theirs and base not in ours else name
            if place is None or theirs.get(known) is None:
                continue
            other = theirs[known]
            if other is not None and self.alike(new, place, old, other):
                yield place, other

    def alike(self, new: Model, place: Instance, old: Model, other: Instance) -> bool:
        """Whether two blocks compute the same if their loads get the same."""
        domains = declared_domain(new, place), declared_domain(old, other)
        kinds = [[reduces for _, reduces, _, _ in p.axes()] for p in (place, other)]
        if kinds[0] != kinds[1] or domains[0] is None or domains[1] is None:
            return False
        same = domains[0].is_equal(domains[1])
        return bool(same) and _formulas(new, place) == _formulas(old, other)

    # ------------------------------------------------------------------ comparing

    def block(self, place: Instance, old: Instance) -> None:
        """The loads of a block get the same values for each of its iterations."""
        runs = [
            self.runs([a for a in model.writes() if a.place is which and a.role == BODY])
            for model, which in ((self.model, place), (self.old.flow.model, old))
        ]
        if not runs[0].is_subset(runs[1]):
            self.model.doubt(f"block {place.name!r} runs for more iterations than originally")
        new_updates = [w for w in self.new.flow.updates if w.place is place]
        old_updates = [w for w in self.old.flow.updates if w.place is old]
        if len(new_updates) != len(old_updates):
            self.model.doubt(f"block {place.name!r} accumulates in one program only")
            return
        for write, other in zip(new_updates, old_updates):
            reads = self.new.flow.updates[write].read, self.old.flow.updates[other].read
            ours = self.per_iteration(reads[0], self.new.bases(write))
            olds = self.per_iteration(reads[1], self.old.bases(other))
            both = self.runs([reads[0]]).intersect(self.runs([reads[1]]))
            self.values(place, (ours, olds), both, write.memory, "starts from")
        loads = self.loads(self.new, place), self.loads(self.old, old)
        if loads[0].keys() != loads[1].keys():
            self.model.doubt(f"block {place.name!r} loads in other places than originally")
            return
        for slot, reads in loads[0].items():
            self.loaded(place, reads, loads[1][slot])

    def loads(self, side: _Side, place: Instance) -> dict[Slot, list[Access]]:
        """The loads of a block, without those of its accumulators."""
        own = {update.read for update in side.flow.updates.values()}
        found: dict[Slot, list[Access]] = {}
        for read in side.flow.model.reads():
            if read.place is place and read not in own:
                found.setdefault((read.role, read.ordinal, read.slot), []).append(read)
        return found

    def loaded(self, place: Instance, reads: list[Access], olds: list[Access]) -> None:
        for side, group in ((self.new, reads), (self.old, olds)):
            for read in group:
                if not side_is_sure(side.flow, read):
                    self.model.doubt(
                        f"not comparable with the original: what block {place.name!r} loads "
                        f"from {read.memory.name!r} depends on data"
                    )
                    return
        ours = self.all_iterations(self.new, reads)
        theirs = self.all_iterations(self.old, olds)
        both = self.runs(reads).intersect(self.runs(olds))
        self.values(place, (ours, theirs), both, reads[0].memory, "reads")

    def all_iterations(self, side: _Side, reads: list[Access]) -> Any:
        maps = [self.per_iteration(read, side.values(read)) for read in reads]
        return union(maps, self.model.integers.isl.UnionMap)

    def per_iteration(self, read: Access, values: Any) -> Any:
        """From iterations of the block to names of values."""
        if read.iters is None:
            raise InternalError(f"block {read.block!r} was matched, its bindings are unknown")
        back = read.iters.intersect_domain(read.domain).reverse().to_union_map()
        return back.apply_range(values)

    def runs(self, accesses: list[Access]) -> Any:
        """The iterations for which accesses of a block run."""
        return union(map(executed, accesses), self.model.integers.isl.UnionSet)

    def values(
        self, place: Instance, pair: tuple[Any, Any], run: Any, memory: Memory, verb: str
    ) -> None:
        """Report iterations for which one program has values that the other has not."""
        new, old = pair
        unnamed = _unnamed(new).union(_unnamed(old))
        if not unnamed.is_empty():
            self.model.doubt(
                f"not comparable with the original: what block {place.name!r} {verb} in "
                f"{memory.name!r} comes from a block that the other program does not have"
            )
        for one, other in ((new, old), (old, new)):
            left = one.subtract(other).domain().intersect(run).subtract(unnamed)
            if not left.is_empty():
                message = f"block {place.name!r} {verb} another value of {memory.name!r} than "
                access = next(a for a in self.model.writes() if a.place is place)
                where = left.get_set_list().get_at(0)
                self.findings.at_iters("different", message + "originally", access, where)
                return

    def output(self, memory: Memory, old: Memory) -> None:
        """A parameter holds the same values at the end."""
        if not any(a.is_write for m in (memory, old) for a in m.accesses):
            return
        if not all(a.exact for m in (memory, old) for a in m.accesses if a.is_write):
            self.model.doubt(f"not comparable with the original: stores to {memory.name!r}")
            return
        sides = ((self.new, memory), (self.old, old))
        new, theirs = (
            side.outputs(m)
            if any(a.is_write for a in m.accesses)
            else self.model.integers.no_maps()
            for side, m in sides
        )
        unnamed = _unnamed(new).union(_unnamed(theirs))
        if not unnamed.is_empty():
            self.model.doubt(
                f"not comparable with the original: {memory.name!r} is written by a block that "
                "the other program does not have"
            )
        for one, other in ((new, theirs), (theirs, new)):
            left = one.subtract(other).domain().subtract(unnamed)
            if not left.is_empty():
                self._report_output(memory, left.get_set_list().get_at(0))
                return

    def _report_output(self, memory: Memory, where: Any) -> None:
        params, element = self.model.integers.point(where)
        writers = [a.block for a in memory.accesses if a.is_write]
        blocks = tuple(dict.fromkeys(writers))
        named = self.findings.named(params)
        point = Point(blocks[0] if blocks else "", {}, {}, memory.name, element, named)
        message = f"{memory.name!r} holds another value at the end than originally"
        self.findings.violations.append(Violation("different", message, blocks, point))


def _signature(model: Model) -> list[object]:
    buffers = model.func.buffers
    return [(b.dtype, b.ndim, b.static_shape) for b in buffers]


def side_is_sure(flow: Flow, read: Access) -> bool:
    """Whether the names of what a load gets say all about it.

    A load at an index that depends on data is known by its formula, from an argument that stays as
    it was.
    """
    writes = [access for access in read.memory.accesses if access.is_write]
    if read.iters is None or not all(write.exact for write in writes):
        return False
    return read.affine or not writes


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


def _formulas(model: Model, place: Instance) -> list[object]:
    """What a block computes; a constant that it starts from may also be set by another block."""
    return [
        (write.role, write.ordinal, len(write.inner), write.pattern)
        for write in model.writes()
        if write.place is place and (write.role == BODY or not _is_constant(write))
    ]


def _is_constant(write: Access) -> bool:
    return write.pattern is not None and _fixed(write.pattern)
