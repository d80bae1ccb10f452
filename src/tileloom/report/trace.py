"""A program on its way to kernels: what it is after each step, and why.

trace  ::= Trace(name, target, stages, passes, kernels, refusals, module)
stage  ::= Stage(name, about, lines, seconds)        the program as text after a step
kernel ::= Kernel(name, calls, nodes, reads, writes) one function of `module`
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from ..base.errors import UserError
from ..base.target import Target
from ..driver import plan_graph, show_stage
from ..graph.nodes import Graph
from ..graph.optimize import PassRecord, Report
from ..graph.partition import partition
from ..graph.program import KernelCall, Program, Segment
from ..lower.pipeline import pipeline_of, run_passes
from ..script.show import show
from ..tir import IRModule, PrimFunc
from .listing import listing

#: The stages of a kernel, by the names that the command line takes.
KERNEL_STAGES = {"tir": "tir", "loops": "loops", "lowered": "flat", "flat": "flat",
                 "llvm": "llvm", "asm": "asm"}  # fmt: skip
_ABOUT = {
    "imported": "as it came from the front door",
    "expanded": "composite ops replaced by what they are made of",
    "optimized": "after the rules of the graph optimiser",
    "laid out": "layouts chosen, and simplified again",
    "packed": "weights rearranged for matrix products",
}


@dataclass(frozen=True)
class Stage:
    """The program after a step.

    Attributes:
        summary: its size and what it consists of, in a line.
        seconds: since the stage before.
    """

    name: str
    about: str
    lines: tuple[str, ...]
    summary: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Kernel:
    """A function of the module and how it is used.

    Attributes:
        calls: how often a run of the program calls it; a step on the host counts once.
        ops: what is fused in it.
        reads, writes: types of tensors.
        host: whether it runs in NumPy.
        nbytes: what one call reads and writes.
    """

    name: str
    calls: int
    ops: tuple[str, ...]
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    host: bool = False
    nbytes: int = 0


@dataclass
class Trace:
    """Everything about one compilation; the texts of kernels are made when asked for."""

    name: str
    target: Target
    stages: list[Stage] = field(default_factory=list)
    passes: list[PassRecord] = field(default_factory=list)
    kernels: list[Kernel] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    module: IRModule | None = None

    @property
    def nbytes(self) -> int:
        """What all kernels of a run read and write."""
        return sum(kernel.nbytes * kernel.calls for kernel in self.kernels)

    def stage(self, name: str) -> Stage:
        """The stage of this name.

        Raises:
            UserError: there is none.
        """
        for stage in self.stages:
            if stage.name == name:
                return stage
        names = ", ".join(stage.name for stage in self.stages)
        raise UserError(f"there is no stage {name!r} here", hint=f"one of {names}")

    def kernel_text(self, name: str, stage: str = "tir") -> str:
        """A kernel at a stage: tir, loops, lowered (or flat), llvm, asm.

        Raises:
            UserError: there is no such kernel or no such stage.
        """
        functions = self.module.functions if self.module is not None else {}
        if name not in functions:
            known = ", ".join(kernel.name for kernel in self.kernels if not kernel.host)
            raise UserError(f"there is no kernel {name!r}", hint=f"one of {known}")
        if stage not in KERNEL_STAGES:
            hint = f"one of {', '.join(KERNEL_STAGES)}"
            raise UserError(f"a kernel has no stage {stage!r}", hint=hint)
        return show_stage(functions[name], KERNEL_STAGES[stage], self.target)


def trace_graph(graph: Graph, target: Target) -> Trace:
    """The way of a graph to its kernels.

    >>> from tileloom.graph import ops
    >>> from tileloom.graph.nodes import Tensor, tensor_type
    >>> x = Tensor(tensor_type((8, 8), "float32"), "x")
    >>> trace = trace_graph(Graph([x], [ops.softmax(ops.neg(ops.neg(x)))]), Target.host())
    >>> [stage.name for stage in trace.stages], trace.passes[0].fired["neg-of-neg"]
    (['imported', 'expanded', 'optimized', 'packed'], 1)
    >>> [kernel.ops for kernel in trace.kernels]
    [('reduce_max', 'sub', 'exp', 'reduce_sum', 'div')]
    """
    found, report = Trace(graph.name, target), Report()
    last = [perf_counter()]

    def watch(step: str, graph: Graph) -> None:
        seconds = perf_counter() - last[0]
        found.stages.append(_graph_stage(step, graph, seconds))
        last[0] = perf_counter()

    watch("imported", graph)
    program = plan_graph(graph, target, watch, report)
    found.passes = report.passes
    found.module = program.module
    found.kernels, found.refusals = _kernels(program)
    return found


def trace_script(program: PrimFunc | IRModule, target: Target) -> Trace:
    """The way of tensor IR through the passes that lower it."""
    module = IRModule({program.name: program}) if isinstance(program, PrimFunc) else program
    found = Trace(", ".join(module.functions), target, module=module)
    found.kernels = [Kernel(name, 1, ()) for name in module.functions]
    for name, func in module.functions.items():
        prefix = f"{name}: " if len(module.functions) > 1 else ""
        last = [perf_counter()]

        def note(step: str, func: PrimFunc, prefix: str = prefix, last: Any = last) -> None:
            seconds = perf_counter() - last[0]
            found.stages.append(_text_stage(f"{prefix}{step}", func, seconds))
            last[0] = perf_counter()

        note("tir", func)
        run_passes(func, pipeline_of(target), note)
    return found


def _text_stage(name: str, func: PrimFunc, seconds: float) -> Stage:
    lines = tuple(show(func).splitlines())
    return Stage(name, "", lines, f"{len(lines)} lines", seconds)


def _graph_stage(name: str, graph: Graph, seconds: float) -> Stage:
    nodes = graph.nodes
    counts = Counter(node.op.name for node in nodes if node.op.name != "constant")
    most = ", ".join(f"{op} x{n}" if n > 1 else op for op, n in counts.most_common(8))
    constants = len(nodes) - sum(counts.values())
    more = f", {len(counts) - 8} more kinds" if len(counts) > 8 else ""
    summary = f"{sum(counts.values())} nodes, {constants} constants: {most}{more}"
    return Stage(name, _ABOUT.get(name, ""), tuple(listing(graph)), summary, seconds)


def _kernels(program: Program) -> tuple[list[Kernel], list[str]]:
    """The kernels in the order of their first call, and what kept them apart."""
    groups = getattr(program, "groups", None) or partition(program.graph)
    launched = [g for g in groups if not g.is_view]
    calls: list[tuple[Segment, KernelCall | None]] = []
    for segment in program.segments:
        calls += [(segment, call) for call in segment.calls] or [(segment, None)]
    ops: dict[str, tuple[str, ...]] = {}
    used: dict[str, int] = {}
    first: dict[str, tuple[Segment, KernelCall | None]] = {}
    for k, (segment, call) in enumerate(calls):
        name = call.kernel if call is not None else segment.name
        used[name] = used.get(name, 0) + 1
        first.setdefault(name, (segment, call))
        if k < len(launched):
            ops.setdefault(name, tuple(node.op.name for node in launched[k].nodes))
    kernels = [_kernel(program, name, used[name], ops.get(name, ()), *first[name]) for name in used]
    return kernels, [str(refusal) for refusal in getattr(groups, "refusals", ())]


def _kernel(
    program: Program, name: str, count: int, ops: Sequence[str], segment: Segment,
    call: KernelCall | None,
) -> Kernel:  # fmt: skip
    if call is None:
        tensors = [*(segment.node.inputs if segment.node is not None else ()), *segment.writes]
        outputs = len(segment.writes)
    else:
        tensors = list(call.tensors)
        outputs = int(program.module.functions[name].attrs.get("outputs", 1))
    split = len(tensors) - outputs
    nbytes = sum(t.type.nbytes for t in tensors)
    reads, writes = _types(tensors[:split]), _types(tensors[split:])
    return Kernel(name, count, tuple(ops), reads, writes, call is None, nbytes)


def _types(tensors: Sequence[Any]) -> tuple[str, ...]:
    return tuple(f"{'constant ' if t.value is not None else ''}{t.type}" for t in tensors)
