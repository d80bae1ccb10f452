"""Conditions on values that a program checks while it runs: one more output says which failed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..base.errors import UserError
from . import ops
from .nodes import Graph, Tensor
from .ops.common import index_kind
from .symbols import is_symbolic

#: Ops whose results are positions along the axis that the attribute names.
_POSITIONS = {"argmax", "argmin", "argsort"}


@dataclass(frozen=True)
class Check:
    """What must not be.

    Attributes:
        wrong: bool, true where a value is not allowed.
        error: makes the error that says so.
    """

    wrong: Tensor
    error: Callable[[], UserError]


def out_of_range(indices: Tensor, extent: int) -> Tensor | None:
    """Where indices of an axis are out of range; None if they cannot be.

    >>> from tileloom.graph.nodes import tensor_type
    >>> i = Tensor(tensor_type((3,), "int64"), "i")
    >>> out_of_range(i, 4).type, out_of_range(ops.argmax(i, axis=0), 3)
    (bool[3], None)
    """
    if not indices.type.size or _is_position(indices, extent):
        return None
    kind = indices.dtype
    if kind.bits < 32 or kind.is_unsigned or index_kind(extent) == "int64":
        wide = kind.bits >= 32 or index_kind(extent) == "int64"
        indices = ops.cast(indices, "int64" if wide else "int32")
    return ops.logical_or(ops.less(indices, -extent), ops.greater_equal(indices, extent))


def tuple_out_of_range(indices: Tensor, extents: Sequence[int]) -> Tensor | None:
    """Where index tuples in the last axis are out of range, each part by an extent of its own."""
    if not indices.type.size:
        return None
    wrong = []
    for k, extent in enumerate(extents):
        part = out_of_range(ops.strided_slice(indices, (k,), (k + 1,), (-1,)), extent)
        if part is not None:
            wrong.append(part)
    return ops.concat(wrong, -1) if wrong else None


def _is_position(indices: Tensor, extent: int) -> bool:
    node = indices.node
    while node is not None and node.op.name in ("cast", "reshape"):
        node = node.inputs[0].node
    if node is None or node.op.name not in _POSITIONS:
        return False
    have = node.inputs[0].shape[node.attrs["axis"]]
    return have is extent or (not is_symbolic(have) and not is_symbolic(extent) and have <= extent)


def first_failure(checks: Sequence[Check]) -> Tensor:
    """The number of a check that fails, counted from 1, or 0: an int32 without dimensions."""
    codes = []
    for number, check in enumerate(checks, 1):
        code = ops.where(check.wrong, ops.constant(number, "int32"), ops.constant(0, "int32"))
        codes.append(ops.max(code, None, False))
    found = codes[0]
    for code in codes[1:]:
        found = ops.maximum(found, code)
    return found


def with_failures(graph: Graph, checks: Sequence[Check]) -> Graph:
    """The graph with the number of the first check that fails as its last output."""
    if not checks:
        return graph
    names = (*graph.output_names, "failure")
    return Graph(graph.inputs, [*graph.outputs, first_failure(checks)], names, graph.name)


def checked(program: Callable[..., list[Any]], checks: Sequence[Check]) -> Callable[..., list[Any]]:
    """A program whose last output is the number of a failed check, as one that raises its error."""
    errors = [check.error for check in checks]

    def run(*arrays: Any) -> list[Any]:
        results = program(*arrays)
        failed = results.pop()
        if failed:
            raise errors[int(failed) - 1]()
        return results

    return run
