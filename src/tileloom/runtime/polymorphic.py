"""Shape-polymorphic executables: code once, and what to call of it for each combination of sizes.

Sizes are found when the program is called. For each combination that occurs an `Executable` is made
once: checks of the arguments, shapes of the results, places of intermediates. No code is made for
it, and the next call with the same sizes costs what a call of a program for one shape does.
"""

from __future__ import annotations

from collections.abc import Mapping

from .executable import Executable
from .serialized import Code, SerializedExecutable


class PolymorphicExecutable:
    """A program whose shapes are expressions of named sizes, dispatched by shape.

    Args:
        serialized: with size expressions in shapes.
        code: its kernels.

    Attributes:
        guards: size expressions that are not negative where the program is right.
    """

    def __init__(self, serialized: SerializedExecutable, code: Code) -> None:
        self.serialized = serialized
        self.code = code
        self.guards = serialized.guards
        self.buckets = serialized.buckets

    def holds(self, sizes: Mapping[str, int]) -> bool:
        """Whether the program is right for these sizes, which must be within their bounds."""
        return all(guard.value(sizes) >= 0 for guard in self.guards)

    def at(self, sizes: Mapping[str, int]) -> Executable:
        """The program for these sizes, for which it `holds`."""
        return self.serialized.at(sizes).executable(self.code, sizes)

    def kernels(self, sizes: Mapping[str, int]) -> dict[str, str]:
        """For each kernel of the program the one of its buckets that is called for these sizes."""
        return self.serialized.dispatch(sizes)

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
        refusals = self.code.each_size.items()
        lines += [f"{name} is compiled for each size: {why}" for name, why in refusals]
        return "\n".join(lines)
