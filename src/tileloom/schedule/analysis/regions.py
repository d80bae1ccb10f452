"""What a block touches while some of the loops around it run: at least, and at most."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ...expr import (
    Analyzer,
    And,
    Expr,
    IntImm,
    IntSet,
    Range,
    Var,
    detect_iter_map,
    free_vars,
    free_vars_of,
    has_load,
    substitute,
)
from ...tir import (
    THREAD_BINDING,
    Block,
    BlockRealize,
    Buffer,
    BufferRegion,
    BufferStore,
    For,
    infer_block_access,
    union_regions,
)
from ...tir.analysis_intervals import Intervals
from ..errors import name_of, refuse
from ..sref import StmtSRef
from ..state import ScheduleState
from .memo import memoised
from .scope import is_silent
from .tree import is_one

Box = list[IntSet]

_STORAGE_RANKS = {"global": 0, "shared": 1, "warp": 2, "local": 3}
_WARP = 2


def storage_rank(scope: str) -> int:
    """How private memory is: 0 for all threads, 1 for a block of threads, 2 a warp, 3 a thread."""
    return _STORAGE_RANKS.get(scope.split(".")[0], 4)


def thread_rank(tag: str) -> int:
    """0 for an index of blocks of threads, 1 for an index of threads."""
    return 0 if tag.startswith("blockIdx") else 1


def shared_over(scope: str, tag: str) -> bool:
    """Whether the threads that run along a thread axis see the same memory of a scope."""
    rank = storage_rank(scope)
    if rank == _WARP:
        return tag == "threadIdx.x"
    return rank <= thread_rank(tag)


@memoised
def sure_writes(state: ScheduleState, block: Block) -> tuple[BufferRegion, ...]:
    """What an instance of a block writes in any case.

    A block may declare more than it writes, as those do that loop_partition makes; one that stores
    a single element, perhaps in a view, writes just that.
    """
    if not isinstance(block.body, BufferStore):
        return block.writes
    store = block.body
    if any(map(has_load, store.indices)):
        return block.writes
    buffer, indices = _behind_views(block, store)
    point = BufferRegion.point(buffer, indices)
    return tuple(
        point if region.buffer is buffer and not _is_point(region) else region
        for region in block.writes
    )


@memoised
def needed_reads(state: ScheduleState, block: Block) -> tuple[BufferRegion, ...]:
    """What an instance of a block reads at most.

    One that stores a single element may declare what all instances of it read, as those do that
    loop_partition makes.
    """
    explicit = any(key.startswith("explicit_") for key in block.annotations)
    if explicit or block.match_buffers or not isinstance(block.body, BufferStore):
        return block.reads
    own = {axis.var for axis in block.iter_vars}
    found = {region.buffer: region for region in infer_block_access(block)[0]}
    return tuple(
        found.get(region.buffer, region) if _used(region).isdisjoint(own) else region
        for region in block.reads
    )


def _used(region: BufferRegion) -> frozenset[Var]:
    return free_vars_of(end for part in region.region for end in (part.min, part.extent))


def _behind_views(block: Block, store: BufferStore) -> tuple[Buffer, Sequence[Expr]]:
    """The buffer that is stored to, also if through a view, and its indices."""
    for match in block.match_buffers:
        if match.buffer is store.buffer:
            source = match.source
            # A view may leave out leading axes along which it has one element.
            left_out = len(source.region) - len(store.indices)
            offsets = [0] * left_out + list(store.indices)
            starts = [part.min for part in source.region]
            return source.buffer, [a + b for a, b in zip(starts, offsets, strict=True)]
    return store.buffer, store.indices


def _is_point(region: BufferRegion) -> bool:
    return all(is_one(part.extent) for part in region.region)


def united_by_buffer(regions: Iterable[BufferRegion]) -> dict[Buffer, BufferRegion]:
    """One region for each buffer, which covers all that there are of it."""
    found: dict[Buffer, BufferRegion] = {}
    for region in regions:
        known = found.get(region.buffer)
        found[region.buffer] = region if known is None else union_regions(known, region)
    return found


def check_declared(state: ScheduleState, block: StmtSRef, buffer: Buffer) -> None:
    """Refuse a block that declares more of a buffer than it writes, of which a copy is made."""
    declared = (region for region in block.block.writes if region.buffer is buffer)
    sure = (region for region in sure_writes(state, block.block) if region.buffer is buffer)
    for region, written in zip(declared, sure):
        if region is not written:
            raise refuse(
                f"{name_of(block)} declares that an instance writes more of {buffer.name!r} than "
                f"the one element that it does, so a copy would touch the rest",
                at=[block],
                hint="take this step before loop_partition",
            )


def path_domains(
    block: StmtSRef, place: StmtSRef, storage_scope: str | None = None
) -> dict[Var, Range]:
    """The ranges of the loops around a block that are inside of `place`, outer ones first.

    With a storage scope, also those of the loops further out whose threads share such memory.
    Blocks between that declare nothing hide no loops.
    """
    found: list[tuple[Var, Range]] = []
    inside = True
    for sref in block.ancestors():
        if sref is place:
            inside = False
        stmt = sref.stmt
        if inside and isinstance(stmt, Block) and is_silent(stmt):
            continue
        if not isinstance(stmt, For):
            break
        binding = stmt.thread_binding
        if inside or (
            storage_scope is not None
            and stmt.kind == THREAD_BINDING
            and binding is not None
            and shared_over(storage_scope, binding.thread_tag)
        ):
            found.append((stmt.loop_var, stmt.domain))
    return dict(reversed(found))


def upper_bound(
    region: Sequence[Range],
    domains: Mapping[Var, Range],
    predicate: Expr,
    outer: Mapping[Var, Range],
) -> Box:
    """A box that holds all that is touched while the variables run over their domains.

    `outer` has ranges of variables that stay as they are.
    """
    intervals = Intervals(outer)
    for var, domain in domains.items():
        intervals.run(var, domain)
    box = []
    with intervals.under(predicate):
        for part in region:
            low = intervals.of(part.min).min_value
            high = intervals.of(part.min + part.extent - 1).max_value
            box.append(IntSet(low, high))
    return box


def _holds_somewhere(
    predicate: Expr, domains: Mapping[Var, Range], placing: frozenset[Var], analyzer: Analyzer
) -> bool:
    """Whether conditions on loops that place nothing surely hold in some of their iterations.

    Those that loops outside have no part in are left to the detection of iterators; where sizes
    are not known, loops are taken to run.
    """
    ends = [
        {v: own.min.astype(v.dtype) for v, own in domains.items()},
        {v: (own.min + own.extent - 1).astype(v.dtype) for v, own in domains.items()},
    ]
    for part in conjuncts(predicate):
        used = free_vars(part)
        outside = [v for v in used if v not in domains and _is_bounded(analyzer, v)]
        if not outside or not used.isdisjoint(placing & domains.keys()):
            continue
        if not any(analyzer.can_prove(substitute(part, end)) for end in ends):
            return False
    return True


def _is_bounded(analyzer: Analyzer, var: Var) -> bool:
    """Whether something is known of how large a variable can be."""
    return analyzer.const_int_bound(var).max_value < 1 << (var.dtype.bits - 2)


def ranges_at(realize: BlockRealize, ranges: Iterable[Range]) -> list[Range]:
    """Ranges of a region that a block declares, in terms of the loops around the block."""
    return substituted(ranges, realize.bindings)


def substituted(ranges: Iterable[Range], values: Mapping[Var, Expr]) -> list[Range]:
    """Ranges with variables replaced."""
    return [Range(substitute(p.min, values), substitute(p.extent, values)) for p in ranges]


def conjuncts(condition: Expr) -> Iterator[Expr]:
    """The parts of a condition that all must hold."""
    if isinstance(condition, And):
        yield from conjuncts(condition.a)
        yield from conjuncts(condition.b)
    else:
        yield condition


def lower_bound(
    region: Sequence[Range], domains: Mapping[Var, Range], predicate: Expr, analyzer: Analyzer
) -> Box | None:
    """A box that is touched completely while the variables run over their domains, or None."""
    indices = [part.min for part in region]
    if not all(free_vars(part.extent).isdisjoint(domains) for part in region):
        return None
    placing = free_vars_of(indices)
    if not is_one(predicate) and not _holds_somewhere(predicate, domains, placing, analyzer):
        return None
    found = detect_iter_map(indices, domains, predicate, "surjective", analyzer)
    if not found:
        # What one iteration of the loops that place nothing touches is touched.
        first = {var: domain.min for var, domain in domains.items() if var not in placing}
        known = Analyzer(domains)
        condition = known.simplify(substitute(predicate, first))
        if condition is not predicate:
            found = detect_iter_map(indices, domains, condition, "surjective", analyzer)
    if not found:
        return None
    box = []
    for total, part in zip(found.indices, region, strict=True):
        last = part.extent - 1
        if not total.args:
            box.append(IntSet(total.base, analyzer.simplify(total.base + last)))
            continue
        if any(isinstance(arg.scale, IntImm) and arg.scale.value < 0 for arg in total.args):
            return None
        step, outer = total.args[-1].scale, total.args[0]
        if not is_one(step) and not analyzer.can_prove(part.extent >= step):
            return None
        reach = outer.extent * outer.scale - step
        box.append(IntSet(total.base, analyzer.simplify(total.base + reach + last)))
    return box
