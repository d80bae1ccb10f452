"""Traces: the steps of a schedule as data, in TVM's formats."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from ..base.errors import UserError
from ..expr import IndexMap, Var
from .index_maps import own_variables, with_values
from .instruction import Instruction, InstructionKind, find_kind
from .rv import RV, is_rv, new_rv
from .text import (
    OPEN,
    Names,
    attrs_from_json,
    attrs_to_json,
    call_text,
    define,
    input_from_json,
    input_to_json,
)

DecisionProvider = Callable[[Instruction, list[Any], list[Any], Any], Any]
_POSTPROC = "EnterPostproc"


class Replayable(Protocol):
    """What a trace is applied to: a `Schedule`."""

    def perform(
        self, kind: InstructionKind, inputs: Sequence[Any], attrs: Sequence[Any], decision: Any
    ) -> list[Any]:
        """Take one step and return the variables it defines."""


class Trace:
    """The steps of a schedule, and the decisions that the sampling ones have drawn.

    Attributes:
        insts: the steps, in order.
        decisions: what was drawn, by step.
    """

    __slots__ = ("decisions", "insts")

    def __init__(
        self,
        insts: Sequence[Instruction] = (),
        decisions: Mapping[Instruction, Any] | None = None,
    ) -> None:
        self.insts = list(insts)
        self.decisions = dict(decisions or {})

    def copy(self) -> Trace:
        """A trace of the same steps that can be continued on its own."""
        return Trace(self.insts, self.decisions)

    # ------------------------------------------------------------------ editing

    def append(self, inst: Instruction, decision: Any = None) -> None:
        """Add a step at the end."""
        self.insts.append(inst)
        if decision is not None:
            self.decisions[inst] = decision

    def pop(self) -> Instruction | None:
        """Take the last step away; None if there is none."""
        if not self.insts:
            return None
        inst = self.insts.pop()
        self.decisions.pop(inst, None)
        return inst

    def get_decision(self, inst: Instruction) -> Any:
        """What a step has drawn; None if it draws nothing."""
        return self.decisions.get(inst)

    def with_decision(self, inst: Instruction, decision: Any, remove_postproc: bool) -> Trace:
        """The same steps with another decision for one of them."""
        insts = list(self._steps(remove_postproc))
        kept = {i: self.decisions[i] for i in insts if i in self.decisions}
        return Trace(insts, {**kept, inst: decision})

    def simplified(self, remove_postproc: bool) -> Trace:
        """Without the pure steps whose results nobody uses."""
        used: set[Any] = set()
        kept: list[Instruction] = []
        for inst in reversed(list(self._steps(remove_postproc))):
            if inst.kind.pure and not any(rv in used for rv in inst.outputs):
                continue
            used.difference_update(inst.outputs)
            used.update(_rvs(inst.inputs))
            kept.append(inst)
        kept.reverse()
        return Trace(kept, {i: self.decisions[i] for i in kept if i in self.decisions})

    def _steps(self, remove_postproc: bool) -> Iterator[Instruction]:
        for inst in self.insts:
            if remove_postproc and inst.kind.name == _POSTPROC:
                return
            yield inst

    # ------------------------------------------------------------------ replay

    def apply_to_schedule(
        self,
        sch: Replayable,
        remove_postproc: bool,
        decision_provider: DecisionProvider | None = None,
    ) -> None:
        """Take the same steps on a schedule.

        Args:
            sch: the schedule to be changed.
            remove_postproc: stop at the first `enter_postproc`.
            decision_provider: `f(inst, inputs, attrs, decision)` gives the decision to follow.
        """
        rvs: dict[Any, Any] = {}
        for inst in self._steps(remove_postproc):
            inputs = [_renamed(value, rvs) for value in inst.inputs]
            decision = self.decisions.get(inst)
            if decision_provider is not None:
                decision = decision_provider(inst, inputs, inst.attrs, decision)
            outputs = sch.perform(inst.kind, inputs, inst.attrs, decision)
            rvs.update(zip(inst.outputs, outputs, strict=True))
            rvs.pop(None, None)

    @staticmethod
    def apply_json_to_schedule(json_obj: Any, sch: Replayable) -> None:
        """Take the steps that `as_json` has written on a schedule."""
        insts, decisions = _checked(json_obj)
        rvs: dict[str, RV | None] = {}
        for i, step in enumerate(insts):
            name, _, _, outputs = step
            found = _taken(i, step, decisions.get(i), sch, rvs)
            if len(found) != len(outputs):
                raise UserError(
                    f"step {i} ({name}) defines {len(found)} variables here, "
                    f"but {len(outputs)} in the trace"
                )
            rvs.update(zip(outputs, found, strict=True))

    # ------------------------------------------------------------------ text

    def as_json(self, remove_postproc: bool = False) -> list[Any]:
        """Plain data: `[[[kind, inputs, attrs, outputs], ...], [[step, decision], ...]]`."""
        names: Names = {}
        steps: list[Any] = []
        decisions: list[Any] = []
        for i, inst in enumerate(self._steps(remove_postproc)):
            inputs = [input_to_json(value, names) for value in inst.inputs]
            attrs = attrs_to_json(inst.kind, inst.attrs)
            steps.append(
                [inst.kind.name, inputs, attrs, [define(names, rv) for rv in inst.outputs]]
            )
            if inst in self.decisions:
                decisions.append([i, self.decisions[inst]])
        return [steps, decisions]

    @staticmethod
    def from_json(json_obj: Any) -> Trace:
        """The trace that `as_json` has written, without a schedule to take its steps on.

        Raises:
            UserError: it is no trace, or names a step or a variable that there is not.
        """
        steps, decisions = _checked(json_obj)
        trace, rvs = Trace(), dict[str, RV | None]()
        for i, (name, inputs, attrs, outputs) in enumerate(steps):
            kind = find_kind(name)
            if outputs and kind.returns is None:
                raise UserError(f"step {i} ({name}) defines nothing, but the trace has {outputs}")
            values = [input_from_json(value, rvs) for value in inputs]
            role = kind.returns[0] if kind.returns else ""
            defined = [None if name == OPEN else new_rv(role) for name in outputs]
            rvs.update(zip(outputs, defined, strict=True))
            step = Instruction(kind, values, attrs_from_json(kind, attrs), defined)
            trace.append(step, decisions.get(i))
        return trace

    def as_python(self, remove_postproc: bool = False) -> list[str]:
        """A line of Python for each step."""
        names: Names = {}
        return [
            call_text(
                inst.kind, inst.inputs, inst.attrs, inst.outputs, names, self.decisions.get(inst)
            )
            for inst in self._steps(remove_postproc)
        ]

    def __str__(self) -> str:
        head = ["# from tvm import tir", "def apply_trace(sch: tir.Schedule) -> None:"]
        return "\n".join([*head, *(f"  {line}" for line in self.as_python())])

    __repr__ = __str__

    def show(self, *_style: Any, **_looks: Any) -> None:
        """Print the Python text."""
        print(self)


def _rvs(value: Any) -> Iterator[Any]:
    if is_rv(value):
        yield value
    elif isinstance(value, IndexMap):
        yield from own_variables(value)
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _rvs(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _rvs(item)


def _renamed(value: Any, rvs: Mapping[Any, Any]) -> Any:
    if is_rv(value):
        return rvs[value]
    if isinstance(value, IndexMap):
        own = [v for v in own_variables(value) if isinstance(rvs.get(v), Var)]
        return with_values(value, {v: rvs[v] for v in own})
    if isinstance(value, Mapping):
        return {key: _renamed(item, rvs) for key, item in value.items()}
    return [_renamed(item, rvs) for item in value] if isinstance(value, (list, tuple)) else value


def _taken(
    number: int, step: _Step, decision: Any, sch: Replayable, rvs: Mapping[str, RV | None]
) -> list[Any]:
    """What a step from JSON defines."""
    name, inputs, attrs, _ = step
    kind = find_kind(name)
    try:
        values = [input_from_json(value, rvs) for value in inputs]
        return sch.perform(kind, values, attrs_from_json(kind, attrs), decision)
    except _MISFITS as error:
        # Primitives expect the types of their signatures, which nothing else has checked here.
        raise UserError(
            f"step {number} ({name}) does not fit: {type(error).__name__}: {error}",
            hint=f"{kind.method}{kind.signature}",
        ) from error


#: What Python raises for a value of a type or a size that nobody expects.
_MISFITS = (TypeError, ValueError, AttributeError, LookupError, ArithmeticError, RecursionError)
_Step = tuple[str, list[Any], list[Any], list[str]]


def _checked(json_obj: Any) -> tuple[list[_Step], dict[int, Any]]:
    try:
        insts, decisions = json_obj
        steps = [(name, inputs, attrs, outputs) for name, inputs, attrs, outputs in insts]
        drawn = {int(number): decision for number, decision in decisions}
    except (TypeError, ValueError, OverflowError):
        raise UserError("this is no trace in JSON", hint=_FORMAT) from None
    for number, (name, *lists) in enumerate(steps):
        if not isinstance(name, str) or not all(isinstance(p, (list, tuple)) for p in lists):
            raise UserError(f"step {number} of the trace is no step", hint=_FORMAT)
        if not all(isinstance(output, str) for output in lists[2]):
            raise UserError(
                f"step {number} ({name}) of the trace defines {lists[2]}, which are no names"
            )
    return steps, drawn


_FORMAT = "a trace is [[[kind, inputs, attrs, outputs], ...], [[step, decision], ...]]"
