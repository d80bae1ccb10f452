"""Text in: MLIR's syntax, both Triton's spellings (`triton_gpu` and `ttg`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ...base.errors import ParseError, UserError
from .attributes import (
    UNIT,
    EnumAttr,
    IntegerAttr,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
    constant_attribute,
)
from .core import Block, Operation, Region, Value
from .definitions import OpDefinition, Trait, definition_of, segments
from .interning import Attribute
from .parse_attributes import AttributeParser
from .slots import SEGMENTS, AttributeRule, Slot
from .source import SourceRange, SourceText
from .text import SPELLINGS, Spelling, canonical
from .types import I1, I32, I64, FunctionType, Type


@dataclass(frozen=True)
class ValueUse:
    """A use of a value in the text: `%name#number`."""

    name: str
    number: int
    start: int
    end: int


@dataclass
class Draft:
    """What has been read of an operation."""

    definition: OpDefinition
    operands: dict[str, list[ValueUse]] = field(default_factory=dict)
    operand_types: dict[str, list[Type]] = field(default_factory=dict)
    result_types: dict[str, list[Type]] = field(default_factory=dict)
    all_operand_types: list[Type] | None = None
    all_result_types: list[Type] | None = None
    values: list[Value] | None = None  # the operands, where the reader has resolved them
    attributes: dict[str, Attribute] = field(default_factory=dict)
    regions: list[Region] = field(default_factory=list)
    successors: list[Block] = field(default_factory=list)


def parse(text: str, filename: str = "<string>", first_line: int = 1) -> Operation:
    """The module of a text. Operations that are not in a module are put into one.

    Raises:
        ParseError: with the place in the text.

    >>> print(parse("tt.func @f(%x: i32) { tt.return }"))
    module {
      tt.func @f(%arg0: i32) {
        tt.return
      }
    }
    """
    return Parser(SourceText(text, filename, first_line)).module()


class Parser(AttributeParser):
    """Reads a module."""

    def __init__(self, source: SourceText) -> None:
        super().__init__(source)
        self.values: dict[str, tuple[Value, ...]] = {}
        self.defined: list[str] = []  # names in their order, to forget at a region's end
        self.forward: dict[tuple[str, int], tuple[Value, ValueUse]] = {}
        self.blocks: dict[str, Block] = {}
        self.label_places: dict[str, int] = {}
        self.spelling: Spelling = spelling_of(source.text)

    def module(self) -> Operation:
        """Everything, as one module."""
        ops: list[Operation] = []
        while self.kind != "end":
            if self.kind in ("alias", "number_alias"):
                self.alias_definition()
            elif self.accept("{-#"):
                break
            else:
                ops.append(self.operation())
        if len(ops) == 1 and ops[0].name == "builtin.module":
            made = ops[0]
        else:
            block = Block()
            for op in ops:
                block.append(op)
            region = Region([block])
            made = Operation(definition_of("builtin.module"), regions=[region])
        self.refuse_undefined()
        made.attributes["tileloom.spelling"] = StringAttr(self.spelling.name)
        return made

    # Operations.

    def operation(self) -> Operation:
        """One operation, and the names of its results."""
        start = self.start
        names = self.result_names()
        if self.kind == "string":
            op = self.generic_operation(start)
        else:
            op = self.custom_operation(start)
        self.skip_location()
        if names:
            self.name_results(op, names)
        return op

    def result_names(self) -> list[tuple[str, int, int]]:
        """`%a, %b:2 =`: names, numbers of results and places."""
        names: list[tuple[str, int, int]] = []
        if self.kind != "value":
            return names
        while True:
            place = self.start
            name = self.take("value", "a name of a value")
            count = 1
            if self.accept(":"):
                count = int(self.take("number", "the number of results"))
            names.append((name, count, place))
            if not self.accept(","):
                break
        self.expect("=")
        return names

    def name_results(self, op: Operation, names: Sequence[tuple[str, int, int]]) -> None:
        """Lets the names stand for the operation's results."""
        expected = sum(count for _, count, _ in names)
        if expected != len(op.results):
            raise self.error(
                f"operation defines {len(op.results)} results but was provided {expected} to bind",
                names[0][2],
                names[0][2] + len(names[0][0]),
            )
        first = 0
        for name, count, place in names:
            self.define(name, tuple(op.results[first : first + count]), place)
            first += count

    def define(self, name: str, values: tuple[Value, ...], place: int) -> None:
        """Lets a name stand for values, also where it was used before."""
        if name in self.values:
            raise self.error(f"redefinition of SSA value '{name}'", place, place + len(name))
        self.values[name] = values
        self.defined.append(name)
        for number, value in enumerate(values):
            value.name = name[1:]
            if not self.forward:
                continue
            waiting = self.forward.pop((name, number), None)
            if waiting is not None:
                placeholder, use = waiting
                if placeholder.type is not value.type:
                    raise self.type_error(use, placeholder.type, value.type)
                placeholder.replace_uses(value)

    def custom_operation(self, start: int) -> Operation:
        """An operation in its own syntax."""
        written = self.take("word", "an operation")
        definition = self.find_definition(written, start)
        if definition.format is None:
            raise self.error(
                f"custom op '{written}' is unknown or has only the generic syntax",
                start,
                start + len(written),
            )
        draft = Draft(definition)
        definition.format.parse(self, draft)
        return self.build(draft, start)

    def find_definition(self, written: str, start: int, quoted: bool = False) -> OpDefinition:
        """The definition of an operation as it is written."""
        name = _SHORT_NAMES.get(written) or canonical(written)
        definition = definition_of(name)
        if not definition.registered and "." not in name and not quoted:
            raise self.error(f"expected an operation, not '{written}'", start, start + len(written))
        return definition

    def generic_operation(self, start: int) -> Operation:
        """`"name"(operands)[successors] <{properties}> ({regions}) {attributes} : types`."""
        written = self.take("string", "an operation's name")[1:-1]
        draft = Draft(self.find_definition(written, start, quoted=True))
        self.expect("(")
        references = [] if self.value == ")" else self.value_names()
        self.expect(")")
        if self.accept("["):
            while not self.accept("]"):
                draft.successors.append(self.block_named(self.take("label", "a block's name")))
                self.accept(",")
        if self.accept("<"):
            draft.attributes.update(self.attribute_dictionary())
            self.expect(">")
        if self.accept("("):
            while not self.accept(")"):
                draft.regions.append(
                    self.region(isolated=Trait.ISOLATED in draft.definition.traits)
                )
                self.accept(",")
        if self.value == "{":
            draft.attributes.update(self.attribute_dictionary())
        self.expect(":")
        types = self.function_type()
        if len(types.inputs) != len(references):
            raise self.error(f"expected {len(references)} operand types, not {len(types.inputs)}")
        draft.values = [
            self.resolve(reference, type)
            for reference, type in zip(references, types.inputs, strict=True)
        ]
        draft.all_result_types = list(types.results)
        return self.build(draft, start)

    def build(self, draft: Draft, start: int) -> Operation:
        """The operation of a draft."""
        definition = draft.definition
        values = draft.values if draft.values is not None else self.operand_values(draft)
        attributes = self.tidy(draft.attributes, definition)
        if definition.has_segments and SEGMENTS not in attributes:
            sizes = (len(draft.operands.get(slot.name, ())) for slot in definition.operands)
            attributes[SEGMENTS] = segments(sizes)
        span = SourceRange(self.source, start, self.previous_end)
        try:
            types = self.result_types(draft, values, attributes)
        except ParseError:
            raise
        except UserError as error:
            raise ParseError(error.message, span=span.resolve()) from None
        return Operation(
            definition, values, types, attributes, draft.regions, draft.successors, span
        )

    def operand_values(self, draft: Draft) -> list[Value]:
        """The operands of a draft, in the order of the definition's slots."""
        slots = draft.definition.operands
        groups = [(slot, draft.operands.get(slot.name, [])) for slot in slots]
        if draft.all_operand_types is not None:
            references = [reference for _, group in groups for reference in group]
            types: Sequence[Type | None] = draft.all_operand_types
            if len(types) != len(references):
                raise self.error(f"expected {len(references)} operand types, not {len(types)}")
            return [self.resolve(*pair) for pair in zip(references, types, strict=True)]
        values: list[Value] = []
        for slot, group in groups:
            types = self.slot_types(draft, slot, len(group))
            values += [self.resolve(*pair) for pair in zip(group, types, strict=True)]
        return values

    def slot_types(self, draft: Draft, slot: Slot, count: int) -> Sequence[Type | None]:
        """The types that the text says of a slot's operands, where it says any."""
        written: Sequence[Type | None] | None = draft.operand_types.get(slot.name)
        if written is None and Trait.SAME_TYPE in draft.definition.traits:
            known = next(iter((*draft.result_types.values(), *draft.operand_types.values())), None)
            written = [known[0]] * count if known else None
        if written is None and Trait.SAME_OPERANDS in draft.definition.traits:
            written = list(next(iter(draft.operand_types.values()), ())) * count or None
        if written is None:
            return [None] * count
        if len(written) != count:
            raise self.error(f"expected {count} types, not {len(written)}")
        return written

    def result_types(
        self, draft: Draft, values: Sequence[Value], attributes: dict[str, Attribute]
    ) -> Sequence[Type]:
        """The types of the results, as written or as they follow from the operands."""
        if draft.all_result_types is not None:
            return draft.all_result_types
        definition = draft.definition
        if draft.result_types or not definition.results:
            written = list(draft.result_types.values())
            return [  # a type that is not written is the one that is
                type
                for slot in definition.results
                for type in draft.result_types.get(slot.name, written[0])
            ]
        types = [value.type for value in values]
        if definition.infer is not None:
            return definition.infer(types, attributes)
        if Trait.SAME_TYPE in definition.traits and types:
            return types[:1]
        return []

    def tidy(self, given: dict[str, Attribute], definition: OpDefinition) -> dict[str, Attribute]:
        """Attributes with our names of dialects, keywords for numbers, and no defaults."""
        made: dict[str, Attribute] = {}
        for written, value in given.items():
            name = canonical(written)
            rule = definition.attributes.get(name)
            if rule is not None:
                value = self.convert(value, rule, name)
                if value is None or value is rule.default:
                    continue
            made[name] = value
        return made

    def convert(self, value: Attribute, rule: AttributeRule, name: str) -> Any:
        """An attribute of the generic syntax as its rule says it."""
        if rule.kind == "enum" and isinstance(value, IntegerAttr):
            for word, number in rule.keywords.items():
                if number == value.value:
                    return EnumAttr("keyword", word)
            raise self.error(f"attribute '{name}' has no keyword for {value.value}")
        if rule.kind in ("enum", "flags") and not isinstance(value, EnumAttr):
            word = str(value).rpartition("<")[2].rstrip(">")
            return EnumAttr("keyword", word)
        if rule.kind == "unit" and isinstance(value, IntegerAttr):
            return UNIT if value.value else None
        if rule.kind == "bool" and isinstance(value, UnitAttr):
            return IntegerAttr(1, I1)
        return value

    # Values.

    def value_name(self) -> ValueUse:
        """A use of a value."""
        start = self.start
        name = self.take("value", "an SSA operand")
        number = 0
        if self.kind == "number_alias" and self.start == self.previous_end:
            number = int(self.value[1:])
            self.advance()
        return ValueUse(name, number, start, self.previous_end)

    def value_names(self) -> list[ValueUse]:
        """Uses of values, separated by commas; none if the next token is no value."""
        found: list[ValueUse] = []
        if self.kind != "value":
            return found
        found.append(self.value_name())
        while self.value == "," and self.accept(","):
            found.append(self.value_name())
        return found

    def resolve(self, use: ValueUse, type: Type | None = None) -> Value:
        """The value that a use is of; of one that is defined later, a placeholder."""
        known = self.values.get(use.name)
        if known is None:
            if type is None:
                raise self.error(
                    f"use of undeclared SSA value name '{use.name}'", use.start, use.end
                )
            placeholder = self.forward.setdefault((use.name, use.number), (Value(type), use))[0]
            return placeholder
        if use.number >= len(known):
            raise self.error(
                f"reference to invalid result number of {use.name}", use.start, use.end
            )
        value = known[use.number]
        if type is not None and value.type is not type:
            raise self.type_error(use, type, value.type)
        return value

    def type_error(self, use: ValueUse, expected: Type, found: Type) -> ParseError:
        """An error for a use of a value as if it had another type."""
        return self.error(
            f"use of value '{use.name}' expects different type than prior uses: "
            f"'{expected}' vs '{found}'",
            use.start,
            use.end,
        )

    def refuse_undefined(self) -> None:
        """Raises if a value was used and never defined."""
        for _, use in self.forward.values():
            raise self.undeclared(use)

    def undeclared(self, use: ValueUse) -> ParseError:
        """An error for a use of a value that is defined nowhere."""
        message = f"use of undeclared SSA value name '{use.name}'"
        return self.error(message, use.start, use.end)

    # Regions.

    def region(
        self, arguments: Sequence[tuple[str, Type, int]] = (), isolated: bool = False
    ) -> Region:
        """`{ blocks }`; the entry block has the arguments, if any are given."""
        outer = self.values, self.defined, self.forward, self.blocks
        self.blocks = {}
        if isolated:
            self.values, self.defined, self.forward = {}, [], {}
        kept = len(self.defined)
        self.expect("{")
        region = Region()
        if self.value == "}" and not arguments:
            self.advance()
        else:
            self.region_blocks(region, arguments)
        if isolated:
            self.refuse_undefined()
            self.values, self.defined, self.forward = outer[:3]
        else:
            for name in self.defined[kept:]:
                del self.values[name]
            del self.defined[kept:]
        self.blocks = outer[3]
        return region

    def region_blocks(self, region: Region, arguments: Sequence[tuple[str, Type, int]]) -> None:
        """The blocks up to the closing brace."""
        if arguments or self.kind != "label":
            entry = region.append(Block())
            for name, type, place in arguments:
                self.define(name, (entry.add_argument(type),), place)
            self.block_body(entry)
        while self.kind == "label":
            label = self.take("label", "a block's name")
            block = self.block_named(label)
            if block.region is not None:
                raise self.error(f"redefinition of block '{label}'")
            region.append(block)
            if self.accept("("):
                while not self.accept(")"):
                    name, type, place = self.argument()
                    self.define(name, (block.add_argument(type),), place)
                    self.accept(",")
            self.expect(":")
            self.block_body(block)
        self.expect("}")
        for label, block in self.blocks.items():
            if block.region is None:
                place = self.label_places[label]
                message = f"reference to an undefined block '{label}'"
                raise self.error(message, place, place + len(label))

    def block_body(self, block: Block) -> None:
        """The operations of a block."""
        while self.value != "}" and self.kind != "label":
            block.append(self.operation())

    def block_named(self, label: str) -> Block:
        """The block of a label, which may come later."""
        self.label_places[label] = self.previous_end - len(label)
        return self.blocks.setdefault(label, Block(name=label[1:]))

    def argument(self) -> tuple[str, Type, int]:
        """`%name: type`."""
        place = self.start
        name = self.take("value", "the name of an argument")
        self.expect(":")
        type = self.type()
        self.skip_location()
        return name, type, place

    # Attributes at fixed places.

    def attribute_of(self, rule: AttributeRule, name: str) -> Attribute:
        """An attribute that is written without its name."""
        match rule.kind:
            case "enum":
                word = self.value.strip('"')
                if word not in rule.keywords:
                    words = ", ".join(rule.keywords)
                    raise self.error(f"expected one of {words} for '{name}'")
                self.advance()
                return EnumAttr("keyword", word)
            case "i32" | "i64":
                return IntegerAttr(self.integer(), I32 if rule.kind == "i32" else I64)
            case "bool":
                return IntegerAttr(self.boolean(), I1)
            case "string":
                return StringAttr(self.string())
            case "symbol":
                return SymbolRefAttr(self.symbol())
        return self.attribute()

    def function_type(self) -> FunctionType:
        """`(types) -> types`."""
        self.expect("(")
        inputs = [] if self.value == ")" else self.types()
        self.expect(")")
        self.expect("->")
        return FunctionType(inputs, self.result_type_list())

    def result_type_list(self) -> list[Type]:
        """One type, or several in parentheses."""
        if not self.accept("("):
            return [self.type()]
        types = [] if self.value == ")" else self.types()
        self.expect(")")
        return types

    def constant(self, value: Any, type: Type) -> Attribute:
        """The attribute of a constant."""
        return constant_attribute(value, type)


_SHORT_NAMES = {
    "module": "builtin.module",
    "func": "func.func",
    "return": "func.return",
    "call": "func.call",
}


def spelling_of(text: str) -> Spelling:
    """The spelling a text uses, as far as one can see."""
    if "triton_gpu" not in text and "triton_nvidia_gpu" not in text:
        return SPELLINGS["3.3"]
    return SPELLINGS["3.2" if "!tt.memdesc" in text else "era"]
