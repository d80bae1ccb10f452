"""What a worker does with a candidate: replay its trace, build it, check it, time it.

A task is plain data, and so is what comes back: the worker may be another process, on another
machine, of another version of Python.

The compiler is loaded by its public name, `tileloom.build`. In a worker the tuner stands where a
user's own program does, outside of the compiler, whereas `driver/` joins rooms of which the tuner
is one: were this function there, what submits it (`measure`) would have to be there too.
"""

from __future__ import annotations

import json
import math
import statistics
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from ...base.errors import UserError
from ...base.late import load
from ...expr import REDUCE, IntImm
from ...runtime.parallel import num_threads
from ...runtime.params import ParamSpec
from ...schedule.schedule import Schedule
from ...schedule.trace import Trace
from ...script import parse
from ...target import Target
from ...tir import Block, IRModule, PrimFunc, collect
from ..context import TuneContext
from .compare import greatest_error, tolerance
from .inputs import TRIED, Ranges, copy_inputs, guarded, inputs_overwritten, random_inputs
from .prepared import InputRewrite, PreparedKernel, without_layout_rewrites
from .running import Running, running
from .timing import Timing, deviation, sample_times, turn

Status = Literal["ok", "wrong", "error", "timeout", "crash", "lost"]

_MOST_TEXT = 4000  # characters of an error
_MEANINGFUL = 0.9  # of a result's elements are numbers, if its inputs are any good


@dataclass(frozen=True)
class MeasureTask:
    """A candidate, and what it is measured against.

    Attributes:
        script: TVMScript text of the program without a schedule: one function of static shapes.
        trace: its steps, the JSON text of `Trace.as_json()`.
        target: the machine that it is for, or its text.
        baseline: another trace of the program, which is timed in turns with the candidate: the
            best one so far.
        incumbent: seconds of the best one so far, where there is no baseline. The process that
            measures knows its own.
        seed: of the inputs.
        device: as of `tileloom.build`; "emulator" runs what is for GPUs on the CPU, where times
            say nothing.
        threads: of parallel loops; 0 for as many as the worker has cores.
        timing: how it is timed.
    """

    script: str
    trace: str
    target: Target | str = "cpu"
    baseline: str | None = None
    incumbent: float | None = None
    seed: int = 0
    device: str | None = None
    threads: int = 0
    timing: Timing = field(default_factory=Timing)

    @staticmethod
    def of(context: TuneContext, trace: Trace, **options: Any) -> MeasureTask:
        """The task of a trace of a program; `options` are further attributes."""
        text = json.dumps(trace.as_json())
        return MeasureTask(str(context.mod), text, context.target, **options)


@dataclass(frozen=True)
class Measurement:
    """What came of a candidate.

    Attributes:
        status: "ok"; "wrong", with other results than the program without a schedule; "error", in
            a step, in the compiler or of the program itself; "timeout"; "crash", which being
            killed and taking too much memory are, too; "lost", with its worker or on the way
            there, or by a worker that is another machine: it says nothing about the candidate.
        seconds: of one call, sample by sample, without those that something else has disturbed;
            none unless it is ok.
        baseline_seconds: those of the baseline, each measured next to the one of `seconds`.
        error: what is wrong.
        build_seconds: for replaying the trace, lowering and machine code.
        greatest_error: of the results that were compared; see `compare.greatest_error`.
    """

    status: Status
    seconds: tuple[float, ...] = ()
    baseline_seconds: tuple[float, ...] = ()
    error: str = ""
    build_seconds: float = 0.0
    greatest_error: float = 0.0

    @property
    def is_ok(self) -> bool:
        """Whether it computes what it should, and was timed."""
        return self.status == "ok"

    @property
    def median(self) -> float:
        """Seconds of one call; infinity if it is not ok."""
        return statistics.median(self.seconds) if self.seconds else math.inf

    @property
    def spread(self) -> float:
        """The standard deviation of the samples, as a part of the median."""
        return deviation(self.seconds) / self.median if self.seconds else math.inf

    @property
    def ratio(self) -> float:
        """The time as a part of the baseline's, both at the same moment; NaN without one."""
        pairs = zip(self.seconds, self.baseline_seconds, strict=False)
        ratios = [own / other for own, other in pairs]
        return statistics.median(ratios) if ratios else math.nan

    @property
    def wins(self) -> float:
        """How often it was faster than the baseline, both at the same moment; NaN without one."""
        pairs = [*zip(self.seconds, self.baseline_seconds, strict=False)]
        return sum(own < other for own, other in pairs) / len(pairs) if pairs else math.nan


def measure_task(task: MeasureTask) -> Measurement:
    """Build, check and time a candidate in this process.

    Whatever is wrong with it is said by the measurement, unless it ends the process.
    """
    if _is_for_another_machine(task.target):
        return Measurement("lost", error=f"this worker is another machine than {task.target}")
    build_seconds = 0.0
    try:
        reference = _reference(task.script, task.seed)
        start = time.perf_counter()
        kernel = _kernel(task, task.trace)
        build_seconds = time.perf_counter() - start
        with num_threads(task.threads) if task.threads else nullcontext():
            return check_and_time(kernel, reference, task, build_seconds)
    except Exception as error:  # of any kind: a candidate must not end a search
        return Measurement("error", error=_text(error), build_seconds=build_seconds)


def _is_for_another_machine(target: Target | str) -> bool:
    """Whether code is to be tuned for the very processor of another machine."""
    if isinstance(target, str) or not target.is_native:
        return False
    return target.identity != Target.host().identity


def check_and_time(
    kernel: Any, reference: Reference, task: MeasureTask, build_seconds: float = 0.0
) -> Measurement:
    """Compare a kernel with the program that it was made from, and time it if it is right."""
    candidate = reference.running(kernel)
    error, complaint = reference.judge(candidate.results(), candidate)
    if complaint:
        return Measurement("wrong", (), (), complaint, build_seconds, error)
    baseline, complaint = _baseline(task, reference)
    others = _measured_here(task.script, task.target, task.device, task.threads)
    incumbent = min(filter(None, [task.incumbent, *others]), default=None)
    with turn(task.timing.alone):
        seconds, baseline_seconds = sample_times(
            candidate.clock,
            None if baseline is None else baseline.clock,
            incumbent,
            task.timing,
        )
    others.append(statistics.median(seconds))
    return Measurement("ok", seconds, baseline_seconds, complaint, build_seconds, error)


def _kernel(task: MeasureTask, trace: str) -> Any:
    schedule = Schedule(_module(task.script), seed=1, trace=False, error_render_level="fast")
    Trace.apply_json_to_schedule(json.loads(trace), schedule)
    (whole,) = schedule.mod.functions.values()
    func, before = without_layout_rewrites(whole)
    if not before:
        return _only(load("tileloom").build(schedule.mod, task.target, task.device))
    parts = {"main": func, **{str(k): part.func for k, part in enumerate(before)}}
    kernels = load("tileloom").build(IRModule(parts), task.target, task.device)
    return PreparedKernel(
        kernels["main"],
        [(part.argument, kernels[str(k)], _made_by(part)) for k, part in enumerate(before)],
    )


def _made_by(part: InputRewrite) -> Any:
    _, made = part.func.buffers
    return guarded(made.static_shape or (), made.dtype)


@lru_cache(maxsize=4)
def _built_baseline(script: str, trace: str, target: Target | str, device: str | None) -> Any:
    return _kernel(MeasureTask(script, trace, target, device=device), trace)


def _baseline(task: MeasureTask, reference: Reference) -> tuple[Running | None, str]:
    """What the candidate is compared with, if anything, or why it cannot be."""
    if task.baseline is None:
        return None, ""
    try:
        kernel = _built_baseline(task.script, task.baseline, task.target, task.device)
        return reference.running(kernel), ""
    except Exception as error:  # of any kind: it says nothing about the candidate
        return None, f"the baseline cannot be built: {_text(error)}"


@lru_cache(maxsize=4)
def _measured_here(
    script: str, target: Target | str, device: str | None, threads: int
) -> list[float]:
    """Seconds of the candidates of a program that this process has measured before.

    A batch is submitted when none of it is measured: what its fastest takes is known here first.
    """
    return []


def _text(error: Exception) -> str:
    name, text = type(error).__name__, str(error)
    return (text if text.startswith(name) else f"{name}: {text}")[:_MOST_TEXT]


# ---------------------------------------------------------------------------- the reference


@dataclass(frozen=True)
class Reference:
    """A program without a schedule: what it takes, and what it makes of it.

    Attributes:
        params: what it takes.
        inputs: its arguments.
        outputs: what they are afterwards.
        arguments: arrays like them, for its schedules to work on.
        restored: the numbers of those that it reads and overwrites.
        terms: of its longest sum.
    """

    params: tuple[ParamSpec, ...]
    inputs: list[Any]
    outputs: list[Any]
    arguments: list[Any]
    restored: tuple[int, ...] = ()
    terms: int = 1

    def running(self, kernel: Any) -> Running:
        """A kernel of the same program, with the inputs."""
        return running(kernel, self.inputs, self.arguments, self.restored)

    def judge(self, outputs: Sequence[Any], run: Running) -> tuple[float, str]:
        """The greatest error of a kernel's results, and what is wrong with them, if anything."""
        worst = 0.0
        for param, expected, found in zip(self.params, self.outputs, outputs, strict=True):
            if not param.is_buffer:
                continue
            error = greatest_error(expected, found)
            worst = max(worst, error)
            allowed = tolerance(param.dtype.element, self.terms) if param.is_written else 0.0
            if error > allowed:
                what = "is off by" if param.is_written else "is only read, but changed by"
                return error, f"{param.name} {what} {error:.3g} (at most {allowed:g})"
        for k in run.written_outside():
            return math.inf, f"something was written outside of {self.params[k].name}"
        return worst, ""


@lru_cache(maxsize=2)
def _module(script: str) -> IRModule:
    program = parse(script)
    module = IRModule({"main": program}) if isinstance(program, PrimFunc) else program
    if len(module.functions) != 1:
        raise UserError(f"a task has one function, not {len(module.functions)}")
    return module


def _only(kernels: Any) -> Any:
    (kernel,) = kernels.values()
    return kernel


@lru_cache(maxsize=2)
def _reference(script: str, seed: int) -> Reference:
    """The program run once, on the CPU, with its indices checked."""
    module = _module(script)
    (func,) = module.functions.values()
    kernel = _only(load("tileloom").build(module, "cpu", checked=True))
    for ranges in TRIED:
        found = _attempt(func, kernel, seed, ranges)
        if found is not None:
            return found
    # No inputs please it: the first ones say why, or are as good as any.
    return _run(func, kernel, seed, TRIED[0])


def _attempt(func: PrimFunc, kernel: Any, seed: int, ranges: Ranges) -> Reference | None:
    """The reference, if these inputs lead to numbers."""
    try:
        found = _run(func, kernel, seed, ranges)
    except UserError:  # an index out of bounds, or an assertion of the program
        return None
    written = [out for param, out in zip(found.params, found.outputs) if param.is_written]
    floats = [out.astype(np.float64) for out in written if out.dtype.kind not in "biu"]
    return found if all(np.isfinite(out).mean() > _MEANINGFUL for out in floats) else None


def _run(func: PrimFunc, kernel: Any, seed: int, ranges: Ranges) -> Reference:
    inputs = random_inputs(func, kernel.params, seed, ranges)
    outputs = copy_inputs(inputs, kernel.params)
    kernel(*outputs)
    changed = inputs_overwritten(func)
    restored = tuple(k for k, param in enumerate(kernel.params) if param.name in changed)
    arguments = copy_inputs(inputs, kernel.params)
    terms = _longest_sum(func)
    return Reference(kernel.params, inputs, outputs, arguments, restored, terms)


def _longest_sum(func: PrimFunc) -> int:
    """How many terms the longest reduction of a program has."""
    longest = 1
    for block in collect(func.body, Block):
        extents = [v.domain.extent for v in block.iter_vars if v.iter_type == REDUCE]
        longest = max(longest, math.prod(e.value for e in extents if isinstance(e, IntImm)))
    return longest
