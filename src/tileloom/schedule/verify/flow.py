"""Who wrote what is read: memory cells, times, and the last write before each read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from ...base.cached import cached_property
from ...expr import free_vars_of
from ..integer_sets import TooHardError
from .model import BODY, INIT, Access, LoopDim, Memory, Model


def complete(model: Model) -> None:
    """Set the cells and times of all accesses."""
    for memory in model.memories:
        private = _private_dims(model, memory)
        for access in memory.accesses:
            access.cell = _cell(model, access, private(access))
    length = max((len(access.path) for access in model.accesses), default=0)
    for access in model.accesses:
        access.time = model.integers.map(_time_text(access, length)).intersect_domain(access.domain)


def _names(access: Access) -> list[str]:
    return [f"d{k}" for k in range(len(access.dims))]


def _head(access: Access) -> str:
    return f"{access.name}[{','.join(_names(access))}]"


def _time_text(access: Access, length: int) -> str:
    steps = [str(k) if kind == "at" else f"d{k}" for kind, k in access.path]
    steps += ["0"] * (length - len(steps))
    return f"{{ {_head(access)} -> [0{''.join(',' + step for step in steps)}] }}"


def _cell(model: Model, access: Access, private: list[int]) -> Any:
    text = ",".join(f"d{k}" for k in private)
    copies = model.integers.map(f"{{ {_head(access)} -> [{text}] }}")
    whole = copies.flat_range_product(access.element.reset_tuple_id(model.integers.out_dim))
    name = f"M{access.memory.index}"
    # What is out of bounds is reported as such, and as nothing else.
    within = access.domain.subtract(access.outside)
    return whole.set_tuple_name(model.integers.out_dim, name).intersect_domain(within)


def _private_dims(model: Model, memory: Memory) -> Callable[[Access], list[int]]:
    """For an access, the loops of which each iteration has a copy of the memory of its own.

    An allocation inside a loop is new in each iteration. An unordered loop around all accesses gets
    copies from lowering, which moves the allocation into it; so do threads for memory local to
    them.
    """
    if memory.param is not None:
        return lambda access: []
    common = _common_depth([access.dims for access in memory.accesses])
    scope = memory.buffer.scope
    tags = _own_tags(model, memory) if scope == "local" else []

    def inner(depth: int, dim: LoopDim) -> bool:
        if dim.is_lane:
            return depth < memory.depth and scope not in ("local", "shared", "shared.dyn")
        if depth < memory.depth:
            return True
        return dim.is_unordered and not (dim.tag.startswith("blockIdx") and scope == "global")

    def private(access: Access) -> list[int]:
        dims = access.dims
        chosen = [k for k in range(max(common, memory.depth)) if inner(k, dims[k])]
        own = (max(k for k, dim in enumerate(dims) if dim.tag == tag) for tag in tags)
        return [*chosen, *own]

    return private


def _common_depth(rows: list[tuple[LoopDim, ...]]) -> int:
    depth = 0
    for column in zip(*rows):
        if any(dim is not column[0] for dim in column):
            break
        depth += 1
    return depth


def _own_tags(model: Model, memory: Memory) -> list[str]:
    """The threads that each have a copy of a local buffer."""
    sets = [{dim.tag for dim in access.dims if dim.is_lane} for access in memory.accesses]
    if not sets:
        return []
    shared = set.intersection(*sets)
    if any(tags != shared for tags in sets):
        model.doubt(f"not all accesses to {memory.name!r}, local to a thread, know their thread")
    for access in memory.writes:
        shared -= {dim.tag for dim in reducing_lanes(access)}
    return sorted(shared)


def reducing_lanes(access: Access) -> tuple[LoopDim, ...]:
    """The threads over which a block reduces together."""
    if access.place is None:
        return ()
    reduced = free_vars_of(value for _, reduces, _, value in access.place.axes() if reduces)
    return tuple(dim for dim in access.dims if dim.is_lane and dim.var in reduced)


# ---------------------------------------------------------------------------- flow


@dataclass(frozen=True, slots=True)
class Sources:
    """What each read of one memory gets.

    Attributes:
        last: from reading instances to the writing instance before it.
        unwritten: the reading instances that nothing has surely written before.
    """

    last: Any
    unwritten: Any


@dataclass(frozen=True, slots=True, eq=False)
class Update:
    """A store that accumulates: it reads the element that it writes.

    Attributes:
        write: the store.
        read: the load of the same element.
        base: from instances of the load to the last write by any other store; what the
            accumulation starts from.
        fresh: the instances of the load that start from what the function was given.
    """

    write: Access
    read: Access
    base: Any
    fresh: Any

    @property
    def is_reduction(self) -> bool:
        """Whether a reduction variable runs."""
        return any(self.write.reduces)


class Flow:
    """The value-based flow of a model with cells and times."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self._sources: dict[Memory, Sources] = {}

    def sources(self, memory: Memory) -> Sources:
        """For the reads of a memory, and for what it holds at the end (`end` of the same)."""
        if memory not in self._sources:
            self._sources[memory] = self._solve(memory)
        return self._sources[memory]

    def _solve(self, memory: Memory) -> Sources:
        reads = memory.reads
        writes = memory.writes
        sinks = [(access.cell, access.time) for access in reads]
        if memory.param is None or not writes:
            return self.last_before(sinks, writes)
        cells, time = self.end(memory)
        only = writes[0]
        if len(writes) > 1 or not only.exact or not only.cell.is_injective():
            return self.last_before([*sinks, (cells, time)], writes)
        # Everything is written once, so there is no need to ask when.
        found = self.last_before(sinks, writes)
        at_end = cells.apply_range(only.cell.reverse()).to_union_map()
        return Sources(found.last.union(at_end), found.unwritten)

    def end(self, memory: Memory) -> tuple[Any, Any]:
        """A pretended read of all that was written, after the end: its cells and its time."""
        integers = self.model.integers
        written = [access.cell.range() for access in memory.writes]
        cells = written[0]
        for more in written[1:]:
            cells = cells.union(more)
        name = f"E{memory.index}"
        cell = cells.identity().set_tuple_name(integers.in_dim, name)
        length = max(len(access.path) for access in self.model.accesses)
        rank = memory.buffer.ndim
        dims = ",".join(f"d{k}" for k in range(rank))
        time = integers.map(f"{{ {name}[{dims}] -> [1{',0' * length}] }}")
        return cell, time.intersect_domain(cell.domain())

    def last_before(
        self, sinks: list[tuple[Any, Any]], writes: list[Access], backwards: bool = False
    ) -> Sources:
        """The last of these writes before each of the sinks; `backwards`, the first after it."""
        isl = self.model.integers.isl
        reading = union((cell for cell, _ in sinks), isl.UnionMap)
        if reading is None:
            nothing = self.model.integers.no_maps()
            return Sources(nothing, nothing.domain())
        times = union((time for _, time in sinks), isl.UnionMap)
        surely = union((w.cell for w in writes if w.exact), isl.UnionMap)
        maybe = union((w.cell for w in writes if not w.exact), isl.UnionMap)
        for write in writes:
            times = times.union(write.time.to_union_map())
        if backwards:
            times = times.apply_range(self._reversal())
        found = _computed(isl, reading, surely, maybe, times)
        if surely is None or backwards or not _overlooks(found, reading, surely, times):
            return found
        # Where equations such as `d1 mod 9 = 0` only follow from inequalities, isl may overlook
        # writes. To say what they are makes it slow elsewhere.
        perhaps = None if maybe is None else maybe.detect_equalities()
        reading, surely = reading.detect_equalities(), surely.detect_equalities()
        times = times.detect_equalities()
        found = _computed(isl, reading, surely, perhaps, times)
        if _overlooks(found, reading, surely, times):
            raise TooHardError("the last writes before some reads are not found")
        return found

    def _reversal(self) -> Any:
        length = 1 + max(len(access.path) for access in self.model.accesses)
        dims = [f"t{k}" for k in range(length)]
        text = f"{{ [{','.join(dims)}] -> [{','.join('-' + d for d in dims)}] }}"
        return self.model.integers.map(text).to_union_map()

    def final(self, memory: Memory) -> Any:
        """From elements `E<memory>[...]` of a parameter to the stores that leave their values."""
        elements, _ = self.end(memory)
        return self.sources(memory).last.intersect_domain(elements.domain().to_union_set())

    @cached_property
    def updates(self) -> dict[Access, Update]:
        """The stores that accumulate."""
        found = {}
        for memory in self.model.memories:
            writes = memory.writes
            for write in writes:
                read = self._own_read(write)
                if read is not None:
                    others = [w for w in writes if w is not write]
                    start = self.last_before([(read.cell, read.time)], others)
                    found[write] = Update(write, read, start.last, start.unwritten)
        return found

    def _own_read(self, write: Access) -> Access | None:
        """The load of the element that a store of a block's body overwrites, for each instance."""
        if write.role != BODY or write.place is None or not write.exact:
            return None
        out = self.model.integers.in_dim
        for read in write.memory.accesses:
            same = read.is_read and read.place is write.place and read.role == BODY
            if same and read.exact and read.dims == write.dims:
                renamed = read.cell.set_tuple_name(out, write.name)
                if renamed.is_equal(write.cell):
                    return read
        return None


def _computed(isl: Any, reading: Any, surely: Any, maybe: Any, times: Any) -> Sources:
    """The last writes as isl finds them."""
    info = isl.UnionAccessInfo.from_sink(reading)
    if surely is not None:
        info = info.set_must_source(surely)
    if maybe is not None:
        info = info.set_may_source(maybe)
    flow = info.set_schedule_map(times).compute_flow()
    return Sources(flow.get_may_dependence().reverse(), flow.get_may_no_source().domain())


def _overlooks(found: Sources, reading: Any, writing: Any, times: Any) -> bool:
    """Whether there is a write before what is said to be read before it is written.

    Also where nothing is said of some reads: neither a write before them, nor that there is none.
    """
    if not reading.domain().is_subset(found.last.domain().union(found.unwritten)):
        return True
    before = reading.intersect_domain(found.unwritten).apply_range(writing.reverse())
    if before.is_empty():
        return False
    reads, writes = (times.intersect_domain(part) for part in (before.domain(), before.range()))
    return not before.intersect(reads.lex_gt_union_map(writes)).is_empty()


Made = Callable[[Access], Any]


def values_of(flow: Flow, read: Access, made: Made) -> Any:
    """From instances of a load to what is loaded.

    `made` gives, for a store, a union of maps from its instances to names of what they store.
    Values that the function was given are `G<parameter>[element]`.
    """
    integers = flow.model.integers
    sources = flow.sources(read.memory)
    last = sources.last.intersect_domain(read.domain.to_union_set())
    result = follow(flow, last, read.memory, made)
    if read.memory.param is not None:
        given = read.element.set_tuple_name(integers.out_dim, f"G{read.memory.param}")
        result = result.union(given.to_union_map().intersect_domain(sources.unwritten))
    return result


def follow(flow: Flow, last: Any, memory: Memory, made: Made) -> Any:
    """From whatever `last` maps to stores of a memory, to what they stored."""
    result = flow.model.integers.no_maps()
    for write in memory.writes:
        reached = last.intersect_range(write.domain.to_union_set())
        if not reached.is_empty():
            result = result.union(reached.apply_range(made(write)))
    return result


def made_by(flow: Flow, write: Access, name: str) -> Any:
    """From instances of a store to the iterations that tell its values apart, under a name.

    Of a reduction all iterations make the value together: only the other variables count.
    """
    integers = flow.model.integers
    if write.iters is None:
        return write.domain.identity().set_tuple_name(integers.out_dim, name).to_union_map()
    result = write.iters.intersect_domain(write.domain)
    if write.role == INIT or write in flow.updates:
        for k in reversed(range(len(write.reduces))):
            if write.reduces[k]:
                result = result.project_out(integers.out_dim, k, 1)
    return result.set_tuple_name(integers.out_dim, name).to_union_map()


def union(parts: Iterable[Any], kind: Any) -> Any:
    """The union of maps or sets, None of nothing; `kind` is isl's class of unions."""
    result: Any = None
    for part in parts:
        whole = part if isinstance(part, kind) else _as_union(part)
        result = whole if result is None else result.union(whole)
    return result


def _as_union(part: Any) -> Any:
    return part.to_union_map() if hasattr(part, "to_union_map") else part.to_union_set()
