"""What the emulator finds wrong with a kernel."""

from __future__ import annotations

from ..base.errors import OutOfBoundsError, UserError
from ..base.span import Span
from ..tir import first_line


class KernelDefect(UserError):
    """A kernel does what a GPU would get wrong, mostly in silence.

    Attributes:
        kind: "out of bounds", "misaligned", "uninitialised", "race", "divergent barrier",
            "divergent warp", "divergent shuffle", "missing wait", "missing fence",
            "missing expect", "barrier", "overflow", "division by zero", "deadlock" or "hang".
        statement: the statement that did it.
        threads: those concerned, each as (block, thread) numbers.
    """

    def __new__(cls, kind: str, *args: object, **kwargs: object) -> KernelDefect:
        found = OutOfBoundsDefect if kind == "out of bounds" else cls
        return super().__new__(found)

    def __init__(
        self,
        kind: str,
        what: str,
        statement: object,
        threads: list[tuple[int, int]],
        span: Span | None = None,
        hint: str | None = None,
    ) -> None:
        self.kind = kind
        self.statement = statement
        self.threads = threads
        places = ", ".join(f"thread {thread} of block {block}" for block, thread in threads[:4])
        more = f" and {len(threads) - 4} more" if len(threads) > 4 else ""
        text = f"{kind}: {what}\n  by {places}{more}\n  in {first_line(statement)}"
        super().__init__(text, span=span, hint=hint)


class OutOfBoundsDefect(KernelDefect, OutOfBoundsError):
    """An access out of bounds, under the name that it has on CPUs too."""
