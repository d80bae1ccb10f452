"""What is done to a graph before it is partitioned, from expansion to packed weights."""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import TYPE_CHECKING

from .expand import expand
from .flip_signs import flip_signs
from .fold_scales import fold_scales
from .layout import choose_layouts
from .nodes import Graph, Tensor
from .optimize import optimize
from .pack import pack_weights
from .split_windows import split_windows

if TYPE_CHECKING:
    from .machine import Machine
    from .optimize import OptimizeReport

#: Called with the name of a step and the graph after it.
Watch = Callable[[str, Graph], None]


def simplify(
    graph: Graph,
    machine: Machine,
    watch: Watch | None = None,
    report: OptimizeReport | None = None,
    static: Callable[[Graph], Set[Tensor]] | None = None,
) -> Graph:
    """The graph that a CPU's kernels are planned from.

    Args:
        machine: the CPU.
        watch: called with the name of each step and the graph after it.
        report: receives what the optimizer did.
        static: the tensors of a graph that are computed once for many calls: weights are scaled
            and packed.
    """

    def seen(step: str, found: Graph) -> Graph:
        if watch is not None:
            watch(step, found)
        return found

    expanded = seen("expanded", expand(graph))
    simple = seen("optimized", optimize(expanded, report=report))
    laid_out = choose_layouts(simple)
    if laid_out is not simple:
        laid_out = seen("laid out", optimize(laid_out, report=report))
    split = split_windows(laid_out)
    if split is not laid_out:
        split = seen("windows split", optimize(split, report=report))
    if static is None:
        return seen("packed", pack_weights(flip_signs(split, machine), machine))
    folded = fold_scales(split, static(split))
    flipped = flip_signs(folded, machine, static(folded))
    return seen("packed", pack_weights(flipped, machine, static(flipped)))
