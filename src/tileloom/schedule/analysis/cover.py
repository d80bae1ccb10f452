"""Region cover: whether what a block reads has been written by then; and the stage pipeline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ...expr import (
    GE,
    LE,
    LT,
    Analyzer,
    And,
    Expr,
    IntImm,
    IntSet,
    Min,
    Range,
    Var,
    binary,
    const,
    free_vars,
    post_order,
)
from ...expr.extents import limits_of_variables
from ...expr.int_set import intersect
from ...expr.int_set import union as union_sets
from ...tir import Buffer, BufferRegion, For
from ..errors import name_of, refuse
from ..sref import StmtSRef
from ..state import ScheduleState
from .additions import added_to, reads_own_sums
from .affine import linear_form
from .regions import (
    Box,
    conjuncts,
    lower_bound,
    needed_reads,
    path_domains,
    ranges_at,
    substituted,
    sure_writes,
    upper_bound,
)
from .scope import (
    BlockScope,
    DepKind,
    accessed_buffers,
    block_scope,
    is_silent,
    speaking_blocks,
)
from .tree import child_blocks, is_one, lowest_common_ancestor, scope_root

# A dimension as (variables with scales, least, most): see `_quick_box`.
QuickBox = tuple[tuple[frozenset[tuple[Var, int]], int, int], ...]


def region_cover_fault(
    state: ScheduleState, consumer: StmtSRef, own_sums: bool = True
) -> str | None:
    """What a block may read before its producers in the scope have written it; None if nothing.

    At each loop or block that is the innermost one around the consumer and some producer, what the
    producers there write at least must hold what the consumer reads at most. Buffers that nobody
    in the scope writes are not asked about.

    Args:
        own_sums: whether to ask about what the block reads to add to it.
    """
    scope = block_scope(state, scope_root(consumer).block)
    found = scope.producers(consumer.block)
    if not found:
        return None
    producers = [state.sref(block) for block in found]
    but = None if own_sums else added_to(state, consumer.block)
    key = (region_cover_fault, scope_root(consumer).block, consumer.block, but)
    if key not in state.memo:
        state.memo[key] = _cover_fault(state, consumer, producers, but)
    return state.memo[key]  # type: ignore[no-any-return]


def _cover_fault(
    state: ScheduleState, consumer: StmtSRef, producers: Sequence[StmtSRef], but: Buffer | None
) -> str | None:
    for reader in speaking_blocks(state, consumer):
        for region in needed_reads(state, reader.block):
            if region.buffer is but:
                continue
            groups: dict[StmtSRef, list[StmtSRef]] = {}
            for writer in producers:
                if region.buffer in accessed_buffers(state, writer.block)[1]:
                    place = lowest_common_ancestor([consumer, writer])
                    groups.setdefault(place, []).append(writer)
            for place, group in groups.items():
                if not _covered(state, place, group, reader, region):
                    names = ", ".join(repr(writer.block.name_hint) for writer in group)
                    name = region.buffer.name
                    return f"what {names} writes to {name!r} may not hold all it reads"
    return None


def _covered(
    state: ScheduleState,
    place: StmtSRef,
    producers: Sequence[StmtSRef],
    consumer: StmtSRef,
    read: BufferRegion,
) -> bool:
    """Whether the producers write what the consumer reads in one iteration of `place`."""
    buffer = read.buffer
    domains = path_domains(consumer, place, buffer.scope)
    realize = state.realize(consumer)
    consumed = ranges_at(realize, read.region)
    outer = _outer_domains(place, domains)
    analyzer = Analyzer(outer)
    for domain in domains.values():
        analyzer.bind_bounds(limits_of_variables(domain.extent))
    produced: list[Box] = []
    wanted: Box | None = None  # takes long, and is seldom needed
    for producer in _reached(state, producers):
        writer = state.realize(producer)
        running = path_domains(producer, place, buffer.scope)
        for region in sure_writes(state, producer.block):
            if region.buffer is not buffer:
                continue
            written = ranges_at(writer, region.region)
            condition = _in_doubt(writer.predicate, realize.predicate, running)
            if not is_one(condition):
                wanted = wanted or upper_bound(consumed, domains, realize.predicate, outer)
                condition = _where_read(condition, wanted, buffer, outer)
            if not is_one(condition):
                condition = left_inside(condition, written, buffer, {**outer, **running})
            if quickly_covered(written, running, condition, consumed, domains, buffer):
                return True
            if is_one(condition) and _same_cells(written, running, consumed, domains, analyzer):
                return True
            box = lower_bound(written, running, condition, analyzer)
            if box is not None:
                produced.append(box)
    boxes = produced
    if len(produced) > 1:
        boxes = _joined(analyzer, [_inside(analyzer, box, buffer) for box in produced])
    if not boxes:
        return False
    wanted = wanted or upper_bound(consumed, domains, realize.predicate, outer)
    return any(_contains(analyzer, box, wanted, buffer) for box in boxes)


def _reached(state: ScheduleState, producers: Sequence[StmtSRef]) -> Iterator[StmtSRef]:
    """The producers, and what is in those that declare nothing and run under no condition."""
    for producer in producers:
        if not is_silent(producer.block):
            yield producer
        elif is_one(state.realize(producer).predicate):
            yield from _reached(state, child_blocks(state, producer))


def _same_cells(
    written: Sequence[Range],
    running: Mapping[Var, Range],
    consumed: Sequence[Range],
    domains: Mapping[Var, Range],
    analyzer: Analyzer,
) -> bool:
    """Whether reader and writer have the same indices in loops of the same ranges.

    Then it does not matter what the indices are: `i // n` and `i % n`, say, with any `n`.
    """
    mine, given = _loops_in(written, running), _loops_in(consumed, domains)
    if len(mine) != len(given):
        return False
    for a, b in zip(mine, given, strict=True):
        if not _same_range(running[a], domains[b]):
            return False
        if _loops_in([running[a]], {**running, **domains}):
            return False
    fixed = {v for p in consumed for e in (p.min, p.extent) for v in free_vars(e)} - set(given)
    if not fixed.isdisjoint(running):
        return False
    asked = substituted(consumed, dict(zip(given, mine, strict=True)))
    if not all(_same_range(a, b) for a, b in zip(written, asked, strict=True)):
        return False
    rest = [running[var].extent for var in running if var not in mine]
    return all(analyzer.can_prove(binary(LE, 1, extent)) for extent in rest)


def _same_range(a: Range, b: Range) -> bool:
    return a.min is b.min and a.extent is b.extent


def _loops_in(parts: Sequence[Range], loops: Mapping[Var, Range]) -> list[Var]:
    """The loops that some ranges depend on, in the order in which they come."""
    found: dict[Var, None] = {}
    for part in parts:
        for index in (part.min, part.extent):
            for node in post_order(index):
                if isinstance(node, Var) and node in loops:
                    found[node] = None
    return list(found)


def _in_doubt(condition: Expr, given: Expr, running: Mapping[Var, Range]) -> Expr:
    """What is left of a producer's condition where the consumer's holds, at the same place."""
    known = set(conjuncts(given))
    result: Expr = const(True)
    for part in conjuncts(condition):
        if part not in known or not free_vars(part).isdisjoint(running):
            result = binary(And, result, part)
    return result


def _where_read(condition: Expr, wanted: Box, buffer: Buffer, outer: Mapping[Var, Range]) -> Expr:
    """What is left of a condition in the iterations in which some element is read at all.

    What is read beyond the buffer's shape does not count, as under T.if_then_else.
    """
    some: Expr = const(True)
    for (low, high), size in zip(wanted, buffer.shape, strict=True):
        if low is not None:
            some = binary(And, some, binary(LT, low, size))
        if high is not None:
            some = binary(And, some, binary(GE, high, 0))
    return _left(condition, outer, some)


def left_inside(
    condition: Expr, written: Sequence[Range], buffer: Buffer, domains: Mapping[Var, Range]
) -> Expr:
    """What is left of a condition where an element of the buffer is written.

    A condition may just keep what is beyond the buffer from being written.
    """
    some: Expr = const(True)
    for part, size in zip(written, buffer.shape, strict=True):
        some = binary(And, some, binary(GE, part.min, 0))
        some = binary(And, some, binary(LE, part.min + part.extent, size))
    return _left(condition, domains, some)


def _left(condition: Expr, domains: Mapping[Var, Range], given: Expr) -> Expr:
    """The parts of a condition that do not follow from another one."""
    known = Analyzer(domains)
    result: Expr = const(True)
    with known.constraint(given):
        for part in conjuncts(condition):
            if not known.can_prove(part):
                result = binary(And, result, part)
    return result


def _outer_domains(place: StmtSRef, inside: Mapping[Var, Range]) -> dict[Var, Range]:
    """The ranges of the loops around, `place` included."""
    result = {}
    for sref in [place, *place.ancestors()]:
        if not isinstance(sref.stmt, For):
            break
        loop = sref.stmt
        if loop.loop_var not in inside:
            result[loop.loop_var] = loop.domain
    return result


def _joined(analyzer: Analyzer, boxes: Sequence[Box]) -> list[Box]:
    """The boxes, those put together that are one box without a gap."""
    result: list[Box] = []
    for box in boxes:
        whole = box
        for known in list(result):
            both = _together(analyzer, known, whole)
            if both is not None:
                result.remove(known)
                whole = both
        result.append(whole)
    return result


def _together(analyzer: Analyzer, a: Box, b: Box) -> Box | None:
    """The union of two boxes, if that is a box: they differ along one axis, and meet there."""
    axes = [k for k, (x, y) in enumerate(zip(a, b, strict=True)) if not _equal(analyzer, x, y)]
    if not axes:
        return a
    (k, *more) = axes
    if more or not (_adjoins(analyzer, a[k], b[k]) and _adjoins(analyzer, b[k], a[k])):
        return None
    return [*a[:k], union_sets(analyzer, a[k], b[k]), *a[k + 1 :]]


def _equal(analyzer: Analyzer, a: IntSet, b: IntSet) -> bool:
    return all(
        x is y or (x is not None and y is not None and analyzer.can_prove_equal(x, y))
        for x, y in zip(a, b, strict=True)
    )


def _adjoins(analyzer: Analyzer, a: IntSet, b: IntSet) -> bool:
    """Whether there is nothing between the end of one interval and the start of another."""
    end, start = a.max_value, b.min_value
    return end is None or start is None or _at_most(analyzer, start, end + 1)


def _inside(analyzer: Analyzer, box: Box, buffer: Buffer) -> Box:
    """The part of a box that is in the buffer."""
    return [
        intersect(analyzer, interval, IntSet(size * 0, size - 1))
        for interval, size in zip(box, buffer.shape, strict=True)
    ]


def _contains(analyzer: Analyzer, outer: Box, inner: Box, buffer: Buffer) -> bool:
    sides = (_inside(analyzer, outer, buffer), _inside(analyzer, inner, buffer))
    for held, asked in zip(*sides, strict=True):
        if not _at_most(analyzer, held.min_value, asked.min_value):
            return False
        if not _at_most(analyzer, asked.max_value, held.max_value):
            return False
    return True


def _at_most(analyzer: Analyzer, a: Expr | None, b: Expr | None) -> bool:
    if a is None or b is None:
        return False
    if a is b or analyzer.can_prove_less_equal(a, b):
        return True
    if isinstance(b, Min):
        return all(_at_most(analyzer, a, side) for side in b.children)
    return isinstance(a, Min) and any(_at_most(analyzer, side, b) for side in a.children)


# ---------------------------------------------------------------------------- numbers only


def quickly_covered(
    written: Sequence[Range],
    producer_domains: Mapping[Var, Range],
    predicate: Expr,
    consumed: Sequence[Range],
    consumer_domains: Mapping[Var, Range],
    buffer: Buffer | None = None,
) -> bool:
    """A quick yes where all indices are sums of variables times numbers.

    With a buffer, what is read beyond its shape does not count.
    """
    if not (isinstance(predicate, IntImm) and predicate.value):
        return False
    held = _quick_box(written, producer_domains, exact=True)
    asked = _quick_box(consumed, consumer_domains, exact=False) if held is not None else None
    if held is None or asked is None:
        return False
    sizes: Sequence[Expr | None] = [None] * len(held) if buffer is None else buffer.shape
    for (rest, low, high), (other, least, most), size in zip(held, asked, sizes, strict=True):
        if rest != other:
            return False
        if not rest and isinstance(size, IntImm):
            least, most = max(least, 0), min(most, size.value - 1)
        if low > least or most > high:
            return False
    return True


def _quick_box(
    region: Sequence[Range], domains: Mapping[Var, Range], exact: bool
) -> QuickBox | None:
    """Each dimension as what stays fixed and numbers; `exact` asks that all between is reached."""
    box = []
    used: set[Var] = set()
    for part in region:
        form = linear_form(part.min)
        if form is None or not isinstance(part.extent, IntImm):
            return None
        rest = []
        low = high = form[1]
        reach = part.extent.value
        for var, scale in sorted(form[0], key=lambda term: abs(term[1])):
            domain = domains.get(var)
            if domain is None:
                rest.append((var, scale))
                continue
            if not (isinstance(domain.min, IntImm) and isinstance(domain.extent, IntImm)):
                return None
            first, last = domain.min.value, domain.min.value + domain.extent.value - 1
            low += min(first * scale, last * scale)
            high += max(first * scale, last * scale)
            if exact and last > first and (var in used or abs(scale) > reach):
                return None
            used.add(var)
            reach += (last - first) * abs(scale)
        box.append((frozenset(rest), low, high + part.extent.value - 1))
    return tuple(box)


# ---------------------------------------------------------------------------- pipeline


def check_region_cover(state: ScheduleState, block: StmtSRef) -> None:
    """Refuse a block that may read what its producers have not written."""
    fault = region_cover_fault(state, block)
    if fault is not None:
        raise refuse(f"{name_of(block)} has no region cover: {fault}", at=[block])


def stage_pipeline_fault(state: ScheduleState, scope: StmtSRef) -> tuple[str, StmtSRef] | None:
    """Why a scope is no stage pipeline, and the block that breaks it; None if it is.

    In a stage pipeline every block reads only what has been written, and nothing is overwritten
    after it was read, but for what a block reads to add to it.
    """
    key = (stage_pipeline_fault, scope.block)
    if key in state.memo:
        text, block = state.memo[key]
        return None if text is None else (text, state.sref(block))
    found = _pipeline_fault(state, scope, block_scope(state, scope.block))
    state.memo[key] = (None, None) if found is None else (found[0], found[1].stmt)
    return found


def _pipeline_fault(
    state: ScheduleState, scope: StmtSRef, graph: BlockScope
) -> tuple[str, StmtSRef] | None:
    for edges in graph.by_dst.values():
        for edge in edges:
            if edge.kind is DepKind.WAR and not reads_own_sums(state, edge.src, edge.dst):
                text = f"it overwrites what {edge.src.name_hint!r} has read"
                return text, state.sref(edge.dst)
    for block in child_blocks(state, scope):
        fault = region_cover_fault(state, block, own_sums=False)
        if fault is not None:
            return fault, block
    return None


def check_stage_pipeline(state: ScheduleState, scope: StmtSRef) -> None:
    """Refuse a scope that is no stage pipeline; nothing is checked with `enable_check=False`."""
    if not state.enable_check:
        return
    fault = stage_pipeline_fault(state, scope)
    if fault is not None:
        text, block = fault
        raise refuse(
            f"the scope {scope.block.name_hint!r} is not a stage pipeline: "
            f"{name_of(block)}: {text}",
            at=[scope, block],
            fast="the scope is not a stage pipeline",
        )
