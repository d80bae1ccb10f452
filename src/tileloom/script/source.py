"""Source text with its place in a file, and errors that point into it."""

from __future__ import annotations

from ..base import Span
from ..base.errors import ParseError
from ..base.late import TYPE_CHECKING, package
from .syntax import ast
from .syntax import parse as parse_syntax

if TYPE_CHECKING:
    import difflib
    from collections.abc import Iterable
    from typing import NoReturn
else:
    difflib = package("difflib")


class Source:
    """A piece of source text.

    Args:
        filename: where it is from.
        lines: all lines of the file.
    """

    def __init__(self, filename: str, lines: list[str]) -> None:
        self.filename = filename
        self.lines = lines

    def line(self, number: int) -> str:
        """A line by its number in the file."""
        return self.lines[number - 1].rstrip("\n") if 0 < number <= len(self.lines) else ""

    def span(self, node: ast.AST) -> Span:
        """Where a node is written."""
        line = getattr(node, "lineno", 1)
        end_line = getattr(node, "end_lineno", None) or line
        column = self._column(line, getattr(node, "col_offset", 0))
        end_column = self._column(end_line, getattr(node, "end_col_offset", None) or column)
        text = "\n".join([self.line(number) for number in range(line, end_line + 1)])
        return Span(self.filename, line, column, end_line, end_column, text)

    def head(self, node: ast.AST) -> Span:
        """The first line of a node: enough to point at a statement with a suite."""
        line = getattr(node, "lineno", 1)
        text = self.line(line)
        column = self._column(line, getattr(node, "col_offset", 0))
        return Span(self.filename, line, column, line, len(text) + 1, text)

    def _column(self, line: int, offset: int) -> int:
        """A column from a byte offset, which counts UTF-8 bytes."""
        text = self.line(line)
        if text.isascii():
            return offset + 1
        return len(text.encode()[:offset].decode(errors="ignore")) + 1

    def error(self, node: ast.AST, message: str, hint: str | None = None) -> NoReturn:
        """Raise a `ParseError` that points at a node."""
        raise ParseError(message, span=self.span(node), hint=hint)

    def parse(self, text: str) -> ast.Module:
        """The syntax tree; Python's complaints as `ParseError`."""
        try:
            return parse_syntax(text)
        except SyntaxError as error:
            line = error.lineno or 1
            column = error.offset or 1
            shown = self.line(line)
            end = max(
                column + 1, (error.end_offset or 0) if error.end_lineno == error.lineno else 0
            )
            span = Span(self.filename, line, column, line, min(end, len(shown) + 2), shown)
            raise ParseError(f"not Python syntax: {error.msg}", span=span) from None
        except ValueError as error:  # zero bytes
            raise ParseError(f"not Python syntax: {error}") from None
        except MemoryError:  # hundreds of brackets
            raise ParseError("not Python syntax: nested too deeply") from None


def close_name(name: str, known: Iterable[str]) -> str | None:
    """A hint that names what may have been meant."""
    found = difflib.get_close_matches(name, list(known), 1, 0.6)
    return f"did you mean {found[0]!r}?" if found else None
