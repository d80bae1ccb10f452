"""Programs with some of their loops and blocks underlined, for error messages."""

from __future__ import annotations

from ..base.late import TYPE_CHECKING
from ..tir import BlockRealize, IRModule, Stmt
from .show_func import FunctionPrinter

if TYPE_CHECKING:
    from collections.abc import Mapping


def show_marked(module: IRModule, marks: Mapping[Stmt, str]) -> str:
    """The functions of a module that hold marked loops and blocks, these underlined with carets.

    Args:
        module: what to print, one line for each loop.
        marks: the loops and blocks concerned, with a note to print at the carets or "".
    """
    printers = []
    for name, func in module.functions.items():
        printer = MarkingPrinter(marks)
        printer.function(func, name)
        printers.append(printer)
    chosen = [printer for printer in printers if printer.found] or printers
    return "\n".join(line for printer in chosen for line in _underlined(printer))


class MarkingPrinter(FunctionPrinter):
    """A printer that notes in which line each marked statement starts."""

    def __init__(self, marks: Mapping[Stmt, str]) -> None:
        super().__init__(sugar=False)
        self.marks = marks
        self.found: dict[int, str] = {}

    def print_one(self, stmt: Stmt, tail: bool) -> Stmt | None:
        target = stmt.block if isinstance(stmt, BlockRealize) else stmt
        if target in self.marks:
            self.found[len(self.lines)] = self.marks[target]
        return super().print_one(stmt, tail)


def _underlined(printer: MarkingPrinter) -> list[str]:
    gutter = len(str(len(printer.lines))) + 1
    lines = []
    for number, text in enumerate(printer.lines):
        lines.append(f"{number + 1:>{gutter}} | {text}")
        if number in printer.found:
            start = len(text) - len(text.lstrip())
            carets = "^" * (len(text) - start)
            note = printer.found[number]
            lines.append(f"{'':>{gutter}} | {'':>{start}}{carets}{' ' + note if note else ''}")
    return lines
