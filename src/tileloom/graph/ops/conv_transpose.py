"""Transposed convolution of [N, C, spatial...] with a weight of [C, O / groups, kernel...].

Each element of the input adds the kernel, scaled by it, to the output at `stride` times its place.
Output elements whose places leave the same remainder by the stride are a *phase*: an ordinary
convolution of the input with every stride-th element of the kernel. So nothing is multiplied by
zeros between elements: the contributions of all phases are computed side by side, as channels, and
then interleaved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from ...base.errors import ShapeError
from ..nodes import Tensor
from ..op import Array
from .binary import add
from .common import check_rank, product
from .composite import build, define_composite
from .constants import zeros
from .conv import add_bias, conv
from .pad import pad
from .pool import Amounts
from .rearrange import flip
from .shape import reshape, strided_slice, transpose
from .windows import spread, spread_pads

#: Contributions to one output element that are added up after the product with the kernel.
MOST_SUMMED = 8


@dataclass(frozen=True)
class _Along:
    """A transposed convolution along one spatial dimension.

    A *step* is one element of the input, or `stride` elements of the output.

    Attributes:
        size: the extent of the input.
        start: where the output begins; the first contribution of element 0 is to place 0.
        tail: where it ends, counted from the first contribution of the last element.
    """

    size: int
    kernel: int
    stride: int
    dilation: int
    start: int
    tail: int

    @property
    def extent(self) -> int:
        """The extent of the output."""
        return (self.size - 1) * self.stride + self.tail - self.start

    @property
    def phases(self) -> int:
        """The phases with contributions; those behind them are zero."""
        return min(self.stride, self.kernel)

    @property
    def taps(self) -> int:
        """The most elements of the kernel in a phase."""
        return -(-self.kernel // self.stride)

    @property
    def first(self) -> int:
        """The step that the output begins in."""
        return self.start // self.stride

    @property
    def more(self) -> int:
        """The steps after the last element of the input that the output reaches; may be less."""
        return -(-self.tail // self.stride) - 1

    @property
    def steps(self) -> int:
        """The steps of the output."""
        return self.size + self.more - self.first


def _conv_transpose(
    x: Tensor, weight: Tensor, *, strides: Sequence[int], pads: Sequence[int],
    dilations: Sequence[int], groups: int, output_padding: Sequence[int],
) -> Tensor:  # fmt: skip
    rank = x.ndim - 2
    check_rank(x.type, 3, "the input")
    if weight.ndim != x.ndim or weight.shape[0] != x.shape[1] or x.shape[1] % groups:
        raise ShapeError(f"the weight {weight.type} in {groups} groups does not fit {x.type}")
    _check(rank, strides, pads, dilations, output_padding)
    # Kernels that are dilated as well are seen as longer ones, with zeros in between.
    both = any(s > 1 and d > 1 for s, d in zip(strides, dilations, strict=True))
    dims = []
    for k, (size, kernel) in enumerate(zip(x.shape[2:], weight.shape[2:], strict=True)):
        reach = (kernel - 1) * dilations[k] + 1
        tail = reach - pads[rank + k] + output_padding[k]
        length, dilation = (reach, 1) if both else (kernel, dilations[k])
        dims.append(_Along(size, length, strides[k], dilation, pads[k], tail))
        if dims[-1].extent < 0:
            raise ShapeError(f"padding leaves less than nothing of spatial dimension {k}")
    if any(dim.extent == 0 for dim in dims):
        return zeros((x.shape[0], groups * weight.shape[1], *(d.extent for d in dims)), x.dtype)
    if both or any(dim.kernel % dim.phases for dim in dims):
        return _by_sums(x, weight, dims, groups, dilations if both else [1] * rank)
    strided = any(dim.stride > 1 for dim in dims)
    if strided and groups == 1 and product([dim.taps for dim in dims]) <= MOST_SUMMED:
        return _by_sums(x, weight, dims, groups, [1] * rank)
    return _by_phases(x, weight, dims, groups)


def _check(
    rank: int, strides: Sequence[int], pads: Sequence[int], dilations: Sequence[int],
    output_padding: Sequence[int],
) -> None:  # fmt: skip
    amounts = {"strides": strides, "dilations": dilations, "output_padding": output_padding}
    for name, values in amounts.items():
        if len(values) != rank:
            raise ShapeError(f"{name} needs one value for each of {rank} spatial dimensions")
    if len(pads) != 2 * rank:
        raise ShapeError(f"pads needs two values for each of {rank} spatial dimensions")
    if min((*strides, *dilations)) < 1:
        raise ShapeError(f"strides {list(strides)} and dilations {list(dilations)} below one")


def _by_phases(x: Tensor, weight: Tensor, dims: Sequence[_Along], groups: int) -> Tensor:
    """One convolution, whose output channels are the phases of the result's channels."""
    rank, depth, count = len(dims), weight.shape[0] // groups, weight.shape[1]
    cut = [extent for dim in dims for extent in (dim.taps, dim.phases)]
    split = reshape(weight, [groups, depth, count, *cut])
    taps, phases = range(3, 3 + 2 * rank, 2), range(4, 4 + 2 * rank, 2)
    ordered = transpose(flip(split, taps), [0, 2, *phases, 1, *taps])
    channels = groups * count * product([dim.phases for dim in dims])
    kernel = reshape(ordered, [channels, depth, *(dim.taps for dim in dims)])
    margins = [((dim.taps - 1) * dim.dilation - dim.first, dim.more) for dim in dims]
    inner = pad(x, [(0, 0), (0, 0), *((min(0, low), min(0, high)) for low, high in margins)])
    pads = [max(0, pair[k]) for k in (0, 1) for pair in margins]
    dilations = [dim.dilation for dim in dims]
    return _interleaved(conv(inner, kernel, None, None, pads, dilations, groups), dims)


def _by_sums(
    x: Tensor, weight: Tensor, dims: Sequence[_Along], groups: int, apart: Sequence[int]
) -> Tensor:
    """A product of each input element with the whole kernel, then sums where kernels overlap.

    Args:
        apart: how far the elements of the weight lie apart in the kernel.
    """
    rank, depth, count = len(dims), weight.shape[0] // groups, weight.shape[1]
    kernel = weight.shape[2:]
    split = reshape(weight, [groups, depth, count, *kernel])
    ordered = transpose(split, [0, 2, *range(3, 3 + rank), 1])
    points = reshape(ordered, [groups * count * product(kernel), depth, *(1,) * rank])
    made = conv(x, points, groups=groups)
    terms = reshape(made, [x.shape[0], groups * count, *kernel, *x.shape[2:]])
    for k, (step, dim) in enumerate(zip(apart, dims, strict=True), 2):
        terms = _zeros_between(terms, k, step, dim.kernel)
    taps = np.ndindex(*(dim.taps for dim in dims))
    total = reduce(add, (_contribution(terms, dims, tap) for tap in taps))
    channels = groups * count * product([dim.phases for dim in dims])
    return _interleaved(reshape(total, [x.shape[0], channels, *total.shape[2 + rank :]]), dims)


def _zeros_between(x: Tensor, axis: int, step: int, extent: int) -> Tensor:
    """The elements along an axis put `step` apart."""
    if step == 1:
        return x
    before, after = x.shape[:axis], x.shape[axis + 1 :]
    split = reshape(x, [*before, x.shape[axis], 1, *after])
    pads = [(0, 0)] * split.ndim
    pads[axis + 1] = (0, step - 1)
    joined = reshape(pad(split, pads), [*before, x.shape[axis] * step, *after])
    return strided_slice(joined, [0], [extent], [axis])


def _contribution(terms: Tensor, dims: Sequence[_Along], taps: Sequence[int]) -> Tensor:
    """What certain taps of all phases add, as [N, O, phases..., steps...]."""
    starts = [dim.stride * tap for dim, tap in zip(dims, taps, strict=True)]
    ends = [min(at + dim.stride, dim.kernel) for dim, at in zip(dims, starts, strict=True)]
    part = strided_slice(terms, starts, ends, range(2, 2 + len(dims)))
    missing = [
        (0, dim.phases - (end - at)) for dim, at, end in zip(dims, starts, ends, strict=True)
    ]
    shifts = [
        (tap * dim.dilation - dim.first, dim.more - tap * dim.dilation)
        for dim, tap in zip(dims, taps, strict=True)
    ]
    return pad(part, [(0, 0), (0, 0), *missing, *shifts])


def _interleaved(x: Tensor, dims: Sequence[_Along]) -> Tensor:
    """Phases, which are channels of `x` for whole steps, put where they belong in the output."""
    rank, phases = len(dims), [dim.phases for dim in dims]
    if all(dim.stride == 1 for dim in dims):
        return x
    split = reshape(x, [x.shape[0], x.shape[1] // product(phases), *phases, *x.shape[2:]])
    empty = [(0, dim.stride - dim.phases) for dim in dims]
    full = pad(split, [(0, 0), (0, 0), *empty, *[(0, 0)] * rank])
    order = [axis for k in range(rank) for axis in (2 + rank + k, 2 + k)]
    woven = transpose(full, [0, 1, *order])
    joined = reshape(woven, [*woven.shape[:2], *(dim.steps * dim.stride for dim in dims)])
    starts = [dim.start - dim.first * dim.stride for dim in dims]
    ends = [start + dim.extent for start, dim in zip(starts, dims, strict=True)]
    return strided_slice(joined, starts, ends, range(2, 2 + rank))


def _conv_transpose_reference(
    x: Array, weight: Array, *, strides: Sequence[int], pads: Sequence[int],
    dilations: Sequence[int], groups: int, output_padding: Sequence[int],
) -> Array:  # fmt: skip
    """Each input element adds the kernel, scaled by it, to the output."""
    rank, kernel = x.ndim - 2, weight.shape[2:]
    depth, count = weight.shape[0] // groups, weight.shape[1]
    full = [
        (x.shape[2 + k] - 1) * strides[k] + (kernel[k] - 1) * dilations[k] + 1 for k in range(rank)
    ]
    ends = [full[k] - pads[rank + k] + output_padding[k] for k in range(rank)]
    room = [max(full[k], ends[k]) for k in range(rank)]
    result = np.zeros((x.shape[0], groups * count, *room))
    for offset in np.ndindex(*kernel):
        rows = zip(offset, dilations, strides, x.shape[2:], strict=True)
        at = tuple(slice(o * d, o * d + (n - 1) * s + 1 if n else o * d, s) for o, d, s, n in rows)
        for g in range(groups):
            ins, outs = slice(g * depth, (g + 1) * depth), slice(g * count, (g + 1) * count)
            part = np.tensordot(x[:, ins], weight[(ins, slice(None), *offset)], ([1], [0]))
            result[(slice(None), outs, *at)] += np.moveaxis(part, -1, 1)
    crop = tuple(slice(pads[k], ends[k]) for k in range(rank))
    return result[(slice(None), slice(None), *crop)]


define_composite("conv_transpose", _conv_transpose, _conv_transpose_reference)


def conv_transpose(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, strides: Amounts = None,
    pads: Amounts = None, dilations: Amounts = None, groups: int = 1,
    output_padding: Amounts = None,
) -> Tensor:  # fmt: skip
    """The transpose of `conv`, with a weight of [C, O / groups, kernel...]."""
    rank = max(x.ndim - 2, 0)
    result = build(
        "conv_transpose",
        x,
        weight,
        strides=spread(strides, rank),
        pads=spread_pads(pads, rank),
        dilations=spread(dilations, rank),
        groups=int(groups),
        output_padding=spread(output_padding, rank, 0),
    )
    return add_bias(result, bias)
