"""Runs programs of tile IR tensor by tensor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..ir.core import Operation
from . import accesses, arithmetic, casts, products, shared, tensors
from .interpreter import Interpreter, complete_grid, run_with
from .memory import GlobalMemory
from .shared_arrays import SharedArrays

RULE_FILES = (accesses, arithmetic, casts, products, shared, tensors)


def run(
    module: Operation,
    function: str,
    arguments: Sequence[Any],
    grid: Sequence[int] = (1, 1, 1),
    *,
    output: Callable[[str], None] = print,
    limit: int = 10_000_000,
) -> list[np.ndarray[Any, Any]]:
    """Runs a function for all programs of a grid, one after another, tensor by tensor.

    Layouts mean nothing here, waits and barriers neither: what runs is what the program says of
    tensors. `run_threads` runs it as threads do.

    Args:
        module: where the function is, and those that it calls.
        function: its name.
        arguments: a contiguous array for a pointer, which stores change in place; a number for a
            scalar; an array of its shape for a tensor.
        grid: the number of programs along x, y and z.
        output: takes each line that `tt.print` writes.
        limit: the operations that may run, against loops that do not end.

    Returns:
        The results of the function, of the last program.

    Raises:
        ArgumentError: if the arguments do not fit.
        OutOfBoundsError: if an access is outside of its buffer; names the operation and its place.
        ExecutionError: if an assertion fails, or the program does what it must not.
        UnsupportedError: if an operation cannot be run.

    >>> from tileloom.tile import parse
    >>> module = parse('''
    ... tt.func @twice(%p: !tt.ptr<i32>) {
    ...   %x = tt.load %p : !tt.ptr<i32>
    ...   %y = arith.addi %x, %x : i32
    ...   tt.store %p, %y : !tt.ptr<i32>
    ...   tt.return
    ... }''')
    >>> data = np.array([21], np.int32)
    >>> run(module, "twice", [data]), int(data[0])
    ([], 42)
    """
    memory = GlobalMemory()
    machine = Interpreter(module, memory, SharedArrays(), complete_grid(grid), output, limit)
    return run_with(machine, function, arguments)
