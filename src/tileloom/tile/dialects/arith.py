"""Arithmetic on integers and floats, elementwise on tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ...base.errors import UserError
from ..ir.attributes import DenseElementsAttr, EnumAttr, FloatAttr, IntegerAttr
from ..ir.core import Operation
from ..ir.definitions import ANY_RULE, Trait, define, keyword_rule
from ..ir.interning import Attribute
from ..ir.slots import AttributeRule
from ..ir.types import (
    I1,
    FloatType,
    ShapedType,
    TensorType,
    Type,
    element_bits,
    element_type,
    is_float,
    is_integer,
    with_element,
)

if TYPE_CHECKING:
    from ..ir.parser import Draft, Parser
    from ..ir.show import OpWriter

PURE = (Trait.PURE, Trait.ELEMENTWISE, Trait.SAME_SHAPE, Trait.SAME_ENCODING)
UNIFORM = (*PURE, Trait.SAME_TYPE)

INTEGER_PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
FLOAT_PREDICATES = (
    *("false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord"),
    *("ueq", "ugt", "uge", "ult", "ule", "une", "uno", "true"),
)
ROUNDING = keyword_rule("to_nearest_even", "downward", "upward", "toward_zero", "to_nearest_away")


NO_FLAGS = AttributeRule("flags", default=EnumAttr("keyword", "none"))


# Flags are written `fastmath<fast>`, `overflow<nsw, nuw>`.
def parse_flags(parser: Parser, draft: Draft) -> None:
    """Reads `fastmath<...>` or `overflow<...>`, if it is there."""
    for word, name in (("fastmath", "fastmath"), ("overflow", "overflowFlags")):
        if parser.value == word:
            parser.advance()
            text = parser.brackets()[1:-1]
            separator = "," if word == "fastmath" else ", "  # as MLIR writes them
            words = separator.join(text.replace(" ", "").split(","))
            draft.attributes[name] = EnumAttr("keyword", words)


def show_flags(writer: OpWriter, op: Operation) -> None:
    """Writes flags that are set."""
    for word, name in (("fastmath", "fastmath"), ("overflow", "overflowFlags")):
        value = op.enum(name) if name in op.attributes else None
        if value not in (None, "none"):
            writer.item(f"{word}<{value}>")


def show_others(writer: OpWriter, op: Operation) -> None:
    """Writes the attributes that the syntax has no place for."""
    rules = op.definition.attributes
    left = {name: value for name, value in op.attributes.items() if name not in rules}
    writer.item(writer.dictionary(left))


def _parse_uniform(parser: Parser, draft: Draft) -> None:
    references = parser.value_names()
    parse_flags(parser, draft)
    if parser.value == "{":
        draft.attributes.update(parser.attribute_dictionary())
    parser.expect(":")
    type = parser.type()
    slots = draft.definition.operands
    if len(references) != len(slots):
        raise parser.error(f"expected {len(slots)} operands, not {len(references)}")
    draft.values = [parser.resolve(reference, type) for reference in references]
    draft.all_result_types = [type]


def _show_uniform(writer: OpWriter, op: Operation) -> None:
    writer.item(", ".join(map(writer.value, op.operands)))
    show_flags(writer, op)
    show_others(writer, op)
    writer.literal(":")
    writer.item(writer.type(op.results[0].type))


UNIFORM_FORMAT = (_parse_uniform, _show_uniform)


def verify_integers(op: Operation) -> None:
    """Refuses what is no integer."""
    if not is_integer(op.results[0].type):
        raise UserError(
            f"'{op.name}' op operand #0 must be signless-integer-like, but got "
            f"'{op.results[0].type}'"
        )


def verify_floats(op: Operation) -> None:
    """Refuses what is no float."""
    if not is_float(op.results[0].type):
        raise UserError(
            f"'{op.name}' op operand #0 must be floating-point-like, but got '{op.results[0].type}'"
        )


COMMUTATIVE = ("addi", "muli", "andi", "ori", "xori", "maxsi", "maxui", "minsi", "minui")
WITH_OVERFLOW = ("addi", "subi", "muli", "shli")
for _name in (
    *("addi", "subi", "muli", "divsi", "divui", "remsi", "remui", "ceildivsi", "ceildivui"),
    *("floordivsi", "andi", "ori", "xori", "shli", "shrsi", "shrui"),
    *("maxsi", "maxui", "minsi", "minui"),
):
    define(
        f"arith.{_name}",
        "lhs rhs",
        "result",
        traits=(*UNIFORM, Trait.COMMUTATIVE) if _name in COMMUTATIVE else UNIFORM,
        attributes={"overflowFlags": NO_FLAGS} if _name in WITH_OVERFLOW else {},
        format=UNIFORM_FORMAT,
        verify=verify_integers,
    )
for _name in (
    *("addf", "subf", "mulf", "divf", "remf"),
    *("maximumf", "minimumf", "maxnumf", "minnumf"),
):
    define(
        f"arith.{_name}",
        "lhs rhs",
        "result",
        traits=UNIFORM if _name in ("subf", "divf", "remf") else (*UNIFORM, Trait.COMMUTATIVE),
        attributes={"fastmath": NO_FLAGS},
        format=UNIFORM_FORMAT,
        verify=verify_floats,
    )
define(
    "arith.negf",
    "operand",
    "result",
    traits=UNIFORM,
    attributes={"fastmath": NO_FLAGS},
    format=UNIFORM_FORMAT,
    verify=verify_floats,
)


# Constants.


def _parse_constant(parser: Parser, draft: Draft) -> None:
    if parser.value == "{":
        draft.attributes.update(parser.attribute_dictionary())
    value = parser.attribute()
    draft.attributes["value"] = value
    draft.all_result_types = [value.type]  # type: ignore[attr-defined]


def _show_constant(writer: OpWriter, op: Operation) -> None:
    show_others(writer, op)
    writer.item(writer.attribute(op.attributes["value"]))


def _verify_constant(op: Operation) -> None:
    value = op.attributes.get("value")
    type = op.results[0].type
    if not isinstance(value, IntegerAttr | FloatAttr | DenseElementsAttr):
        raise UserError("'arith.constant' op requires an integer, a float or dense elements")
    if value.type is not type:
        raise UserError(f"'arith.constant' op of type {value.type} has a result of type {type}")


define(
    "arith.constant",
    results="result",
    traits=(Trait.PURE, Trait.CONSTANT),
    attributes={"value": ANY_RULE},
    format=(_parse_constant, _show_constant),
    verify=_verify_constant,
)


# Comparisons and selection.


def _truth(types: Sequence[Type], _attributes: Mapping[str, Attribute]) -> Sequence[Type]:
    return (with_element(types[0], I1),)


def _parse_compare(parser: Parser, draft: Draft) -> None:
    draft.attributes["predicate"] = parser.attribute_of(
        draft.definition.attributes["predicate"], "predicate"
    )
    parser.expect(",")
    references = parser.value_names()
    parse_flags(parser, draft)
    if parser.value == "{":
        draft.attributes.update(parser.attribute_dictionary())
    parser.expect(":")
    type = parser.type()
    draft.values = [parser.resolve(reference, type) for reference in references]


def _show_compare(writer: OpWriter, op: Operation) -> None:
    writer.item(f"{op.enum('predicate')},")
    writer.item(", ".join(map(writer.value, op.operands)))
    show_flags(writer, op)
    show_others(writer, op)
    writer.literal(":")
    writer.item(writer.type(op.operands[0].type))


for _name, _words in (("cmpi", INTEGER_PREDICATES), ("cmpf", FLOAT_PREDICATES)):
    define(
        f"arith.{_name}",
        "lhs rhs",
        "result",
        traits=PURE,
        attributes={
            "predicate": keyword_rule(*_words),
            **({"fastmath": NO_FLAGS} if _name == "cmpf" else {}),
        },
        format=(_parse_compare, _show_compare),
        infer=_truth,
    )


def _parse_select(parser: Parser, draft: Draft) -> None:
    references = parser.value_names()
    if len(references) != 3:
        raise parser.error(f"expected 3 operands, not {len(references)}")
    if parser.value == "{":
        draft.attributes.update(parser.attribute_dictionary())
    parser.expect(":")
    types = parser.types()
    condition = types[0] if len(types) == 2 else I1
    draft.values = [
        parser.resolve(reference, type)
        for reference, type in zip(references, (condition, types[-1], types[-1]), strict=True)
    ]
    draft.all_result_types = [types[-1]]


def _show_select(writer: OpWriter, op: Operation) -> None:
    writer.item(", ".join(map(writer.value, op.operands)))
    show_others(writer, op)
    writer.literal(":")
    condition = op.operands[0].type
    type = writer.type(op.results[0].type)
    writer.item(type if condition is I1 else f"{writer.type(condition)}, {type}")


def _verify_select(op: Operation) -> None:
    condition, first, second = (operand.type for operand in op.operands)
    if first is not second or op.results[0].type is not first:
        raise UserError(
            "'arith.select' op failed to verify that all of {true_value, "
            "false_value, result} have same type"
        )
    if condition is not I1 and (
        not isinstance(condition, TensorType)
        or condition.element is not I1
        or not isinstance(first, TensorType)
        or condition.shape != first.shape
    ):
        raise UserError(f"'arith.select' op has a condition of type {condition} for {first}")


define(
    "arith.select",
    "condition true_value false_value",
    "result",
    traits=(Trait.PURE, Trait.ELEMENTWISE, Trait.SAME_ENCODING),
    format=(_parse_select, _show_select),
    verify=_verify_select,
    infer=lambda types, _attributes: (types[1],),
)


# Casts.


def _parse_cast(parser: Parser, draft: Draft) -> None:
    reference = parser.value_name()
    if "roundingmode" in draft.definition.attributes and parser.value in ROUNDING.keywords:
        draft.attributes["roundingmode"] = parser.attribute_of(ROUNDING, "roundingmode")
    parse_flags(parser, draft)
    if parser.value == "{":
        draft.attributes.update(parser.attribute_dictionary())
    parser.expect(":")
    draft.values = [parser.resolve(reference, parser.type())]
    parser.expect("to")
    draft.all_result_types = [parser.type()]


def _show_cast(writer: OpWriter, op: Operation) -> None:
    writer.item(writer.value(op.operands[0]))
    rounding = op.enum("roundingmode") if "roundingmode" in op.attributes else None
    if rounding:
        writer.item(rounding)
    show_flags(writer, op)
    show_others(writer, op)
    writer.literal(":")
    writer.item(writer.type(op.operands[0].type))
    writer.item("to")
    writer.item(writer.type(op.results[0].type))


def _verify_cast(op: Operation) -> None:
    source, result = op.operands[0].type, op.results[0].type
    same = isinstance(source, ShapedType) == isinstance(result, ShapedType)
    if same and isinstance(source, ShapedType) and isinstance(result, ShapedType):
        same = source.shape == result.shape
    if not same:
        raise UserError(
            f"'{op.name}' op operand type '{source}' and result type '{result}' are cast "
            "incompatible"
        )
    narrower = element_bits(source) < element_bits(result)
    kind = op.name.removeprefix("arith.")
    if kind in ("extsi", "extui", "extf") and not narrower:
        raise UserError(
            f"'{op.name}' op result type {result} must be wider than operand type {source}"
        )
    if kind in ("trunci", "truncf") and element_bits(source) <= element_bits(result):
        raise UserError(
            f"'{op.name}' op result type {result} must be shorter than operand type {source}"
        )
    if kind == "bitcast" and element_bits(source) != element_bits(result):
        raise UserError(
            f"'{op.name}' op operand type '{source}' and result type '{result}' are "
            "cast incompatible"
        )


for _name in (
    *("extsi", "extui", "trunci", "extf", "truncf", "sitofp", "uitofp", "fptosi", "fptoui"),
    *("index_cast", "index_castui", "bitcast"),
):
    define(
        f"arith.{_name}",
        "in",
        "out",
        traits=PURE,
        attributes={
            **({"roundingmode": ROUNDING} if _name == "truncf" else {}),
            **({"fastmath": AttributeRule("flags")} if _name in ("extf", "truncf") else {}),
        },
        format=(_parse_cast, _show_cast),
        verify=_verify_cast,
    )

for _name, _results in (
    ("addui_extended", "sum overflow"),
    ("mulsi_extended", "low high"),
    ("mului_extended", "low high"),
):
    define(
        f"arith.{_name}",
        "lhs rhs",
        _results,
        traits=PURE,
        format=(
            "$lhs `,` $rhs attr-dict `:` type($sum) `,` type($overflow)"
            if _name == "addui_extended"
            else "$lhs `,` $rhs attr-dict `:` type($low)"
        ),
        infer=lambda types, _attributes: (types[0], types[0]),
    )


def float_type(type: Type) -> FloatType:
    """The format of a float, or of the floats of a tensor."""
    element = element_type(type)
    if not isinstance(element, FloatType):
        raise UserError(f"{type} has no floats")
    return element
