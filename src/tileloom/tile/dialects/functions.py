"""Functions, returns and calls: `tt.func`, and MLIR's own `func.func`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...base.errors import UserError
from ..ir.attributes import ArrayAttr, DictionaryAttr, StringAttr, SymbolRefAttr, TypeAttr
from ..ir.core import Block, Operation, Region
from ..ir.definitions import SYMBOL_RULE, Effect, Trait, define, definition_of
from ..ir.interning import Attribute
from ..ir.types import FunctionType, Type

if TYPE_CHECKING:
    from ..ir.parser import Draft, Parser
    from ..ir.show import OpWriter


def _parse_func(parser: Parser, draft: Draft) -> None:
    attributes = draft.attributes
    if parser.value in ("public", "private", "nested"):
        attributes["sym_visibility"] = StringAttr(parser.value)
        parser.advance()
    attributes["sym_name"] = StringAttr(parser.symbol())
    arguments, argument_attributes = _parse_arguments(parser)
    results = parser.result_type_list() if parser.accept("->") else []
    types = [type for _, type, _ in arguments]
    attributes["function_type"] = TypeAttr(FunctionType(types, results))
    if any(argument_attributes):
        attributes["arg_attrs"] = ArrayAttr([DictionaryAttr(d) for d in argument_attributes])
    if parser.accept("attributes"):
        attributes.update(parser.attribute_dictionary())
    named = all(name for name, _, _ in arguments)
    if parser.value == "{":
        draft.regions.append(parser.region(arguments if named else (), isolated=True))
    else:
        draft.regions.append(Region())


def _parse_arguments(
    parser: Parser,
) -> tuple[list[tuple[str, Type, int]], list[dict[str, Attribute]]]:
    arguments: list[tuple[str, Type, int]] = []
    attributes: list[dict[str, Attribute]] = []
    parser.expect("(")
    while not parser.accept(")"):
        place = parser.start
        name = ""
        if parser.kind == "value":
            name = parser.take("value", "the name of an argument")
            parser.expect(":")
        arguments.append((name, parser.type(), place))
        attributes.append(parser.attribute_dictionary() if parser.value == "{" else {})
        parser.skip_location()
        if parser.value != ")":
            parser.expect(",")
    return arguments, attributes


def _show_func(writer: OpWriter, op: Operation) -> None:
    visibility = op.attributes.get("sym_visibility")
    if isinstance(visibility, StringAttr):
        writer.item(visibility.value)
    type = function_type(op)
    entry = op.regions[0].entry
    parts = []
    for index, input_type in enumerate(type.inputs):
        name = f"{writer.value(entry.arguments[index])}: " if entry is not None else ""
        own = argument_attributes(op, index)
        parts.append(
            f"{name}{writer.type(input_type)}{f' {writer.dictionary(own)}' if own else ''}"
        )
    results = f" -> {writer.style.results(type.results)}" if type.results else ""
    name = writer.attribute(SymbolRefAttr(symbol_name(op)))
    writer.item(f"{name}({', '.join(parts)}){results}")
    shown = ("sym_name", "sym_visibility", "function_type", "arg_attrs", "res_attrs")
    others = {name: value for name, value in op.attributes.items() if name not in shown}
    if others:
        writer.item(f"attributes {writer.dictionary(others)}")
    if entry is not None:
        writer.region(op.regions[0])


def symbol_name(op: Operation) -> str:
    """The name of a function."""
    return op.attributes["sym_name"].value  # type: ignore[attr-defined,no-any-return]


def function_type(op: Operation) -> FunctionType:
    """The type of a function."""
    return op.attributes["function_type"].type  # type: ignore[attr-defined,no-any-return]


def argument_attributes(op: Operation, index: int) -> dict[str, Attribute]:
    """The attributes of an argument of a function."""
    found = op.attributes.get("arg_attrs")
    return {} if found is None else dict(found.elements[index].items)  # type: ignore[attr-defined]


def set_argument_attribute(op: Operation, index: int, name: str, value: Attribute) -> None:
    """Sets an attribute of an argument of a function."""
    count = len(function_type(op).inputs)
    own = [argument_attributes(op, i) for i in range(count)]
    own[index][name] = value
    op.attributes["arg_attrs"] = ArrayAttr([DictionaryAttr(d) for d in own])


def _verify_func(op: Operation) -> None:
    type, entry = function_type(op), op.regions[0].entry
    if entry is None:
        return
    if [argument.type for argument in entry.arguments] != list(type.inputs):
        raise UserError(f"'{op.name}' op entry block's arguments do not have the types of {type}")
    for block in op.regions[0].blocks:
        last = block.last
        if last is not None and last.name in ("tt.return", "func.return"):
            given = [value.type for value in last.operands]
            if given != list(type.results):
                raise UserError(
                    f"'{last.name}' op has {len(given)} operands, but enclosing function "
                    f"(@{symbol_name(op)}) returns {len(type.results)}"
                    if len(given) != len(type.results)
                    else f"'{last.name}' op gives {given[0]}, but @{symbol_name(op)} returns "
                    f"{type.results[0]}"
                )


for _prefix in ("tt", "func"):
    define(
        f"{_prefix}.func",
        regions="body",
        traits=(Trait.ISOLATED, Trait.SYMBOL),
        format=(_parse_func, _show_func),
        verify=_verify_func,
    )
    define(
        f"{_prefix}.return",
        "values*",
        traits=(Trait.TERMINATOR, Trait.PURE),
        format="attr-dict ($values^ `:` type($values))?",
    )
    define(
        f"{_prefix}.call",
        "args*",
        "results*",
        attributes={"callee": SYMBOL_RULE},
        effects=(Effect.READ, Effect.WRITE, Effect.OTHER),
        format="$callee `(` $args `)` attr-dict `:` functional-type(operands, results)",
    )


def callee_of(op: Operation) -> str:
    """The name of the function that a call calls."""
    return op.attributes["callee"].name  # type: ignore[attr-defined,no-any-return]


def make_function(
    name: str, inputs: Sequence[Type], results: Sequence[Type] = (), *, public: bool = True
) -> Operation:
    """A function with an empty entry block.

    >>> from tileloom.tile.ir.types import I32
    >>> op = make_function("f", [I32])
    >>> len(op.body.arguments), str(function_type(op))
    (1, '(i32) -> ()')
    """
    attributes: dict[str, Attribute] = {
        "sym_name": StringAttr(name),
        "function_type": TypeAttr(FunctionType(inputs, results)),
    }
    if public:
        attributes["sym_visibility"] = StringAttr("public")
    return Operation(definition_of("tt.func"), (), (), attributes, [Region([Block(inputs)])])
