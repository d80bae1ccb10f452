"""What mutators ask of traces: the steps that draw, and other draws for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ...expr import Var
from ...schedule.instruction import Instruction
from ...schedule.random import Random
from ...schedule.trace import Trace


def sampling_part(trace: Trace) -> Iterator[Instruction]:
    """The steps up to the first postprocessor: those that a search decides about."""
    for inst in trace.insts:
        if inst.kind.name == "EnterPostproc":
            return
        yield inst


def decided(trace: Trace, kind: str) -> list[Instruction]:
    """The sampling steps of a kind that have a decision, in order."""
    steps = sampling_part(trace)
    return [inst for inst in steps if inst.kind.name == kind and inst in trace.decisions]


def annotated_draws(trace: Trace, keys: Sequence[str]) -> list[Instruction]:
    """The `sample_categorical` steps whose number is annotated under one of these keys."""
    drawn = _draws(trace)
    values = (
        inst.inputs[1]
        for inst in sampling_part(trace)
        if inst.kind.name == "Annotate" and inst.attrs[0] in keys
    )
    return _unique(drawn, values)


def thread_extent_draws(trace: Trace, thread: str) -> list[Instruction]:
    """The `sample_categorical` steps that say how many iterations of a loop a thread axis runs.

    Their number is a factor of a split, whose loop of that factor is bound to the axis.
    """
    drawn = _draws(trace)
    factor_of: dict[Any, Any] = {}
    values = []
    for inst in sampling_part(trace):
        if inst.kind.name == "Split":
            factor_of.update(zip(inst.outputs, inst.inputs[1:], strict=True))
        elif inst.kind.name == "Bind" and inst.attrs[0] == thread:
            values.append(factor_of.get(inst.inputs[0]))
    return _unique(drawn, values)


def _draws(trace: Trace) -> dict[Var, Instruction]:
    return {inst.outputs[0]: inst for inst in decided(trace, "SampleCategorical")}


def _unique(drawn: dict[Var, Instruction], values: Any) -> list[Instruction]:
    """The steps that draw these values and could draw others, each once."""
    steps = (drawn.get(value) for value in values if isinstance(value, Var))
    return list(dict.fromkeys(s for s in steps if s is not None and len(s.attrs[0]) > 1))


def drawn_again(trace: Trace, inst: Instruction, random: Random) -> Trace | None:
    """The trace with another of a step's candidates, by their probabilities; None if all are 0."""
    current = trace.decisions[inst]
    others = [(i, p) for i, p in enumerate(inst.attrs[1]) if i != current and p > 0]
    if not others:
        return None
    chosen, _ = others[random.categorical([p for _, p in others])]
    return trace.with_decision(inst, chosen, remove_postproc=True)


def one_of(steps: Sequence[Any], random: Random) -> Any:
    """One of several, all as likely."""
    return steps[random.integer(0, len(steps))]
