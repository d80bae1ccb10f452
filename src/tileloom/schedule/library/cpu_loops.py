"""parallel_vectorize_unroll: the loops around a block spread over the units of a CPU."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from ...expr import Expr, IntImm, Var, simplify, substitute
from ...tir import BufferRegion
from ..rv import BlockRV, LoopRV
from ._common import BlockLike, block_of, extent, fused, is_spatial, wrong

if TYPE_CHECKING:
    from ..schedule import Schedule

_STEPS, _EXPLICIT = "pragma_auto_unroll_max_step", "pragma_unroll_explicit"


def parallel_vectorize_unroll(
    sch: Schedule, block: BlockLike, jobs: int = 16, lanes: int = 16, unroll: int = 16
) -> None:
    """Run the outer loops of a block in parallel, the innermost in vectors, unroll what is short.

    Args:
        block: the block whose loops these are.
        jobs: outer spatial loops are fused until there are that many iterations; 0 for none.
        lanes: the length of vectors, at most: the innermost loop is vectorised if it is spatial,
            and all accesses are to the same element or to one after the other; 0 for no vectors.
        unroll: loops are unrolled later as long as a body has no more steps; 0 for no unrolling.

    >>> from tileloom import Schedule, te
    >>> A = te.placeholder((4, 32, 64), name="A")
    >>> B = te.compute((4, 32, 64), lambda i, j, k: A[i, j, k] + 1.0, name="B")
    >>> sch = Schedule(te.create_prim_func([A, B])); parallel_vectorize_unroll(sch, "B")
    >>> [(sch.get(one).kind, sch.get(one).extent.value) for one in sch.get_loops("B")]
    [('parallel', 128), ('serial', 4), ('vectorized', 16)]
    """
    if min(jobs, lanes, unroll) < 0:
        raise wrong(sch, "jobs, lanes and unroll are not negative")
    found = block_of(sch, block)
    loops: list[LoopRV] = sch.get_loops(found)
    if not loops:
        return
    vector = _vector_length(sch, found, loops[-1], lanes)
    outer = _outermost(sch, loops if vector < 2 else loops[:-1], jobs)
    if vector > 1:
        last = loops[-1]
        if extent(sch, last) != vector:
            _, last = sch.split(last, [None, vector])
        sch.vectorize(last)
    if outer:
        sch.parallel(fused(sch, outer))
    if unroll:
        first = sch.get_loops(found)[0]
        sch.annotate(first, _STEPS, unroll)
        sch.annotate(first, _EXPLICIT, 1)


def _outermost(sch: Schedule, loops: list[LoopRV], jobs: int) -> list[LoopRV]:
    """The outermost loops that together make so many jobs."""
    taken: list[LoopRV] = []
    sizes: list[int] = []
    for loop in loops:
        size = extent(sch, loop)
        if prod(sizes) >= max(jobs, 1) or size is None or not is_spatial(sch, loop):
            break
        if taken and not _only_child(sch, taken[-1], loop):
            break
        taken.append(loop)
        sizes.append(size)
    return taken if prod(sizes) > 1 else []


def _only_child(sch: Schedule, outer: LoopRV, inner: LoopRV) -> bool:
    return sch.get(outer).body is sch.get(inner)


def _vector_length(sch: Schedule, block: BlockRV, loop: LoopRV, lanes: int) -> int:
    """The largest power of two that fits, 1 if vectors do not pay."""
    size = extent(sch, loop)
    if not size or sch.get(loop).kind != "serial" or not is_spatial(sch, loop):
        return 1
    realize = sch.state.realize(sch.get_sref(block))
    values = realize.bindings
    regions = (*realize.block.reads, *realize.block.writes)
    if not all(_contiguous(region, values, sch.get(loop).loop_var) for region in regions):
        return 1
    length = 1
    while 2 * length <= lanes and size % (2 * length) == 0:
        length *= 2
    return length


def _contiguous(region: BufferRegion, values: dict[Var, Expr], loop_var: Var) -> bool:
    """Whether the next iteration accesses the same element or the one after it."""
    steps = []
    for part in region.region:
        here = substitute(part.min, values)
        step = simplify(substitute(here, {loop_var: loop_var + 1}) - here)
        if not isinstance(step, IntImm):
            return False
        steps.append(step.value)
    return not any(steps[:-1]) and (not steps or steps[-1] in (0, 1))
