"""Products that begin with zero say so by a flag, instead of zeroing their accumulator.

In a loop whose accumulator is zero at first, or is set to zero under a condition, the product
takes a flag, carried along, that says whether to add to the accumulator at all.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..dialects.scf import ForLoop, IfBranches, add_iter_args
from ..ir.attributes import constant_value
from ..ir.core import BlockArgument, Operation, Value
from ..ir.definitions import segments
from ..ir.rewriter import OpBuilder, constant_of
from ..ir.slots import SEGMENTS
from ..ir.types import F32, I1, element_type, is_float
from .registry import tile_pass


@dataclass(frozen=True)
class Zeroing:
    """Where an accumulator becomes zero: a selection, or a branch that yields zero."""

    op: Operation
    condition: Value
    zero_if_true: bool
    kept: Value  # the accumulator where it is not zeroed
    result: Value


@tile_pass("tritongpu-optimize-accumulator-init")
def optimize_accumulator_init(module: Operation) -> None:
    """Gives products in loops the flag whether to use their accumulator."""
    products = [
        op
        for op in module.walk()
        if op.name == "ttng.warp_group_dot" and not _adds_partial_sums(op)
    ]
    for op in products:
        if len(op.operands) == 3:
            _optimize(op)


def _adds_partial_sums(op: Operation) -> bool:
    """Whether sums of float8 products are to be added in float32 outside the tensor core."""
    if element_type(op.results[0].type) is not F32 or not is_float(op.operands[0].type):
        return False
    if element_type(op.operands[0].type).bits > 8:  # type: ignore[attr-defined]
        return False
    limit = op.attributes.get("maxNumImpreciseAcc")
    k = op.operands[0].type.shape[-1]  # type: ignore[attr-defined]
    return limit is not None and limit.value < k  # type: ignore[attr-defined]


def is_zero(value: Value) -> bool:
    """Whether a value is the constant zero."""
    constant = constant_of(value)
    source = value.defining_op
    if source is not None and source.name == "tt.splat":
        return is_zero(source.operands[0])
    return constant is not None and constant_value(constant) == 0


def set_flag(op: Operation, flag: Value) -> None:
    """Gives a product the flag whether to use its accumulator."""
    op.set_operands([*op.operands[:3], flag])
    op.attributes[SEGMENTS] = segments((1, 1, 1, 1))


def _optimize(op: Operation) -> None:
    accumulator = op.operands[2]
    if is_zero(accumulator):
        set_flag(op, OpBuilder(before=op).constant(False, I1))
        return
    loop = op.parent
    if loop is None or loop.name != "scf.for":
        return
    found = _find_zeroing(op, ForLoop(loop))
    if found is None:
        return
    zeroing, starts_with_zero = found
    if zeroing is None and not starts_with_zero:
        return
    _carry_flag(op, loop, zeroing, starts_with_zero)


def _find_zeroing(op: Operation, loop: ForLoop) -> tuple[Zeroing | None, bool] | None:
    """Where the accumulator of a product in a loop is zeroed, and whether it starts as zero."""
    accumulator = op.operands[2]
    starts_with_zero = False
    if isinstance(accumulator, BlockArgument):
        if accumulator.owner is not loop.body or accumulator.index == 0:
            return None
        starts_with_zero = is_zero(loop.init_of(accumulator))
        if accumulator.use_count != 1 and starts_with_zero:
            starts_with_zero = False
        accumulator = loop.yield_of(accumulator)
        if accumulator is op.results[0]:
            return None, starts_with_zero
    made = _zeroing_of(accumulator)
    if made is None or made.op.parent is not loop.op:
        return (None, False)
    return made, starts_with_zero


def _zeroing_of(value: Value) -> Zeroing | None:
    source = value.defining_op
    if source is None or value.use_count != 1:
        return None
    if source.name == "arith.select" and source.operands[0].type is I1:
        condition, taken, otherwise = source.operands
        return _one_zero(source, condition, taken, otherwise, value)
    if source.name == "scf.if" and source.regions[1].blocks:
        branches = IfBranches(source)
        index = value.index  # type: ignore[attr-defined]
        pair = branches.yields(True)[index], branches.yields(False)[index]
        if any(
            each.defining_op is not None and each.defining_op.is_inside(source)
            for each in pair
            if not is_zero(each)
        ):
            return None
        return _one_zero(source, branches.condition, *pair, value)
    return None


def _one_zero(
    op: Operation, condition: Value, taken: Value, otherwise: Value, result: Value
) -> Zeroing | None:
    if is_zero(taken) == is_zero(otherwise):
        return None
    zero_if_true = is_zero(taken)
    return Zeroing(op, condition, zero_if_true, otherwise if zero_if_true else taken, result)


def _carry_flag(
    op: Operation, loop: Operation, zeroing: Zeroing | None, starts_with_zero: bool
) -> None:
    """Carries the flag through the loop, and lets the accumulator be."""
    init = OpBuilder(before=loop).constant(not starts_with_zero, I1)
    flag: Value = add_iter_args(loop, [init])[0]
    last = loop.body.terminator
    place = len(last.operands) - 1
    if zeroing is None:
        set_flag(op, flag)
        last.set_operand(place, OpBuilder(before=op).constant(True, I1))
        return
    before = zeroing.op.is_before(op)
    build = OpBuilder(before=zeroing.op)
    previous = flag if before else build.constant(True, I1)
    stop = build.constant(False, I1)
    values = (stop, previous) if zeroing.zero_if_true else (previous, stop)
    chosen = build("arith.select", zeroing.condition, *values, type=I1)
    if before:
        set_flag(op, chosen)
        last.set_operand(place, OpBuilder(before=last).constant(True, I1))
    else:
        set_flag(op, flag)
        last.set_operand(place, chosen)
    zeroing.result.replace_uses(zeroing.kept)
