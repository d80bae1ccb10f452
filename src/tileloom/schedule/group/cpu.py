"""Groups on a CPU: every block of a cluster cut alike, in one nest of loops."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from ...base import Target
from ...base.compiling import compiling
from ...expr import IntImm, Var
from ...tir import IRModule, PrimFunc
from ..errors import ScheduleError
from ..schedule import Schedule
from .cpu_clusters import Cluster, find_clusters, inline_formulas
from .cpu_nests import Head, make_nests, share_out
from .cpu_parts import in_parts, make_parts
from .cpu_plan import choose_plan
from .cpu_sizes import Sizes
from .domain import blocks_by_name


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
    >>> from tileloom.base.target import target
    >>> A, k = te.placeholder((640, 1000), name="A"), te.reduce_axis((0, 1000), name="k")
    >>> B = te.compute((640,), lambda i: te.sum(A[i, k], axis=k), name="B")
    >>> C = te.compute((640, 1000), lambda i, j: A[i, j] / B[i], name="C")
    >>> sch = schedule_cpu(te.create_prim_func([A, C]), target("cpu -num-cores=2"))
    >>> rows, depth = map(sch.get, sch.get_loops("C"))
    >>> rows.kind, int(depth.annotations["vector_lanes"]) > 1
    ('parallel', True)
    """
    sch = Schedule(mod)
    sizes = Sizes(dict(bounds or {}))
    if _is_empty(sch):
        return sch
    inline_formulas(sch)
    heads: list[Head] = []
    for cluster in find_clusters(sch, sizes):
        sch, found = _scheduled(sch, cluster, target, sizes)
        heads += found
    share_out(sch, heads)
    ends = {var.name: [low, high] for var, (low, high) in sizes.bounds.items() if high is not None}
    if ends:
        sch.annotate(sch.get_block("root"), "size_bounds", ends)
    return sch


def _scheduled(
    sch: Schedule, cluster: Cluster, target: Target, sizes: Sizes
) -> tuple[Schedule, list[Head]]:
    """The schedule with a cluster cut: in parts if its results are few, else in one nest."""
    plan = choose_plan(sch, cluster, target, sizes)
    if in_parts(cluster, plan):
        trial = sch.copy()
        try:
            make_parts(trial, cluster.copy(), plan, target, sizes)
        except ScheduleError:
            pass  # it runs, on few workers
        else:
            return trial, []
    with suppress(ScheduleError):  # what is done until then is right; other loops stay as they are
        return sch, make_nests(sch, cluster, plan)
    return sch, []


def _is_empty(sch: Schedule) -> bool:
    """Whether some block has nothing to do, or to reduce."""
    return any(
        isinstance(axis.domain.extent, IntImm) and axis.domain.extent.value == 0
        for block in blocks_by_name(sch).values()
        for axis in block.iter_vars
    )
