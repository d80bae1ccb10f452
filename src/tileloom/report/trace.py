"""A program on its way to kernels: what it is after each step, and why.

trace  ::= ProgramTrace(name, target, stages, passes, kernels, refusals, module)
stage  ::= TraceStage(name, about, lines, seconds)          the program as text after a step
kernel ::= TracedKernel(name, calls, nodes, reads, writes)  one function of `module`
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from ..base.errors import UserError
from ..driver import backend_class, plan_graph, show_stage
from ..graph.blocks import block_function
from ..graph.nodes import Graph
from ..graph.optimize import OptimizeReport, PassRecord
from ..graph.partition import Group
from ..graph.program import KernelCall, Program, Segment
from ..graph.variants import Bucket, Planned
from ..lower.pipeline import pipeline_of, run_passes
from ..plan import TraceRecord
from ..script.show import show
from ..target import Target
from ..tir import IRModule, PrimFunc
from .listing import listing

#: The stages of a kernel, by the names that the command line takes.
KERNEL_STAGES = {"blocks": "blocks", "trace": "trace", "tir": "tir", "loops": "loops",
                 "lowered": "flat", "flat": "flat", "llvm": "llvm", "asm": "asm"}  # fmt: skip
#: Those that kernels have which a schedule made.
_OF_SCHEDULES = ("blocks", "trace")
_ABOUT = {
    "imported": "as it came from the front door",
    "expanded": "composite ops replaced by what they are made of",
    "optimized": "after the rules of the graph optimiser",
    "laid out": "layouts chosen, and simplified again",
    "windows split": "large windows taken apart, and simplified again",
    "packed": "weights rearranged for matrix products",
}


@dataclass(frozen=True)
class TraceStage:
    """The program after a step.

    Attributes:
        summary: its size and what it consists of, in a line.
        seconds: since the stage before.
        notes: what the step says of itself.
    """

    name: str
    about: str
    lines: tuple[str, ...]
    summary: str = ""
    seconds: float = 0.0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class TracedKernel:
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
class ProgramTrace:
    """Everything about one compilation; the texts of kernels are made when asked for.

    Attributes:
        module: the kernels before lowering.
        groups: the nodes that each kernel stands for.
        planned: how kernels were scheduled, by name.
        buckets: the functions that a kernel chooses from by sizes, by its name.
    """

    name: str
    target: Target
    stages: list[TraceStage] = field(default_factory=list)
    passes: list[PassRecord] = field(default_factory=list)
    kernels: list[TracedKernel] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    module: IRModule | None = None
    groups: dict[str, Group] = field(default_factory=dict)
    planned: dict[str, Planned] = field(default_factory=dict)
    buckets: dict[str, list[Bucket]] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        """What all kernels of a run read and write."""
        return sum(kernel.nbytes * kernel.calls for kernel in self.kernels)

    @property
    def records(self) -> list[TraceRecord]:
        """How each scheduled kernel was made, as `plan.write_traces` takes it."""
        return [TraceRecord.of(p.blocks, p.trace, self.target) for p in self.planned.values()]

    def stage(self, name: str) -> TraceStage:
        """The stage of this name.

        Raises:
            UserError: there is none.
        """
        for stage in self.stages:
            if stage.name == name:
                return stage
        names = ", ".join(stage.name for stage in self.stages)
        raise UserError(f"there is no stage {name!r} here", hint=f"one of {names}")

    def kernels_text(self, stage: str) -> str:
        """All kernels at a stage; of those that no schedule made, that they have no such one."""
        texts = []
        for kernel in self.kernels:
            if kernel.host:
                continue
            planned = self.planned.keys() & {kernel.name, *self._chosen(kernel.name)}
            if stage in _OF_SCHEDULES and not planned:
                texts.append(f"# {kernel.name} was not made by a schedule")
            else:
                texts.append(self.kernel_text(kernel.name, stage))
        return "\n\n".join(texts)

    def _chosen(self, kernel: str) -> list[str]:
        """The functions that a kernel chooses from by sizes."""
        names = [bucket.kernel for bucket in self.buckets.get(kernel, ())]
        return [] if names == [kernel] else names

    def kernel_text(self, name: str, stage: str = "tir") -> str:
        """A kernel at a stage: blocks, trace (the steps that scheduled them), tir, loops, lowered
        (or flat), llvm, asm.

        What it chooses from by sizes has blocks and a trace each, after a line that says for which
        sizes.

        Raises:
            UserError: there is no such kernel or no such stage.
        """
        func = self._function(name)
        if stage not in KERNEL_STAGES:
            hint = f"one of {', '.join(KERNEL_STAGES)}"
            raise UserError(f"a kernel has no stage {stage!r}", hint=hint)
        if stage in _OF_SCHEDULES and self._chosen(func.name):
            parts = self.buckets[func.name]
            return "\n\n".join(f"# {p}\n{self.kernel_text(p.kernel, stage)}" for p in parts)
        if stage in _OF_SCHEDULES:
            planned = self.planned.get(func.name)
            if planned is None:
                raise UserError(f"the kernel {func.name!r} was not made by a schedule")
            return show(planned.blocks) if stage == "blocks" else str(_steps(planned))
        return show_stage(func, KERNEL_STAGES[stage], self.target)

    def kernel_steps(self, name: str, tactics: bool = False) -> ProgramTrace:
        """The way of one kernel: its ops lowered to blocks, scheduled, and through every pass.

        Args:
            tactics: schedule by the tactics of `plan.cuda.tactics`, one stage each, instead
                of taking the kernel as it was planned.

        Raises:
            UserError: there is no such kernel, or the tactics are not for it.
        """
        func = self._function(name)
        group = self.groups.get(func.name)
        if tactics and group is None:
            raise UserError("tactics schedule kernels of graphs, and this is none of a graph")
        found = ProgramTrace(func.name, self.target, module=IRModule({func.name: func}))
        watch = _Watch(found)
        if group is not None:
            planned = None if tactics else self.planned.get(func.name)
            blocks = block_function(group, func.name)[0] if planned is None else planned.blocks
            watch("blocks", blocks, "each op lowered by itself")
            if tactics:
                for stage in backend_class(self.target).tactic_stages(blocks):
                    (func,) = stage.module.functions.values()
                    watch(stage.tactic, func, notes=stage.said)
            elif planned is not None:
                steps = str(_steps(planned)).splitlines()
                watch("scheduled", func, "by the steps of its trace", steps)
            else:
                watch("scheduled", func, "by no schedule")
        else:
            watch("tir", func)
        run_passes(func, pipeline_of(self.target), watch)
        return found

    def _function(self, name: str) -> PrimFunc:
        """The kernel of a name, or of the one name that begins so."""
        functions = self.module.functions if self.module is not None else {}
        if name in functions:
            return functions[name]
        begun = [func for known, func in functions.items() if known.startswith(name)]
        if len(begun) != 1:
            known = ", ".join(kernel.name for kernel in self.kernels if not kernel.host)
            problem = "several kernels begin with" if begun else "there is no kernel"
            raise UserError(f"{problem} {name!r}", hint=f"one of {known}")
        return begun[0]


def _steps(planned: Planned) -> Any:
    return planned.trace.simplified(remove_postproc=False)


class _Watch:
    """Notes a function after each step, with the time since the last."""

    def __init__(self, found: ProgramTrace, prefix: str = "") -> None:
        self.found = found
        self.prefix = prefix
        self.last = perf_counter()

    def __call__(
        self, step: str, func: PrimFunc, about: str = "", notes: Sequence[str] = ()
    ) -> None:
        seconds = perf_counter() - self.last
        lines = tuple(show(func).splitlines())
        size = f"{len(lines)} lines"
        name = f"{self.prefix}{step}"
        self.found.stages.append(TraceStage(name, about, lines, size, seconds, tuple(notes)))
        self.last = perf_counter()


def trace_graph(graph: Graph, target: Target) -> ProgramTrace:
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
    found, report = ProgramTrace(graph.name, target), OptimizeReport()
    last = [perf_counter()]

    def watch(step: str, graph: Graph) -> None:
        seconds = perf_counter() - last[0]
        found.stages.append(_graph_stage(step, graph, seconds))
        last[0] = perf_counter()

    watch("imported", graph)
    program = plan_graph(graph, target, watch, report)
    found.passes = report.passes
    found.module, found.planned, found.buckets = program.module, program.planned, program.buckets
    found.kernels, found.refusals = _kernels(program, found.groups)
    return found


def trace_script(program: PrimFunc | IRModule, target: Target) -> ProgramTrace:
    """The way of tensor IR through the passes that lower it."""
    module = IRModule({program.name: program}) if isinstance(program, PrimFunc) else program
    found = ProgramTrace(", ".join(module.functions), target, module=module)
    found.kernels = [TracedKernel(name, 1, ()) for name in module.functions]
    for name, func in module.functions.items():
        watch = _Watch(found, f"{name}: " if len(module.functions) > 1 else "")
        watch("tir", func)
        run_passes(func, pipeline_of(target), watch)
    return found


def _graph_stage(name: str, graph: Graph, seconds: float) -> TraceStage:
    nodes = graph.nodes
    counts = Counter(node.op.name for node in nodes if node.op.name != "constant")
    most = ", ".join(f"{op} x{n}" if n > 1 else op for op, n in counts.most_common(8))
    constants = len(nodes) - sum(counts.values())
    more = f", {len(counts) - 8} more kinds" if len(counts) > 8 else ""
    summary = f"{sum(counts.values())} nodes, {constants} constants: {most}{more}"
    return TraceStage(name, _ABOUT.get(name, ""), tuple(listing(graph)), summary, seconds)


def _kernels(program: Program, groups: dict[str, Group]) -> tuple[list[TracedKernel], list[str]]:
    """The kernels in the order of their first call, and what kept them apart.

    Args:
        groups: receives the group of each kernel.
    """
    by_outputs = {group.outputs: group for group in program.groups}
    calls: list[tuple[Segment, KernelCall | None]] = []
    for segment in program.segments:
        calls += [(segment, call) for call in segment.calls] or [(segment, None)]
    used: dict[str, int] = {}
    first: dict[str, tuple[Segment, KernelCall | None]] = {}
    for segment, call in calls:
        name = call.kernel if call is not None else segment.name
        used[name] = used.get(name, 0) + 1
        first.setdefault(name, (segment, call))
        if call is not None and name not in groups:
            outputs = int(program.module.functions[name].attrs["outputs"])
            groups[name] = by_outputs[call.tensors[len(call.tensors) - outputs :]]
    kernels = [_kernel(program, name, used[name], groups.get(name), *first[name]) for name in used]
    return kernels, [str(refusal) for refusal in program.groups.refusals]


def _kernel(
    program: Program, name: str, count: int, group: Group | None, segment: Segment,
    call: KernelCall | None,
) -> TracedKernel:  # fmt: skip
    made = group.nodes if group is not None else [segment.node] if segment.node else []
    ops = tuple(node.op.name for node in made)
    if call is None:
        tensors = [*(segment.node.inputs if segment.node is not None else ()), *segment.writes]
        outputs = len(segment.writes)
    else:
        tensors = list(call.tensors)
        outputs = int(program.module.functions[name].attrs.get("outputs", 1))
    split = len(tensors) - outputs
    nbytes = sum(t.type.nbytes for t in tensors)
    reads, writes = _types(tensors[:split]), _types(tensors[split:])
    return TracedKernel(name, count, ops, reads, writes, call is None, nbytes)


def _types(tensors: Sequence[Any]) -> tuple[str, ...]:
    return tuple(f"{'constant ' if t.value is not None else ''}{t.type}" for t in tensors)
