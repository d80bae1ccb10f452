"""Declarative formats: one line says how an operation is written, and so how it is read.

    format  ::= element*
    element ::= `literal` | $name | type($name) | bare($name, !prefix) | type(operands)
              | attr-dict | attr-dict-with-keyword | functional-type(operands, results)
              | old($name, !prefix)            a type that spellings before `ttg` have no prefix of
              | ( elements )?                  an optional group; `^` marks what decides it
              | oilist( `kw` elements | ... )  clauses in any order

`$name` is an operand, an attribute or a region; `bare` is a type without its prefix, as in
`<f32>` for `!tt.ptr<f32>`. The notation is near that of MLIR's operation definitions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...base.errors import InternalError
from .attributes import UNIT
from .slots import SEGMENTS, AttributeRule, Slot
from .types import FunctionType

if TYPE_CHECKING:
    from .core import Operation
    from .parser import Draft, Parser
    from .show import OpWriter


class FormatElement:
    """A part of a format."""

    def parse(self, parser: Parser, draft: Draft) -> None:
        """Reads the part into the draft."""
        raise NotImplementedError

    def try_parse(self, parser: Parser, draft: Draft) -> bool:
        """Reads the part if it is there."""
        raise InternalError(f"{type(self).__name__} cannot begin an optional group")

    def show(self, writer: OpWriter, op: Operation) -> None:
        """Writes the part."""
        raise NotImplementedError

    def is_present(self, op: Operation) -> bool:
        """Whether an optional group around the part is written."""
        return True


@dataclass
class Literal(FormatElement):
    """A keyword or punctuation."""

    text: str

    def parse(self, parser: Parser, draft: Draft) -> None:
        parser.expect(self.text)

    def try_parse(self, parser: Parser, draft: Draft) -> bool:
        return parser.accept(self.text)

    def show(self, writer: OpWriter, op: Operation) -> None:
        writer.literal(self.text)

    def is_present(self, op: Operation) -> bool:
        return False  # a word that may be left out is left out


# The names of the next operation's results, where operands may be left out.
_NEXT_RESULTS = re.compile(r"%[\w$.-]+(?::\d+)?(?:\s*,\s*%[\w$.-]+(?::\d+)?)*\s*=")


@dataclass
class OperandElement(FormatElement):
    """The operands of a slot."""

    slot: Slot

    def parse(self, parser: Parser, draft: Draft) -> None:
        any_number = self.slot.count == "*" and not _NEXT_RESULTS.match(parser.text, parser.start)
        names = parser.value_names() if any_number else []
        if not self.slot.count or (self.slot.count == "?" and parser.kind == "value"):
            names = [parser.value_name()]
        draft.operands[self.slot.name] = names

    def try_parse(self, parser: Parser, draft: Draft) -> bool:
        if parser.kind != "value":
            return False
        self.parse(parser, draft)
        return True

    def show(self, writer: OpWriter, op: Operation) -> None:
        group = op.operand_group(self.slot.name)
        if group:
            writer.item(", ".join(map(writer.value, group)))

    def is_present(self, op: Operation) -> bool:
        return bool(op.operand_group(self.slot.name))


@dataclass
class AttributeElement(FormatElement):
    """An attribute at a fixed place."""

    name: str
    rule: AttributeRule

    def parse(self, parser: Parser, draft: Draft) -> None:
        if self.rule.kind == "unit":
            draft.attributes[self.name] = UNIT
        else:
            draft.attributes[self.name] = parser.attribute_of(self.rule, self.name)

    def try_parse(self, parser: Parser, draft: Draft) -> bool:
        if self.rule.kind == "enum" and parser.value not in self.rule.keywords:
            return False
        self.parse(parser, draft)
        return True

    def show(self, writer: OpWriter, op: Operation) -> None:
        if self.rule.kind != "unit":
            value = op.attributes.get(self.name, self.rule.default)
            if value is not None:
                writer.item(writer.bare_attribute(value, self.rule))

    def is_present(self, op: Operation) -> bool:
        value = op.attributes.get(self.name)
        return value is not None and value is not self.rule.default


@dataclass
class TypeElement(FormatElement):
    """The types of a slot's operands or results."""

    slot: Slot
    of_results: bool
    prefix: str = ""  # what is not written of the type
    only_old: bool = False  # the prefix is not written in spellings before `ttg` alone

    def parse(self, parser: Parser, draft: Draft) -> None:
        if self.prefix:
            types = [parser.bare_type(self.prefix)]
        else:
            types = parser.types() if self.slot.count == "*" else [parser.type()]
        target = draft.result_types if self.of_results else draft.operand_types
        target[self.slot.name] = types

    def show(self, writer: OpWriter, op: Operation) -> None:
        if self.of_results:
            first = op.definition.results.index(self.slot)
            sizes = op.definition.result_sizes(op)
            start = sum(sizes[:first])
            values: Sequence[Any] = op.results[start : start + sizes[first]]
        else:
            values = op.operand_group(self.slot.name)
        if values:
            texts = [writer.type(value.type) for value in values]
            if self.prefix and not (self.only_old and writer.style.spelling.gpu == "ttg"):
                texts = [text[text.index("<") :] for text in texts]
            writer.item(", ".join(texts))

    def is_present(self, op: Operation) -> bool:
        return bool(op.results if self.of_results else op.operand_group(self.slot.name))


@dataclass
class AllOperandTypes(FormatElement):
    """The types of all operands."""

    def parse(self, parser: Parser, draft: Draft) -> None:
        draft.all_operand_types = parser.types()

    def show(self, writer: OpWriter, op: Operation) -> None:
        if op.operands:
            writer.item(", ".join(writer.type(value.type) for value in op.operands))


@dataclass
class FunctionalType(FormatElement):
    """`(operand types) -> result types`."""

    def parse(self, parser: Parser, draft: Draft) -> None:
        written = parser.function_type()
        draft.all_operand_types = list(written.inputs)
        draft.all_result_types = list(written.results)

    def show(self, writer: OpWriter, op: Operation) -> None:
        types = FunctionType([value.type for value in op.operands], op.result_types)
        writer.item(writer.type(types))


@dataclass
class AttributeDictionary(FormatElement):
    """The attributes that have no place of their own."""

    placed: frozenset[str]
    keyword: bool

    def parse(self, parser: Parser, draft: Draft) -> None:
        if self.keyword:
            if not parser.accept("attributes"):
                return
            draft.attributes.update(parser.attribute_dictionary())
        elif parser.value == "{":
            draft.attributes.update(parser.attribute_dictionary())

    def show(self, writer: OpWriter, op: Operation) -> None:
        rules = op.definition.attributes
        left = {
            name: value
            for name, value in op.attributes.items()
            if name not in self.placed and not (name in rules and value is rules[name].default)
        }
        if left:
            if self.keyword:
                writer.literal("attributes")
            writer.item(writer.dictionary(left, rules))


@dataclass
class RegionElement(FormatElement):
    """A region in braces."""

    slot: Slot

    def parse(self, parser: Parser, draft: Draft) -> None:
        draft.regions.append(parser.region())

    def show(self, writer: OpWriter, op: Operation) -> None:
        index = op.definition.regions.index(self.slot)
        writer.region(op.regions[index])


@dataclass
class OptionalGroup(FormatElement):
    """Elements that are written, or left out, together."""

    elements: Sequence[FormatElement]
    anchor: FormatElement

    def parse(self, parser: Parser, draft: Draft) -> None:
        first, *others = self.elements
        if first.try_parse(parser, draft):
            for element in others:
                element.parse(parser, draft)

    def show(self, writer: OpWriter, op: Operation) -> None:
        if self.anchor.is_present(op):
            for element in self.elements:
                element.show(writer, op)


@dataclass
class ClauseList(FormatElement):
    """Clauses that begin with a keyword, in any order, each once or not at all."""

    clauses: Mapping[str, Sequence[FormatElement]]

    def parse(self, parser: Parser, draft: Draft) -> None:
        while parser.value in self.clauses:
            word = parser.value
            parser.advance()
            for element in self.clauses[word]:
                element.parse(parser, draft)

    def show(self, writer: OpWriter, op: Operation) -> None:
        for word, elements in self.clauses.items():
            if any(element.is_present(op) for element in elements):
                writer.literal(word)
                for element in elements:
                    element.show(writer, op)


@dataclass
class Format:
    """How an operation is read and written after its name."""

    parse: Callable[[Parser, Draft], Any]
    show: Callable[[OpWriter, Operation], Any]
    elements: Sequence[FormatElement] = field(default=())


_TOKENS = re.compile(
    r"\s*(?:`(?P<literal>[^`]*)`|\$(?P<name>\w+)"
    r"|(?P<kind>bare|old)\(\$(?P<bare>\w+), (?P<prefix>![\w.]+)\)"
    r"|type\(\$(?P<type>\w+)\)|(?P<word>type\(operands\)|attr-dict-with-keyword|attr-dict"
    r"|functional-type\(operands, results\)|oilist\(|\(|\)\?|\)|\^|\|))"
)


def compile_format(
    format: str | tuple[Callable[..., Any], Callable[..., Any]],
    operands: Sequence[Slot],
    results: Sequence[Slot],
    regions: Sequence[Slot],
    rules: Mapping[str, AttributeRule],
) -> Format:
    """A format from its notation, or from a function that reads and one that writes."""
    if not isinstance(format, str):
        return Format(*format)
    reader = _FormatReader(format, operands, results, regions, rules)
    elements = reader.elements(())

    def parse(parser: Parser, draft: Draft) -> None:
        for element in elements:
            element.parse(parser, draft)

    def show(writer: OpWriter, op: Operation) -> None:
        for element in elements:
            element.show(writer, op)

    return Format(parse, show, elements)


class _FormatReader:
    """Reads the notation of a format."""

    def __init__(
        self,
        text: str,
        operands: Sequence[Slot],
        results: Sequence[Slot],
        regions: Sequence[Slot],
        rules: Mapping[str, AttributeRule],
    ) -> None:
        self.tokens = [match.groupdict() for match in _TOKENS.finditer(text)]
        if "".join(m.group(0) for m in _TOKENS.finditer(text)).strip() != text.strip():
            raise InternalError(f"not a format: {text}")
        self.at = 0
        self.operands = {slot.name: slot for slot in operands}
        self.results = {slot.name: slot for slot in results}
        self.regions = {slot.name: slot for slot in regions}
        self.rules = rules
        names = (token["name"] for token in self.tokens)
        self.placed = frozenset(name for name in names if name in rules) | {SEGMENTS}

    def elements(self, ends: Sequence[str]) -> list[FormatElement]:
        """Elements up to one of the words that end them."""
        found: list[FormatElement] = []
        while self.at < len(self.tokens):
            if self.tokens[self.at]["word"] in ends:
                return found
            found.append(self.element())
        return found

    def element(self) -> FormatElement:
        token = self.tokens[self.at]
        self.at += 1
        if token["literal"] is not None:
            return Literal(token["literal"])
        if token["name"]:
            return self.named(token["name"])
        name = token["type"] or token["bare"]
        if name:
            of_results = name in self.results
            slot = self.results[name] if of_results else self.operands[name]
            return TypeElement(slot, of_results, token["prefix"] or "", token["kind"] == "old")
        match token["word"]:
            case "attr-dict" | "attr-dict-with-keyword" as word:
                return AttributeDictionary(self.placed, word != "attr-dict")
            case "type(operands)":
                return AllOperandTypes()
            case "oilist(":
                return self.clause_list()
            case "(":
                return self.group()
        return FunctionalType()

    def named(self, name: str) -> FormatElement:
        if name in self.operands:
            return OperandElement(self.operands[name])
        if name in self.regions:
            return RegionElement(self.regions[name])
        return AttributeElement(name, self.rules[name])

    def group(self) -> FormatElement:
        found: list[FormatElement] = []
        anchor: FormatElement | None = None
        while self.tokens[self.at]["word"] != ")?":
            if self.tokens[self.at]["word"] == "^":
                anchor = found[-1]
                self.at += 1
            else:
                found.append(self.element())
        self.at += 1
        return OptionalGroup(found, anchor or found[0])

    def clause_list(self) -> FormatElement:
        clauses: dict[str, Sequence[FormatElement]] = {}
        while True:
            word = self.tokens[self.at]["literal"]
            self.at += 1
            clauses[word] = self.elements(("|", ")"))
            self.at += 1
            if self.tokens[self.at - 1]["word"] == ")":
                return ClauseList(clauses)
