"""decompose_reduction: the start of a reduction becomes a block of its own."""

from __future__ import annotations

from ...expr import (
    REDUCE,
    SPATIAL,
    Analyzer,
    Expr,
    IterVar,
    Var,
    conjunction,
    free_vars,
    free_vars_of,
    substitute,
)
from ...tir import Block, BlockRealize, BufferRegion, Stmt, seq, substitute_stmt
from ..analysis.blocks import check_reduction, is_output, loaded_points
from ..analysis.order import repetition_fault
from ..analysis.regions import conjuncts, substituted
from ..analysis.scope import accessed_buffers
from ..analysis.tree import (
    child_realizes,
    is_ancestor,
    is_one,
    loops_above,
    loops_in_sight,
    require_around,
)
from ..errors import name_of, refuse
from ..instruction import BlockRef, LoopRef, primitive
from ..rewrite import under_copies
from ..sref import StmtSRef
from ..state import ScheduleState
from ._rebuild import paths_to, rebuilt


@primitive("DecomposeReduction")
def decompose_reduction(state: ScheduleState, block: BlockRef, loop: LoopRef) -> BlockRef:
    """Move the `T.init()` of a reduction into a block that runs before a loop.

    The block becomes `<name>_update`, the new one is `<name>_init`; both have the annotations that
    the block had. Loops inside of `loop` that
    place the results are repeated around the new block; loops that only reduce are not.

    Args:
        block: a reduction block.
        loop: a loop around it, with no reduction loop of the block outside of it.

    Returns:
        The new block.

    >>> import tileloom
    >>> from tileloom import te
    >>> A = te.placeholder((4, 8), name="A"); k = te.reduce_axis((0, 8), "k")
    >>> B = te.compute((4,), lambda i: te.sum(A[i, k], axis=k), name="B")
    >>> sch = tileloom.Schedule(te.create_prim_func([A, B]))
    >>> i, k = sch.get_loops("B")
    >>> init = sch.decompose_reduction("B", k)
    >>> sch.get(init).name_hint, [sch.get(b).name_hint for b in sch.get_child_blocks(i)]
    ('B_init', ['B_init', 'B_update'])
    """
    require_around(loop, block)
    if state.enable_check:
        # More than is updated may be started of what nobody else has made anything of.
        more = not is_output(state, block) and _stays_inside(state.realize(block), block)
        masked = more or _leaves_out_whole_results(state, block)
        check_reduction(state, block, loop, masked)
    _check_no_reduction_outside(state, block, loop)
    if state.enable_check:
        _check_no_repetition(state, block, loop)
        _check_runs(block, loop)
        _check_start_is_there(state, block, loop)
    realize, target = state.realize(block), block.block
    init = _init_realize(realize)
    inside = [outer for outer in loops_above(block) if outer is loop or is_ancestor(loop, outer)]
    nest = _loops_around(init, realize, inside)
    update = _update_block(target)
    changed = rebuilt(loop.loop, paths_to([block]), {target: update})
    state.replace(loop, seq(nest, changed), {target: update})
    return state.sref(init.block)


def _leaves_out_whole_results(state: ScheduleState, block: StmtSRef) -> bool:
    """Whether the predicate is about no reduction, so that the start can be left out by it too."""
    realize = state.realize(block)
    return free_vars(realize.predicate).isdisjoint(realize.loops_of(REDUCE))


def _check_no_reduction_outside(state: ScheduleState, block: StmtSRef, loop: StmtSRef) -> None:
    reduced = state.realize(block).loops_of(REDUCE)
    for outer in loops_in_sight(block):
        if outer is loop:
            return
        if outer.loop.loop_var in reduced:
            raise refuse(
                f"{name_of(outer)} reduces and is outside of {name_of(loop)}: the results would "
                "be started again in each of its iterations",
                at=[outer, loop],
                hint=f"decompose at {name_of(outer)}, or reorder it inside",
                fast="The decompose loop is required to be higher than all the reduction loops",
            )


def _check_no_repetition(state: ScheduleState, block: StmtSRef, loop: StmtSRef) -> None:
    """A loop that only repeats the block would go on with the results of its last iteration."""
    loops = [outer.loop for outer in loops_in_sight(block)]
    cut = loops.index(loop.loop)
    fault = repetition_fault(state.realize(block), loops[:cut], loops[cut:])
    if fault is not None:
        raise refuse(
            f"{fault}: without its start, each repetition would add to the last one",
            at=[loop, block],
            hint="decompose at a loop inside of those that repeat it",
        )


def _check_runs(block: StmtSRef, loop: StmtSRef) -> None:
    """Refuse where an iteration may run no step at all of what it would start.

    What was finished before would be started again then.
    """
    known, variables = Analyzer(), set[Var]()
    for inner in loops_above(block):
        extent = inner.loop.extent
        inside = inner is loop or is_ancestor(loop, inner)
        if inside and free_vars(extent) & variables and not known.can_prove(extent > 0):
            raise refuse(
                f"{name_of(inner)} may have no iterations, {extent}, in some iterations of the "
                "loops outside, where results would be started all the same",
                at=[loop, inner],
                hint="decompose before blocks are moved",
            )
        known.bind(inner.loop.loop_var, inner.loop.domain)
        variables.add(inner.loop.loop_var)


def _stays_inside(realize: BlockRealize, block: StmtSRef) -> bool:
    """Whether instances are in their domains also where conditions on reductions do not hold."""
    known = Analyzer({outer.loop.loop_var: outer.loop.domain for outer in loops_above(block)})
    pairs = zip(realize.block.iter_vars, realize.iter_values, strict=True)
    placing = [(axis, value) for axis, value in pairs if axis.iter_type == SPATIAL]
    return all(
        known.can_prove(value >= axis.domain.min)
        and known.can_prove(value < axis.domain.min + axis.domain.extent)
        for axis, value in placing
    )


def _check_start_is_there(state: ScheduleState, block: StmtSRef, loop: StmtSRef) -> None:
    """Refuse to start results before the loop that makes what they start with."""
    init = block.block.init
    started = () if init is None else loaded_points(init)
    for realize in child_realizes(state, loop.loop):
        written = accessed_buffers(state, realize.block)[1]
        made = next((region.buffer for region in started if region.buffer in written), None)
        if made is not None and realize.block is not block.block:
            raise refuse(
                f"the results of {name_of(block)} start with {made.name!r}, which "
                f"{name_of(realize.block)} writes inside of {name_of(loop)}",
                at=[loop, block, realize.block],
                hint="decompose at a loop inside of those that make the start",
            )


def _init_realize(realize: BlockRealize) -> BlockRealize:
    """The block that starts the results, over copies of the data-parallel variables."""
    block = realize.block
    if block.init is None:
        raise refuse(f"the block {block.name_hint!r} has no T.init()", at=[block])
    renamed: dict[Var, Expr] = {}
    axes, values = [], []
    for axis, value in zip(block.iter_vars, realize.iter_values, strict=True):
        if axis.iter_type == SPATIAL:
            var = Var(f"{axis.var.name}_init", axis.var.dtype)
            renamed[axis.var] = var
            axes.append(IterVar(axis.dom, var, axis.iter_type, axis.thread_tag))
            values.append(value)
    body = substitute_stmt(block.init, renamed)
    start = Block(
        tuple(axes),
        loaded_points(body),
        tuple(BufferRegion(r.buffer, tuple(substituted(r.region, renamed))) for r in block.writes),
        f"{block.name_hint}_init",
        body,
        annotations=dict(block.annotations),
    )
    return BlockRealize(tuple(values), realize.predicate, start)


def _loops_around(init: BlockRealize, realize: BlockRealize, inside: list[StmtSRef]) -> Stmt:
    """Copies of the loops that the new block's variables need; the others are left out."""
    needed = free_vars_of(init.iter_values)
    kept = [outer.loop for outer in inside if outer.loop.loop_var in needed]
    gone = {outer.loop.loop_var for outer in inside} - needed
    # Loops of extent one do not stand in values, but conditions may still have them.
    units: dict[Var, Expr] = {
        outer.loop.loop_var: outer.loop.min
        for outer in inside
        if outer.loop.loop_var in gone and is_one(outer.loop.extent)
    }
    parts = conjuncts(substitute(realize.predicate, units))
    predicate = conjunction(part for part in parts if free_vars(part).isdisjoint(gone))
    return under_copies(kept, init.replace(predicate=predicate), "_init")


def _update_block(block: Block) -> Block:
    """The block without its start; it reads what it adds to."""
    read = {region.buffer for region in block.reads}
    own = tuple(region for region in block.writes if region.buffer not in read)
    return block.replace(
        name_hint=f"{block.name_hint}_update", init=None, reads=(*own, *block.reads)
    )
