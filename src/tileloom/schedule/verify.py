"""Exact checks of programs through isl: an independent judge of every schedule step."""

from __future__ import annotations

from ..tir import PrimFunc
from .integer_sets import Integers, TooHardError
from .verify_checks import (
    check_bounds,
    check_cover,
    check_domains,
    check_instances,
    check_races,
    check_reductions,
)
from .verify_extract import extract, symbolic_params
from .verify_flow import Flow, complete
from .verify_model import Model
from .verify_report import Findings, Point, Report, Violation

__all__ = ["Point", "Report", "Violation", "verify_program"]

# About ten seconds of isl's work.
MAX_OPERATIONS = 50_000_000


def verify_program(
    func: PrimFunc, *, original: PrimFunc | None = None, max_operations: int = MAX_OPERATIONS
) -> Report:
    integers = Integers(symbolic_params(func), max_operations)
    model = extract(func, integers)
    findings = Findings(model)
    with integers.limited():
        complete(model)
        flow = Flow(model)
        check_bounds(model, findings)
        check_domains(model, findings)
        check_cover(flow, findings)
        check_instances(flow, findings)
        check_reductions(flow, findings)
        check_races(model, findings, flow)
    return Report(tuple(findings.violations), tuple(model.unknown), tuple(model.notes))
