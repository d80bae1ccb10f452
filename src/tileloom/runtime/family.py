"""A program for many shapes: its code once, and what to call it with for each combination of sizes.

Sizes are found when the program is called. For each combination that occurs an `Executable` is made
once: checks of the arguments, shapes of the results, places of intermediates. No code is made for
it, and the next call with the same sizes costs what a call of a program for one shape does.
"""

from __future__ import annotations

from collections.abc import Mapping

from .elf import LoadedObject
from .executable import Executable
from .recipe import Recipe


class Family:
    """A program whose shapes are formulas of named sizes.

    Args:
        recipe: with formulas in shapes.
        code: its machine code.
    """

    def __init__(self, recipe: Recipe, code: LoadedObject | None) -> None:
        self.recipe = recipe
        self.code = code

    def holds(self, sizes: Mapping[str, int]) -> bool:
        """Whether the program is right for these sizes, which must be within their bounds."""
        return all(guard.value(sizes) >= 0 for guard in self.recipe.guards)

    def at(self, sizes: Mapping[str, int]) -> Executable:
        """The program for these sizes, for which it `holds`."""
        return self.recipe.at(sizes).executable(self.code)
