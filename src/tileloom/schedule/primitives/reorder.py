"""reorder: change the order of nested loops."""

from __future__ import annotations

from collections.abc import Sequence

from ...expr import REDUCE, SPATIAL, free_vars
from ...tir import For, Stmt
from ..analysis.affine import affine_binding, masked_binding, partial_affine_binding
from ..analysis.order import reordering_fault
from ..analysis.reductions import check_statements
from ..analysis.tree import blocks_in_sight, loops_above, loops_in_sight
from ..errors import name_of, refuse
from ..instruction import LoopRef, primitive
from ..sref import StmtSRef
from ..state import ScheduleState, copy_loop
from ._threads import check_own_results


@primitive("Reorder")
def reorder(state: ScheduleState, *ordered_loops: LoopRef) -> None:
    """Put loops of one chain into a new order, outermost first; other loops stay where they are.

    >>> import tileloom
    >>> from tileloom import te
    >>> A = te.placeholder((4, 8), name="A")
    >>> B = te.compute((4, 8), lambda i, j: A[i, j] + 1.0, name="B")
    >>> sch = tileloom.Schedule(te.create_prim_func([A, B])); i, j = sch.get_loops("B")
    >>> sch.reorder(j, i); [sch.get(loop).extent for loop in sch.get_loops("B")]
    [8, 4]
    """
    if not ordered_loops:
        raise refuse("reorder needs at least one loop")
    chain = _chain(ordered_loops)
    chosen = set(ordered_loops)
    left = iter(ordered_loops)
    order = [next(left) if sref in chosen else sref for sref in chain]
    _check_dependences(order)
    _check_blocks(state, chain[0])
    if state.enable_check and order != chain:
        _check_starts(state, chain, order)
        check_own_results(state, chain[0])
    body: Stmt = chain[-1].loop.body
    for sref in reversed(order):
        body = copy_loop(sref.loop, body)
    state.replace(chain[0], body)


def _chain(loops: Sequence[StmtSRef]) -> list[StmtSRef]:
    """The loops from the outermost to the innermost of those to be reordered."""
    twice = next((s for i, s in enumerate(loops) if s in loops[:i]), None)
    if twice is not None:
        raise refuse(
            f"{name_of(twice)} is given more than once", at=[twice], fast="duplicate loops"
        )
    bottom = max(loops, key=lambda sref: len(loops_above(sref)))
    path = [*loops_above(bottom), bottom]
    outside = next((sref for sref in loops if sref not in path), None)
    if outside is not None:
        raise refuse(
            f"{name_of(outside)} and {name_of(bottom)} are not in one chain of loops",
            at=[outside, bottom],
            fast="The loops are not in the same chain",
        )
    first = min(path.index(sref) for sref in loops)
    for outer, inner in zip(path[first:], path[first + 1 :]):
        if outer.loop.body is not inner.stmt:
            raise refuse(
                f"{name_of(outer)} holds more than {name_of(inner)}, so nothing can move across it",
                at=[outer, inner],
                hint="only loops with nothing between them can change places",
                fast="The loops are not in a single-branch chain",
            )
    return path[first:]


def _check_dependences(order: Sequence[StmtSRef]) -> None:
    inner = {sref.loop.loop_var: sref for sref in order}
    for sref in order:
        loop: For = sref.loop
        for var in free_vars(loop.min) | free_vars(loop.extent):
            if var in inner:
                raise refuse(
                    f"the range of {name_of(sref)} depends on {name_of(inner[var])}, "
                    "which would be inside of it",
                    at=[sref, inner[var]],
                    fast="Outer loop's min or extent depends on the inner loop's",
                )
        del inner[loop.loop_var]


def _check_blocks(state: ScheduleState, top: StmtSRef) -> None:
    for block in blocks_in_sight(state, top):
        for axis in block.block.iter_vars:
            if axis.iter_type not in (SPATIAL, REDUCE):
                raise refuse(
                    f"the iteration variable {axis.var.name!r} of {name_of(block)} is neither "
                    "data-parallel nor reduced, so its order counts",
                    at=[top, block],
                    fast="The block has iter vars of other types",
                )
        if not (
            affine_binding(state, block)
            or partial_affine_binding(state, block, top)
            or masked_binding(state, block)
        ):
            raise refuse(
                f"the values of {name_of(block)} are not affine in the loops to be reordered",
                at=[top, block],
                fast="The block does not have affine bindings",
            )


def _check_starts(
    state: ScheduleState, chain: Sequence[StmtSRef], order: Sequence[StmtSRef]
) -> None:
    """What starts the results of a reduction must stay the first to touch them."""
    outside = [sref.loop for sref in loops_in_sight(chain[0])]
    before, after = [sref.loop for sref in chain], [sref.loop for sref in order]
    for block in blocks_in_sight(state, chain[0]):
        if block.block.init is None:
            continue
        check_statements(state, block)
        below = [sref.loop for sref in loops_in_sight(block)][len(outside) + len(chain) :]
        fault = reordering_fault(state.realize(block), outside, before, after, below)
        if fault is not None:
            why, *places = fault
            raise refuse(
                f"{name_of(places[0])} and {name_of(places[1])} cannot change places: {why} in "
                f"{name_of(block)}, so what starts a result would not come first",
                at=[*places, block],
                hint="decompose_reduction first, or reorder before loops that place are fused "
                "with loops that reduce",
            )
