"""What a database holds, and when two programs are one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from statistics import fmean
from typing import Any

from ....records import workload_key
from ....records.tvm_files import script_of, workload_line
from ....schedule import Schedule as OurSchedule
from ....schedule import Trace
from ....script import parse
from ....tir import Block, IRModule, PrimFunc, pre_order
from ..ir import structural_equal
from ..ir.module import IRModule as Module
from ..ir.module import as_module
from ..target import Target
from ..tir.schedule import Schedule
from .arg_info import ArgInfo
from .search_strategy import MeasureCandidate
from .utils import plain

FAILED = 1e10  # seconds of a candidate that failed


class Seconds(float):
    """A number that has a `value`, as TVM's have."""

    @property
    def value(self) -> float:
        """The number."""
        return float(self)


class Workload:
    """A program."""

    def __init__(self, mod: IRModule) -> None:
        self.mod = as_module(mod)
        self.shash = workload_key(self.mod)

    def as_json(self) -> Any:
        """The key, and the program in base64."""
        return workload_line(self.shash, self.mod.script())

    @staticmethod
    def from_json(json_obj: Any) -> Workload:
        """What `as_json` has written."""
        return Workload(module_of(script_of(json_obj[1])))


def module_of(script: str) -> Module:
    """The module of a text."""
    found = parse(script)
    return Module({"main": found}) if isinstance(found, PrimFunc) else as_module(found)


class TuningRecord:
    """A schedule of a program, and how long it took."""

    def __init__(
        self,
        trace: Trace,
        workload: Workload,
        run_secs: Sequence[Any] | None = None,
        target: Target | None = None,
        args_info: Sequence[ArgInfo] | None = None,
    ) -> None:
        self.trace, self.workload = trace, workload
        self.run_secs = None if run_secs is None else [Seconds(plain(s)) for s in run_secs]
        self.target = target if target is None or isinstance(target, Target) else Target(target)
        self.args_info = None if args_info is None else list(args_info)

    def as_measure_candidate(self) -> MeasureCandidate:
        """The schedule."""
        return MeasureCandidate.of(self.schedule())

    def schedule(self) -> OurSchedule:
        """The program with the steps of the trace."""
        sch = Schedule.build(self.workload.mod)
        self.trace.apply_to_schedule(sch, remove_postproc=False)
        return sch

    def is_valid(self) -> bool:
        """Whether it ran."""
        return any(seconds < FAILED for seconds in self.run_secs or ())

    @property
    def mean(self) -> float:
        """Seconds on average."""
        return fmean(self.run_secs) if self.run_secs else FAILED

    def as_json(self) -> Any:
        """The trace, the seconds, the target and what the function takes."""
        return [
            self.trace.as_json(),
            None if self.run_secs is None else [float(s) for s in self.run_secs],
            None if self.target is None else self.target.export(),
            None if self.args_info is None else [info.as_json() for info in self.args_info],
        ]

    @staticmethod
    def from_json(json_obj: Any, workload: Workload) -> TuningRecord:
        """What `as_json` has written."""
        trace, run_secs, target, types = json_obj
        return TuningRecord(
            Trace.from_json(trace),
            workload,
            run_secs,
            None if target is None else Target(target),
            None if types is None else [ArgInfo.from_json(info) for info in types],
        )


def _anchor(mod: IRModule) -> Block | None:
    """The block that most of the work is in: the last one that reduces, or the last of all."""
    blocks = [b for b in _blocks(mod) if b.iter_vars]
    reducing = [block for block in blocks if block.init is not None]
    found = reducing or blocks
    return found[-1] if found else None


def _blocks(mod: IRModule) -> Iterator[Block]:
    for func in mod.functions.values():
        for stmt in pre_order(func.body):
            if isinstance(stmt, Block):
                yield stmt


def same_anchor(one: IRModule, other: IRModule) -> bool:
    """Whether the blocks that most of the work is in are alike."""
    first, second = _anchor(one), _anchor(other)
    if first is None or second is None:
        return structural_equal(one, other)
    return structural_equal(first, second, map_free_vars=True)


#: "ignore-ndarray" is about constants in programs, which ours do not hold.
EQUALITIES: dict[str, Callable[[IRModule, IRModule], bool]] = {
    "structural": structural_equal,
    "ignore-ndarray": structural_equal,
    "ignore-tensor": structural_equal,
    "anchor-block": same_anchor,
}
