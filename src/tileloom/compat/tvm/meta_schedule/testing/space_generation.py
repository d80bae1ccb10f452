"""Design spaces, compared with the programs that they should give."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from .....schedule import Schedule as OurSchedule
from .....schedule import Trace
from .....tir import IRModule, PrimFunc
from ..._names import missing
from ...ir import structural_equal
from ...ir.module import IRModule as Module
from ...tir.schedule import Schedule
from ...tir.schedule.testing import verify_trace_roundtrip
from ..schedule_rule import ScheduleRule
from ..space_generator import PostOrderApply
from ..tune_context import TuneContext

#: For each sampling step its kind and what it draws.
Decisions = Sequence[tuple[str, Any]]


def get_rules(kind: str, types: Any) -> list[ScheduleRule]:
    """Those of the default rules of a kind of machine that are of some classes."""
    return [rule for rule in ScheduleRule.create(kind) if isinstance(rule, types)]


def generate_design_space(
    kind: str, mod: Any, target: Any, types: Any, sch_rules: Sequence[Any] | None = None
) -> list[OurSchedule]:
    """What rules make of a program: the rules given, or default ones of some classes."""
    rules = get_rules(kind, types) if sch_rules is None else sch_rules
    generator = PostOrderApply(sch_rules=rules, postprocs=[], mutator_probs={})
    return TuneContext(mod, target=target, space_generator=generator).generate_design_space()


def check_sketches(
    mod: Any,
    sketches: Sequence[OurSchedule],
    expected_mods: Sequence[Any],
    expected_decisions: Sequence[Decisions],
    *,
    debug_mask: str | int = "all",
) -> None:
    """Each of the expected programs is what one of the design spaces gives, with some decisions.

    Raises:
        AssertionError: it is not.
    """
    if not len(sketches) == len(expected_mods) == len(expected_decisions):
        raise AssertionError(f"{len(sketches)} design spaces, not {len(expected_mods)}")
    left = list(sketches)
    wanted = zip(expected_mods, expected_decisions, strict=True)
    for number, (program, decisions) in enumerate(wanted):
        found = next(_matches(mod, left, program, decisions, debug_mask), None)
        if found is None:
            raise AssertionError(f"none of the design spaces gives the expected program {number}")
        left.pop(found)


def _matches(
    mod: Any,
    sketches: Sequence[OurSchedule],
    program: IRModule | PrimFunc,
    decisions: Decisions,
    debug_mask: str | int,
) -> Iterator[int]:
    """The numbers of the design spaces that give a program."""
    for number, sketch in enumerate(sketches):
        trace = _decided(sketch, decisions)
        if trace is None:
            continue
        sch = Schedule.build(mod, debug_mask=debug_mask)
        trace.apply_to_schedule(sch, remove_postproc=True)
        if structural_equal(_nameless(sch.mod), _nameless(program)):
            verify_trace_roundtrip(sch, mod, debug_mask=debug_mask, text_format="json")
            yield number


def _decided(sketch: OurSchedule, decisions: Decisions) -> Trace | None:
    """The trace of a design space with some decisions, if its sampling steps are of their kinds."""
    insts = [] if sketch.trace is None else sketch.trace.insts
    steps = [inst for inst in insts if inst.kind.name.startswith("Sample")]
    if [step.kind.name for step in steps] != [kind for kind, _ in decisions]:
        return None
    drawn = zip(steps, decisions, strict=True)
    return Trace(insts, {step: value for step, (_, value) in drawn})


def _nameless(program: IRModule | PrimFunc) -> Module:
    functions = program.functions if isinstance(program, IRModule) else {"main": program}
    return Module({name: f.without_attr("global_symbol") for name, f in functions.items()})


def print_sketches(sketches: Sequence[OurSchedule]) -> None:
    """Print programs and decisions."""
    for number, sch in enumerate(sketches):
        print(f"###### {number}")
        print(sch.mod.script())
        if sch.trace is not None:
            for inst, decision in sch.trace.decisions.items():
                print(f'("{inst.kind.name}", {decision}),')


__getattr__ = missing(__name__)
