"""Branches between the blocks of a region."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...base.errors import UserError
from ..ir.core import Block, Operation, Value
from ..ir.definitions import STRING_RULE, Effect, Trait, define, segments
from ..ir.slots import SEGMENTS
from ..ir.types import I1

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..ir.parser import Draft, Parser
    from ..ir.show import OpWriter


def _parse_target(parser: Parser, draft: Draft) -> list[Value]:
    draft.successors.append(parser.block_named(parser.take("label", "a block's name")))
    values: list[Value] = []
    if parser.accept("("):
        references = parser.value_names()
        parser.expect(":")
        types = parser.types()
        if len(types) != len(references):
            raise parser.error(f"expected {len(references)} types, not {len(types)}")
        values = [parser.resolve(*pair) for pair in zip(references, types, strict=True)]
        parser.expect(")")
    return values


def _parse_branch(parser: Parser, draft: Draft) -> None:
    draft.values = _parse_target(parser, draft)
    if parser.value == "{":
        draft.attributes.update(parser.attribute_dictionary())


def _parse_conditional(parser: Parser, draft: Draft) -> None:
    condition = parser.resolve(parser.value_name(), I1)
    parser.expect(",")
    taken = _parse_target(parser, draft)
    parser.expect(",")
    other = _parse_target(parser, draft)
    if parser.value == "{":
        draft.attributes.update(parser.attribute_dictionary())
    draft.values = [condition, *taken, *other]
    draft.attributes[SEGMENTS] = segments((1, len(taken), len(other)))


def _target(writer: OpWriter, block: Block, values: Sequence[Value]) -> str:
    text = writer.block_name(block)
    if values:
        types = ", ".join(writer.type(value.type) for value in values)
        text += f"({', '.join(map(writer.value, values))} : {types})"
    return text


def _others(writer: OpWriter, op: Operation) -> None:
    writer.item(writer.dictionary({k: v for k, v in op.attributes.items() if k != SEGMENTS}))


def _show_branch(writer: OpWriter, op: Operation) -> None:
    writer.item(_target(writer, op.successors[0], op.operands))
    _others(writer, op)


def _show_conditional(writer: OpWriter, op: Operation) -> None:
    taken, other = op.successors
    writer.item(f"{writer.value(op.operands[0])},")
    writer.item(f"{_target(writer, taken, op.operand_group('taken'))},")
    writer.item(_target(writer, other, op.operand_group("other")))
    _others(writer, op)


def block_operands(op: Operation, index: int) -> Sequence[Value]:
    """The values that a branch gives to the arguments of one of its successors."""
    if op.name == "cf.cond_br":
        return op.operand_group("other" if index else "taken")
    return op.operands


def _verify_branch(op: Operation) -> None:
    for index, block in enumerate(op.successors):
        given = [value.type for value in block_operands(op, index)]
        if given != [argument.type for argument in block.arguments]:
            raise UserError(
                f"'{op.name}' op gives a block {len(given)} values of other types or "
                f"number than its {len(block.arguments)} arguments"
            )


define(
    "cf.br",
    "operands*",
    traits=(Trait.TERMINATOR, Trait.PURE),
    format=(_parse_branch, _show_branch),
    verify=_verify_branch,
)
define(
    "cf.cond_br",
    "condition taken* other*",
    traits=(Trait.TERMINATOR, Trait.PURE),
    format=(_parse_conditional, _show_conditional),
    verify=_verify_branch,
)
define(
    "cf.assert",
    "condition",
    attributes={"msg": STRING_RULE},
    effects=(Effect.OTHER,),
    format="$condition `,` $msg attr-dict",
)
