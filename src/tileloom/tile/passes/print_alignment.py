"""Prints what is known of the alignment of values, as Triton's test pass does."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from ..analysis.axis_info import ModuleAxisInfo
from ..dialects.functions import symbol_name
from ..ir.core import Operation
from ..ir.show import OpWriter
from ..ir.text import TextStyle
from .registry import tile_pass


@tile_pass("test-print-alignment")
def print_alignment(module: Operation) -> None:
    """Writes a line for each result of each operation of each function to standard error, inner
    operations before those around them; the module stays as it is."""
    for line in alignment_lines(module):
        print(line, file=sys.stderr)


def alignment_lines(module: Operation) -> Iterator[str]:
    """The lines of `test-print-alignment`: `@function`, and `operation => what is known`."""
    axis_info = ModuleAxisInfo(module)
    for function in module.walk():
        if function.name not in ("tt.func", "func.func"):
            continue
        yield f"@{symbol_name(function)}"
        writer = OpWriter(TextStyle(), generic=False)
        writer.name_values(function)
        for op in function.walk_inner_first():
            for result in op.results:
                writer.parts.clear()
                writer.operation(op)
                yield f"{writer.text().rstrip()} => {axis_info.of(result)}"
