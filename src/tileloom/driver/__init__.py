"""Joins the rooms: programs in, machine code out.

Planners, passes and LLVM are imported when something new must be made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..base.late import room
from ..graph.nodes import Graph
from ..target import Target
from .backend import backend_class, backend_of, device_of
from .chosen import chosen
from .cpu import runnable
from .functions import assembly, build
from .graphs import compile_graph, compile_polymorphic, hoist, key_of
from .objects import compile_module
from .stages import STAGES, print_stages, show_stage

if TYPE_CHECKING:
    from ..graph.optimize import OptimizeReport
    from ..graph.program import Program
    from .choices import TunedChoice, tune_choice
    from .plan import Watch
    from .tuning import TunedGraph, kernels_of, tune


def plan_graph(
    graph: Graph, target: Target, watch: Watch | None = None, report: OptimizeReport | None = None
) -> Program:
    """The kernels of a graph, before lowering.

    Args:
        watch: called with the name of each step and the graph after it.
        report: receives what the optimiser did.
    """
    return backend_class(target).plan_graph(graph, target, watch, report)


__all__ = [
    "STAGES",
    "TunedChoice",
    "TunedGraph",
    "assembly",
    "backend_class",
    "backend_of",
    "build",
    "chosen",
    "compile_polymorphic",
    "compile_graph",
    "compile_module",
    "device_of",
    "hoist",
    "kernels_of",
    "key_of",
    "plan_graph",
    "print_stages",
    "runnable",
    "show_stage",
    "tune",
    "tune_choice",
]

room(__name__, tuning="TunedGraph kernels_of tune", choices="TunedChoice tune_choice")
