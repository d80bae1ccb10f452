"""Graphs as kernels for CPUs, before lowering: imported only where something new must be made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from ..base.compiling import compiling
from ..base.sums import COMPENSATED
from ..expr import Var
from ..graph.blocks import block_function
from ..graph.contractions import suits_panels
from ..graph.machine import Machine
from ..graph.nodes import Graph
from ..graph.optimize import OptimizeReport
from ..graph.partition import Group
from ..graph.program import MakeKernel, Program, build_program
from ..graph.simplify import simplify
from ..graph.variants import MadeKernel, Planned
from ..graph.words import words_for
from ..plan import CONTRACTION, GroupRefused, plan_in_place, plan_kernel
from ..runtime import parallel
from ..target import Target
from ..target.cost import DeviceCosts
from ..tir import PrimFunc

#: Called with the name of a step and the graph after it.
Watch = Callable[[str, Graph], None]


@compiling
def plan_graph(
    graph: Graph, target: Target, watch: Watch | None = None, report: OptimizeReport | None = None
) -> Program:
    """The kernels of a graph for a CPU, before lowering.

    Args:
        watch: called with the name of each step and the graph after it.
        report: receives what the optimiser did.
    """
    machine = machine_of(target)
    packed = simplify(graph, machine, watch, report)
    make = _kernel_maker(machine, target)
    program = build_program(packed, DeviceCosts.of(target.with_cores(machine.workers)), make)
    program.plan_in_place = partial(_plan_in_place, target)
    return program


def threads_of(target: Target) -> int:
    """How many threads share the loops of kernels for a CPU."""
    return min(target.cores, parallel.get_num_threads())


def machine_of(target: Target) -> Machine:
    """What is asked about a CPU."""
    return Machine(target.vector_bits, threads_of(target), features=frozenset(target.features))


def _kernel_maker(machine: Machine, target: Target) -> MakeKernel:
    """What makes CPU kernels."""
    on = target.with_cores(threads_of(target))

    def kernel(group: Group, name: str, sizes: Sequence[Var]) -> MadeKernel:
        panels = group.kind in ("matmul", "conv") and suits_panels(group.anchor)
        words = words_for(group.anchor, machine) if panels else None
        blocks, tensors = block_function(group, name, sizes, widens=panels, words=words)
        attrs = {"outputs": len(group.outputs), COMPENSATED: True}
        if panels:
            attrs[CONTRACTION] = True
        try:
            planned = plan_kernel(blocks.with_attr(attrs), on)
        except GroupRefused:
            if not panels:
                raise
            blocks, tensors = block_function(group, name, sizes)
            planned = plan_kernel(blocks.with_attr("outputs", len(group.outputs)), on)
        return MadeKernel(planned.func, tensors, planned)

    return kernel


def _plan_in_place(target: Target, blocks: PrimFunc, operand: int, result: int) -> Planned | None:
    return plan_in_place(blocks, target.with_cores(threads_of(target)), operand, result)
