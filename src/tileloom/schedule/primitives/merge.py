"""merge: loop nests of one shape, one after another, become one nest."""

from __future__ import annotations

from ...expr import REDUCE, Analyzer, Expr, Var, const, substitute
from ...tir import Block, Buffer, For, Stmt, seq
from ..analysis.cover import region_cover_fault, stage_pipeline_fault
from ..analysis.order import rows_apart
from ..analysis.regions import path_domains, ranges_at
from ..analysis.scope import accessed_buffers
from ..analysis.tree import (
    child_blocks,
    child_realizes,
    is_one,
    lowest_common_ancestor,
    only_child_chain,
    require_plain_loop,
    require_zero_start,
    scope_root,
)
from ..errors import name_of, refuse
from ..instruction import LoopRef, primitive
from ..rewrite import LoopVarSubstitution
from ..sref import StmtSRef
from ..state import ScheduleState
from ._boxes import accessed_box
from ._domains import hull_of
from ._rebuild import rebuilt


@primitive("Merge")
def merge(state: ScheduleState, *loops: LoopRef) -> LoopRef:
    """Run loop nests that follow each other in one nest, their bodies one after another.

    Each nest reaches from below the common ancestor of the loops down to one of them; loops of
    nests of other shapes, or whose interleaving would change a result, are refused.

    Args:
        loops: the innermost loops to merge, at least two.

    Returns:
        The innermost merged loop.

    >>> import tileloom
    >>> from tileloom import te
    >>> A = te.placeholder((4, 8), name="A")
    >>> B = te.compute((4, 8), lambda i, j: A[i, j] * 2.0, name="B")
    >>> C = te.compute((4, 8), lambda i, j: A[i, j] + 1.0, name="C")
    >>> sch = tileloom.Schedule(te.create_prim_func([A, B, C]))
    >>> merged = sch.merge(sch.get_loops("B")[1], sch.get_loops("C")[1])
    >>> [sch.get(b).name_hint for b in sch.get_child_blocks(merged)]
    ['B', 'C']
    """
    nests = _nests(loops)
    order = {r.block: k for k, r in enumerate(child_realizes(state, scope_root(loops[0]).block))}
    nests.sort(key=lambda nest: min(order[b.block] for b in child_blocks(state, nest[-1])))
    _check_passed(state, nests, order)
    _check_sums_are_whole(state, nests)
    for i, nest in enumerate(nests):
        for later in nests[i + 1 :]:
            _check_overwrites(state, nest, later)
    above = nests[0][0].parent
    if above is None:
        raise refuse("the loops have no common ancestor", at=loops)
    scope = scope_root(loops[0])
    trial, twins = state.copy()
    merged = [block for nest in nests for block in child_blocks(state, nest[-1])]
    writes = {b: accessed_buffers(state, b.block)[1].keys() for b in merged}
    reads = {b: accessed_buffers(state, b.block)[0].keys() for b in merged}
    _apply(trial, [[twins[loop] for loop in nest] for nest in nests], twins[above])
    fault = stage_pipeline_fault(trial, twins[scope])
    known = stage_pipeline_fault(state, scope)
    taking = [b for b in merged if any(reads[b] & writes[other] for other in merged)]
    faults = [region_cover_fault(trial, twins[block]) for block in taking]
    if fault is not None and (known is None or known[0] != fault[0]):
        faults.insert(0, fault[0])
    why = next((text for text in faults if text is not None), None)
    if why is not None:
        raise refuse(
            f"interleaving the nests changes what is computed: {why}",
            at=loops,
            hint="merge nests that do not wait for each other's results",
        )
    return state.sref(_apply(state, nests, above))


def _nests(loops: tuple[StmtSRef, ...]) -> list[list[StmtSRef]]:
    """Each loop with those around it, below the common ancestor, outermost first."""
    if len(loops) < 2:
        raise refuse(
            f"merge needs at least two loops, got {len(loops)}",
            at=loops,
            fast="The loops to be merged must be at least two",
        )
    if len(set(loops)) != len(loops):
        raise refuse("two of the loops are in one nest: they are the same", at=loops)
    common = lowest_common_ancestor(loops)
    nests = []
    for loop in loops:
        chain = [loop]
        while chain[0].parent is not common:
            parent = chain[0].parent
            if parent is None or not parent.is_loop:
                raise refuse(f"{name_of(loop)} is in a block of its own", at=[loop])
            chain.insert(0, parent)
        if not only_child_chain(chain[0], loop):
            raise refuse(
                f"a loop around {name_of(loop)} holds more than the next loop", at=[chain[0]]
            )
        for outer in chain:
            require_plain_loop(outer, "merge")
            require_zero_start(outer, "merge")
        nests.append(chain)
    _check_shapes(nests)
    return nests


def _check_shapes(nests: list[list[StmtSRef]]) -> None:
    first = [outer.loop.extent for outer in nests[0]]
    for nest in nests[1:]:
        extents = [outer.loop.extent for outer in nest]
        if len(extents) != len(first) or any(a is not b for a, b in zip(extents, first)):
            raise refuse(
                f"the nest of {name_of(nest[-1])} has the extents "
                f"{', '.join(map(str, extents))}, that of {name_of(nests[0][-1])} "
                f"{', '.join(map(str, first))}",
                at=[nests[0][0], nest[0]],
                fast="The loops to be merged must have the same extents",
            )
    tops = [nest[0] for nest in nests]
    if len(set(tops)) != len(tops):
        raise refuse("two of the loops are in one nest", at=tops)


def _check_passed(
    state: ScheduleState, nests: list[list[StmtSRef]], order: dict[Block, int]
) -> None:
    """A nest moves up to the first one: it must not pass what it depends on, or what needs it."""
    merged = {b.block for nest in nests for b in child_blocks(state, nest[-1])}
    first = min(order[block] for block in merged)
    for block in merged:
        for other, place in order.items():
            if (
                first < place < order[block]
                and other not in merged
                and _conflict(state, block, other)
            ):
                raise refuse(
                    f"merging moves block {block.name_hint!r} before block {other.name_hint!r}, "
                    "and one of them needs what the other writes",
                    at=[state.sref(block), state.sref(other)],
                    hint="merge nests with nothing between that depends on them",
                )


def _conflict(state: ScheduleState, a: Block, b: Block) -> bool:
    """Whether the order of two blocks matters."""
    reads, writes = map(set, accessed_buffers(state, a))
    other_reads, other_writes = map(set, accessed_buffers(state, b))
    return bool(writes & (other_reads | other_writes) or reads & other_writes)


def _check_sums_are_whole(state: ScheduleState, nests: list[list[StmtSRef]]) -> None:
    """No nest may read, within a merged loop, what another one still reduces over that loop."""
    for nest in nests:
        merged = {outer.loop.loop_var for outer in nest}
        for block in child_blocks(state, nest[-1]):
            if state.realize(block).loops_of(REDUCE).isdisjoint(merged):
                continue
            made = _made_from(state, block.block, [b for n in nests for b in _blocks(state, n)])
            for other in nests:
                for reader in [] if other is nest else child_blocks(state, other[-1]):
                    if made & accessed_buffers(state, reader.block)[0].keys():
                        raise refuse(
                            f"interleaving the nests lets {name_of(reader)} read what "
                            f"{name_of(block)} has not reduced to the end",
                            at=[block, reader],
                            hint="merge only loops that place results",
                        )


def _blocks(state: ScheduleState, nest: list[StmtSRef]) -> list[Block]:
    return [sref.block for sref in child_blocks(state, nest[-1])]


def _made_from(state: ScheduleState, block: Block, others: list[Block]) -> set[Buffer]:
    """What a block writes, and what others write that read some of that."""
    made = set(accessed_buffers(state, block)[1])
    while True:
        more = {
            buffer
            for other in others
            if made & accessed_buffers(state, other)[0].keys()
            for buffer in accessed_buffers(state, other)[1]
        } - made
        if not more:
            return made
        made |= more


def _check_overwrites(state: ScheduleState, nest: list[StmtSRef], later: list[StmtSRef]) -> None:
    """What a later nest overwrites, the earlier one may touch in the same iteration only."""
    for first in child_blocks(state, nest[-1]):
        accessed = accessed_buffers(state, first.block)
        for second in child_blocks(state, later[-1]):
            for buffer in accessed_buffers(state, second.block)[1]:
                if buffer not in accessed[0] and buffer not in accessed[1]:
                    continue
                mine = _starts(state, first, nest, buffer)
                theirs = _starts(state, second, later, buffer)
                known = Analyzer({s.loop.loop_var: s.loop.domain for s in later})
                if mine is None or theirs is None or not _same(known, mine, theirs, nest, later):
                    raise refuse(
                        f"{name_of(second)} overwrites elements of {buffer.name!r} that "
                        f"{name_of(first)} touches, maybe in another iteration of the merged loops",
                        at=[first, second],
                        hint="merge nests whose iterations touch the same elements",
                    )


def _same(
    known: Analyzer,
    mine: list[Expr],
    theirs: list[Expr],
    nest: list[StmtSRef],
    later: list[StmtSRef],
) -> bool:
    here: dict[Var, Expr] = {
        a.loop.loop_var: b.loop.loop_var for a, b in zip(nest, later, strict=True)
    }
    pairs = zip(mine, theirs, strict=True)
    return all(known.can_prove_equal(substitute(a, here), b) for a, b in pairs)


def _starts(
    state: ScheduleState, block: StmtSRef, nest: list[StmtSRef], buffer: Buffer
) -> list[Expr] | None:
    """The ends of what a block touches in an iteration, if no other iteration touches that."""
    realize = state.realize(block)
    merged = {s.loop.loop_var: s.loop.domain for s in nest}
    regions = [r for r in (*block.block.writes, *block.block.reads) if r.buffer is buffer]
    if not regions:
        return None
    inside = path_domains(block, nest[-1])
    boxes = [
        accessed_box(ranges_at(realize, region.region), inside, const(True), merged)
        for region in regions
    ]
    box = hull_of(Analyzer(merged), boxes)
    loops = [s.loop for s in nest if not is_one(s.loop.extent)]
    ends = [end for interval in box for end in interval]
    if None in ends or not rows_apart(list(box), loops):
        return None
    return [end for end in ends if end is not None]


def _apply(state: ScheduleState, nests: list[list[StmtSRef]], above: StmtSRef) -> For:
    """The merged innermost loop, put where the first nest stands."""
    fresh = [Var(f"{outer.loop.loop_var.name}_m", outer.loop.loop_var.dtype) for outer in nests[0]]
    bodies = []
    block_map = {}
    for nest in nests:
        values: dict[Var, Expr] = {
            outer.loop.loop_var: var for outer, var in zip(nest, fresh, strict=True)
        }
        substitution = LoopVarSubstitution(values)
        bodies.append(substitution.visit(nest[-1].loop.body))
        block_map.update(substitution.block_map)
    stmt: Stmt = seq(*bodies)
    innermost: For | None = None
    for outer, var in zip(reversed(nests[0]), reversed(fresh), strict=True):
        stmt = For(var, outer.loop.min, outer.loop.extent, outer.loop.kind, stmt)
        innermost = innermost or stmt
    tops = [nest[0].loop for nest in nests]
    holder = above.loop if above.is_loop else above.block
    parts: dict[Stmt, Stmt | None] = {**dict.fromkeys(tops), tops[0]: stmt}
    changed = holder.replace(body=rebuilt(holder.body, (), parts))
    if above.is_block:
        block_map[above.block] = changed  # type: ignore[assignment]
    state.replace(above, changed, block_map)
    if innermost is None:
        raise refuse("nothing to merge")
    return innermost
