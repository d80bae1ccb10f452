"""Which programs are legal: structure, dominance, and each operation's own rules."""

from __future__ import annotations

from collections.abc import Iterator

from ...base.errors import UserError, VerifyError
from .core import Block, Operation
from .definitions import Trait
from .dominance import Dominance
from .slots import SEGMENTS
from .types import TensorType


def verify(root: Operation) -> None:
    """Checks an operation and all in it.

    Raises:
        VerifyError: with the first fault found, and where it stands.
    """
    for error in faults(root):
        raise error


def faults(root: Operation) -> Iterator[VerifyError]:
    """All faults of an operation and of what is in it."""
    dominance = Dominance()
    for op in root.walk():
        message = _fault(op, dominance)
        if message is not None:
            yield VerifyError(message, span=op.describe_span())


def _fault(op: Operation, dominance: Dominance) -> str | None:
    try:
        if op.definition.is_terminator and op.next is not None:
            raise UserError(f"'{op.name}' op must be the last operation in the parent block")
        _check_counts(op)
        _check_traits(op)
        _check_regions(op)
        _check_operands(op, dominance)
        if op.definition.verify is not None:
            op.definition.verify(op)
    except UserError as error:
        return error.message
    return None


def _check_counts(op: Operation) -> None:
    definition = op.definition
    if not definition.registered:
        return
    sizes = definition.operand_sizes(op)
    if definition.has_segments and sum(sizes) != len(op.operands):
        raise UserError(
            f"'{op.name}' op {SEGMENTS} says {sum(sizes)} operands, but there are "
            f"{len(op.operands)}"
        )
    for slot, size in zip(definition.operands, sizes, strict=True):
        if size < 0 or (size != 1 and not slot.count) or (size > 1 and slot.count == "?"):
            raise UserError(f"'{op.name}' op has {size} operands '{slot.name}'")
    definition.result_sizes(op)
    for name, rule in definition.attributes.items():
        needed = not rule.optional and rule.default is None
        if needed and name not in op.attributes:
            raise UserError(f"'{op.name}' op requires attribute '{name}'")


def _check_traits(op: Operation) -> None:
    traits = op.definition.traits
    if not traits & _TYPED:
        return
    values = (*op.operands, *op.results)
    types = [value.type for value in values]
    if Trait.SAME_TYPE in traits and any(type is not types[0] for type in types):
        raise UserError(f"'{op.name}' op requires the same type for all operands and results")
    if Trait.SAME_OPERANDS in traits and len({value.type for value in op.operands}) > 1:
        raise UserError(f"'{op.name}' op requires all operands to have the same type")
    shaped = [type for type in types if isinstance(type, TensorType)]
    if Trait.SAME_SHAPE in traits and len({type.shape for type in shaped}) > 1:
        raise UserError(f"'{op.name}' op requires the same shape for all operands and results")
    if Trait.SAME_ENCODING in traits and len({type.encoding for type in shaped}) > 1:
        raise UserError(f"'{op.name}' op requires the same encoding for all operands and results")


_TYPED = frozenset((Trait.SAME_TYPE, Trait.SAME_OPERANDS, Trait.SAME_SHAPE, Trait.SAME_ENCODING))


def _check_regions(op: Operation) -> None:
    if not op.definition.registered or Trait.NO_TERMINATOR in op.definition.traits:
        return
    for region in op.regions:
        for block in region.blocks:
            _check_block(op, block)


def _check_block(op: Operation, block: Block) -> None:
    last = block.last
    if last is None or (last.definition.registered and not last.definition.is_terminator):
        raise UserError(f"'{op.name}' op has a block that does not end with a terminator")


def _check_operands(op: Operation, dominance: Dominance) -> None:
    if op.block is None:
        return
    reachable = op.block.region is None or op.block in dominance.immediate_dominators(
        op.block.region
    )
    for index, operand in enumerate(op.operands):
        if reachable and not dominance.value_dominates(operand, op):
            raise UserError(f"'{op.name}' op operand #{index} does not dominate this use")
