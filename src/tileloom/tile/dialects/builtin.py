"""Modules, casts that wait to be resolved, poison, and barriers of a thread block."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ir.attributes import DictionaryAttr, StringAttr
from ..ir.core import Block, Operation, Region
from ..ir.definitions import ANY_RULE, STRING_RULE, Effect, Trait, define, definition_of

if TYPE_CHECKING:
    from ..ir.parser import Draft, Parser
    from ..ir.show import OpWriter


def _parse_module(parser: Parser, draft: Draft) -> None:
    if parser.kind == "symbol":
        draft.attributes["sym_name"] = StringAttr(parser.symbol())
    if parser.accept("attributes"):
        draft.attributes.update(parser.attribute_dictionary())
    region = parser.region(isolated=True)
    if not region.blocks:
        region.append(Block())
    draft.regions.append(region)


def _show_module(writer: OpWriter, op: Operation) -> None:
    name = op.attributes.get("sym_name")
    if isinstance(name, StringAttr):
        writer.item(f"@{name.value}")
    others = {k: v for k, v in op.attributes.items() if k != "sym_name"}
    text = writer.dictionary(others)
    if text:
        writer.item(f"attributes {text}")
    writer.region(op.regions[0])


define(
    "builtin.module",
    regions="body",
    traits=(Trait.ISOLATED, Trait.NO_TERMINATOR, Trait.RECURSIVE_EFFECTS),
    attributes={"sym_name": STRING_RULE},
    format=(_parse_module, _show_module),
)
define(
    "builtin.unrealized_conversion_cast",
    "inputs*",
    "outputs*",
    traits=(Trait.PURE,),
    format="($inputs^ `:` type($inputs))? `to` type($outputs) attr-dict",
)
define(
    "ub.poison",
    results="result",
    traits=(Trait.PURE,),
    attributes={"value": ANY_RULE},
    format="attr-dict `:` type($result)",
)
define("gpu.barrier", effects=(Effect.OTHER,), format="attr-dict")


def make_module(attributes: DictionaryAttr | None = None) -> Operation:
    """An empty module."""
    items = dict(attributes.items) if attributes is not None else {}
    return Operation(definition_of("builtin.module"), (), (), items, [Region([Block()])])
