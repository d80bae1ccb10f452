"""Moving a block under a loop of the blocks it gives to, or takes from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...expr import (
    GE,
    LT,
    REDUCE,
    Add,
    Analyzer,
    And,
    Expr,
    IntSet,
    Range,
    Var,
    binary,
    const,
    free_vars,
)
from ...tir import (
    Block,
    BlockRealize,
    Buffer,
    BufferRegion,
    For,
    Stmt,
    parts_of,
    seq,
    undefined_vars,
)
from ..analysis.additions import addition_of
from ..analysis.affine import where_running
from ..analysis.blocks import check_complete_or_reduction, check_not_output
from ..analysis.cover import check_stage_pipeline, region_cover_fault
from ..analysis.regions import (
    conjuncts,
    path_domains,
    ranges_at,
    storage_rank,
    sure_writes,
    united_by_buffer,
)
from ..analysis.scope import accessed_buffers, consumers, producers
from ..analysis.tree import (
    child_realizes,
    is_one,
    loops_above,
    lowest_common_ancestor,
    scope_root,
)
from ..errors import name_of, refuse
from ..rewrite import nest
from ..sref import StmtSRef
from ..state import ScheduleState, copy_loop
from ._boxes import accessed_box, first_load, made_whole
from ._domains import Box, InstanceBounds, Inversion, covering, hull_of
from ._move_back import Consumer, check_commuting, check_reads_declared, check_runs_all
from ._rebuild import paths_to, rebuilt
from ._threads import check_private

_TRUE = const(True)
Move = tuple[StmtSRef, Stmt]


def plan_move(
    state: ScheduleState,
    block: StmtSRef,
    loop: StmtSRef,
    preserve_unit_loops: bool = False,
    index: int = -1,
    *,
    forward: bool,
) -> Move:
    """What to replace by what so that a block is run inside a loop.

    Args:
        forward: the loop holds the consumers of the block; otherwise its producers.
    """
    scope = scope_root(block)
    check_stage_pipeline(state, scope)
    adds = not forward and addition_of(state, block.block) is not None
    if not adds:
        check_complete_or_reduction(state, block)
    _check_places(block, loop, scope)
    _check_hides_loops(block)
    if forward:
        check_not_output(state, block)
    givers, takers = producers(state, block), consumers(state, block)
    if adds:
        givers, takers = check_commuting(state, block, loop, givers, takers)
    position = _position(state, block, loop, givers, takers, index, forward)
    check_private(state, block, [loop, *loops_above(loop)])
    if not forward:
        check_reads_declared(state, block)
    check_runs_all(state, block)
    outer = {s.loop.loop_var: s.loop.domain for s in [*loops_above(loop), loop]}
    analyzer = where_running(outer.values())
    for var, around in outer.items():
        analyzer.bind(var, around)
    needed = takers if forward else givers
    domains = _iteration_domains(state, block, loop, needed, outer, analyzer, forward)
    realize, loops = _realize(block.block, domains, analyzer, preserve_unit_loops)
    if not forward:
        move = Consumer(state, block, loop, realize, loops, outer)
        move.check_unfinished(givers)
        move.check_once()
        move.check_apart()
        move.check_all_reached()
        if adds:
            move.check_added_once()
    body = nest(loops, realize)
    parts = parts_of(loop.loop.body)
    new_loop = copy_loop(loop.loop, seq(*parts[:position], body, *parts[position:]))
    top = lowest_common_ancestor([block, loop])
    new = _moved(top, block, loop, new_loop)
    if _shares(state, block, givers, forward):
        _check_still_covered(state, block, loop, (top, new))
    return top, new


def _shares(
    state: ScheduleState, block: StmtSRef, givers: Sequence[StmtSRef], forward: bool
) -> bool:
    """Whether an iteration that the block has in common with givers may make less than it reads."""
    if forward:
        return any(lowest_common_ancestor([block, giver]).is_loop for giver in givers)
    return any(_is_partial(state.realize(giver)) for giver in givers)


def _is_partial(realize: BlockRealize) -> bool:
    """Whether a condition leaves out more than steps of a reduction."""
    steps = realize.loops_of(REDUCE)
    return any(not free_vars(part) <= steps for part in conjuncts(realize.predicate))


def _check_still_covered(state: ScheduleState, block: StmtSRef, loop: StmtSRef, move: Move) -> None:
    """Refuse where the block would read more than is made in an iteration that it shares."""
    trial, twins = state.copy()
    trial.replace(twins[move[0]], move[1])
    fault = region_cover_fault(trial, trial.sref(block.block), own_sums=False)
    if fault is not None:
        raise refuse(
            f"under {name_of(loop)}, {name_of(block)} would be run for more than is made there: "
            f"{fault}",
            at=[block, loop],
            hint="choose a loop further out, or let the loops of the consumer have no condition",
        )


# ---------------------------------------------------------------------------- places


def _check_places(block: StmtSRef, loop: StmtSRef, scope: StmtSRef) -> None:
    above = [s for s in [loop, *loop.ancestors()] if s.is_block]
    if above[:1] != [scope] or loop in loops_above(block):
        why = "is around it" if loop in loops_above(block) else "is in another scope"
        raise refuse(
            f"{name_of(block)} cannot be moved under {name_of(loop)}, which {why}",
            at=[block, loop],
            fast="Expected the block and loop to be under the same block scope, and loop not to be "
            "the ancestor of block",
        )


def _check_hides_loops(block: StmtSRef) -> None:
    """A block that uses loops directly, not through iteration variables, cannot leave them."""
    loops = {s.loop.loop_var: s for s in loops_above(block)}
    used = [loops[var] for var in undefined_vars(block.block) if var in loops]
    if used:
        raise refuse(
            f"{name_of(block)} uses {name_of(used[0])} directly, so it cannot be moved out of it",
            at=[block, used[0]],
            hint="move blocks before loop_partition, or the whole of its loops",
        )


def _check_order(
    state: ScheduleState,
    block: StmtSRef,
    loop: StmtSRef,
    inside: set[Block],
    givers: Sequence[StmtSRef],
    takers: Sequence[StmtSRef],
) -> None:
    """What is not in the loop must still come before, or after, what depends on it."""
    order = {r.block: k for k, r in enumerate(child_realizes(state, scope_root(block).block))}
    places = [order[b] for b in inside if b in order and b is not block.block]
    if not places:
        return
    late = [s for s in givers if s.block not in inside and order[s.block] > min(places)]
    early = [s for s in takers if s.block not in inside and order[s.block] < max(places)]
    for other, word in (*((s, "after") for s in late), *((s, "before") for s in early)):
        raise refuse(
            f"{name_of(block)} cannot be moved under {name_of(loop)}: {name_of(other)}, which it "
            f"{'takes from' if word == 'after' else 'gives to'}, runs {word} that loop",
            at=[loop, block, other],
            hint="choose a loop between what it takes from and what it gives to",
        )


def _position(
    state: ScheduleState,
    block: StmtSRef,
    loop: StmtSRef,
    givers: Sequence[StmtSRef],
    takers: Sequence[StmtSRef],
    index: int,
    forward: bool,
) -> int:
    """Where in the loop's body the block goes: after all it takes from, before all it gives to."""
    before, after = {s.block for s in givers}, {s.block for s in takers}
    seen: set[Block] = set()
    parts = parts_of(loop.loop.body)
    first, last = 0, len(parts)
    for i, part in enumerate(parts):
        inside = {r.block for r in _realizes(state, part)}
        seen |= inside
        if inside & before:
            first = i + 1
        if inside & after and last == len(parts):
            last = i
    required = takers if forward else givers
    missing = [s for s in required if s.block not in seen]
    if missing:
        word = "consumer" if forward else "producer"
        names = ", ".join(repr(s.block.name_hint) for s in missing)
        raise refuse(
            f"{name_of(loop)} does not hold all blocks that {name_of(block)} "
            f"{'gives to' if forward else 'takes from'}: the {word} {names} is elsewhere",
            at=[loop, *missing],
            hint=f"choose a loop around all {word}s, or move the others under it first",
            fast=f"The primitive requires all the {word}(s) of the given block to be present under "
            "the target loop",
        )
    if forward and not takers and seen & before:
        raise refuse(
            f"nobody reads what {name_of(block)} makes, and {name_of(loop)} holds what it takes "
            "from, so it is not known what an iteration can make of it",
            at=[loop, block],
        )
    _check_order(state, block, loop, seen, givers, takers)
    if first > last:
        raise refuse(
            f"there is no place for {name_of(block)} in {name_of(loop)}: what it takes from comes "
            "after what it gives to",
            at=[loop, block],
        )
    if index == -1:
        return last
    if index == -2:
        return first
    if not first <= index <= last:
        raise refuse(
            f"{name_of(block)} cannot be statement {index} of {name_of(loop)}",
            at=[loop, block],
            hint=f"index can be -1, -2, or from {first} to {last}",
            fast=f"Valid index:(-1, -2, [{first}, {last}]), current index={index}",
        )
    return index


def _realizes(state: ScheduleState, part: Stmt) -> tuple[BlockRealize, ...]:
    return (part,) if isinstance(part, BlockRealize) else child_realizes(state, part)


def _moved(top: StmtSRef, block: StmtSRef, loop: StmtSRef, new_loop: For) -> Stmt:
    """The statement of `top` without the block where it was, with the loop's new body."""
    stmt = top.loop if top.is_loop else top.block
    body = rebuilt(stmt.body, paths_to([block, loop]), {block.block: None, loop.loop: new_loop})
    if body is None:
        raise refuse(f"{name_of(block)} is the only block of its scope", at=[block])
    return copy_loop(stmt, body) if isinstance(stmt, For) else stmt.replace(body=body)


# ---------------------------------------------------------------------------- domains


def _iteration_domains(
    state: ScheduleState,
    block: StmtSRef,
    loop: StmtSRef,
    needed: Sequence[StmtSRef],
    outer: dict[Var, Range],
    analyzer: Analyzer,
    forward: bool,
) -> list[InstanceBounds]:
    """What each iteration variable runs over in one iteration of the loop."""
    stmt = block.block
    inversion = Inversion(stmt.iter_vars, analyzer, [block, loop, *needed])
    own = sure_writes(state, stmt) if forward else stmt.reads
    inexact: list[Buffer] = []
    for buffer, provided in united_by_buffer(own).items():
        if not forward and not _exactly_made(state, needed, loop, buffer, outer):
            inexact.append(buffer)
        boxes = [
            box
            for other in needed
            for box in _accessed(state, other, loop, buffer, outer, reads=forward)
        ]
        if boxes:
            required = hull_of(analyzer, boxes)
            _check_known(block, required, buffer, needed)
            if not forward:
                _check_aligned(analyzer, block, provided, required, buffer)
            inversion.require(buffer, provided.region, required)
    inexact += inversion.inexact
    if not forward and inexact:
        raise refuse(
            f"{name_of(block)} reads {inexact[0].name!r} in another grouping than "
            f"iterations of {name_of(loop)} make it, so it would take what others make",
            at=[block, loop],
            hint="choose a loop further out, or tile the producer by what is read together",
        )
    return inversion.domains()


def _accessed(
    state: ScheduleState,
    other: StmtSRef,
    loop: StmtSRef,
    buffer: Buffer,
    outer: dict[Var, Range],
    reads: bool,
) -> list[Box]:
    """The boxes that a block below the loop touches in one iteration of it.

    What a block of threads shares is needed by all its threads, also where their loops are outside.
    """
    stmt = other.block
    declared = stmt.reads if reads else sure_writes(state, stmt)
    regions = [r for r in declared if r.buffer is buffer]
    if not regions:
        # A block that declares nothing may touch anything of what it touches.
        hidden = buffer in accessed_buffers(state, stmt)[0 if reads else 1]
        return [[_whole(size) for size in buffer.shape]] if hidden else []
    # In global memory, every thread makes for itself what it needs.
    shared = reads and storage_rank(buffer.scope) > 0
    domains = path_domains(other, loop, buffer.scope if shared else None)
    fixed = {var: domain for var, domain in outer.items() if var not in domains}
    boxes: list[Box] = []
    for region in regions:
        made = None if reads else made_whole(state, other, region, domains, fixed)
        if made is None:
            parts = ranges_at(state.realize(other), region.region)
            made = accessed_box(parts, domains, _TRUE, fixed)
        boxes.append(made)
    return boxes


def _exactly_made(
    state: ScheduleState,
    givers: Sequence[StmtSRef],
    loop: StmtSRef,
    buffer: Buffer,
    outer: Mapping[Var, Range],
) -> bool:
    """Whether an iteration of a loop makes all of the box around what it makes."""
    return all(
        made_whole(state, giver, region, path_domains(giver, loop), outer) is not None
        for giver in givers
        for region in sure_writes(state, giver.block)
        if region.buffer is buffer
    )


def _whole(size: Expr) -> IntSet:
    return IntSet(const(0, size.dtype), Analyzer().simplify(size - 1))


def _check_known(
    block: StmtSRef, required: Box, buffer: Buffer, needed: Sequence[StmtSRef]
) -> None:
    """Refuse where data says which elements are needed."""
    load = first_load(required)
    if load is not None:
        raise refuse(
            f"which part of {buffer.name!r} is needed depends on data, the elements of "
            f"{load.buffer.name!r}, so {name_of(block)} cannot make just that part",
            at=[block, *needed],
            hint="move the block to where all of the buffer is needed, or inline it",
        )


def _check_aligned(
    analyzer: Analyzer, block: StmtSRef, provided: BufferRegion, required: Box, buffer: Buffer
) -> None:
    """A consumer that reads several elements at once must find all of them there."""
    variables = {axis.var for axis in block.block.iter_vars}
    for part, (low, high), size in zip(provided.region, required, buffer.shape, strict=True):
        if low is None or high is None:
            continue
        if free_vars(part.min).isdisjoint(variables):
            there = analyzer.can_prove(low <= part.min)
            there = there and analyzer.can_prove(part.min + part.extent <= high + 1)
        else:
            there = is_one(part.extent) or (
                analyzer.can_prove(low % part.extent <= 0)
                and (
                    analyzer.can_prove(high + 1 >= size)
                    or analyzer.can_prove((high + 1) % part.extent <= 0)
                )
            )
        if there:
            continue
        raise refuse(
            f"one instance of {name_of(block)} reads {part.extent} elements of {buffer.name!r} at "
            "once, not all of which an iteration of the loop makes",
            at=[block],
            hint="choose a loop further out, or tile the producer by a multiple",
        )


def _realize(
    block: Block, domains: Sequence[InstanceBounds], analyzer: Analyzer, preserve_unit_loops: bool
) -> tuple[BlockRealize, list[tuple[Var, Expr]]]:
    """The block run over the domains, and the loops for that."""
    loops: list[tuple[Var, Expr]] = []
    values: list[Expr] = []
    bounded: list[tuple[Expr, IntSet]] = []
    for axis, info in zip(block.iter_vars, domains, strict=True):
        dom = axis.domain if info.dom is None else covering(analyzer, info.dom, axis.domain)
        if preserve_unit_loops or not is_one(dom.extent):
            bits = max(dom.min.dtype.bits, dom.extent.dtype.bits)
            var = Var(f"ax{len(loops)}", f"int{bits}")
            loops.append((var, dom.extent.astype(var.dtype)))
            values.append(binary(Add, dom.min, var))
            if info.bound is not None:
                analyzer.bind(var, Range(const(0, var.dtype), dom.extent))
        else:
            values.append(dom.min)
        if info.bound is not None:
            bounded.append((values[-1], info.bound))
    predicate: Expr = _TRUE
    for value, (low, high) in bounded:
        conditions = [] if low is None else [binary(GE, value, low)]
        conditions += [] if high is None else [binary(LT, value, analyzer.simplify(high + 1))]
        for condition in conditions:
            if not analyzer.can_prove(condition):
                predicate = binary(And, predicate, condition)
    values = [v.astype(a.var.dtype) for v, a in zip(values, block.iter_vars, strict=True)]
    return BlockRealize(tuple(values), predicate, block), loops
