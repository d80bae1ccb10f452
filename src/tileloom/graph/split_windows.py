"""Large windows taken apart, where that saves more reading than it costs to keep what is between.

A maximum (or sum) over a box is that over its columns of those over its rows. A convolution packs
each window of its input: with few output channels that takes longer than the products. Such a one
is made without the window's first dimension, each of its taps giving output channels of their own,
and these, shifted against each other, are summed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from functools import reduce
from typing import Any

from .contractions import suits_panels
from .nodes import Graph, Node, Tensor
from .op import apply1
from .ops.binary import add
from .ops.common import product
from .ops.pad import pad
from .ops.shape import reshape, strided_slice, transpose
from .ops.windows import Windows
from .replace import replace_nodes
from .symbols import hint, is_symbolic

#: Windows of fewer elements are read faster at once.
SMALL_WINDOW = 16
#: Writing and reading a partial sum takes as long as packing so many elements.
SUM_COST = 2
#: With more output channels packing takes little of the time.
MOST_CHANNELS = 128
#: Partial sums of more bytes would not stay near the core.
MOST_SUMS = 32 << 20
#: Types whose partial sums may be kept as they are.
EXACT_ENOUGH = ("float32", "float64")


def split_windows(graph: Graph) -> Graph:
    """The graph with its large windows taken apart; the graph itself if it has none.

    >>> from tileloom.graph import ops
    >>> from tileloom.graph.nodes import tensor_type
    >>> x = Tensor(tensor_type((1, 8, 40, 40), "float32"), "x")
    >>> graph = split_windows(Graph([x], [ops.max_pool(x, (5, 5))]))
    >>> [node.attrs["kernel"] for node in graph.nodes]
    [(5, 1), (1, 5)]
    """
    return replace_nodes(graph, _taken_apart)


def _taken_apart(node: Node, now: Callable[[Tensor], Tensor]) -> Sequence[Tensor] | None:
    if node.op.name in ("max_pool", "sum_pool") and _is_pool_to_split(node):
        return [_pool_by_rows(node.op.name, now(node.inputs[0]), node.attrs)]
    if node.op.name == "conv" and _is_slow_to_pack(node):
        return [_conv_by_taps(now(node.inputs[0]), now(node.inputs[1]), node.attrs)]
    return None


# ---------------------------------------------------------------------------- pooling


def _is_pool_to_split(node: Node) -> bool:
    if node.op.name == "sum_pool" and node.outputs[0].dtype not in EXACT_ENOUGH:
        return False
    return _is_large(node.attrs["kernel"])


def _is_large(kernel: Sequence[int]) -> bool:
    return product(kernel) >= SMALL_WINDOW and sum(extent > 1 for extent in kernel) > 1


def _pool_by_rows(name: str, x: Tensor, attrs: Any) -> Tensor:
    """Along the last dimension of the window after all others, where rows are contiguous.

    What is padded is read often, so padding along that dimension is left to the others' pooling.
    """
    windows = Windows.of(attrs, attrs["kernel"])
    sizes = x.shape[2:]
    ends = windows.ends(sizes, windows.outputs(sizes, attrs["ceil_mode"]))
    last = max(k for k, extent in enumerate(windows.kernel) if extent > 1)
    pads = (*windows.before, *ends)
    others = _only(attrs, {k for k in range(windows.rank) if k != last}, pads)
    if _is_large(others["kernel"]):
        x = _pool_by_rows(name, x, others)
    else:
        x = apply1(name, (x,), **others)
    return apply1(name, (x,), **_only(attrs, {last}, (0,) * len(pads)))


def _only(attrs: Any, chosen: Set[int], pads: Sequence[int]) -> dict[str, Any]:
    """The windows along chosen dimensions, and points along the others, with other padding."""

    def kept(name: str) -> tuple[int, ...]:
        return tuple(value if k in chosen else 1 for k, value in enumerate(attrs[name]))

    names = ("kernel", "strides", "dilations")
    return {**{name: kept(name) for name in names}, "pads": tuple(pads), "ceil_mode": False}


# ---------------------------------------------------------------------------- convolutions


def _is_slow_to_pack(node: Node) -> bool:
    (x, weight), attrs = node.inputs, node.attrs
    kind, taps = node.outputs[0].dtype, weight.shape[2]
    if not suits_panels(node) or kind not in EXACT_ENOUGH or x.dtype is not kind:
        return False
    if taps == 1 or attrs["strides"][0] != 1 or any(map(is_symbolic, weight.shape)):
        return False
    channels = weight.shape[0] // attrs["groups"]
    saved: int = product(weight.shape[1:]) * (taps - 1) // taps
    if channels > MOST_CHANNELS or saved <= SUM_COST * taps * channels:
        return False
    rows = hint(node.outputs[0].type.size) // hint(node.outputs[0].shape[2]) * hint(x.shape[2])
    return 0 < rows * taps * kind.bytes <= MOST_SUMS


def _conv_by_taps(x: Tensor, weight: Tensor, attrs: Any) -> Tensor:
    """The sum over the window's first dimension of convolutions over the others."""
    groups, rank = attrs["groups"], x.ndim - 2
    windows = Windows.of(attrs, weight.shape[2:])
    count, depth, taps, *rest = weight.shape
    split = reshape(weight, [groups, count // groups, depth, taps, *rest])
    ordered = transpose(split, [0, 3, 1, 2, *range(4, 3 + rank)])
    made = apply1(
        "conv",
        (x, reshape(ordered, [taps * count, depth, 1, *rest])),
        **{
            **attrs,
            "dilations": (1, *windows.dilations[1:]),
            "pads": (0, *windows.before[1:], 0, *windows.after[1:]),
        },
    )
    space = made.shape[2:]
    parts = reshape(made, [x.shape[0], groups, taps, count // groups, *space])

    def tap(k: int) -> Tensor:
        part = reshape(strided_slice(parts, [k], [k + 1], [2]), [x.shape[0], count, *space])
        low = windows.before[0] - k * windows.dilations[0]
        high = windows.after[0] - (taps - 1 - k) * windows.dilations[0]
        return pad(part, [(0, 0), (0, 0), (low, high), *[(0, 0)] * (rank - 1)])

    return reduce(add, map(tap, range(taps)))
