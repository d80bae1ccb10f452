"""Text with places in it: tokens of MLIR's syntax, and spans for messages."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property

from ...base.errors import ParseError
from ...base.span import Span


@dataclass(frozen=True, eq=False)
class SourceText:
    """A piece of a file; `first_line` is the number of its first line."""

    text: str
    filename: str = "<string>"
    first_line: int = 1

    @cached_property
    def line_starts(self) -> list[int]:
        """The offsets at which lines begin."""
        return [0, *(m.end() for m in re.finditer("\n", self.text))]

    def position(self, offset: int) -> tuple[int, int]:
        """The line, as numbered in the file, and the column of an offset, from 1."""
        line = bisect_right(self.line_starts, offset) - 1
        return self.first_line + line, offset - self.line_starts[line] + 1

    def span(self, start: int, end: int) -> Span:
        """The span between two offsets."""
        line, column = self.position(start)
        end_line, end_column = self.position(max(end, start))
        first = self.line_starts[line - self.first_line]
        stop = self.text.find("\n", max(end, start))
        lines = self.text[first : stop if stop >= 0 else len(self.text)]
        return Span(self.filename, line, column, end_line, end_column, lines)


@dataclass(frozen=True, eq=False)
class SourceRange:
    """A place in a text, made into a span when it is asked for."""

    source: SourceText
    start: int
    end: int

    def resolve(self) -> Span:
        """The span."""
        return self.source.span(self.start, self.end)


_TOKEN = re.compile(
    r"(?:\s+|//[^\n]*)*(?:"
    r"(?P<value>%(?:\d+|[A-Za-z_$.-][\w$.-]*))"
    r"|(?P<word>[A-Za-z_][\w$.]*)"
    r"|(?P<number>0x[0-9A-Fa-f]+|\d+\.\d*(?:[eE][+-]?\d+)?|\d+)"
    r"|(?P<alias>[#!][A-Za-z_][\w$.]*)"
    r"|(?P<number_alias>[#]\d+)"
    r"|(?P<symbol>@(?:[A-Za-z_][\w$.]*|\"(?:[^\"\\]|\\.)*\"))"
    r"|(?P<label>\^[A-Za-z_0-9$.-]+)"
    r"|(?P<string>\"(?:[^\"\\\n]|\\.)*\")"
    r"|(?P<punctuation>->|::|[-+*/<>(){}\[\],:=?|])"
    r"|(?P<end>\Z)"
    r"|(?P<bad>.))"
)
# The rest of a type after its opening bracket: brackets up to four deep.
_INNER = r"(?:[^<>\n-]|->|-|\n)"
for _ in range(4):
    _INNER = rf"(?:[^<>-]|->|-|<{_INNER}*>)"
BRACKETS = re.compile(rf"\s*<{_INNER}*>")


class Scanner:
    """Tokens one after another: `kind` and `value` are those of the token at hand."""

    def __init__(self, source: SourceText) -> None:
        self.source = source
        self.text = source.text
        self.kind = ""
        self.value = ""
        self.start = 0  # where the token at hand begins
        self.end = 0  # and ends
        self.previous_end = 0
        self.advance()

    def advance(self) -> None:
        """Goes to the next token."""
        match = _TOKEN.match(self.text, self.end)
        if match is None:  # never: a token may be any character, or the end
            raise self.error("not a token")
        self.kind = kind = match.lastgroup or "bad"
        self.value = match.group(kind)
        self.previous_end = self.end
        self.start, self.end = match.span(kind)

    def restart(self, offset: int) -> None:
        """Goes to the token at, or after, an offset."""
        self.end = offset
        self.advance()

    def accept(self, text: str) -> bool:
        """Goes past a token if it is this one."""
        if self.value == text and self.kind != "string":
            self.advance()
            return True
        return False

    def expect(self, text: str) -> None:
        """Goes past a token that must be this one."""
        if self.value != text or self.kind == "string":
            raise self.error(f"expected '{text}'")
        self.advance()

    def take(self, kind: str, what: str) -> str:
        """Goes past a token that must be of a kind, and gives its text."""
        if self.kind != kind:
            raise self.error(f"expected {what}")
        value = self.value
        self.advance()
        return value

    def brackets(self) -> str:
        """The text from `<` up to the matching `>`, and goes past it."""
        match = BRACKETS.match(self.text, self.start)
        if match is None:
            raise self.error("expected '<' and a matching '>'")
        self.restart(match.end())
        return match.group().strip()

    def matching(self, pattern: re.Pattern[str], offset: int) -> tuple[str, int]:
        """What a pattern that may be empty matches at an offset, and where that ends."""
        match = pattern.match(self.text, offset)
        return ("", offset) if match is None else (match.group(), match.end())

    def error(self, message: str, start: int | None = None, end: int | None = None) -> ParseError:
        """An error at the token at hand, or between two offsets."""
        first = self.start if start is None else start
        last = max(self.end, first + 1) if end is None else end
        return ParseError(message, span=self.source.span(first, last))
