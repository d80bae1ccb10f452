"""Slices and concatenations: what is taken apart after it was put together, and the reverse.

Contract: only elements that are read are moved. A slice reads from no other slice, and from no
concatenation unless it crosses a seam of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..nodes import Node, Tensor
from ..ops.gather import bounded
from ..symbols import at_least, is_symbolic, larger, smaller
from .coded import coded
from .reshapes import source_of, to_shape
from .rewriter import Rewriter
from .rule import Rule

_FAMILY = "slices"


def to_slice(
    x: Tensor, starts: Sequence[int], sizes: Sequence[int], steps: Sequence[int],
    rewriter: Rewriter,
) -> Tensor:  # fmt: skip
    """A slice, where one is needed."""
    if is_all(x, starts, sizes, steps):
        return x
    return rewriter.make(
        "slice", (x,), starts=tuple(starts), sizes=tuple(sizes), steps=tuple(steps)
    )


def is_all(x: Tensor, starts: Sequence[int], sizes: Sequence[int], steps: Sequence[int]) -> bool:
    """Whether a slice has every element in order."""
    return tuple(sizes) == x.shape and all(
        size == 0 or (start == 0 and (step == 1 or size == 1))
        for start, size, step in zip(starts, sizes, steps, strict=True)
    )


@coded("slice-of-all", _FAMILY, "slice(A, everything) = A", "slice")
def slice_of_all(node: Node, rewriter: Rewriter) -> Tensor | None:
    x, attrs = node.inputs[0], node.attrs
    return x if is_all(x, attrs["starts"], attrs["sizes"], attrs["steps"]) else None


@coded("slice-of-slice", _FAMILY, "slice(slice(A)) = slice(A)", ("slice", "slice"))
def slice_of_slice(node: Node, rewriter: Rewriter) -> Tensor | None:
    below = node.inputs[0].node
    if below is None:
        return None
    rows = list(zip(below.attrs["starts"], below.attrs["steps"], node.attrs["starts"],
                    node.attrs["steps"], strict=True))  # fmt: skip
    starts = [first + start * stride for first, stride, start, _ in rows]
    steps = [stride * step for _, stride, _, step in rows]
    return to_slice(below.inputs[0], starts, node.attrs["sizes"], steps, rewriter)


@coded("slice-of-concat", _FAMILY, "slice(concat(A, B, ...)) = slice(concat of fewer)",
       ("slice", "concat"))  # fmt: skip
def slice_of_concat(node: Node, rewriter: Rewriter) -> Tensor | None:
    joined = node.inputs[0].node
    if joined is None or node.outputs[0].type.size == 0:
        return None
    axis = joined.attrs["axis"]
    starts = list(node.attrs["starts"])
    ends = starts[axis] + (node.attrs["sizes"][axis] - 1) * node.attrs["steps"][axis]
    low, high = smaller(starts[axis], ends), larger(starts[axis], ends)
    needed: list[Tensor] = []
    begin = first = 0
    for part in joined.inputs:
        end = begin + part.shape[axis]
        if at_least(high - begin, 0) is not False and at_least(end - low, 1) is not False:
            if not needed:
                first = begin
            needed.append(part)
        begin = end
    if len(needed) == len(joined.inputs):
        return None
    if len(needed) > 1 and not rewriter.may_replace(node.inputs[0]):
        return None
    starts[axis] -= first
    whole = needed[0] if len(needed) == 1 else rewriter.make("concat", needed, axis=axis)
    return to_slice(whole, starts, node.attrs["sizes"], node.attrs["steps"], rewriter)


@coded("slice-of-broadcast", _FAMILY, "slice(broadcast_to(A)) = broadcast_to(slice(A))",
       ("slice", "broadcast_to"))  # fmt: skip
def slice_of_broadcast(node: Node, rewriter: Rewriter) -> Tensor | None:
    x, attrs = source_of(node), node.attrs
    if node.outputs[0].type.size == 0:
        return None
    skip = len(attrs["sizes"]) - x.ndim
    starts, sizes, steps = (list(attrs[name][skip:]) for name in ("starts", "sizes", "steps"))
    for k, extent in enumerate(x.shape):
        if extent == 1:
            starts[k], sizes[k], steps[k] = 0, 1, 1
    part = to_slice(x, starts, sizes, steps, rewriter)
    shape = node.outputs[0].shape
    return part if part.shape == shape else rewriter.make("broadcast_to", (part,), shape=shape)


@coded("slice-before-transpose", _FAMILY, "slice(transpose(A)) = transpose(slice(A))",
       ("slice", "transpose"), note="where nobody else reads the transpose")  # fmt: skip
def slice_before_transpose(node: Node, rewriter: Rewriter) -> Tensor | None:
    transpose = node.inputs[0].node
    if transpose is None or not rewriter.may_replace(node.inputs[0]):
        return None
    perm = transpose.attrs["perm"]
    place = [perm.index(axis) for axis in range(len(perm))]
    starts, sizes, steps = (
        [node.attrs[name][k] for k in place] for name in ("starts", "sizes", "steps")
    )
    part = to_slice(transpose.inputs[0], starts, sizes, steps, rewriter)
    return rewriter.make("transpose", (part,), perm=perm)


@coded("concat-of-one", _FAMILY, "concat(A) = A", "concat", note="empty parts are left out first")
def concat_of_one(node: Node, rewriter: Rewriter) -> Tensor | None:
    axis = node.attrs["axis"]
    parts = [part for part in node.inputs if part.shape[axis]] or [node.inputs[0]]
    if len(parts) == 1:
        return parts[0]
    if len(parts) == len(node.inputs):
        return None
    return rewriter.make("concat", parts, axis=axis)


@coded("concat-of-concat", _FAMILY, "concat(concat(A, B), C) = concat(A, B, C)", "concat",
       note="along the same axis, where nobody else reads the inner one")  # fmt: skip
def concat_of_concat(node: Node, rewriter: Rewriter) -> Tensor | None:
    axis = node.attrs["axis"]
    parts: list[Tensor] = []
    for part in node.inputs:
        below = part.node
        if below is None or below.op.name != "concat" or below.attrs["axis"] != axis:
            parts.append(part)
        elif rewriter.may_replace(part):
            parts += below.inputs
        else:
            parts.append(part)
    return rewriter.make("concat", parts, axis=axis) if len(parts) > len(node.inputs) else None


@coded("concat-of-slices", _FAMILY, "concat(slice(A, 0:k), slice(A, k:n)) = slice(A, 0:n)",
       ("concat", "slice", None), ("concat", None, "slice"),
       note="of neighbours that are slices of one tensor")  # fmt: skip
def concat_of_slices(node: Node, rewriter: Rewriter) -> Tensor | None:
    axis = node.attrs["axis"]
    parts: list[Tensor] = []
    for part in node.inputs:
        joined = _joined(parts[-1], part, axis, rewriter) if parts else None
        if joined is None:
            parts.append(part)
        else:
            parts[-1] = joined
    if len(parts) == len(node.inputs):
        return None
    return parts[0] if len(parts) == 1 else rewriter.make("concat", parts, axis=axis)


def _joined(a: Tensor, b: Tensor, axis: int, rewriter: Rewriter) -> Tensor | None:
    """The slice that holds two slices, if the second goes on where the first ends."""
    first, second = a.node, b.node
    if first is None or second is None or first.op.name != "slice" or second.op.name != "slice":
        return None
    if first.inputs[0] is not second.inputs[0] or first.attrs["steps"] != second.attrs["steps"]:
        return None
    starts, steps = first.attrs["starts"], first.attrs["steps"]
    after = list(starts)
    after[axis] += first.attrs["sizes"][axis] * steps[axis]
    if tuple(after) != tuple(second.attrs["starts"]) or 0 in (a.type.size, b.type.size):
        return None
    sizes = list(first.attrs["sizes"])
    sizes[axis] += second.attrs["sizes"][axis]
    return to_slice(first.inputs[0], starts, sizes, steps, rewriter)


@coded("gather-of-run", _FAMILY, "gather(A, constant k, k + s, ...) = slice(A)",
       ("gather", None, "constant"), note="one index, or indices at equal distances")  # fmt: skip
def gather_of_run(node: Node, rewriter: Rewriter) -> Tensor | None:
    x, places, axis = node.inputs[0], node.inputs[1].value, node.attrs["axis"]
    extent = x.shape[axis]
    if places is None or not places.size or not at_least(extent, places.size):
        return None
    run = _run(places.reshape(-1).astype("int64"), extent)
    if run is None:
        return None
    starts, sizes, steps = [0] * x.ndim, list(x.shape), [1] * x.ndim
    starts[axis], sizes[axis], steps[axis] = run[0], places.size, run[1]
    return to_shape(to_slice(x, starts, sizes, steps, rewriter), node.outputs[0].shape, rewriter)


def _run(places: np.ndarray[Any, Any], extent: int) -> tuple[int, int] | None:
    """The first of indices and the distance between them, if that is always the same."""
    first = 0
    if not is_symbolic(extent):
        places = bounded(places, extent)
    elif not at_least(extent, int(max(places.max() + 1, -places.min()))):
        return None  # which of them are moved into range depends
    elif (places < 0).all():
        first = extent
    elif (places < 0).any():
        return None
    step = int(places[1] - places[0]) if places.size > 1 else 1
    if step == 0 or (np.diff(places) != step).any():
        return None
    return first + int(places[0]), step


SLICES: tuple[Rule, ...] = (
    slice_of_all, slice_of_slice, slice_of_concat, slice_of_broadcast, slice_before_transpose,
    concat_of_one, concat_of_concat, concat_of_slices, gather_of_run,
)  # fmt: skip
