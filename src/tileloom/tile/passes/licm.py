"""Loop-invariant code motion: what is the same in every iteration is computed before the loop."""

from __future__ import annotations

from ..ir.attributes import integer_value
from ..ir.core import Operation, Region
from ..ir.definitions import Trait
from ..ir.rewriter import constant_of, has_no_effects
from .registry import tile_pass

DIVISIONS = (
    *("arith.divsi", "arith.divui", "arith.ceildivsi", "arith.ceildivui", "arith.floordivsi"),
)


@tile_pass("loop-invariant-code-motion", "licm")
def loop_invariant_code_motion(module: Operation) -> None:
    """Moves operations without effects, whose operands are known outside, out of loops; inner
    loops come first. As in MLIR a division by an unknown number stays, and so does a branch; a
    remainder is moved."""
    for op in module.walk_inner_first():
        if Trait.LOOP in op.definition.traits:
            for region in op.regions:
                _move_invariants(op, region)


def _move_invariants(loop: Operation, region: Region) -> None:
    for block in region.blocks:
        for op in block.before_terminator():
            if may_run_early(op) and _is_invariant(op, region):
                op.move_before(loop)


def _is_invariant(op: Operation, region: Region) -> bool:
    """Whether nothing that an operation uses is defined in a region, but in itself."""
    return all(
        _is_outside(operand.block, region) or _is_within(operand.block, op)
        for inner in op.walk()
        for operand in inner.operands
    )


def _is_outside(block: object, region: Region) -> bool:
    around = block
    while around is not None:
        if around.region is region:  # type: ignore[attr-defined]
            return False
        parent = around.parent_op  # type: ignore[attr-defined]
        around = None if parent is None else parent.block
    return True


def _is_within(block: object, op: Operation) -> bool:
    parent = getattr(block, "parent_op", None)
    return parent is not None and parent.is_inside(op)


def may_run_early(op: Operation) -> bool:
    """Whether an operation may run where it did not: it has no effects and cannot fail."""
    if not has_no_effects(op):
        return False
    return all(_cannot_fail(inner) for inner in op.walk())


def _cannot_fail(op: Operation) -> bool:
    if op.name in DIVISIONS:
        divisor = integer_value(constant_of(op.operands[1]))
        return divisor is not None and divisor not in (0, -1)
    if op.name == "scf.for":  # it ends
        return integer_value(constant_of(op.operands[2])) == 1
    return op.name not in ("scf.while", "scf.if")
