"""Tensor expressions to one kernel: the choice of a loop template."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ... import compute as te
from ...expr import Var
from ...tir import Buffer, PrimFunc, Stmt, seq
from ..nodes import Node
from .cluster import Cluster, flat_buffer, make_cluster, widest_bits, work
from .columns import ColumnKernel
from .formulas import formula_kernel
from .nest import PARALLEL_WORK
from .products import Anchored, anchored_kernel
from .reducing import allocate
from .rows import SCRATCH_BYTES, RowKernel
from .split import split_reduction
from .stages import PlanRefused, Stage, make_stages
from .tiles import TileKernel, turned_axis


@dataclass(frozen=True)
class Machine:
    """What plans are made for: the width of a vector in bits, and the number of workers."""

    vector_bits: int = 512
    workers: int = 2


def make_kernel(
    inputs: Sequence[te.Tensor],
    outputs: Sequence[te.Tensor],
    name: str,
    machine: Machine,
) -> PrimFunc:
    """A function from `inputs` to `outputs`, with loops laid out for a CPU.

    The arrays are parameters in this order, each as one compact row of elements.
    """
    return _finish(name, inputs, outputs, lambda buffers: _plain(outputs, buffers, machine))


def make_product_kernel(
    node: Node,
    operands: Sequence[te.Tensor],
    result: te.Tensor,
    inputs: Sequence[te.Tensor],
    outputs: Sequence[te.Tensor],
    name: str,
    machine: Machine,
) -> PrimFunc:
    """The function of a matrix product or convolution `node` with formulas over its result.

    Args:
        operands: the two operands, among `inputs`.
        result: what stands for the result in the formulas; it may be an output itself.

    Raises:
        PlanRefused: the formulas do not fit; the product is better made by itself.
    """

    def body(buffers: Mapping[te.Tensor, Buffer]) -> Stmt:
        kernel = Anchored(node, operands, result, buffers, outputs)
        return anchored_kernel(kernel, machine.vector_bits, machine.workers)

    return _finish(name, inputs, outputs, body)


def _finish(
    name: str,
    inputs: Sequence[te.Tensor],
    outputs: Sequence[te.Tensor],
    make_body: Callable[[Mapping[te.Tensor, Buffer]], Stmt],
) -> PrimFunc:
    buffers = {tensor: flat_buffer(tensor, tensor.name) for tensor in (*inputs, *outputs)}
    body = make_body(buffers)
    params = [Var(buffer.name, "handle") for buffer in buffers.values()]
    attrs = {"global_symbol": name, "tir.noalias": True, "outputs": len(outputs)}
    return PrimFunc(tuple(params), body, dict(zip(params, buffers.values(), strict=True)), attrs)


def _plain(
    outputs: Sequence[te.Tensor], buffers: Mapping[te.Tensor, Buffer], machine: Machine
) -> Stmt:
    outputs = [tensor for tensor in outputs if 0 not in tensor.static_shape]
    try:
        return _together(outputs, buffers, machine)
    except PlanRefused:
        return _one_by_one(make_stages(outputs, reuse=False), buffers, outputs, machine)


def _together(
    outputs: Sequence[te.Tensor], buffers: Mapping[te.Tensor, Buffer], machine: Machine
) -> Stmt:
    """All stages in one loop nest (formulas: one for each shape)."""
    if not outputs:
        return seq()
    stages = make_stages(outputs, reuse=True)
    if any(stage.is_reduction for stage in stages):
        cluster = make_cluster(stages)
        if not _can_keep(cluster, outputs, machine):
            cluster = make_cluster(make_stages(outputs, reuse=False))
        return _nest(cluster, buffers, outputs, machine)
    nests = []
    by_extents: dict[tuple[int, ...], list[Stage]] = {}
    for stage in stages:
        by_extents.setdefault(stage.extents, []).append(stage)
    made = {tensor for stage in stages for tensor in stage.op.outputs}
    for same in by_extents.values():
        if any(load.producer in made for stage in same for load in stage.loads):
            raise PlanRefused("an output is read by another")
        nests.append(_nest(make_cluster(same), buffers, outputs, machine))
    return seq(*nests)


def _can_keep(cluster: Cluster, outputs: Sequence[te.Tensor], machine: Machine) -> bool:
    """Whether intermediates of a whole row, if there are any, have a place near the core."""
    kept = sum(
        tensor.dtype.bytes
        for member in cluster.members
        if member.full and not member.is_reduction
        for tensor in member.tensors
        if tensor not in outputs
    )
    if not kept:
        return True
    for axis in cluster.reduce:
        kept *= axis.extent
    return kept <= SCRATCH_BYTES and _along_rows(cluster, _lanes(cluster, machine))


def _one_by_one(
    stages: Sequence[Stage],
    buffers: Mapping[te.Tensor, Buffer],
    outputs: Sequence[te.Tensor],
    machine: Machine,
) -> Stmt:
    """Each stage in loops of its own, with intermediates in memory."""
    known = dict(buffers)
    temporaries = []
    for stage in stages:
        for tensor in stage.op.outputs:
            if tensor not in known:
                known[tensor] = flat_buffer(tensor, tensor.name)
                temporaries.append(known[tensor])
    body = seq(
        *(_nest(make_cluster([stage]), known, stage.op.outputs, machine) for stage in stages)
    )
    for buffer in reversed(temporaries):
        body = allocate(buffer, body)
    return body


def _nest(
    cluster: Cluster,
    buffers: Mapping[te.Tensor, Buffer],
    outputs: Sequence[te.Tensor],
    machine: Machine,
    *,
    may_split: bool = True,
) -> Stmt:
    bodies = [part for member in cluster.members for part in member.body]
    lanes = _lanes(cluster, machine)
    size = 1
    for axis in (*cluster.spatial, *cluster.reduce):
        size *= axis.extent
    parallel = machine.workers > 1 and size * sum(map(work, bodies)) >= PARALLEL_WORK
    if may_split and parallel and _lacks_rows(cluster, lanes, machine.workers):
        try:
            return _in_parts(cluster, buffers, outputs, machine)
        except PlanRefused:
            pass  # it runs, on few workers
    if not any(member.is_reduction for member in cluster.members):
        turned = turned_axis(cluster, lanes)
        if turned is not None:
            return TileKernel(cluster, buffers, lanes, turned).build(parallel)
        return formula_kernel(cluster, buffers, lanes, parallel)
    if _along_rows(cluster, lanes):
        return RowKernel(cluster, buffers, outputs, lanes).build(parallel)
    return ColumnKernel(cluster, buffers, outputs, lanes).build(parallel, machine.workers)


def _lanes(cluster: Cluster, machine: Machine) -> int:
    """The elements of a vector in the widest type that the formulas compute in."""
    bodies = [part for member in cluster.members for part in member.body]
    return max(1, machine.vector_bits // widest_bits(bodies))


def _lacks_rows(cluster: Cluster, lanes: int, workers: int) -> bool:
    """Whether a reduction has too few results to share them among the workers."""
    if not any(member.is_reduction for member in cluster.members):
        return False
    if any(member.full and not member.is_reduction for member in cluster.members):
        return False
    rows = 1
    for axis in cluster.spatial:
        rows *= axis.extent
    if not _along_rows(cluster, lanes):
        rows //= 4 * lanes
    return rows < 2 * workers


def _in_parts(
    cluster: Cluster,
    buffers: Mapping[te.Tensor, Buffer],
    outputs: Sequence[te.Tensor],
    machine: Machine,
) -> Stmt:
    """The reductions of the first pass in parts; then the parts combined, and what follows."""
    if any(member.is_reduction and member.level for member in cluster.members):
        raise PlanRefused("reductions follow each other")
    known = dict(buffers)
    early, late, temporaries = [], [], []
    for member in cluster.members:
        if not member.is_reduction:
            late.append(member.stage)
            continue
        first, second = split_reduction(member.stage, machine.workers)
        early.append(first)
        late.append(second)
        for tensor in first.op.outputs:
            known[tensor] = flat_buffer(tensor, tensor.name)
            temporaries.append(known[tensor])
    made = [tensor for stage in early for tensor in stage.op.outputs]
    body = seq(
        _nest(make_cluster(early), known, made, machine, may_split=False),
        _nest(make_cluster(late), known, outputs, Machine(machine.vector_bits, 1)),
    )
    for buffer in temporaries:
        body = allocate(buffer, body)
    return body


def _along_rows(cluster: Cluster, lanes: int) -> bool:
    """Whether vectors run along the innermost reduced axis rather than the last kept one."""
    if not cluster.spatial:
        return True
    last = cluster.order[-1]
    if not last.reduce:
        return False
    kept = cluster.spatial[-1]
    return last.extent >= lanes or kept.extent < lanes
