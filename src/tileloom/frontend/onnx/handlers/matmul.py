"""Matrix products."""

from __future__ import annotations

from ....base.errors import ShapeError, UserError
from ....graph import ops
from ....graph.nodes import Tensor
from ..call import Call
from ..registry import handler


@handler("MatMul")
def matmul(call: Call) -> Tensor:
    return ops.matmul(call.tensor(0), call.tensor(1))


@handler("Gemm")
def gemm(call: Call) -> Tensor:
    """alpha * a b + beta * c, where c broadcasts."""
    a, b, c = call.tensor(0), call.tensor(1), call.optional(2)
    if a.ndim != 2 or b.ndim != 2:
        raise ShapeError(f"the operands must be matrices, not {a.type} and {b.type}")
    alpha, beta = call.number("alpha", 1.0), call.number("beta", 1.0)
    product = ops.matmul(a, b, call.flag("transA"), call.flag("transB"))
    if alpha != 1.0:
        product = ops.mul(product, _scalar(product, alpha))
    if c is None:
        return product
    if beta != 1.0:
        c = ops.mul(c, _scalar(c, beta))
    return ops.add(product, c)


def _scalar(x: Tensor, value: float) -> float | int:
    if x.dtype.is_float:
        return value
    if value != int(value):
        raise UserError(f"a factor of {value} for integers")
    return int(value)


@handler("Einsum")
def einsum(call: Call) -> Tensor:
    return ops.einsum(call.text("equation"), *call.tensors())


@handler("Det")
def det(call: Call) -> Tensor:
    return ops.det(call.tensor(0))
