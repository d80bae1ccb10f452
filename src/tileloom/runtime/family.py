"""A program for many shapes: its code once, and what to call it with for each combination of sizes.

Sizes are found when the program is called. For each combination that occurs an `Executable` is made
once: checks of the arguments, shapes of the results, places of intermediates. No code is made for
it, and the next call with the same sizes costs what a call of a program for one shape does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from .elf import LoadedObject
from .executable import Executable
from .recipe import Recipe


class Formula(Protocol):
    """A formula of named sizes."""

    def value(self, sizes: Mapping[str, int]) -> int:
        """Its value for some sizes."""


class Choices:
    """A program whose shapes are formulas of named sizes, and how kernels are chosen for sizes.

    Args:
        guards: formulas that are not negative where the program is right.
        buckets: for each kernel of the program those that it is chosen from, each with formulas
            that are not negative where it is taken.
    """

    def __init__(
        self,
        guards: Sequence[Formula],
        buckets: Mapping[str, Sequence[tuple[str, Sequence[Formula]]]],
    ) -> None:
        self.guards = tuple(guards)
        self.buckets = buckets

    def holds(self, sizes: Mapping[str, int]) -> bool:
        """Whether the program is right for these sizes, which must be within their bounds."""
        return all(guard.value(sizes) >= 0 for guard in self.guards)

    def kernels(self, sizes: Mapping[str, int]) -> dict[str, str]:
        """For each kernel of the program the one of its buckets that is called for these sizes."""
        return {
            name: next(
                kernel
                for kernel, predicates in buckets
                if all(predicate.value(sizes) >= 0 for predicate in predicates)
            )
            for name, buckets in self.buckets.items()
        }

    def explain(self, sizes: Mapping[str, int]) -> str:
        """The kernels, their buckets with predicates, and which are taken for some sizes."""
        taken = self.kernels(sizes)
        lines = [", ".join(f"{name} = {size}" for name, size in sizes.items())]
        lines += [f"right where {guard} >= 0" for guard in self.guards]
        for name, buckets in self.buckets.items():
            lines.append(f"{name}: {len(buckets)} {'bucket' if len(buckets) == 1 else 'buckets'}")
            done = False
            for kernel, predicates in buckets:
                here = (
                    kernel == taken[name]
                    and not done
                    and all(predicate.value(sizes) >= 0 for predicate in predicates)
                )
                done |= here
                when = " and ".join(f"{predicate} >= 0" for predicate in predicates) or "always"
                lines.append(f"  {'->' if here else '  '} {kernel} where {when}")
        return "\n".join(lines)

    def at(self, sizes: Mapping[str, int]) -> Any:
        """The program for these sizes, for which it `holds`."""
        raise NotImplementedError


class Family(Choices):
    """Such a program for a CPU.

    Args:
        recipe: with formulas in shapes.
        code: its machine code.
    """

    def __init__(self, recipe: Recipe, code: LoadedObject | None) -> None:
        super().__init__(recipe.guards, recipe.buckets)
        self.recipe = recipe
        self.code = code
        self._kernels = recipe.kernels(code)

    def at(self, sizes: Mapping[str, int]) -> Executable:
        """The program for these sizes, for which it `holds`."""
        return self.recipe.at(sizes).executable(self.code, self._kernels)
