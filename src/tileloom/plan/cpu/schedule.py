"""Groups on a CPU: every block of a fusion cut alike, in one nest of loops."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from ...base.compiling import compiling
from ...expr import IntImm, Var
from ...expr.extents import limits_of_variables
from ...schedule.errors import ScheduleError
from ...schedule.schedule import Schedule
from ...target import Target
from ...tir import IRModule, PrimFunc
from ..domain import GroupRefused, blocks_by_name
from ..sizes import Sizes
from .choices import choose_plan
from .contraction import CONTRACTION, tile_product
from .fusion_groups import FusionGroup, find_fusion_groups, inline_elementwise
from .horizontal_fusion import fuse_horizontally, independent_runs, pays_together
from .nests import ParallelLoop, make_nests, parallelize
from .split_reduction import in_parts, make_parts


@compiling
def schedule_cpu(
    mod: IRModule | PrimFunc,
    target: Target,
    bounds: Mapping[Var, tuple[int, int | None]] | None = None,
) -> Schedule:
    """A group as nests of loops for a CPU.

    Args:
        mod: a function of blocks, as compute rules give them. Its sizes may be variables.
        target: a CPU.
        bounds: for variables that sizes are made of, the least and the greatest value that they
            will have, None for unknown.

    Returns:
        The schedule, whose trace holds the steps that were taken.

    Raises:
        GroupRefused: the loops of a block have been scheduled already.

    >>> from tileloom import te
    >>> from tileloom.target import target
    >>> A, k = te.placeholder((640, 1000), name="A"), te.reduce_axis((0, 1000), name="k")
    >>> B = te.compute((640,), lambda i: te.sum(A[i, k], axis=k), name="B")
    >>> C = te.compute((640, 1000), lambda i, j: A[i, j] / B[i], name="C")
    >>> sch = schedule_cpu(te.create_prim_func([A, C]), target("cpu -num-cores=2"))
    >>> rows, depth = map(sch.get, sch.get_loops("C"))
    >>> rows.kind, int(depth.annotations["vector_lanes"]) > 1
    ('parallel', True)
    """
    sch = Schedule(mod)
    if isinstance(mod, PrimFunc) and mod.attrs.get(CONTRACTION):
        return _tiled(sch, target)
    sizes = Sizes(dict(bounds or {}))
    if _is_empty(sch):
        return sch
    inline_elementwise(sch)
    loops: list[ParallelLoop] = []
    for run in independent_runs(sch, find_fusion_groups(sch, sizes)):
        together = pays_together(sch, run, target)
        here: list[ParallelLoop] = []
        for fusion in run:
            sch, found = _scheduled(sch, fusion, target, sizes, together)
            here += found
        loops += fuse_horizontally(sch, here, target.cores) if together else here
    parallelize(sch, loops)
    ends = {var.name: [low, high] for var, (low, high) in sizes.bounds.items() if high is not None}
    ends |= {var.name: [low, high] for var, (low, high) in _limits(sch).items()}
    if ends:
        sch.annotate(sch.get_block("root"), "size_bounds", ends)
    return sch


def _tiled(sch: Schedule, target: Target) -> Schedule:
    try:
        tile_product(sch, target)
    except ScheduleError as error:
        raise GroupRefused(f"no tiles for the product: {error.message}") from error
    return sch


def _scheduled(
    sch: Schedule, fusion: FusionGroup, target: Target, sizes: Sizes, together: bool
) -> tuple[Schedule, list[ParallelLoop]]:
    """The schedule with a fusion cut: in parts if its results are few, else in one nest."""
    plan = choose_plan(sch, fusion, target, sizes, together)
    if in_parts(fusion, plan, sizes):
        trial = sch.copy()
        try:
            make_parts(trial, fusion.copy(), plan, target, sizes)
        except ScheduleError:
            pass  # it runs, on few workers
        else:
            return trial, []
    with suppress(ScheduleError):  # what is done until then is right; other loops stay as they are
        return sch, make_nests(sch, fusion, plan)
    return sch, []


def _limits(sch: Schedule) -> dict[Var, tuple[int, int]]:
    """What is known of the variables that sizes of blocks are made of."""
    found: dict[Var, tuple[int, int]] = {}
    for block in blocks_by_name(sch).values():
        for axis in block.iter_vars:
            found |= limits_of_variables(axis.domain.extent)
    return found


def _is_empty(sch: Schedule) -> bool:
    """Whether some block has nothing to do, or to reduce."""
    return any(
        isinstance(axis.domain.extent, IntImm) and axis.domain.extent.value == 0
        for block in blocks_by_name(sch).values()
        for axis in block.iter_vars
    )
