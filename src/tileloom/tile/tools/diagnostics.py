"""Messages with places, and comments in a file that say which ones are expected."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from ...base.errors import UserError
from ...base.span import Span
from ..ir.core import Operation

SEVERITIES = ("error", "warning", "remark", "note")


@dataclass(frozen=True)
class Diagnostic:
    """A message: `severity` is one of `error`, `warning`, `remark`, `note`."""

    severity: str
    message: str
    span: Span | None = None

    def render(self) -> str:
        """The message as MLIR writes it: place, severity, message, line and caret.

        >>> print(Diagnostic("error", "expected ')'", Span("a.mlir", 2, 5, 2, 6, "f(x}")).render())
        a.mlir:2:5: error: expected ')'
        f(x}
            ^
        """
        if self.span is None:
            return f"{self.severity}: {self.message}"
        place = f"{self.span.filename}:{self.span.line}:{self.span.column}"
        line = (self.span.text.splitlines() or [""])[0]
        caret = " " * (self.span.column - 1) + "^"
        return f"{place}: {self.severity}: {self.message}\n{line}\n{caret}"


Handler = Callable[[Diagnostic], None]
_HANDLER: ContextVar[Handler | None] = ContextVar("handler", default=None)


def report(severity: str, message: str, op: Operation | None = None) -> None:
    """Gives a message about an operation to whoever runs the pass; without one it is dropped.

    An error does not end the pass: a pass that cannot go on raises a `UserError`.
    """
    handler = _HANDLER.get()
    if handler is not None:
        handler(Diagnostic(severity, message, op.describe_span() if op is not None else None))


@contextmanager
def handled_by(handler: Handler) -> Iterator[None]:
    """Calls of `report` within go to the handler.

    >>> found = []
    >>> with handled_by(found.append):
    ...     report("remark", "one loop")
    >>> found[0].render()
    'remark: one loop'
    """
    token = _HANDLER.set(handler)
    try:
        yield
    finally:
        _HANDLER.reset(token)


def diagnostic_of(error: UserError) -> Diagnostic:
    """The message of an error."""
    hint = f" (hint: {error.hint})" if error.hint else ""
    return Diagnostic("error", error.message + hint, error.span)


# Comments that say which messages are expected.


@dataclass(frozen=True)
class Expectation:
    """`expected-error @+1 {{text}}`: where (0 for any line), how severe, and what it contains."""

    severity: str
    line: int
    text: str
    pattern: re.Pattern[str]
    place: Span

    def holds_for(self, diagnostic: Diagnostic) -> bool:
        """Whether a message is the one."""
        line = diagnostic.span.line if diagnostic.span is not None else 0
        return (
            self.severity == diagnostic.severity
            and self.line in (0, line)
            and self.pattern.search(diagnostic.message) is not None
        )


_EXPECTED = re.compile(
    r"expected-(?P<severity>error|warning|remark|note)(?P<regex>-re)? *"
    r"(?:@(?P<offset>[+-]\d+|above|below|unknown))? *\{\{(?P<text>.*)\}\}\s*$"
)


def expectations(text: str, filename: str, first_line: int = 1) -> list[Expectation]:
    """The expectations in the comments of a text."""
    lines = text.split("\n")
    bare = [_EXPECTED.search(line) is None for line in lines]
    found = []
    for index, line in enumerate(lines):
        match = _EXPECTED.search(line)
        if match is None:
            continue
        number = first_line + index
        column = match.start() + 1
        found.append(
            Expectation(
                match["severity"],
                _expected_line(match["offset"], bare, index, first_line),
                match["text"],
                _expected_pattern(match["text"], bool(match["regex"])),
                Span(filename, number, column, number, column + 1, line),
            )
        )
    return found


def _expected_line(offset: str | None, bare: Sequence[bool], index: int, first_line: int) -> int:
    """The line that an expectation is about."""
    match offset:
        case None:
            return first_line + index
        case "unknown":
            return 0
        case "below":
            others = (i for i in range(index + 1, len(bare)) if bare[i])
            return first_line + next(others, index)
        case "above":
            others = (i for i in range(index - 1, -1, -1) if bare[i])
            return first_line + next(others, index)
    return first_line + index + int(offset)


def _expected_pattern(text: str, is_regex: bool) -> re.Pattern[str]:
    """What a message must contain; of `-re`, what is in `{{}}` are regular expressions.

    >>> _expected_pattern("op {{[0-9]+}}.", True).pattern
    'op\\\\ ([0-9]+)\\\\.'
    """
    if not is_regex:
        return re.compile(re.escape(text))
    parts = re.split(r"\{\{(.*?)\}\}", text)
    made = (f"({part})" if i % 2 else re.escape(part) for i, part in enumerate(parts))
    return re.compile("".join(made))


def differences(
    expected: Sequence[Expectation], diagnostics: Sequence[Diagnostic]
) -> Iterator[Diagnostic]:
    """What differs: messages that were not expected, and those that did not come. Notes may come
    or not: Triton has them, beside its messages, where there are none here."""
    left = list(expected)
    for diagnostic in diagnostics:
        found = next((e for e in left if e.holds_for(diagnostic)), None)
        if found is not None:
            left.remove(found)
        elif diagnostic.severity != "note":
            message = f"unexpected {diagnostic.severity}: {diagnostic.message}"
            yield Diagnostic("error", message, diagnostic.span)
    for missing in (expectation for expectation in left if expectation.severity != "note"):
        message = f'expected {missing.severity} "{missing.text}" was not produced'
        yield Diagnostic("error", message, missing.place)
