"""How names and aliases are written: the dialects' spellings through Triton's versions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .interning import Attribute
    from .types import Type


@dataclass(frozen=True)
class Spelling:
    """The names of one range of Triton's versions."""

    name: str
    gpu: str  # the dialect of layouts
    nvidia: str  # the dialect of Hopper's operations
    memdesc: str
    memory_spaces: bool  # a memdesc names its memory
    allocated_shapes: bool  # a memdesc says the shape of its buffer, where it is another one
    operations: Mapping[str, str] = field(default_factory=dict)  # ours -> this version's


SPELLINGS = {
    spelling.name: spelling
    for spelling in (
        Spelling(
            "3.2",
            *("triton_gpu", "triton_nvidia_gpu", "!tt.memdesc", True, False),
            {"ttg.memdesc_trans": "tt.trans"},
        ),
        Spelling("era", *("triton_gpu", "triton_nvidia_gpu", "!triton_gpu.memdesc", True, False)),
        Spelling("3.3", "ttg", "ttng", "!ttg.memdesc", True, True),
    )
}
CURRENT = SPELLINGS["3.3"]


@dataclass(frozen=True)
class TextStyle:
    """How attributes and types are written: the spelling, and the aliases in use."""

    spelling: Spelling = CURRENT
    aliases: Mapping[Attribute, str] = field(default_factory=dict)

    def attribute(self, attribute: Attribute) -> str:
        """The alias of an attribute, or its text."""
        return self.aliases.get(attribute) or attribute.text(self)

    def type(self, type: Type) -> str:
        """The text of a type."""
        return type.text(self)

    def results(self, types: Sequence[Type]) -> str:
        """The types after an arrow: one bare, others in parentheses."""
        text = ", ".join(map(self.type, types))
        single = len(types) == 1 and not text.startswith("(")
        return text if single else f"({text})"

    def symbol(self, name: str) -> str:
        """A name with the dialect's prefix of this spelling: `ttg.x` may be `triton_gpu.x`."""
        renamed = self.spelling.operations.get(name)
        if renamed is not None:
            return renamed
        if name.startswith("ttg."):
            return f"{self.spelling.gpu}.{name[4:]}"
        if name.startswith("ttng."):
            return f"{self.spelling.nvidia}.{name[5:]}"
        return name


PLAIN = TextStyle()


def canonical(name: str) -> str:
    """Our spelling of a name with a dialect's prefix.

    >>> canonical("triton_gpu.convert_layout"), canonical("tt.load")
    ('ttg.convert_layout', 'tt.load')
    """
    if name.startswith("triton_gpu."):
        return f"ttg.{name[11:]}"
    if name.startswith("triton_nvidia_gpu."):
        return f"ttng.{name[18:]}"
    return name
