"""Functions that nobody calls and nobody outside can see."""

from __future__ import annotations

from ..dialects.functions import symbol_name
from ..ir.attributes import ArrayAttr, DictionaryAttr, StringAttr, SymbolRefAttr
from ..ir.core import Operation
from ..ir.definitions import Trait
from ..ir.interning import Attribute
from .registry import tile_pass


@tile_pass("symbol-dce")
def symbol_dce(module: Operation) -> None:
    """Removes private functions that no function left refers to."""
    symbols = {
        symbol_name(op): op
        for op in module.body
        if Trait.SYMBOL in op.definition.traits and "sym_name" in op.attributes
    }
    waiting = [op for op in module.body if not is_private(op)]
    live = set(waiting)
    while waiting:
        for name in references(waiting.pop()):
            called = symbols.get(name)
            if called is not None and called not in live:
                live.add(called)
                waiting.append(called)
    for op in symbols.values():
        if op not in live:
            op.erase()


def is_private(op: Operation) -> bool:
    """Whether a function can be seen in its module alone."""
    visibility = op.attributes.get("sym_visibility")
    return isinstance(visibility, StringAttr) and visibility.value == "private"


def references(root: Operation) -> set[str]:
    """The names of the symbols that operations refer to."""
    found: set[str] = set()
    for op in root.walk():
        for attribute in op.attributes.values():
            _collect(attribute, found)
    return found


def _collect(attribute: Attribute, found: set[str]) -> None:
    if isinstance(attribute, SymbolRefAttr):
        found.add(attribute.name)
    elif isinstance(attribute, ArrayAttr):
        for element in attribute.elements:
            _collect(element, found)
    elif isinstance(attribute, DictionaryAttr):
        for _, value in attribute.items:
            _collect(value, found)
