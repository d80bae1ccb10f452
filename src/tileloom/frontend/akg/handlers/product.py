"""Matrix products and convolutions: float16 operands are multiplied and added up in float32."""

from __future__ import annotations

from collections.abc import Sequence

from ....base import DType
from ....base.errors import ShapeError, UnsupportedError, UserError
from ....graph import ops
from ....graph.nodes import Tensor
from ..call import Call, handler
from .shape import from_fractal, to_fractal

#: Convolutions are matrix products of patches if these have no more bytes.
MOST_PATCHES = 1 << 28


@handler("MatMul", "BatchMatMul")
def matmul(call: Call) -> Tensor:
    a, b = (_plain(call, k, side) for k, side in enumerate(("left", "right")))
    kind = call.output.dtype
    fits = all(kind.is_float == x.dtype.is_float and kind.bits >= x.dtype.bits for x in (a, b))
    wide = kind if fits else None  # else the product is converted to it
    product = ops.matmul(
        a, b, transpose_a=_transposed(call, "a"), transpose_b=_transposed(call, "b"),
        out_dtype=wide,
    )  # fmt: skip
    if len(call.inputs) > 2:
        product = ops.add(product, ops.cast(call.tensor(2), product.dtype))
    if call.output.format == "FRACTAL_NZ":
        return to_fractal(product)
    return product


def _transposed(call: Call, side: str) -> bool:
    """`transpose_a` of the composite, or MindSpore's own `transpose_x1`."""
    name = f"transpose_{side}"
    return call.flag(name if name in call.desc.attrs else f"transpose_x{'ab'.index(side) + 1}")


def _plain(call: Call, index: int, side: str) -> Tensor:
    """An operand as a matrix, whatever its format."""
    x = call.tensor(index)
    format_ = call.text(f"{side}_format", call.text("pri_format", "DefaultFormat"))
    if format_ != "FRACTAL_NZ" or x.ndim < 4:
        return x
    n1, m1, m0, n0 = x.shape[-4:]
    return from_fractal(x, (m1 * m0, n1 * n0))


@handler("Conv2D")
def conv_2d(call: Call) -> Tensor:
    """Data NHWC, or NCHW where the tensors' formats say so; filters OHWI (OIHW)."""
    x, weight = call.tensor(0), call.tensor(1)
    if call.text("data_format", "NHWC") == "NC1HWC0" or x.ndim != 4 or weight.ndim != 4:
        raise UnsupportedError(f"data of shape {list(x.shape)} in blocked layout is not supported")
    formats = {desc.format for group in call.desc.inputs[:2] for desc in group}
    nhwc = "NHWC" in formats or formats <= {"DefaultFormat"}
    left, right, top, bottom = _numbers(call, "pad_list", 4, 0)
    strides, dilations = _numbers(call, "stride", 2, 1), _numbers(call, "dilation", 2, 1)
    groups, kind = call.integer("group", call.integer("groups", 1)), call.output.dtype
    if nhwc and groups == 1 and x.shape[3] == weight.shape[3] and len(call.output.shape) == 4:
        rows = call.output.shape[0] * call.output.shape[1] * call.output.shape[2]
        if rows * weight.type.size // max(weight.shape[0], 1) * x.dtype.bytes <= MOST_PATCHES:
            x = ops.pad(x, [(0, 0), (top, bottom), (left, right), (0, 0)])
            return _as_product(x, weight, strides, dilations, kind)
    if nhwc:
        x, weight = (ops.transpose(t, (0, 3, 1, 2)) for t in (x, weight))
    result = ops.conv(
        x, weight, strides=strides, pads=[top, left, bottom, right], dilations=dilations,
        groups=groups, out_dtype=kind,
    )  # fmt: skip
    return ops.transpose(result, (0, 2, 3, 1)) if nhwc else result


def _as_product(
    x: Tensor, weight: Tensor, strides: Sequence[int], dilations: Sequence[int], kind: DType
) -> Tensor:
    """Patches times filters: where channels come last, filters are a matrix as they are."""
    count, high, wide, channels = x.shape
    filters, *kernel, _ = weight.shape
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    outputs = [(n - span) // s + 1 for n, span, s in zip((high, wide), spans, strides, strict=True)]
    if min(outputs) < 1 or min(kernel) < 1:
        raise ShapeError(f"filters of {weight.type} do not fit data of {x.type}")
    parts = []
    for i in range(kernel[0]):
        for j in range(kernel[1]):
            start = [i * dilations[0], j * dilations[1]]
            zipped = zip(start, outputs, strides, strict=True)
            ends = [low + (n - 1) * step + 1 for low, n, step in zipped]
            parts.append(ops.strided_slice(x, start, ends, [1, 2], strides))
    length = kernel[0] * kernel[1] * channels
    patches = ops.reshape(ops.concat(parts, 3), (count * outputs[0] * outputs[1], length))
    matrix = ops.reshape(weight, (filters, length))
    product = ops.matmul(patches, matrix, transpose_b=True, out_dtype=kind)
    return ops.reshape(product, (count, *outputs, filters))


def _numbers(call: Call, name: str, count: int, default: int) -> list[int]:
    """The last `count` numbers of a list (strides are given for N and C too)."""
    if call.attr(name) is None:
        return [default] * count
    found = call.ints(name)
    if len(found) < count:
        raise UserError(f"attribute {name!r} has {len(found)} numbers, {count} are needed")
    return found[-count:]
