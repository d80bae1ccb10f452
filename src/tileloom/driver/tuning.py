"""Tuning of graphs and of tensor IR: `tune`."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Unpack, overload

from ..base.compiling import compiling
from ..base.errors import UserError
from ..base.settings import override
from ..graph.nodes import Graph
from ..graph.program import Program
from ..plan import CONTRACTION, PlannedKernel, plan_kernel
from ..records import open_records, target_key, workload_key
from ..records.lookup import NONE
from ..target import Target
from ..target import target as parse_target
from ..tir import IRModule, PrimFunc
from ..tuner.context import TuneContext
from ..tuner.proposals import TraceJSON
from ..tuner.tune_program import Tuned, TuneKeywords, TuneOptions, place_of, tune_programs
from ..tuner.tuner import TuningTask
from .backend import backend_class


class NothingToTune(UserError):
    """A graph has no kernel that could be tuned."""


@dataclass(frozen=True)
class TunedGraph:
    """What was found for the kernels of a graph.

    Attributes:
        kernels: those that can be tuned, in the order of their first call.
    """

    kernels: tuple[Tuned, ...]

    @property
    def speedup(self) -> float:
        """How many times as fast all kernels are together as what the planner makes of them."""
        before = sum(kernel.weight * kernel.seconds * kernel.speedup for kernel in self.kernels)
        after = sum(kernel.weight * kernel.seconds for kernel in self.kernels)
        return before / after if after else 1.0


@overload
def tune(
    program: Graph, target: Target | str = "cpu", **options: Unpack[TuneKeywords]
) -> TunedGraph: ...


@overload
def tune(
    program: IRModule | PrimFunc, target: Target | str = "cpu", **options: Unpack[TuneKeywords]
) -> Tuned: ...


def tune(
    program: Graph | IRModule | PrimFunc,
    target: Target | str = "cpu",
    **options: Unpack[TuneKeywords],
) -> TunedGraph | Tuned:
    """Look for the fastest schedules of a program, by MetaSchedule's design space and search.

    What is found is kept, and the next compilation of the graph, or of any other that has such a
    kernel, takes it. What the planner makes of a kernel is measured first: what is chosen at the
    end is no slower.

    Args:
        program: a graph, such as that of a jitted function (`function.graph(x)`) or of an ONNX
            model, each kernel of which is tuned; or one function of blocks, called "main", of
            static shapes, not scheduled yet.
        target: the machine.
        options: the attributes of `TuneOptions`: trials, trials_per_task, records, executor,
            workers, seed, batch, cost_model, search, strategy, on_round, on_trial.

    Raises:
        UserError: there is nothing to tune in the program, nothing to measure on, or no place for
            records.
    """
    chosen = TuneOptions(**options)
    machine = target if isinstance(target, Target) else parse_target(target)
    found = tune_programs(kernels_of(program, machine), chosen)
    return TunedGraph(tuple(found)) if isinstance(program, Graph) else found[0]


def tune_missing(graph: Graph, target: Target, device: str | None, trials: int) -> None:
    """Tune the kernels of a graph that nothing was chosen for yet.

    Raises:
        UserError: nothing can be measured on the device.
    """
    if device == "emulator":
        raise UserError("times on the emulator say nothing", hint="tune on a GPU")
    try:
        tasks = kernels_of(graph, target)
    except NothingToTune:
        return
    with open_records(place_of(None)) as records:
        keys = [(workload_key(t.context.mod), target_key(t.context.target)) for t in tasks]
        missing = [task for task, key in zip(tasks, keys) if records.chosen(*key) is None]
    if missing:
        tune_programs(missing, TuneOptions(trials))


@compiling
def kernels_of(program: Graph | IRModule | PrimFunc, target: Target) -> list[TuningTask]:
    """The programs to tune: the kernels of a graph of static sizes that a schedule makes, or one.

    Raises:
        NothingToTune: the graph has none.
        UserError: a module has other functions than "main".

    >>> import tileloom, numpy as np
    >>> graph = tileloom.jit(lambda x, y: np.exp(x @ y)).graph(*np.ones((2, 64, 64), "float32"))
    >>> [task.weight for task in kernels_of(graph, Target.host())]
    [1.0]
    """
    if not isinstance(program, Graph):
        return [_program_task(program, target)]
    with override(records=NONE, traces=None):
        plan = backend_class(target).plan_graph(program, target)
    found: dict[str, TuningTask] = {}
    for name, calls in _calls(plan).items():
        planned: Any = plan.planned.get(name)
        if planned is None or len(planned.blocks.buffer_map) < len(planned.blocks.params):
            continue  # a step on the host, or of open sizes
        key = workload_key(planned.blocks)
        task = found.get(key) or _task(planned, name)
        found[key] = replace(task, weight=task.weight + calls)
    if not found:
        raise NothingToTune("the graph has no kernel of static sizes to tune")
    return list(found.values())


def _calls(program: Program) -> dict[str, int]:
    """How often each kernel is called."""
    calls: dict[str, int] = {}
    for segment in program.segments:
        for call in segment.calls:
            calls[call.kernel] = calls.get(call.kernel, 0) + 1
    return calls


def _task(planned: PlannedKernel, name: str) -> TuningTask:
    """A kernel that nothing calls yet."""
    module = IRModule({"main": planned.blocks.with_attr("global_symbol", "main")})
    return TuningTask(TuneContext(module, planned.target, name), 0.0, [_steps(planned)])


def _steps(planned: PlannedKernel) -> TraceJSON:
    return planned.trace.simplified(remove_postproc=False).as_json()


def _program_task(program: IRModule | PrimFunc, target: Target) -> TuningTask:
    mod = program if isinstance(program, IRModule) else IRModule({"main": program})
    if list(mod.functions) != ["main"]:
        names = ", ".join(mod.functions)
        raise UserError(f'a program to tune has one function, called "main", not {names}')
    firsts: list[TraceJSON] = []
    func = mod["main"]
    for blocks in (func.with_attr(CONTRACTION, True), func):  # as a tiled product, if it is one
        with suppress(UserError), override(records=NONE, traces=None):  # not all suits the planner
            steps = _steps(plan_kernel(blocks, target))
            firsts += [steps] if steps not in firsts else []
    return TuningTask(TuneContext(mod, target), firsts=firsts)
