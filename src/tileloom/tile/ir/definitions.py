"""What operations exist: their operands, results, attributes, traits, text and typing rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from ...base.errors import InternalError, UserError
from .attributes import DenseArrayAttr, EnumAttr, IntegerAttr
from .format import Format, compile_format
from .interning import Attribute
from .slots import SEGMENTS, AttributeRule, Slot, slots
from .types import I1, I32, Type

if TYPE_CHECKING:
    from .core import Operation


class Trait(Enum):
    """A property of an operation that passes ask for."""

    PURE = auto()  # no effects: may be removed, moved, duplicated
    TERMINATOR = auto()
    COMMUTATIVE = auto()
    ISOLATED = auto()  # what is in the regions uses nothing from outside
    SYMBOL = auto()
    RECURSIVE_EFFECTS = auto()  # has the effects of what is in the regions
    ELEMENTWISE = auto()  # each element of the results depends on the same of the operands
    SAME_TYPE = auto()  # operands and results have one type
    SAME_OPERANDS = auto()  # operands have one type
    SAME_SHAPE = auto()  # operands and results have one shape
    SAME_ENCODING = auto()  # tensor operands and results have one encoding
    CONSTANT = auto()
    LOOP = auto()
    NO_TERMINATOR = auto()


class Effect(Enum):
    """What an operation does besides giving results."""

    READ = auto()  # global memory
    WRITE = auto()
    READ_SHARED = auto()
    WRITE_SHARED = auto()
    ALLOCATE = auto()
    FREE = auto()
    OTHER = auto()  # prints, barriers, waits: keeps its place


@dataclass(frozen=True, eq=False)
class OpDefinition:
    """All that is known of the operations of one name."""

    name: str
    operands: tuple[Slot, ...] = ()
    results: tuple[Slot, ...] = ()
    attributes: Mapping[str, AttributeRule] = field(default_factory=dict)
    regions: tuple[Slot, ...] = ()
    traits: frozenset[Trait] = frozenset()
    effects: frozenset[Effect] = frozenset()
    format: Format | None = None
    infer: Callable[[Sequence[Type], Mapping[str, Attribute]], Sequence[Type]] | None = None
    verify: Callable[[Operation], None] | None = None
    registered: bool = True

    @property
    def is_terminator(self) -> bool:
        """Whether it ends a block."""
        return Trait.TERMINATOR in self.traits

    @property
    def is_pure(self) -> bool:
        """Whether it has no effects at all."""
        return Trait.PURE in self.traits

    @property
    def has_segments(self) -> bool:
        """Whether an attribute says how many operands each slot has."""
        return sum(1 for slot in self.operands if slot.count) > 1

    def operand_range(self, op: Operation, name: str) -> tuple[int, int]:
        """Where the operands of a slot begin and end."""
        sizes = self.operand_sizes(op)
        first = 0
        for slot, size in zip(self.operands, sizes, strict=True):
            if slot.name == name:
                return first, first + size
            first += size
        raise InternalError(f"{self.name} has no operand {name!r}")

    def operand_sizes(self, op: Operation) -> Sequence[int]:
        """The number of operands of each slot."""
        if self.has_segments:
            segments = op.attributes.get(SEGMENTS)
            if not isinstance(segments, DenseArrayAttr):
                raise UserError(f"'{self.name}' op needs the attribute '{SEGMENTS}'")
            return segments.values
        return spread(self.operands, len(op.operands), self.name)

    def result_sizes(self, op: Operation) -> Sequence[int]:
        """The number of results of each slot."""
        return spread(self.results, len(op.results), self.name)


def spread(slots: Sequence[Slot], total: int, name: str) -> Sequence[int]:
    """How many of `total` values each slot has; at most one slot has another number than one."""
    fixed = sum(1 for slot in slots if not slot.count)
    left = total - fixed
    variable = len(slots) - fixed
    if left < 0 or (left and not variable):
        expected = f"{fixed} or more" if variable else str(fixed)
        raise UserError(f"'{name}' op expected {expected} operands or results, but found {total}")
    return [left if slot.count else 1 for slot in slots]


# Every operation, by our spelling of its name.
DEFINITIONS: dict[str, OpDefinition] = {}


def define(
    name: str,
    operands: str = "",
    results: str = "",
    *,
    format: str | tuple[Callable[..., Any], Callable[..., Any]] | None = None,
    attributes: Mapping[str, AttributeRule] | None = None,
    regions: str = "",
    traits: Iterable[Trait] = (),
    effects: Iterable[Effect] = (),
    infer: Callable[[Sequence[Type], Mapping[str, Attribute]], Sequence[Type]] | None = None,
    verify: Callable[[Operation], None] | None = None,
) -> OpDefinition:
    """Registers an operation.

    Args:
        name: with the dialect's prefix.
        operands, results, regions: names of slots, `"ptr mask? args*"`.
        format: a declarative format (see `format.py`), or a function that parses and one that
            writes; without one the operation has the generic syntax only.
        infer: the results' types from the operands' types and the attributes, for an operation
            whose syntax does not say them.
        verify: raises a `UserError` for an operation that breaks a rule.
    """
    parts = slots(operands), slots(results), slots(regions)
    rules = dict(attributes or {})
    shape = compile_format(format, *parts, rules) if format is not None else None
    made = OpDefinition(
        name,
        *parts[:2],
        rules,
        parts[2],
        frozenset(traits),
        frozenset(effects),
        shape,
        infer,
        verify,
    )
    DEFINITIONS[name] = made
    return made


def definition_of(name: str) -> OpDefinition:
    """The definition of a name; of one that no dialect here knows, a bare one."""
    found = DEFINITIONS.get(name)
    if found is not None:
        return found
    return OpDefinition(
        name, slots("operands*"), slots("results*"), {}, slots("regions*"), registered=False
    )


def same_type(types: Sequence[Type], _attributes: Mapping[str, Attribute]) -> Sequence[Type]:
    """The results' types of an operation whose result has the type of its first operand."""
    return (types[0],)


def segments(sizes: Iterable[int]) -> DenseArrayAttr:
    """The attribute that says how many operands each slot has."""
    return DenseArrayAttr(I32, tuple(sizes))


UNIT_RULE = AttributeRule("unit")
I32_RULE = AttributeRule("i32")
I64_RULE = AttributeRule("i64")
BOOL_RULE = AttributeRule("bool")
OFF_RULE = AttributeRule("bool", default=IntegerAttr(0, I1))  # false where it is not said
STRING_RULE = AttributeRule("string")
SYMBOL_RULE = AttributeRule("symbol")
ANY_RULE = AttributeRule("any")


def keyword_rule(*words: str, first: int = 0, default: str | None = None) -> AttributeRule:
    """An attribute that is one of some keywords, numbered in the generic syntax."""
    return AttributeRule(
        "enum",
        {word: first + i for i, word in enumerate(words)},
        EnumAttr("keyword", default) if default else None,
    )
