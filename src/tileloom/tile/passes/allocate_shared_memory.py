"""Places in shared memory, and what tests print of them."""

from __future__ import annotations

import sys

from ..analysis.alias import alias_pairs
from ..analysis.allocation import ModuleAllocation, allocation_lines, write_offsets
from ..dialects.functions import symbol_name
from ..ir.attributes import IntegerAttr
from ..ir.core import Operation
from ..ir.show import OpWriter
from ..ir.text import TextStyle
from ..ir.types import I32
from .registry import tile_pass


@tile_pass("allocate-shared-memory")
def allocate_shared_memory(module: Operation) -> None:
    """Gives buffers, operations that need shared memory while they run, and calls of functions
    that need some, an `allocation.offset`; the module gets its size, `ttg.shared`."""
    allocation = ModuleAllocation(module)
    write_offsets(allocation)
    module.attributes["ttg.shared"] = IntegerAttr(allocation.size, I32)


@tile_pass("test-print-allocation")
def print_allocation(module: Operation) -> None:
    """Writes the buffers of each function, with their offsets, to standard error; the module
    stays as it is."""
    for line in allocation_lines(module):
        print(line, file=sys.stderr)


@tile_pass("test-print-alias")
def print_alias(module: Operation) -> None:
    """Writes each view of shared memory, and the buffers that it may be of, to standard error; the
    module stays as it is."""
    writer = OpWriter(TextStyle(), generic=False)
    writer.name_values(module)
    for function in module.body:
        if function.name not in ("tt.func", "func.func"):
            continue
        print(symbol_name(function), file=sys.stderr)
        for value, buffers in alias_pairs(function):
            if buffers:
                names = ",".join(sorted(writer.value(op.results[0]) for op in buffers))
                print(f"{writer.value(value)} -> {names}", file=sys.stderr)
