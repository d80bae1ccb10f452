"""Source spans and their caret rendering."""

from __future__ import annotations

from .record import Record


class Span(Record):
    """A stretch of source text; lines and columns count from 1, `end_column` is exclusive."""

    filename: str
    line: int
    column: int
    end_line: int
    end_column: int
    text: str = ""  # the source lines from `line` to `end_line`

    def render(self, note: str = "") -> str:
        """The source lines with a caret under the span.

        >>> print(Span("f.py", 3, 5, 3, 8, "x = foo + 1").render("not defined"))
          --> f.py:3:5
           3 | x = foo + 1
             |     ^^^ not defined
        """
        gutter = max(4, len(str(self.end_line)) + 1)
        lines = [f"  --> {self.filename}:{self.line}:{self.column}"]
        source = self.text.splitlines() or [""]
        for offset, text in enumerate(source):
            number = self.line + offset
            lines.append(f"{number:>{gutter}} | {text}")
            first = self.column if offset == 0 else len(text) - len(text.lstrip()) + 1
            last = self.end_column if number == self.end_line else len(text) + 1
            carets = "^" * max(1, last - first)
            tail = f" {note}" if note and number == self.end_line else ""
            lines.append(f"{'':>{gutter}} | {'':>{first - 1}}{carets}{tail}")
        return "\n".join(lines)
