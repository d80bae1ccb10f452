"""How the elements of one tensor lie in another: transposes and reshapes, as pairs of numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from ..nodes import Node
from ..symbols import chain_key, is_symbolic

#: For each dimension of a tensor, the (extent, step) pairs that it is made of, outermost first;
#: steps count elements of the other tensor.
Layout = tuple[tuple[tuple[int, int], ...], ...]

#: Elements that lie together when a result is stored in another order than it is made in.
PIECE = 16


def size_of(shape: Iterable[int]) -> int:
    """The number of elements."""
    total = 1
    for extent in shape:
        total *= extent
    return total


def plain_layout(shape: Sequence[int]) -> Layout:
    """The layout of what lies as it is.

    >>> plain_layout((2, 1, 8))
    (((2, 8),), (), ((8, 1),))
    """
    step, result = size_of(shape), []
    for extent in shape:
        step //= extent or 1
        result.append(((extent, step),) if extent != 1 else ())
    return tuple(result)


def layout_after(node: Node, layouts: Sequence[Layout]) -> Layout | None:
    """How a node's result lies, given how its bound inputs do; None: it cannot follow them."""
    first, out = layouts[0], node.outputs[0]
    if node.op.kind == "elementwise":
        if len(out.shape) < len(first) or any(other != first for other in layouts):
            return None
        padded: Layout = ((),) * (len(out.shape) - len(first)) + first
        extents = tuple(size_of(e for e, _ in dim) for dim in padded)
        return padded if extents == out.shape else None
    if node.op.name == "transpose":
        return tuple(first[axis] for axis in node.attrs["perm"])
    if node.op.name == "reshape":
        return _regroup([pair for dim in first for pair in dim], out.shape)
    return None


def _regroup(pairs: list[tuple[int, int]], shape: Sequence[int]) -> Layout | None:
    """The same elements in the same order as dimensions of other extents."""
    result: list[tuple[tuple[int, int], ...]] = []
    rest = list(pairs)
    for extent in reversed(shape):
        dim: list[tuple[int, int]] = []
        while extent != 1:
            own, step = rest.pop()
            if extent % own == 0:
                dim.append((own, step))
                extent //= own
            elif own % extent == 0:
                dim.append((extent, step))
                rest.append((own // extent, step * extent))
                extent = 1
            else:
                return None
        result.append(tuple(reversed(dim)))
    return tuple(reversed(result))


def is_plain(layout: Layout) -> bool:
    """Whether the elements keep their order: each step is a multiple of the next."""
    steps = [step for dim in layout for _, step in dim]
    return all(a % b == 0 if is_symbolic(a) or is_symbolic(b) else a >= b
               for a, b in pairwise(steps))  # fmt: skip


def together(layout: Layout) -> int:
    """How many elements lie together, at least.

    >>> together((((3, 8),), ((2, 24),), ((8, 1),)))
    8
    """
    extent = 1
    for own, step in reversed([pair for dim in layout for pair in dim]):
        if step != extent:
            break
        extent *= own
    return extent


def cut_shape(layout: Layout) -> tuple[int, ...]:
    """The other tensor's shape, cut as finely as a layout cuts it."""
    pairs = [pair for dim in layout for pair in dim]
    return tuple(e for e, _ in sorted(pairs, key=lambda pair: chain_key(pair[1]), reverse=True))
