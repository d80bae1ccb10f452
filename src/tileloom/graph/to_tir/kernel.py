"""Tensor expressions to one kernel: the choice of a loop template."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ... import compute as te
from ...base.sums import is_split
from ...tir import Buffer, Stmt, seq
from ..nodes import Node
from ..symbols import bounds_of, everywhere_at_least, is_symbolic
from .cluster import (
    SCRATCH_BYTES,
    Cluster,
    column_bytes,
    flat_buffer,
    make_cluster,
    widest_bits,
    work,
)
from .columns import ColumnKernel
from .formulas import formula_kernel
from .layouts import Layout
from .nest import PARALLEL_WORK, with_workers
from .products import Anchored, anchored_kernel
from .reducing import allocate
from .rows import RowKernel
from .split import split_reduction
from .stages import PlanRefused, Stage, make_stages
from .tiles import TileKernel, turned_axis

#: Passes over the data one after another pay for their launches from so many times the work on
#: that a single parallel loop pays for its own.
PASS_WORK = 8


@dataclass(frozen=True)
class Machine:
    """What plans are made for.

    Attributes:
        vector_bits: the width of a vector.
        workers: how many threads there are.
        parallel_work: loops with less work, in simple operations, run on one thread.
        features: of the processor, in LLVM's spelling.
    """

    vector_bits: int = 512
    workers: int = 2
    parallel_work: int = PARALLEL_WORK
    features: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Body:
    """The statements of a part of a kernel.

    Attributes:
        divisible: whether the statements, and the steps of a parallel loop among them, may run in
            any order.
        work: how much there is to do, in simple operations.
    """

    stmt: Stmt
    divisible: bool
    work: int


def product_body(
    node: Node,
    layouts: Mapping[te.Tensor, Layout],
    operands: Sequence[te.Tensor],
    result: te.Tensor,
    outputs: Sequence[te.Tensor],
    buffers: Mapping[te.Tensor, Buffer],
    machine: Machine,
) -> Body:
    """A matrix product or convolution `node` with formulas over its result.

    Args:
        layouts: how the outputs lie in the product's result.
        operands: the two operands.
        result: what stands for the result in the formulas; it may be an output itself.
    """
    kernel = Anchored(node, operands, result, buffers, outputs, layouts)
    stmt = anchored_kernel(kernel, machine)
    return Body(stmt, divisible=False, work=machine.parallel_work)


def plain_body(
    outputs: Sequence[te.Tensor],
    buffers: Mapping[te.Tensor, Buffer],
    machine: Machine,
    layouts: Mapping[te.Tensor, Layout],
) -> Body:
    """What is made of formulas and reductions, in one nest of loops if they fit together.

    Args:
        layouts: of results that lie in another order than the domain of the nest.
    """
    outputs = [tensor for tensor in outputs if 0 not in tensor.static_shape]
    if not outputs:
        return Body(seq(), divisible=True, work=0)
    try:
        return _together(outputs, buffers, machine, layouts)
    except PlanRefused:
        return _one_by_one(make_stages(outputs, reuse=False), buffers, outputs, machine)


def _together(
    outputs: Sequence[te.Tensor],
    buffers: Mapping[te.Tensor, Buffer],
    machine: Machine,
    layouts: Mapping[te.Tensor, Layout],
) -> Body:
    """All stages in one loop nest (formulas that share no domain: one for each size)."""
    stages = make_stages(outputs, reuse=True)
    if any(stage.is_reduction for stage in stages):
        cluster = _reducing(stages, outputs, machine, layouts)
        return _nest(cluster, buffers, outputs, machine)
    try:
        return _nest(make_cluster(stages, layouts), buffers, outputs, machine)
    except PlanRefused:
        by_extents: dict[tuple[int, ...], list[Stage]] = {}
        for stage in stages:
            by_extents.setdefault(stage.extents, []).append(stage)
    made = {tensor for stage in stages for tensor in stage.op.outputs}
    bodies = []
    for same in by_extents.values():
        if any(load.producer in made for stage in same for load in stage.loads):
            raise PlanRefused("an output is read by another")
        bodies.append(_nest(make_cluster(same), buffers, outputs, machine))
    work = sum(body.work for body in bodies)
    return Body(seq(*(body.stmt for body in bodies)), divisible=True, work=work)


def _reducing(
    stages: Sequence[Stage],
    outputs: Sequence[te.Tensor],
    machine: Machine,
    layouts: Mapping[te.Tensor, Layout],
) -> Cluster:
    """Reductions and formulas over their domain, with costly formulas kept where that is possible.

    Raises:
        PlanRefused: they do not share a domain.
    """
    try:
        cluster = make_cluster(stages, layouts)
        if _can_keep(cluster, outputs, machine):
            return cluster
    except PlanRefused:
        pass  # perhaps only for what was kept
    return make_cluster(make_stages(outputs, reuse=False), layouts)


def _can_keep(cluster: Cluster, outputs: Sequence[te.Tensor], machine: Machine) -> bool:
    """Whether intermediates, if there are any, have a place near the core."""
    kept = column_bytes(cluster, outputs)
    lanes = _lanes(cluster, machine)
    if _along_rows(cluster, lanes):
        return kept <= SCRATCH_BYTES
    # Few columns are better shared among the workers by their rows, pass by pass.
    return not kept or (kept * lanes <= SCRATCH_BYTES and not _is_split(cluster, lanes))


def _one_by_one(
    stages: Sequence[Stage],
    buffers: Mapping[te.Tensor, Buffer],
    outputs: Sequence[te.Tensor],
    machine: Machine,
) -> Body:
    """Each stage in loops of its own, with intermediates in memory."""
    known = dict(buffers)
    temporaries = _add_memory(known, stages)
    bodies = [_nest(make_cluster([stage]), known, stage.op.outputs, machine) for stage in stages]
    return _in_order(bodies, temporaries)


def _add_memory(known: dict[te.Tensor, Buffer], stages: Iterable[Stage]) -> list[Buffer]:
    """New memory for what has none yet."""
    temporaries = []
    for stage in stages:
        for tensor in stage.op.outputs:
            if tensor not in known:
                known[tensor] = flat_buffer(tensor, tensor.name)
                temporaries.append(known[tensor])
    return temporaries


def _in_order(bodies: Sequence[Body], temporaries: Sequence[Buffer]) -> Body:
    stmt = seq(*(body.stmt for body in bodies))
    for buffer in reversed(temporaries):
        stmt = allocate(buffer, stmt)
    return Body(stmt, divisible=False, work=sum(body.work for body in bodies))


def _nest(
    cluster: Cluster,
    buffers: Mapping[te.Tensor, Buffer],
    outputs: Sequence[te.Tensor],
    machine: Machine,
    *,
    may_split: bool = True,
) -> Body:
    bodies = [part for member in cluster.members for part in member.body]
    lanes = _lanes(cluster, machine)
    size = 1
    for axis in (*cluster.spatial, *cluster.reduce):
        size *= axis.extent
    amount = size * sum(map(work, bodies))
    # Where nobody knows yet whether there is enough work, parallel loops find out.
    parallel = (
        machine.workers > 1 and everywhere_at_least(amount, machine.parallel_work) is not False
    )
    passes = 1 if cluster.passes == 1 else PASS_WORK
    if may_split and _is_split(cluster, lanes) and amount >= passes * PARALLEL_WORK:
        try:
            return _in_parts(cluster, buffers, outputs, machine)
        except PlanRefused:
            pass  # it runs, on few workers
    stmt: Stmt
    if not any(member.is_reduction for member in cluster.members):
        turned = turned_axis(cluster, lanes)
        if turned is not None:
            stmt = TileKernel(cluster, buffers, lanes, turned).build(parallel)
        else:
            stmt = formula_kernel(cluster, buffers, lanes, parallel)
    elif _along_rows(cluster, lanes):
        stmt = RowKernel(cluster, buffers, outputs, lanes).build(parallel)
    else:
        stmt = ColumnKernel(cluster, buffers, outputs, lanes).build(parallel, machine.workers)
    if parallel:
        stmt = with_workers(stmt, amount, machine.parallel_work)
    return Body(stmt, divisible=True, work=amount)


def _lanes(cluster: Cluster, machine: Machine) -> int:
    """The elements of a vector in the widest type that is computed in."""
    inner = [part for m in cluster.members if m.full or m.is_reduction for part in m.body]
    if inner and _along_rows(cluster, lanes := max(1, machine.vector_bits // widest_bits(inner))):
        return lanes  # what is computed once for a row is no vector
    bodies = [part for member in cluster.members for part in member.body]
    return max(1, machine.vector_bits // widest_bits(bodies))


def _is_split(cluster: Cluster, lanes: int) -> bool:
    """Whether reductions have so few results that they are made in parts."""
    if not any(member.is_reduction for member in cluster.members):
        return False
    rows = depth = 1
    for axis in cluster.spatial:
        rows *= axis.extent
    for axis in cluster.reduce:
        depth *= axis.extent
    if not _along_rows(cluster, lanes):
        rows //= 4 * lanes
    return is_split(rows, depth, cluster.passes)


def _in_parts(
    cluster: Cluster,
    buffers: Mapping[te.Tensor, Buffer],
    outputs: Sequence[te.Tensor],
    machine: Machine,
) -> Body:
    """Pass by pass: formulas over the domain, and reductions in parts that are then combined."""
    known = dict(buffers)
    temporaries = _add_memory(known, (m.stage for m in cluster.members))
    if any(m.full and not m.is_reduction and known[t] in temporaries
           for m in cluster.members for t in m.tensors):  # fmt: skip
        raise PlanRefused("costly formulas are kept from pass to pass")
    one = replace(machine, workers=1)
    machine = replace(machine, parallel_work=0)  # it was found that there is enough work
    bodies: list[Body] = []
    for level in range(cluster.passes):
        here = [m for m in cluster.members if m.level == level]
        rows = [m.stage for m in here if not m.full and not m.is_reduction]
        full = [m.stage for m in here if m.full and not m.is_reduction]
        reductions = [m.stage for m in here if m.is_reduction]
        for stages, how in ((rows, one), (full, machine)):
            if stages:
                bodies.append(_nest(make_cluster(stages), known, outputs, how, may_split=False))
        if reductions:
            early, late = zip(*map(split_reduction, reductions), strict=True)
            temporaries += _add_memory(known, early)
            made = [tensor for stage in early for tensor in stage.op.outputs]
            bodies.append(_nest(make_cluster(early), known, made, machine, may_split=False))
            made = [tensor for stage in late for tensor in stage.op.outputs]
            bodies.append(_nest(make_cluster(late), known, made, one))
    return _in_order(bodies, temporaries)


def _along_rows(cluster: Cluster, lanes: int) -> bool:
    """Whether vectors run along the innermost reduced axis rather than the last kept one."""
    if not cluster.spatial:
        return True
    last = cluster.order[-1]
    if not last.reduce:
        return False
    if is_symbolic(last.extent):  # unless it is always short
        return bounds_of(last.extent)[1] >= lanes
    kept = cluster.spatial[-1]
    return last.extent >= lanes or kept.extent < lanes
