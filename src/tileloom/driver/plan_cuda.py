"""Graphs as kernels for GPUs.

The graph is expanded, simplified and partitioned as for CPUs; then the blocks of each group are
scheduled as one kernel (`plan.schedule_gpu`).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from ..base.compiling import compiling
from ..base.errors import UserError
from ..expr import Var
from ..graph.blocks import block_function
from ..graph.contractions import product_extents
from ..graph.expand import expand
from ..graph.nodes import Graph, Node, Tensor
from ..graph.optimize import OptimizeReport, optimize
from ..graph.partition import ContractionTactic, Group
from ..graph.program import Program, build_program
from ..graph.space import Space
from ..graph.symbols import hint, is_symbolic, space_of_graph
from ..graph.variants import MadeKernel, Planned
from ..graph.whole_vectors import in_whole_vectors
from ..lower import lower
from ..lower.gpu import check_launches
from ..lower.loops import INT32_INDICES
from ..plan import PlannedKernel, plan_in_place, plan_kernel
from ..plan.cuda.products import LEAST
from ..schedule.library.kernels import histogram_kernel, scan_kernel, scatter_kernel
from ..schedule.trace import Trace
from ..target import Target
from ..target.cost import DeviceCosts
from ..tir import PrimFunc
from .plan import Watch


@compiling
def plan_gpu(
    graph: Graph, target: Target, watch: Watch | None = None, report: OptimizeReport | None = None
) -> Program:
    """The kernels of a graph for a GPU, scheduled and not lowered.

    Args:
        watch: called with the name of each step and the graph after it.
        report: receives what the optimiser did.
    """
    expanded = expand(graph, keep=has_kernel)
    simple = optimize(expanded, report=report)
    if watch is not None:
        watch("expanded", expanded)
        watch("optimized", simple)

    space = space_of_graph(simple)

    def kernel(group: Group, name: str, sizes: Sequence[Var]) -> MadeKernel:
        if has_kernel(group.anchor):
            func, tensors = node_kernel(group.anchor)
            attrs = {"outputs": len(group.outputs), "global_symbol": name}
            return MadeKernel(func.replace(params=(*func.params, *sizes)).with_attr(attrs), tensors)
        blocks, tensors = block_function(group, name)
        blocks = blocks.with_attr("outputs", len(group.outputs))
        if space is None:
            planned = plan_kernel(blocks, target)
        else:
            blocks = blocks.with_attr(INT32_INDICES, True)
            planned = _open_kernel(group, blocks, sizes, target, space)
        return MadeKernel(planned.func, tensors, planned)

    def in_place(blocks: PrimFunc, operand: int, result: int) -> Planned | None:
        try:
            return plan_in_place(blocks, target, operand, result)
        except UserError:  # the planner has no kernel for them
            return None

    def ready(node: Node) -> bool:
        return node.op.compute is not None or has_kernel(node)

    program = build_program(simple, DeviceCosts.of(target), kernel, ready, contraction_on_gpu)
    program.plan_in_place = in_place
    return program


#: Tiles, whose copies compute what they copy, and which store one result wherever it belongs;
#: threads that reduce an element each, and do what they like before and after.
TILES, THREADS = ContractionTactic(True, 1, results=1), ContractionTactic(True, 1)


def contraction_on_gpu(node: Node) -> ContractionTactic:
    """The tactic of GPUs for a product or a pooling."""
    extents = product_extents(node)
    return THREADS if extents is None or min(map(hint, extents)) < LEAST else TILES


def _open_kernel(
    group: Group, blocks: PrimFunc, sizes: Sequence[Var], target: Target, space: Space
) -> PlannedKernel:
    """The kernels of a group; its blocks with `EACH_SIZE` if they are for known sizes only."""

    def taking_sizes(func: PrimFunc) -> PrimFunc:
        return func.replace(params=(*func.params, *sizes))

    with space.kept_open():
        vectors = in_whole_vectors(group, blocks)
        if vectors is not None:
            with suppress(UserError):
                return _launchable(plan_kernel(taking_sizes(vectors), target), target)
    blocks = taking_sizes(blocks)
    try:
        with space.kept_open():
            return _launchable(plan_kernel(blocks, target), target)
    except UserError as refusal:
        return PlannedKernel(blocks, blocks.with_attr(EACH_SIZE, refusal.message), Trace(), target)


def _launchable(planned: PlannedKernel, target: Target) -> PlannedKernel:
    """The kernel, whose memory for the greatest sizes is not more than there is."""
    check_launches(lower(planned.func, target, until="flatten_buffers"), target)
    return planned


#: The attribute of functions that are to be scheduled when sizes are known, and why.
EACH_SIZE = "each_size"

_SCANS = {"cumsum": "sum", "cumprod": "prod"}


_SCATTERS = ("scatter_elements", "scatter_nd")


def has_kernel(node: Node) -> bool:
    """Whether the library has the whole kernel of a node, which no schedule makes as well."""
    tensors = (*node.inputs, *node.outputs)
    if any(is_symbolic(n) for t in tensors for n in t.shape) or not all(
        t.type.size for t in tensors
    ):
        return False
    if node.op.name in _SCATTERS:
        data, how = node.inputs[0].dtype, node.attrs["reduction"]
        # Sums of narrow floats would be rounded after every addition.
        return how != "mul" and not (how == "add" and data.is_float and data.bits < 32)
    return node.op.name in _SCANS or node.op.name == "bincount"


def node_kernel(node: Node) -> tuple[PrimFunc, list[Tensor]]:
    """That kernel, and the tensors that its parameters are."""
    first, result, attrs = node.inputs[0], node.outputs[0], node.attrs
    shape, kind = first.shape, str(first.dtype)
    if node.op.name in _SCANS:
        how = attrs["exclusive"], attrs["reverse"]
        func = scan_kernel(shape, attrs["axis"], kind, _SCANS[node.op.name], *how)
    elif node.op.name in _SCATTERS:
        index = node.inputs[1]
        axis = attrs["axis"] if node.op.name == "scatter_elements" else None
        func = scatter_kernel(shape, index.shape, kind, str(index.dtype), attrs["reduction"], axis)
    else:
        func = histogram_kernel(first.type.size, result.type.size, kind, str(result.dtype))
    return func, [*node.inputs, result]
