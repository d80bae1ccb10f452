"""Text out: MLIR's syntax, with its names of values and its aliases of attributes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .attributes import EnumAttr, IntegerAttr, OpaqueAttr, StringAttr, attribute_dictionary
from .core import Block, BlockArgument, Operation, Region, Value
from .definitions import Trait
from .interning import Attribute, Immutable
from .slots import AttributeRule
from .text import CURRENT, SPELLINGS, Spelling, TextStyle
from .types import I1, I32, I64, FunctionType, IndexType, SharedMemory, Type

SPELLING = "tileloom.spelling"  # of a module that was read: how it is written again


def show(
    op: Operation,
    *,
    spelling: str | None = None,
    generic: bool = False,
    aliases: bool = True,
) -> str:
    """An operation, usually a module, as text.

    Args:
        spelling: `"3.2"`, `"era"` (the last of `triton_gpu`) or `"3.3"` (`ttg`); by default the
            one that the module was read in, or else the latest.
        generic: writes every operation in the generic syntax.
        aliases: gives layouts names before the module (`#blocked`).
    """
    style = spelling_for(op, spelling)
    named = Aliases(op, style) if aliases else None
    writer = OpWriter(TextStyle(style, named.names if named else {}), generic)
    writer.name_values(op)
    writer.operation(op)
    head = named.definitions() if named else ""
    return head + writer.text().strip("\n")


def spelling_for(op: Operation, name: str | None) -> Spelling:
    """The spelling of a name, or that of the module around an operation."""
    if name is not None:
        return SPELLINGS[name]
    outermost = list(op.ancestors())[-1]
    kept = outermost.attributes.get(SPELLING)
    return SPELLINGS[kept.value] if isinstance(kept, StringAttr) else CURRENT


class Aliases:
    """The names of attributes before a module: `#blocked`, `#blocked1`, `#shared`."""

    def __init__(self, op: Operation, spelling: Spelling) -> None:
        self.spelling = spelling
        self.names: dict[Attribute, str] = {}
        self.order: list[Attribute] = []
        self.counts: dict[str, int] = {}
        self.seen: set[Immutable] = set()
        for inner in op.walk():
            for attribute in inner.attributes.values():
                self.visit(attribute)
            for type in inner.result_types:
                self.visit(type)
            for region in inner.regions:
                for block in region.blocks:
                    for argument in block.arguments:
                        self.visit(argument.type)

    def visit(self, item: Any) -> None:
        """Names what is in a type or an attribute, inner ones first."""
        if not isinstance(item, Immutable) or item in self.seen:
            return
        self.seen.add(item)
        for field in item.fields:
            value = getattr(item, field)
            if isinstance(value, Immutable):
                self.visit(value)
            elif isinstance(value, tuple):
                for part in value:
                    self.visit(part[1] if isinstance(part, tuple) and len(part) == 2 else part)
        if isinstance(item, Attribute) and item.alias and not self.is_plain(item):
            number = self.counts.get(item.alias, 0)
            self.counts[item.alias] = number + 1
            self.names[item] = f"#{item.alias}{number or ''}"
            self.order.append(item)

    def is_plain(self, item: Attribute) -> bool:
        """Whether an attribute has no alias in this spelling, though it has one in others."""
        return isinstance(item, SharedMemory) and self.spelling.gpu != "ttg"

    def definitions(self) -> str:
        """The lines before the module."""
        style = TextStyle(self.spelling, self.names)
        return "".join(f"{self.names[item]} = {item.text(style)}\n" for item in self.order)


class OpWriter:
    """Writes operations; the elements of formats call its methods."""

    def __init__(self, style: TextStyle, generic: bool) -> None:
        self.style = style
        self.generic = generic
        self.parts: list[str] = []
        self.indent = ""
        self.names: dict[Value, str] = {}
        self.block_names: dict[Block, str] = {}
        self.tight = False  # no space before what comes next
        self.after_punctuation = False
        self.types: dict[Type, str] = {}

    def text(self) -> str:
        """All that was written."""
        return "".join(self.parts)

    def name_values(self, op: Operation) -> None:
        """Gives names to all values in an operation."""
        self.names = dict(_value_names(op))

    # What elements of formats write.

    def literal(self, text: str) -> None:
        """A keyword or punctuation, with the spaces that MLIR puts around it."""
        single = len(text) == 1 or text == "->"
        closing = ">)}]," if self.after_punctuation else "<>(){}[],"
        if not self.tight and not (single and text != "->" and text in closing):
            self.parts.append(" ")
        self.parts.append(text)
        self.tight = len(text) == 1 and text in "<({["
        self.after_punctuation = not (text[0] == "_" or text[0].isalpha())

    def item(self, text: str) -> None:
        """An operand, an attribute or a type."""
        if text:
            self.parts.append(text if self.tight else f" {text}")
        self.tight = False
        self.after_punctuation = False

    def raw(self, text: str) -> None:
        """Text as it is."""
        self.parts.append(text)

    def value(self, value: Value) -> str:
        """The name of a value."""
        return self.names.get(value) or "%<<unknown>>"

    def type(self, type: Type) -> str:
        """A type."""
        known = self.types.get(type)
        if known is None:
            known = self.types[type] = self.style.type(type)
        return known

    def attribute(self, attribute: Attribute) -> str:
        """An attribute."""
        return self.style.attribute(attribute)

    def bare_attribute(self, attribute: Attribute, rule: AttributeRule) -> str:
        """An attribute at a fixed place, where its type goes without saying."""
        if isinstance(attribute, IntegerAttr) and rule.kind in ("i32", "i64"):
            return str(attribute.value)
        return self.attribute(attribute)

    def dictionary(
        self, items: Mapping[str, Attribute], rules: Mapping[str, AttributeRule] | None = None
    ) -> str:
        """`{name = value}`; keywords become numbers, as in the generic syntax."""
        made = {}
        for name, value in items.items():
            rule = (rules or {}).get(name)
            if rule is not None and isinstance(value, EnumAttr):
                value = number_of_keyword(name, value, rule)
            if name != SPELLING:
                made[name] = value
        return attribute_dictionary(made, self.style)

    def block_name(self, block: Block) -> str:
        """The label of a block."""
        known = self.block_names.get(block)
        if known is None:
            region = block.region
            number = region.blocks.index(block) if region is not None else 0
            known = self.block_names[block] = f"^bb{number}"
        return known

    # Operations.

    def operation(self, op: Operation) -> None:
        """An operation on a line of its own."""
        self.raw(self.indent)
        if op.results:
            self.raw(f"{self.result_names(op)} = ")
        definition = op.definition
        if definition.format is None or self.generic:
            self.generic_operation(op)
        else:
            self.raw(_SHORT.get(op.name) or self.style.symbol(op.name))
            self.tight = self.after_punctuation = False
            definition.format.show(self, op)
        self.raw("\n")

    def result_names(self, op: Operation) -> str:
        """`%0`, `%0:2`, or `%low, %high`."""
        first = self.names.get(op.results[0], "%<<unknown>>")
        if op.name in _RESULT_NAMES:
            return ", ".join(map(self.value, op.results))
        if len(op.results) == 1:
            return first
        return f"{first.rpartition('#')[0]}:{len(op.results)}"

    def generic_operation(self, op: Operation) -> None:
        """An operation in the generic syntax."""
        operands = ", ".join(map(self.value, op.operands))
        self.raw(f'"{self.style.symbol(op.name)}"({operands})')
        if op.successors:
            self.raw(f"[{', '.join(map(self.block_name, op.successors))}]")
        rules = op.definition.attributes
        inherent = {n: v for n, v in op.attributes.items() if n in rules or n.endswith("Sizes")}
        inherent |= {
            name: rule.default
            for name, rule in rules.items()
            if rule.default is not None and name not in inherent
        }
        if inherent:
            self.raw(f" <{self.dictionary(inherent, rules)}>")
        if op.regions:
            self.raw(" (")
            for index, region in enumerate(op.regions):
                self.raw(", " if index else "")
                self.region_text(region, header=True)
            self.raw(")")
        others = {n: v for n, v in op.attributes.items() if n not in inherent and n != SPELLING}
        if others:
            self.raw(f" {self.dictionary(others)}")
        types = FunctionType([value.type for value in op.operands], op.result_types)
        self.raw(f" : {self.type(types)}")

    def region(self, region: Region, header: bool = False, terminator: bool = True) -> None:
        """A region after a space; see `region_text`."""
        self.raw(" ")
        self.region_text(region, header, terminator)
        self.tight = self.after_punctuation = False

    def region_text(self, region: Region, header: bool = False, terminator: bool = True) -> None:
        """A region in braces.

        Args:
            header: writes the label and arguments of the entry block.
            terminator: writes the terminator even where it goes without saying.
        """
        self.raw("{\n")
        outer = self.indent
        for index, block in enumerate(region.blocks):
            if index or (header and block.arguments):
                arguments = ", ".join(
                    f"{self.value(a)}: {self.type(a.type)}" for a in block.arguments
                )
                label = self.block_name(block)
                self.raw(f"{outer}{label}{f'({arguments})' if arguments else ''}:\n")
            self.indent = outer + "  "
            for op in block:
                if terminator or op is not block.last:
                    self.operation(op)
            self.indent = outer
        self.raw(f"{outer}}}")


_SHORT = {"builtin.module": "module", "func.return": "return", "func.call": "call"}
# The names that MLIR's definitions give to results.
_RESULT_NAMES = {
    "tt.split": ("outLHS", "outRHS"),
    "arith.addui_extended": ("sum", "overflow"),
    "arith.mulsi_extended": ("low", "high"),
    "arith.mului_extended": ("low", "high"),
}


def _value_names(root: Operation) -> Iterator[tuple[Value, str]]:
    """The names of all values in an operation: constants by their values, arguments and other
    results by numbers; values of inner regions after those of the regions around them."""
    counters = _Counters()
    scopes: list[tuple[Operation, _Counters]] = [(root, counters)]
    yield from counters.name_results(root)
    while scopes:
        op, counters = scopes.pop()
        isolated = Trait.ISOLATED in op.definition.traits
        for region in op.regions:
            inner = _Counters() if isolated else counters.copy()
            nested: list[Operation] = []
            for block in region.blocks:
                yield from inner.name_arguments(block, is_entry=block is region.blocks[0])
                for child in block:
                    yield from inner.name_results(child)
                    if child.regions:
                        nested.append(child)
            scopes += ((child, inner) for child in nested)


class _Counters:
    """The next numbers, and the names in use, of a region."""

    def __init__(self) -> None:
        self.values = self.arguments = self.conflicts = 0
        self.used: set[str] = set()

    def copy(self) -> _Counters:
        """The counters of a region within."""
        made = _Counters()
        made.values, made.arguments, made.conflicts = self.values, self.arguments, self.conflicts
        made.used = set(self.used)
        return made

    def unique(self, name: str) -> str:
        """The name, with a number if it is used."""
        made = name
        while made in self.used:
            made = f"{name}_{self.conflicts}"
            self.conflicts += 1
        self.used.add(made)
        return made

    def name_arguments(self, block: Block, is_entry: bool) -> Iterator[tuple[BlockArgument, str]]:
        """The names of a block's arguments."""
        for argument in block.arguments:
            if is_entry:
                yield argument, f"%{self.unique(f'arg{self.arguments}')}"
                self.arguments += 1
            else:
                yield argument, f"%{self.values}"
                self.values += 1

    def name_results(self, op: Operation) -> Iterator[tuple[Value, str]]:
        """The names of an operation's results."""
        if not op.results:
            return
        if Trait.CONSTANT in op.definition.traits:
            yield op.results[0], f"%{self.unique(constant_name(op))}"
            return
        named = _RESULT_NAMES.get(op.name)
        if named is not None:
            for result, name in zip(op.results, named, strict=True):
                yield result, f"%{self.unique(name)}"
            return
        number = self.values
        self.values += 1
        if len(op.results) == 1:
            yield op.results[0], f"%{number}"
            return
        for result in op.results:
            yield result, f"%{number}#{result.index}"


def constant_name(op: Operation) -> str:
    """`c5_i32`, `c0`, `true`, `cst`: MLIR's name of a constant."""
    value = op.attributes.get("value")
    if not isinstance(value, IntegerAttr):
        return "cst"
    if value.type is I1:
        return "true" if value.value else "false"
    if isinstance(value.type, IndexType):
        return f"c{value.value}"
    return f"c{value.value}_{value.type}"


def number_of_keyword(name: str, value: EnumAttr, rule: AttributeRule) -> Attribute:
    """A keyword as the generic syntax has it: a number, or flags by their name."""
    if rule.kind == "flags":
        kind = "fastmath" if name == "fastmath" else "overflow"
        return OpaqueAttr(f"#arith.{kind}<{value.value}>")
    return IntegerAttr(rule.keywords[value.value], I64 if name == "predicate" else I32)


def outline(op: Operation) -> str:
    """The name of an operation and its types, for messages.

    >>> from .parser import parse
    >>> outline(parse("tt.func @f() { tt.return }").body.first)
    'tt.func @f'
    """
    symbol = op.attributes.get("sym_name")
    name = f" @{symbol.value}" if isinstance(symbol, StringAttr) else ""
    return f"{op.name}{name}"


Operation.writer = show
