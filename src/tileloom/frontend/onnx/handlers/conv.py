"""Convolutions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....base.errors import ShapeError
from ....graph import ops
from ....graph.nodes import Tensor
from ....graph.symbols import larger
from ..call import Call
from ..registry import handler
from ..values import Array
from .resize import sample


def windows(call: Call, x: Tensor, kernel: Sequence[int]) -> tuple[list[int], ...]:
    """Strides, pads (before..., after...) and dilations of a window over `x`."""
    rank = x.ndim - 2
    if rank < 1 or len(kernel) != rank or min(kernel) < 1:
        raise ShapeError(f"a kernel of {list(kernel)} does not fit {x.type}")
    strides = call.ints("strides", [1] * rank)
    dilations = call.ints("dilations", [1] * rank)
    if len(strides) != rank or len(dilations) != rank or min(*strides, *dilations) < 1:
        raise ShapeError(f"strides {strides} and dilations {dilations} do not fit {x.type}")
    mode = call.choice("auto_pad", "NOTSET", ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"))
    if mode == "NOTSET":
        pads = call.ints("pads", [0] * (2 * rank))
        if len(pads) != 2 * rank or min(pads) < 0:
            raise ShapeError(f"pads {pads} do not fit {x.type}")
        return strides, pads, dilations
    if mode == "VALID":
        return strides, [0] * (2 * rank), dilations
    return strides, _same(mode, x.shape[2:], kernel, strides, dilations), dilations


def _same(
    mode: str,
    extents: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> list[int]:
    """Padding that makes ceil(extent / stride) outputs."""
    before, after = [], []
    for n, k, s, d in zip(extents, kernel, strides, dilations):
        total = larger(0, (-(-n // s) - 1) * s + (k - 1) * d + 1 - n)
        small, large = total // 2, total - total // 2
        before.append(small if mode == "SAME_UPPER" else large)
        after.append(large if mode == "SAME_UPPER" else small)
    return before + after


def kernel_of(call: Call, weight: Tensor) -> list[int]:
    """The attribute, which must agree with the weight, or what the weight says."""
    actual = list(weight.shape[2:])
    given = call.ints("kernel_shape", actual)
    if given != actual:
        raise ShapeError(f"kernel_shape {given} disagrees with the weight {weight.type}")
    return actual


def convolve(
    call: Call,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    out_dtype: str | None = None,
    pad_value: int = 0,
) -> Tensor:
    """`conv` by the node's attributes."""
    strides, pads, dilations = windows(call, x, kernel_of(call, weight))
    groups = call.integer("group", 1)
    return ops.conv(x, weight, bias, strides, pads, dilations, groups, out_dtype, pad_value)


@handler("Conv")
def conv(call: Call) -> Tensor:
    return convolve(call, call.tensor(0), call.tensor(1), call.optional(2))


@handler("ConvTranspose")
def conv_transpose(call: Call) -> Tensor:
    x, weight = call.tensor(0), call.tensor(1)
    kernel = kernel_of(call, weight)
    rank = len(kernel)
    if x.ndim != rank + 2 or rank < 1:
        raise ShapeError(f"the weight {weight.type} does not fit {x.type}")
    strides = call.ints("strides", [1] * rank)
    dilations = call.ints("dilations", [1] * rank)
    extra = call.ints("output_padding", [0] * rank)
    if not len(strides) == len(dilations) == len(extra) == rank:
        raise ShapeError(f"strides, dilations and output_padding need {rank} entries each")
    pads = _transposed_pads(call, x, kernel, strides, dilations, extra)
    groups = call.integer("group", 1)
    return ops.conv_transpose(x, weight, call.optional(2), strides, pads, dilations, groups, extra)


def _transposed_pads(
    call: Call,
    x: Tensor,
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    extra: Sequence[int],
) -> list[int]:
    rank = len(kernel)
    mode = call.choice("auto_pad", "NOTSET", ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"))
    wanted = call.optional_ints("output_shape")
    if wanted is None and mode in ("NOTSET", "VALID"):
        pads = call.ints("pads", [0] * (2 * rank)) if mode == "NOTSET" else [0] * (2 * rank)
        if len(pads) != 2 * rank:
            raise ShapeError(f"pads {pads} do not fit {x.type}")
        return pads
    if wanted is None:
        wanted = [n * s for n, s in zip(x.shape[2:], strides)]
    wanted = wanted[-rank:]
    if len(wanted) != rank:
        raise ShapeError(f"output_shape {wanted} does not fit {x.type}")
    before, after = [], []
    for n, k, s, d, e, w in zip(x.shape[2:], kernel, strides, dilations, extra, wanted):
        total = s * (n - 1) + e + (k - 1) * d + 1 - w
        first = total - total // 2 if mode != "SAME_UPPER" else total // 2
        before.append(first)
        after.append(total - first)
    return before + after


@handler("DeformConv")
def deform_conv(call: Call) -> Tensor:
    """Bilinear samples at shifted places, multiplied by the weight."""
    x, weight, offset = call.tensor(0), call.tensor(1), call.tensor(2)
    if x.ndim != 4 or weight.ndim != 4 or offset.ndim != 4:
        call.unsupported(f"deformable convolution of {x.type}")
    kernel = kernel_of(call, weight)
    strides, pads, dilations = windows(call, x, kernel)
    groups = call.integer("group", 1)
    shifts = call.integer("offset_group", 1)
    n, c = x.shape[:2]
    taps = kernel[0] * kernel[1]
    rows, columns = offset.shape[2:]
    if offset.shape[:2] != (n, shifts * taps * 2) or shifts < 1 or c % shifts:
        raise ShapeError(f"offsets {offset.type} do not fit {x.type}")
    places = ops.reshape(offset, (n, shifts, taps, 2, rows, columns))
    base = _window_places(kernel, strides, pads, dilations, (rows, columns))
    moved = ops.add(places, ops.constant(base, x.dtype))
    flat = (n * shifts, taps * rows * columns)
    y, z = (ops.reshape(part, flat) for part in ops.split(moved, [1, 1], 3))
    samples = sample(_by_group(x, shifts), [y, z], "linear", "zeros", corners=False)
    samples = ops.reshape(samples, (n, shifts, c // shifts, taps, rows, columns))
    mask = call.optional(4)
    if mask is not None:
        samples = ops.mul(samples, ops.reshape(mask, (n, shifts, 1, taps, rows, columns)))
    return _apply_weight(samples, weight, call.optional(3), groups, (n, c, taps, rows, columns))


def _by_group(x: Tensor, groups: int) -> Tensor:
    n, c, h, w = x.shape
    return ops.reshape(x, (n * groups, c // groups, h, w))


def _window_places(
    kernel: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    outputs: Sequence[int],
) -> Array:
    """Row and column that each tap reads for each output: [1, 1, taps, 2, rows, columns]."""
    taps = np.indices(kernel).reshape(2, -1).T * np.array(dilations)
    places = (
        np.indices(outputs) * np.array(strides)[:, None, None] - np.array(pads[:2])[:, None, None]
    )
    result: Array = (taps[:, :, None, None] + places)[None, None]
    return result


def _apply_weight(
    samples: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    groups: int,
    sizes: tuple[int, int, int, int, int],
) -> Tensor:
    n, c, taps, rows, columns = sizes
    out = weight.shape[0]
    if groups < 1 or c % groups or out % groups or weight.shape[1] != c // groups:
        raise ShapeError(f"a weight {weight.type} does not fit {c} channels in {groups} groups")
    depth = c // groups * taps
    left = ops.reshape(weight, (1, groups, out // groups, depth))
    right = ops.reshape(samples, (n, groups, depth, rows * columns))
    result = ops.reshape(ops.matmul(left, right), (n, out, rows, columns))
    return result if bias is None else ops.add(result, ops.reshape(bias, (1, out, 1, 1)))


@handler("Col2Im")
def col2im(call: Call) -> Tensor:
    """Sums of overlapping blocks, by scattering."""
    x, image, block = call.tensor(0), call.integers(1), call.integers(2)
    rank = len(image)
    strides, dilations = call.ints("strides", [1] * rank), call.ints("dilations", [1] * rank)
    pads = call.ints("pads", [0] * (2 * rank))
    taps = int(np.prod(block, dtype=object))
    fits = len(block) == len(strides) == len(dilations) == rank and len(pads) == 2 * rank
    if not fits or x.ndim != 3 or taps < 1 or x.shape[1] % taps or min(image, default=1) < 1:
        raise ShapeError(f"blocks of {block} in {image} do not fit {x.type}")
    padded = [n + pads[k] + pads[k + rank] for k, n in enumerate(image)]
    counts = [
        (n - d * (b - 1) - 1) // s + 1 for n, d, b, s in zip(padded, dilations, block, strides)
    ]
    if int(np.prod(counts, dtype=object)) != x.shape[2]:
        raise ShapeError(f"{x.shape[2]} blocks, but {counts} fit into {image}")
    starts = np.indices(counts).reshape(rank, -1) * np.array(strides)[:, None]
    inner = np.indices(block).reshape(rank, -1) * np.array(dilations)[:, None]
    places = inner[:, :, None] + starts[:, None, :]
    flat = np.ravel_multi_index(tuple(places), padded).reshape(-1)
    n, channels = x.shape[0], x.shape[1] // taps
    size = int(np.prod(padded, dtype=object))
    values = ops.reshape(x, (n, channels, flat.size))
    index = ops.broadcast_to(ops.constant(flat, "int64"), values.shape)
    empty = ops.zeros((n, channels, size), x.dtype)
    result = ops.scatter_elements(empty, index, values, 2, "add")
    full = ops.reshape(result, (n, channels, *padded))
    axes = list(range(2, rank + 2))
    stops = [before + extent for before, extent in zip(pads, image)]
    return ops.strided_slice(full, pads[:rank], stops, axes)
