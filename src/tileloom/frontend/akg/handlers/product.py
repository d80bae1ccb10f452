"""Matrix products and convolutions: float16 operands are multiplied and added up in float32."""

from __future__ import annotations

from ....base.errors import UnsupportedError, UserError
from ....graph import ops
from ....graph.nodes import Tensor
from ..call import Call, handler
from .shape import from_fractal, to_fractal


@handler("MatMul", "BatchMatMul")
def matmul(call: Call) -> Tensor:
    a, b = (_plain(call, k, side) for k, side in enumerate(("left", "right")))
    kind = call.output.dtype
    wide = kind if kind.is_float and kind.bits >= a.dtype.bits else None
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
    if nhwc:
        x, weight = (ops.transpose(t, (0, 3, 1, 2)) for t in (x, weight))
    left, right, top, bottom = _numbers(call, "pad_list", 4, 0)
    groups = call.integer("group", call.integer("groups", 1))
    result = ops.conv(
        x, weight,
        strides=_numbers(call, "stride", 2, 1),
        pads=[top, left, bottom, right],
        dilations=_numbers(call, "dilation", 2, 1),
        groups=groups,
        out_dtype=call.output.dtype,
    )  # fmt: skip
    return ops.transpose(result, (0, 2, 3, 1)) if nhwc else result


def _numbers(call: Call, name: str, count: int, default: int) -> list[int]:
    """The last `count` numbers of a list (strides are given for N and C too)."""
    if call.attr(name) is None:
        return [default] * count
    found = call.ints(name)
    if len(found) < count:
        raise UserError(f"attribute {name!r} has {len(found)} numbers, {count} are needed")
    return found[-count:]
