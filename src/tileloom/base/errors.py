"""The two error families: what a user can mend, and what we must."""

from __future__ import annotations

from .span import Span


class TileloomError(Exception):
    """Root of every error that Tileloom raises on purpose."""


class UserError(TileloomError):
    """Something the user can mend: says what is wrong, where, why, and what to try.

    Args:
        message: what is wrong, in one sentence.
        span: the source text concerned, if known; rendered with a caret.
        hint: what to try instead.
    """

    def __init__(self, message: str, *, span: Span | None = None, hint: str | None = None) -> None:
        self.message = message
        self.span = span
        self.hint = hint
        super().__init__(message)

    def __str__(self) -> str:
        lines = [self.message]
        if self.span is not None:
            lines.append(self.span.render())
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        return "\n".join(lines)


class UnsupportedError(UserError):
    """A construct, operator or type that Tileloom does not compile; names it."""


class ShapeError(UserError):
    """Shapes that do not fit together."""


class IndexingError(ShapeError, IndexError):
    """An index that the array does not have."""


class DTypeError(UserError):
    """Data types that do not fit together."""


class ArgumentError(UserError):
    """A wrong argument to a compiled function: type, shape, strides, alignment or device."""


class OutOfBoundsError(UserError):
    """An access outside of a buffer: names the statement, the index and the buffer's extent."""


class ParseError(UserError):
    """Text that is not a well-formed program."""


class VerifyError(UserError):
    """An IR that breaks the rules of the stage it is said to be at."""


class InternalError(TileloomError):
    """A broken promise of our own. Please report it together with the reproducer shown."""

    def __init__(self, message: str, reproducer: str | None = None) -> None:
        self.reproducer = reproducer
        text = f"{message}\nThis is a defect in Tileloom, please report it."
        if reproducer:
            text += f"\nReproducer:\n{reproducer}"
        super().__init__(text)
