"""Whether a pass keeps what programs compute: both are run, and memory is compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tileloom.tile.dialects.functions import symbol_name
from tileloom.tile.ir.core import Operation
from tileloom.tile.ir.types import TensorType
from tileloom.tile.layouts.encodings import DistributedEncoding
from tileloom.tile.run import run, run_threads
from tileloom.tile.run.values import is_float_dtype


def check_pass(
    before: Operation,
    after: Operation,
    arguments: Sequence[Any],
    *,
    function: str | None = None,
    grid: Sequence[int] = (1, 1, 1),
    rtol: float = 1e-5,
    atol: float = 1e-6,
) -> None:
    """Runs a function of two modules on the same arguments, and compares what they leave in
    memory and give back.

    The module before runs tensor by tensor, the one after does too and, if its tensors have
    layouts, thread by thread as well. Integers must be the same, floats close.

    Args:
        arguments: those of `run`; arrays are copied.
        function: its name; by default that of the first public function.
    """
    name = first_function(before) if function is None else function
    expected = outcome(run, before, name, arguments, grid)
    compare(outcome(run, after, name, arguments, grid), expected, rtol, atol, "tensors")
    if has_layouts(after):
        found = outcome(run_threads, after, name, arguments, grid)
        compare(found, expected, rtol, atol, "threads")


def outcome(
    runner: Any, module: Operation, name: str, arguments: Sequence[Any], grid: Sequence[int]
) -> list[Any]:
    """The arrays after a run, and the results."""
    given = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
    results: list[Any] = runner(module, name, given, grid, output=lambda _line: None)
    return [a for a in given if isinstance(a, np.ndarray)] + results


def compare(
    found: Sequence[Any], expected: Sequence[Any], rtol: float, atol: float, how: str
) -> None:
    """Compares arrays: integers exactly."""
    for index, (one, other) in enumerate(zip(found, expected, strict=True)):
        message = f"array {index}, run by {how}"
        if is_float_dtype(one.dtype):
            wide, reference = (np.asarray(a).astype(np.float64) for a in (one, other))
            np.testing.assert_allclose(wide, reference, rtol=rtol, atol=atol, err_msg=message)
        else:
            np.testing.assert_array_equal(one, other, err_msg=message)


def first_function(module: Operation) -> str:
    """The name of the first function that is not private."""
    for op in module.walk():
        if op.name == "tt.func" and "private" not in str(op.attributes.get("sym_visibility")):
            return symbol_name(op)
    raise AssertionError("the module has no public function")


def has_layouts(module: Operation) -> bool:
    """Whether all tensors have layouts."""
    blocks = [block for op in module.walk() for region in op.regions for block in region.blocks]
    types = [result.type for op in module.walk() for result in op.results]
    types += [argument.type for block in blocks for argument in block.arguments]
    tensors = [type for type in types if isinstance(type, TensorType)]
    return all(isinstance(type.encoding, DistributedEncoding) for type in tensors)
