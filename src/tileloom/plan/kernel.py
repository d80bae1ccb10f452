"""A kernel of a graph: the function of blocks that it computes, and the trace that schedules it.

The trace is what a kernel is made by: it can be printed, written to a file, changed, and given back
as a `TraceRecord`, which is then taken instead of what the planner would do. Functions that are
equal are planned once in a process, unless their sizes are open.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..base.compiling import compiling
from ..base.errors import UserError
from ..base.settings import file_stamp, settings
from ..expr import IntImm
from ..records import chosen_trace, has_records, target_key, workload_key
from ..schedule import Schedule
from ..schedule.trace import Trace
from ..target import Target
from ..tir import PrimFunc, pre_order
from ..tir.nodes import Block
from ..tir.structural import structural_equal
from .cpu.schedule import schedule_cpu
from .cuda.schedule import schedule_gpu


@dataclass(frozen=True)
class PlannedKernel:
    """A scheduled function and how it came to be.

    Attributes:
        blocks: the function before it was scheduled.
        func: the scheduled function.
        trace: the steps from the one to the other.
        target: the machine that it was scheduled for, with the cores that share its loops.
    """

    blocks: PrimFunc
    func: PrimFunc
    trace: Trace
    target: Target

    def named(self, name: str) -> PlannedKernel:
        """The same kernel under another name."""
        blocks, func = (f.with_attr("global_symbol", name) for f in (self.blocks, self.func))
        return PlannedKernel(blocks, func, self.trace, self.target)


@dataclass(frozen=True)
class TraceRecord:
    """The steps that a kernel should be made by.

    Attributes:
        kernel: the `workload_key` of the blocks.
        target: the target as text, such as `"cpu"` or `"cuda -arch=sm_80"`.
        trace: the steps as `Trace.as_json` writes them.
    """

    kernel: str
    target: str
    trace: Sequence[Any]

    @staticmethod
    def of(blocks: PrimFunc, trace: Trace, target: Target) -> TraceRecord:
        """The record of a kernel that this trace makes of blocks."""
        steps = trace.simplified(remove_postproc=False)
        return TraceRecord(workload_key(blocks), str(target), steps.as_json())


@compiling
def plan_kernel(blocks: PrimFunc, target: Target) -> PlannedKernel:
    """The kernel of a function of blocks, by a recorded trace if there is one, else by the planner.

    Records are read from the file that the setting `traces` (TILELOOM_TRACES) names, and after that
    from the place where tuning keeps what it found (`records`, TILELOOM_RECORDS).

    Raises:
        GroupRefused: the planner of the target has no kernel for these blocks.
        UserError: a trace of the file does not apply to the kernel.

    >>> from tileloom import te
    >>> A = te.placeholder((640, 1000), name="A")
    >>> B = te.compute((640, 1000), lambda i, j: A[i, j] + 1.0, name="B")
    >>> planned = plan_kernel(te.create_prim_func([A, B]), Target.host())
    >>> again = Schedule(planned.blocks)
    >>> planned.trace.apply_to_schedule(again, remove_postproc=False)
    >>> from tileloom.tir import structural_equal
    >>> structural_equal(again.mod["main"], planned.func)
    True
    """
    outline = _outline(blocks)
    known = _PLANNED.pop((outline, target), None)
    if known is not None and not structural_equal(
        _without_name(known.blocks), _without_name(blocks)
    ):
        known = None
    recorded = _recorded(blocks, target)
    if recorded is not None:
        sch = recorded
    elif known is not None:
        _PLANNED[outline, target] = known  # the last to be thrown out
        return PlannedKernel(blocks, _named(known.func, blocks), known.trace, target)
    else:
        sch = _PLANNERS[target.kind](blocks, target)
    (func,) = sch.mod.functions.values()
    made = PlannedKernel(blocks, func, sch.trace or Trace(), target)
    if recorded is None and outline is not None:
        if len(_PLANNED) >= _MOST_PLANNED:
            _PLANNED.pop(next(iter(_PLANNED)))
        _PLANNED[outline, target] = made
    return made


_PLANNERS: dict[str, Callable[[PrimFunc, Target], Schedule]] = {
    "cpu": schedule_cpu,
    "cuda": schedule_gpu,
}
#: What was planned in this process, the longest unused first; each takes some 80 KB.
_PLANNED: dict[tuple[Any, Target], PlannedKernel] = {}
_MOST_PLANNED = 32


def _outline(blocks: PrimFunc) -> tuple[Any, ...] | None:
    """What tells most functions apart: the names of blocks and buffers, and the extents.

    None if sizes are open: planning may decide about them, by what is assumed of them at the time.
    """
    parts: list[Any] = [(buffer.name, buffer.dtype) for buffer in blocks.buffers]
    for block in pre_order(blocks.body):
        if isinstance(block, Block):
            extents = [axis.domain.extent for axis in block.iter_vars]
            if not all(isinstance(extent, IntImm) for extent in extents):
                return None
            parts += [block.name_hint, *extents]
            parts += [buffer.name for buffer in block.alloc_buffers]
    return tuple(parts)


def _without_name(func: PrimFunc) -> PrimFunc:
    attrs = {key: value for key, value in func.attrs.items() if key != "global_symbol"}
    return func.replace(attrs=attrs)


def _named(func: PrimFunc, like: PrimFunc) -> PrimFunc:
    return func.with_attr("global_symbol", like.name)


# ---------------------------------------------------------------------------- records


def read_traces(path: Path) -> dict[tuple[str, str], TraceRecord]:
    """The records of a file, one JSON object a line; of several for one kernel the last counts.

    Raises:
        UserError: the file is not there, or a line is no record; it names the line.
    """
    try:
        lines = path.read_text().splitlines()
    except OSError as error:
        raise UserError(f"cannot read the traces in {path}: {error.strerror}") from error
    found = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            record = TraceRecord(**json.loads(line))
            found[record.kernel, record.target] = record
        except (ValueError, TypeError) as error:
            raise UserError(f"{path}, line {number} is no record of a trace: {error}") from error
    return found


def write_traces(path: Path, records: Sequence[TraceRecord]) -> None:
    """Write records to a file, which `read_traces` and the setting `traces` take."""
    lines = [
        json.dumps({"kernel": r.kernel, "target": r.target, "trace": r.trace}) for r in records
    ]
    path.write_text("\n".join([*lines, ""]))


def _recorded(blocks: PrimFunc, target: Target) -> Schedule | None:
    """The blocks scheduled by the traces of the user's file, or else by what was tuned."""
    path = settings().traces
    if path is None and not has_records():
        return None
    key = workload_key(blocks)
    given = None if path is None else _read(path).get((key, str(target)))
    if given is not None:
        return _replayed(blocks, given.trace)
    steps = chosen_trace(key, target_key(target))
    if steps is None:
        return None
    try:
        return _replayed(blocks, steps)
    except UserError as error:  # of another version of Tileloom: as good as none
        warnings.warn(f"{error.message}; the planner schedules it", stacklevel=2)
        return None


_READ: dict[str, Mapping[tuple[str, str], TraceRecord]] = {}


def _read(path: Path) -> Mapping[tuple[str, str], TraceRecord]:
    stamp = file_stamp(path)
    if stamp not in _READ:
        _READ.clear()
        _READ[stamp] = read_traces(path)
    return _READ[stamp]


def _replayed(blocks: PrimFunc, steps: Sequence[Any]) -> Schedule:
    sch = Schedule(blocks)
    try:
        Trace.apply_json_to_schedule(steps, sch)
    except UserError as error:
        raise UserError(
            f"the recorded trace does not apply to the kernel {blocks.name!r}: {error.message}"
        ) from error
    return sch
