"""The parts of operations by their names: operands, results, regions and attributes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .interning import Attribute

SEGMENTS = "operandSegmentSizes"


@dataclass(frozen=True)
class Slot:
    """An operand, a result or a region: exactly one, one or none (`?`), or any number (`*`)."""

    name: str
    count: str = ""


@dataclass(frozen=True)
class AttributeRule:
    """What an attribute is: a kind, the keywords of an enumeration, and the default left out."""

    kind: str
    keywords: Mapping[str, int] = field(default_factory=dict)
    default: Attribute | None = None
    optional: bool = True


def slots(text: str) -> tuple[Slot, ...]:
    """Slots from their names: `"ptr mask? other?"`."""
    return tuple(
        Slot(word.rstrip("?*"), word[-1] if word[-1] in "?*" else "") for word in text.split()
    )
