"""Selections and branches on one condition become one branch.

    %s = arith.select %c, %a, %b            %r:2 = scf.if %c -> (...) {
    %r = scf.if %c -> (...) {                 ...
      ...                            ->       scf.yield ..., %a
      scf.yield ...                         } else {
    } else {                                  ...
      scf.yield ...                           scf.yield ..., %b
    }                                       }

A condition negated by `arith.xori %c, true` swaps the two values.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..dialects.scf import add_if_results
from ..ir.attributes import integer_value
from ..ir.core import Operation, Value
from ..ir.dominance import Dominance
from ..ir.rewriter import constant_of
from ..ir.types import I1
from .registry import tile_pass


@dataclass(frozen=True)
class Selection:
    """A selection that a branch takes over; `negated` if their conditions are opposites."""

    op: Operation
    negated: bool

    @property
    def values(self) -> tuple[Value, Value]:
        """What the branch yields where its condition holds, and where it does not."""
        _, taken, otherwise = self.op.operands
        return (otherwise, taken) if self.negated else (taken, otherwise)


@tile_pass("tritongpu-combine-tensor-select-and-if")
def combine_tensor_select_and_if(module: Operation) -> None:
    """Lets branches yield what selections on the same condition, or its negation, select."""
    selects = [op for op in module.walk() if op.name == "arith.select" and _is_scalar(op)]
    for select in selects:
        _resolve_inner_uses(select)
    dominance = Dominance()
    found: dict[Operation, list[Selection]] = {}
    for select in selects:
        place = _branch_for(select, dominance)
        if place is not None:
            branch, negated = place
            found.setdefault(branch, []).append(Selection(select, negated))
    for branch, selections in found.items():
        _take_over(branch, selections)


def _is_scalar(select: Operation) -> bool:
    return select.operands[0].type is I1


def conditions_of(value: Value) -> list[tuple[Value, bool]]:
    """A condition and its negations that are there: values, and whether they are negated."""
    made = [(value, False)]
    made += [(op.result, True) for op in value.users if negated_condition(op) is value]
    source = value.defining_op
    if source is not None:
        inner = negated_condition(source)
        if inner is not None:
            made.append((inner, True))
            made += [
                (op.result, False)
                for op in inner.users
                if op is not source and negated_condition(op) is inner
            ]
    return made


def negated_condition(op: Operation) -> Value | None:
    """What an operation negates, or None: `arith.xori %c, true`."""
    if op.name != "arith.xori" or op.results[0].type is not I1:
        return None
    for value, other in (op.operands, op.operands[::-1]):
        if integer_value(constant_of(other)):
            return value
    return None


def _resolve_inner_uses(select: Operation) -> None:
    """In the branches of an `scf.if` on the selection's condition it is known what it selects."""
    condition, taken, otherwise = select.operands
    for known, negated in conditions_of(condition):
        for branch in tuple(known.users):
            if branch.name != "scf.if":
                continue
            for region, value in zip(
                branch.regions,
                (otherwise, taken) if negated else (taken, otherwise),
                strict=True,
            ):
                for user in tuple(select.results[0].users):
                    if any(op.block in region.blocks for op in user.ancestors()):
                        user.replace_operand(select.results[0], value)


def _branch_for(select: Operation, dominance: Dominance) -> tuple[Operation, bool] | None:
    """The first branch that can yield what is selected: between the selection and its users."""
    candidates = [
        (user, negated)
        for known, negated in conditions_of(select.operands[0])
        for user in known.users
        if user.name == "scf.if" and user.block is select.block and select.is_before(user)
    ]
    users = list(select.results[0].users)
    fitting = [
        (branch, negated)
        for branch, negated in candidates
        if users and all(dominance.properly_dominates(branch, user) for user in users)
    ]
    first = None
    for place in fitting:
        if first is None or place[0].is_before(first[0]):
            first = place
    return first


def _take_over(branch: Operation, selections: list[Selection]) -> None:
    pairs = [selection.values for selection in selections]
    added = add_if_results(branch, [pair[0] for pair in pairs], [pair[1] for pair in pairs])
    for selection, result in zip(selections, added, strict=True):
        selection.op.results[0].replace_uses(result)
        selection.op.erase()
