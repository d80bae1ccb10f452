"""Text in: types, attributes and aliases."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ...base.errors import ParseError, UserError
from . import types as t
from .attributes import (
    UNIT,
    ArrayAttr,
    DenseArrayAttr,
    DenseElementsAttr,
    DictionaryAttr,
    EnumAttr,
    FloatAttr,
    IntegerAttr,
    OpaqueAttr,
    StringAttr,
    SymbolRefAttr,
    TypeAttr,
    float_of_bits,
)
from .interning import Attribute
from .source import Scanner, SourceText
from .text import canonical
from .types import F64, I1, I64, FloatType, FunctionType, IntegerType, ShapedType, Type

# Readers of attributes, by our spelling of their names: `ttg.blocked`.
ATTRIBUTES: dict[str, Callable[[AttributeParser], Attribute]] = {}
_SCALARS: dict[str, Type] = {
    **{name: FloatType(name) for name in t.FLOATS},
    "index": t.INDEX,
    "none": t.NoneType(),
}
_INTEGER = re.compile(r"(s|u)?i(\d+)")
_DIMS = re.compile(r"\s*((?:\?x|\d+x)*)\s*")
_ALLOCATED = re.compile(r"\d*(?:x\d+)*")
_PREFIXED = {
    "!tt.memdesc": "!ttg.memdesc",
    "!triton_gpu.memdesc": "!ttg.memdesc",
    "!triton_gpu.async.token": "!ttg.async.token",
}


class AttributeParser(Scanner):
    """Reads types and attributes."""

    def __init__(self, source: SourceText) -> None:
        super().__init__(source)
        self.attribute_aliases: dict[str, Attribute] = {}
        self.type_aliases: dict[str, Type] = {}
        self.known_types: dict[str, Type] = {}  # by their text

    def alias_definition(self) -> None:
        """`#name = attribute` or `!name = type`."""
        name = self.value
        self.advance()
        if self.value == "loc" or name.startswith("#loc"):
            self.expect("=")
            self.skip_location()
            return
        self.expect("=")
        if name.startswith("!"):
            self.type_aliases[name] = self.type()
        else:
            self.attribute_aliases[name] = self.attribute()

    def skip_location(self) -> None:
        """Goes past `loc(...)`, if there is one."""
        if self.value != "loc":
            return
        self.advance()
        self.expect("(")
        depth = 1
        while depth:
            if self.kind == "end":
                raise self.error("expected ')'")
            depth += {"(": 1, ")": -1}.get(self.value, 0) if self.kind == "punctuation" else 0
            self.advance()

    # Types.

    def type(self) -> Type:
        """A type."""
        start, word = self.start, self.value
        known = self.known_types.get(word)
        if known is not None:
            self.advance()
            return known
        if self.kind == "alias" or word in ("tensor", "vector", "memref", "tuple"):
            return self.dialect_type(word, start)
        if word == "(":
            return self.type_of_function()
        made = _SCALARS.get(word)
        if made is None:
            match = _INTEGER.fullmatch(word)
            if match is None:
                raise self.error("expected a type")
            made = IntegerType(int(match.group(2)), match.group(1) or "")
        self.known_types[word] = made
        self.advance()
        return made

    def dialect_type(self, word: str, start: int) -> Type:
        """A type with brackets, looked up by its text first."""
        if word in self.type_aliases:
            self.advance()
            return self.type_aliases[word]
        self.advance()
        if self.value != "<":
            return self.type_named(word, start)
        mark = self.start
        text = word + self.brackets()
        known = self.known_types.get(text)
        if known is None:
            after = self.end if self.kind != "end" else len(self.text)
            resume = self.start
            self.restart(mark)
            known = self.known_types[text] = self.type_named(word, start)
            if self.start != resume:
                raise self.error("expected the end of the type", self.start, after)
        return known

    def bare_type(self, prefix: str) -> Type:
        """A type whose prefix may be left out: `<f32>` for `!tt.ptr<f32>`."""
        if self.value != "<":
            return self.type()
        return self.type_named(prefix, self.start)

    def types(self) -> list[Type]:
        """Types, separated by commas."""
        found = [self.type()]
        while self.accept(","):
            found.append(self.type())
        return found

    def type_of_function(self) -> Type:
        """`(types) -> types`."""
        self.expect("(")
        inputs = [] if self.value == ")" else self.types()
        self.expect(")")
        self.expect("->")
        if not self.accept("("):
            return FunctionType(inputs, [self.type()])
        results = [] if self.value == ")" else self.types()
        self.expect(")")
        return FunctionType(inputs, results)

    def type_named(self, word: str, start: int) -> Type:
        """The type of a name, from the brackets on."""
        match _PREFIXED.get(word, word):
            case "tensor":
                return self.tensor_type()
            case "!tt.ptr":
                return self.pointer_type()
            case "!ttg.memdesc":
                return self.memory_type()
            case "!ttg.async.token":
                return t.AsyncTokenType()
            case "!tt.tensordesc":
                self.expect("<")
                block = self.type()
                if not isinstance(block, t.TensorType):
                    raise self.error("a tensor descriptor is of a tensor")
                self.expect(">")
                return t.TensorDescType(block)
        if word.startswith("!") and "." not in word:
            raise self.error(f"undefined type alias '{word}'", start, start + len(word))
        inner = self.brackets() if self.value == "<" else ""
        return t.OpaqueType(word + inner)

    def dimensions(self) -> tuple[int, ...]:
        """`128x32x` after `<`, which is the token at hand; goes to what follows."""
        if self.value != "<":
            raise self.error("expected '<'")
        dims, end = self.matching(_DIMS, self.end)
        self.restart(end)
        return tuple(-1 if d == "?" else int(d) for d in dims.strip().split("x")[:-1])

    def tensor_type(self) -> Type:
        """`<shape x element [, encoding]>`."""
        shape = self.dimensions()
        element = self.type()
        encoding = self.attribute() if self.accept(",") else None
        self.expect(">")
        return t.TensorType(shape, element, encoding)

    def pointer_type(self) -> Type:
        """`<type [, space]>`."""
        self.expect("<")
        pointee = self.type()
        space = self.integer() if self.accept(",") else 1
        self.expect(">")
        return t.PointerType(pointee, space)

    def memory_type(self) -> Type:
        """`<shape x element, encoding [, memory] [, mutable] [, allocated shape]>`."""
        shape = self.dimensions()
        element = self.type()
        self.expect(",")
        encoding = self.attribute()
        memory: Attribute = t.SharedMemory()
        mutable = False
        allocated: tuple[int, ...] = ()
        while self.accept(","):
            if self.accept("mutable"):
                mutable = True
            elif self.kind == "number":
                allocated = self.allocated_shape()
            else:
                memory = self.attribute()
        self.expect(">")
        return t.MemDescType(shape, element, encoding, memory, mutable, allocated)

    def allocated_shape(self) -> tuple[int, ...]:
        """`2x128x32`."""
        dims, end = self.matching(_ALLOCATED, self.start)
        self.restart(end)
        return tuple(map(int, dims.split("x")))

    # Attributes.

    def attribute(self) -> Attribute:
        """An attribute."""
        match self.kind:
            case "number":
                return self.number_attribute(1)
            case "string":
                return StringAttr(self.string())
            case "symbol":
                return SymbolRefAttr(self.symbol())
            case "alias" if self.value.startswith("#"):
                return self.named_attribute()
            case "word":
                return self.word_attribute()
        match self.value:
            case "-":
                self.advance()
                return self.number_attribute(-1)
            case "[":
                self.advance()
                found: list[Attribute] = []
                while not self.accept("]"):
                    found.append(self.attribute())
                    self.accept(",")
                return ArrayAttr(found)
            case "{":
                return DictionaryAttr(self.attribute_dictionary())
        return TypeAttr(self.type())

    def word_attribute(self) -> Attribute:
        """An attribute that begins with a word."""
        match self.value:
            case "true" | "false" as word:
                self.advance()
                return IntegerAttr(int(word == "true"), I1)
            case "unit":
                self.advance()
                return UNIT
            case "dense":
                return self.dense_attribute()
            case "array":
                return self.dense_array()
            case "loc":
                self.skip_location()
                return UNIT
            case "affine_map" | "affine_set" | "strided" | "opaque" as word:
                self.advance()
                return OpaqueAttr(word + self.brackets())
        try:
            return TypeAttr(self.type())
        except ParseError:
            return EnumAttr("keyword", self.take("word", "an attribute"))

    def number_attribute(self, sign: int) -> Attribute:
        """A number, and its type if it is written."""
        text = self.take("number", "a number")
        is_float = not text.startswith("0x") and any(c in text for c in ".eE")
        type: Type = F64 if is_float else I64
        if self.accept(":"):
            type = self.type()
        return self.number_of(text, sign, type)

    def number_of(self, text: str, sign: int, type: Type) -> Attribute:
        """The attribute of a number's text; hexadecimal digits are the bits of a float."""
        if isinstance(type, FloatType):
            if text.startswith("0x"):
                return FloatAttr(sign * float_of_bits(int(text, 16), type), type)
            return FloatAttr(sign * float(text), type)
        try:
            return IntegerAttr(sign * int(text, 0), type)
        except (ValueError, UserError):
            raise self.error(f"{text} is no constant of type {type}") from None

    def named_attribute(self) -> Attribute:
        """An alias, or an attribute of a dialect."""
        start, word = self.start, self.value
        self.advance()
        known = self.attribute_aliases.get(word)
        if known is not None:
            return known
        name = canonical(word[1:])
        reader = ATTRIBUTES.get(name)
        if reader is not None:
            try:
                return reader(self)
            except ParseError:
                raise
            except UserError as error:
                raise self.error(error.message, start, self.previous_end) from None
        if "." not in name:
            raise self.error(f"undefined symbol alias id '{word[1:]}'", start, start + len(word))
        return OpaqueAttr(word + (self.brackets() if self.value == "<" else ""))

    def attribute_dictionary(self) -> dict[str, Attribute]:
        """`{name = attribute, unit}`."""
        self.expect("{")
        found: dict[str, Attribute] = {}
        while not self.accept("}"):
            name = self.string() if self.kind == "string" else self.take("word", "a name")
            found[name] = self.attribute() if self.accept("=") else UNIT
            if self.value != "}":
                self.expect(",")
        return found

    def dense_attribute(self) -> Attribute:
        """`dense<elements> : type`."""
        self.expect("dense")
        self.expect("<")
        if self.kind == "string":
            return self.dense_bytes()
        values: list[tuple[str, int]] = []
        while not self.accept(">"):
            if self.value in ("[", "]", ","):
                self.advance()
                continue
            sign = -1 if self.accept("-") else 1
            values.append((self.value, sign))
            self.advance()
        self.expect(":")
        type = self.type()
        if not isinstance(type, ShapedType):
            raise self.error("dense elements are of a tensor")
        return DenseElementsAttr(type, tuple(self.element(v, s, type.element) for v, s in values))

    def dense_bytes(self) -> Attribute:
        """`"0x01000000"> : type`: the elements' bytes, lowest first."""
        start = self.start
        raw = self.string()
        self.expect(">")
        self.expect(":")
        type = self.type()
        bits = getattr(getattr(type, "element", None), "bits", 0)
        if not isinstance(type, ShapedType) or bits % 8 or not raw.startswith("0x") or not bits:
            raise self.error("the bytes of dense elements are of a tensor", start)
        data, size = bytes.fromhex(raw[2:]), bits // 8
        words = [int.from_bytes(data[i : i + size], "little") for i in range(0, len(data), size)]
        values = tuple(self.element(f"0x{word:X}", 1, type.element) for word in words)
        if len(values) not in (1, type.size):
            raise self.error(f"{len(values)} elements do not fill {type}", start)
        return DenseElementsAttr(type, values)

    def element(self, text: str, sign: int, type: Type) -> Any:
        """A number of a dense attribute."""
        if text in ("true", "false"):
            return int(text == "true")
        return self.number_of(text, sign, type).value  # type: ignore[attr-defined]

    def dense_array(self) -> Attribute:
        """`array<i32: 1, 2>`."""
        self.expect("array")
        self.expect("<")
        type = self.type()
        values: list[int] = []
        if self.accept(":"):
            while self.value != ">":
                word = self.value in ("true", "false")
                values.append(self.boolean() if word else self.integer())
                self.accept(",")
        self.expect(">")
        return DenseArrayAttr(type, values)

    # Parameters of attributes: plain Python values.

    def parameters(self) -> dict[str, Any]:
        """`<{name = value, ...}>`: integers, truth values, lists and attributes."""
        self.expect("<")
        self.expect("{")
        found: dict[str, Any] = {}
        while not self.accept("}"):
            name = self.take("word", "the name of a parameter")
            self.expect("=")
            found[name] = self.parameter()
            if self.value != "}":
                self.expect(",")
        self.expect(">")
        return found

    def parameter(self) -> Any:
        """An integer, a truth value, a list, or an attribute."""
        if self.value in ("true", "false"):
            return bool(self.boolean())
        if self.kind == "number" or self.value == "-":
            value = self.integer()
            if self.accept(":"):
                self.type()
            return value
        if self.accept("["):
            found = []
            while not self.accept("]"):
                found.append(self.parameter())
                self.accept(",")
            return tuple(found)
        return self.attribute()

    # Words.

    def integer(self) -> int:
        """An integer with or without a sign."""
        sign = -1 if self.accept("-") else 1
        text = self.take("number", "an integer")
        try:
            return sign * int(text, 0)
        except ValueError:
            raise self.error(f"expected an integer, not {text}") from None

    def boolean(self) -> int:
        """`true` or `false`."""
        if self.value not in ("true", "false"):
            raise self.error("expected true or false")
        value = int(self.value == "true")
        self.advance()
        return value

    def string(self) -> str:
        """The text of a string."""
        raw = self.take("string", "a string")[1:-1]
        return re.sub(r"\\([0-9A-Fa-f]{2}|.)", _unescape, raw)

    def symbol(self) -> str:
        """`@name` without the `@`."""
        raw = self.take("symbol", "a symbol")[1:]
        while self.accept("::"):
            raw += "::" + self.take("symbol", "a symbol")[1:]
        return raw.strip('"')


def _unescape(match: re.Match[str]) -> str:
    code = match.group(1)
    if len(code) == 2:
        return chr(int(code, 16))
    return {"n": "\n", "t": "\t"}.get(code, code)
