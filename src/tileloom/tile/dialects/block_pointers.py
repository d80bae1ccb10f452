"""Triton's pointers to whole blocks, and descriptors of tensors in global memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ir.core import Operation, Value
from ..ir.definitions import ANY_RULE, Effect, Trait, define, segments
from ..ir.slots import SEGMENTS
from ..ir.types import I32, I64, PointerType, Type, element_type, pointee
from .tt import ACCESS_CLAUSES, CACHE, EVICT

if TYPE_CHECKING:
    from ..ir.parser import Draft, Parser
    from ..ir.show import OpWriter


def _parse_bracketed(parser: Parser, type: Type) -> list[Value]:
    parser.expect("[")
    values: list[Value] = [parser.resolve(name, type) for name in parser.value_names()]
    parser.expect("]")
    return values


def _parse_block_pointer(parser: Parser, draft: Draft) -> None:
    base = parser.value_name()
    lists = []
    for type in (I64, I64, I32):
        parser.expect(",")
        lists.append(_parse_bracketed(parser, type))
    if parser.value == "{":
        draft.attributes.update(parser.attribute_dictionary())
    parser.expect(":")
    result = parser.bare_type("!tt.ptr")
    first = parser.resolve(base, PointerType(element_type(pointee(result))))
    draft.values = [first, *(value for group in lists for value in group)]
    draft.attributes[SEGMENTS] = segments((1, *map(len, lists)))
    draft.all_result_types = [result]


def _show_block_pointer(writer: OpWriter, op: Operation) -> None:
    groups = (op.operand_group(name) for name in ("shape", "strides", "offsets"))
    lists = ", ".join(f"[{', '.join(map(writer.value, group))}]" for group in groups)
    writer.item(f"{writer.value(op.operands[0])}, {lists}")
    writer.item(writer.dictionary({"order": op.attributes["order"]}))
    writer.literal(":")
    text = writer.type(op.results[0].type)
    writer.item(text[text.index("<") :])


define(
    "tt.make_tensor_ptr",
    "base shape* strides* offsets*",
    "result",
    attributes={"order": ANY_RULE},
    traits=(Trait.PURE,),
    format=(_parse_block_pointer, _show_block_pointer),
)
define(
    "tt.advance",
    "ptr offsets*",
    "result",
    traits=(Trait.PURE,),
    format="$ptr `,` `[` $offsets `]` attr-dict `:` bare($result, !tt.ptr)",
)


def _parse_descriptor(parser: Parser, draft: Draft) -> None:
    base = parser.value_name()
    parser.expect(",")
    shape = _parse_bracketed(parser, I32)
    parser.expect(",")
    strides = _parse_bracketed(parser, I64)
    if parser.value == "{":
        draft.attributes.update(parser.attribute_dictionary())
    parser.expect(":")
    of_tensor = parser.value == "<" and parser.text.startswith("tensor", parser.end)
    result = parser.bare_type("!tt.tensordesc" if of_tensor else "!tt.ptr")
    if isinstance(result, PointerType):  # later versions write the type of the base first
        parser.expect(",")
        result = parser.bare_type("!tt.tensordesc")
    element = result.block.element  # type: ignore[attr-defined]
    draft.values = [parser.resolve(base, PointerType(element)), *shape, *strides]
    draft.attributes[SEGMENTS] = segments((1, len(shape), len(strides)))
    draft.all_result_types = [result]


def _show_descriptor(writer: OpWriter, op: Operation) -> None:
    groups = (op.operand_group(name) for name in ("shape", "strides"))
    lists = ", ".join(f"[{', '.join(map(writer.value, group))}]" for group in groups)
    writer.item(f"{writer.value(op.operands[0])}, {lists}")
    writer.literal(":")
    text = writer.type(op.results[0].type)
    writer.item(text[text.index("<") :])


define(
    "tt.make_tensor_descriptor",
    "base shape* strides*",
    "result",
    traits=(Trait.PURE,),
    format=(_parse_descriptor, _show_descriptor),
)
for _name in ("experimental_descriptor_load", "descriptor_load"):
    define(
        f"tt.{_name}",
        "desc indices*",
        "result",
        attributes={"cache": CACHE, "evict": EVICT},
        effects=(Effect.READ,),
        format=f"$desc `[` $indices `]` {ACCESS_CLAUSES} attr-dict `:` type($desc) `->` "
        "type($result)",
    )
for _name in ("experimental_descriptor_store", "descriptor_store"):
    define(
        f"tt.{_name}",
        "desc src indices*",
        effects=(Effect.WRITE,),
        format="$desc `[` $indices `]` `,` $src attr-dict `:` type($desc) `,` type($src)",
    )
