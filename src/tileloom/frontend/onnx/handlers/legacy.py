"""Operators as they were before opset 7, where that differs from what came later.

Binary operators broadcast only when told to, from an axis on; some inputs were attributes.
"""

from __future__ import annotations

from collections.abc import Callable

from ....base.errors import ShapeError, UserError
from ....graph import ops
from ....graph.nodes import Tensor
from ..call import Call
from ..elements import numpy_type
from ..registry import handler
from ..values import Value
from .conversion import convert
from .elementwise import BINARY
from .normalize import normalize_batch
from .rearrange import pad_by, resolve_shape, scaled_extents
from .reduction import lp_norm

_LEGACY: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "Equal": ops.equal, **{name: BINARY[name] for name in (
        "Add", "And", "Div", "Greater", "Less", "Mul", "Or", "Pow", "Sub", "Xor",
    )},
}  # fmt: skip


def aligned(call: Call, a: Tensor, b: Tensor) -> Tensor:
    """`b` with unit dimensions behind, so that its first dimension stands at the axis."""
    if not call.flag("broadcast"):
        if a.shape != b.shape and b.type.size != 1:
            raise ShapeError(f"{a.type} and {b.type} differ, and no broadcast is asked for")
        return b
    axis = call.integer("axis", a.ndim - b.ndim)
    axis = axis + a.ndim if axis < 0 else axis
    behind = a.ndim - axis - b.ndim
    if axis < 0 or behind < 0:
        raise ShapeError(f"{b.type} does not fit {a.type} at axis {axis}")
    return ops.reshape(b, (*b.shape, *(1,) * behind))


@handler(*_LEGACY)
def binary(call: Call) -> Tensor:
    a, b = call.tensor(0), call.tensor(1)
    return _LEGACY[call.op](a, aligned(call, a, b))


@handler("PRelu")
def prelu(call: Call) -> Tensor:
    x, slope = call.tensor(0), call.tensor(1)
    if slope.ndim == 1 and x.ndim > 1 and slope.shape[0] != 1:
        slope = ops.reshape(slope, (slope.shape[0], *(1,) * (x.ndim - 2)))
    return ops.prelu(x, slope)


@handler("BatchNormalization")
def batch_normalization(call: Call) -> Tensor:
    if not call.flag("is_test"):
        call.unsupported("training of batch normalisation")
    x, scale, bias, mean, var = (call.tensor(k) for k in range(5))
    return normalize_batch(x, scale, bias, mean, var, call.number("epsilon", 1e-5))


@handler("Dropout")
def dropout(call: Call) -> tuple[Value, ...]:
    if not call.flag("is_test"):
        call.unsupported("randomness (dropout in training mode)")
    return call.tensor(0), ops.ones(call.tensor(0).shape, call.tensor(0).dtype)


@handler("Cast")
def cast(call: Call) -> Value:
    """The type was written as a word."""
    names = {"FLOAT": 1, "UINT8": 2, "INT8": 3, "UINT16": 4, "INT16": 5, "INT32": 6, "INT64": 7,
             "FLOAT16": 10, "DOUBLE": 11, "UINT32": 12, "UINT64": 13, "BOOL": 9}  # fmt: skip
    if call.text("to") not in names:
        call.bad("to")
    return convert(call, numpy_type(names[call.text("to")]))


@handler("Reshape")
def reshape(call: Call) -> Tensor:
    x, wanted = call.tensor(0), call.ints("shape")
    if any(extent == 0 and k >= x.ndim for k, extent in enumerate(wanted)):
        raise ShapeError(f"shape {wanted} copies a dimension that {x.type} does not have")
    filled = [x.shape[k] if extent == 0 else extent for k, extent in enumerate(wanted)]
    return ops.reshape(x, resolve_shape(x.shape, filled))


@handler("Pad")
def pad(call: Call) -> Tensor:
    x = call.tensor(0)
    return pad_by(call, x, call.ints("paddings"), list(range(x.ndim)), call.number("value", 0.0))


@handler("Tile")
def tile(call: Call) -> Tensor:
    x, tiles, axis = call.tensor(0), int(call.scalar(1)), int(call.scalar(2))
    if not 0 <= axis < x.ndim or tiles < 0:
        raise UserError(f"cannot repeat axis {axis} of {x.type} {tiles} times")
    return ops.tile(x, [tiles if k == axis else 1 for k in range(x.ndim)])


@handler("Upsample")
def upsample(call: Call) -> Tensor:
    x = call.tensor(0)
    scales = [1.0, 1.0, call.number("height_scale"), call.number("width_scale")]
    if x.ndim != 4 or not all(0 < scale < 1e6 for scale in scales):
        raise ShapeError(f"scales {scales} do not fit {x.type}")
    sizes = scaled_extents(x.shape, scales)
    mode = call.choice("mode", "nearest", ("nearest", "bilinear")).removeprefix("bi")
    return ops.resize(x, sizes, mode, "asymmetric", scales=scales, nearest="floor")


@handler("GlobalLpPool")
def global_lp_pool(call: Call) -> Tensor:
    x, p = call.tensor(0), call.number("p", 2.0)
    if x.ndim < 3 or p != int(p):
        call.unsupported(f"a norm of order {p} of {x.type}")
    return lp_norm(x, int(p), list(range(2, x.ndim)))
