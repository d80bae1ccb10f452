"""`tvm.topi.nn`: products, activations and softmax."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....compute import Tensor, comm_reducer, reduce_axis
from ....compute import sum as te_sum
from ....expr import Expr, const, intrin
from ....expr.intrin import min_value
from .._names import missing
from ..tir import op
from .make import tensor


def relu(x: Tensor) -> Tensor:
    """The larger of each element and 0."""
    return tensor(x.shape, lambda *i: intrin.max(x[i], const(0, x.dtype)), "compute")


def pad(
    data: Tensor,
    pad_before: Sequence[int],
    pad_after: Sequence[int] | None = None,
    pad_value: float = 0.0,
    name: str = "PadInput",
) -> Tensor:
    """A tensor with elements of one value before and after each axis."""
    before = [*pad_before]
    after = [*pad_before] if pad_after is None else [*pad_after]
    sizes = [size + b + a for size, b, a in zip(data.shape, before, after, strict=True)]

    def value(*i: Expr) -> Any:
        inside = []
        for index, size, b, a in zip(i, data.shape, before, after, strict=True):
            inside += [index >= b] if b else []
            inside += [index < size + b] if a else []
        element = data[tuple(index - b for index, b in zip(i, before, strict=True))]
        if not inside:
            return element
        return intrin.if_then_else(op.all(*inside), element, const(pad_value, data.dtype))

    return tensor(sizes, value, name)


def matmul(
    tensor_a: Tensor,
    tensor_b: Tensor,
    bias: Tensor | None = None,
    out_dtype: str | None = None,
    transpose_a: bool = False,
    transpose_b: bool = False,
) -> Tensor:
    """The product of two matrices, with a row added where one is given."""
    depth, rows = tensor_a.shape if transpose_a else tensor_a.shape[::-1]
    columns = tensor_b.shape[0] if transpose_b else tensor_b.shape[1]
    kind = out_dtype or tensor_a.dtype
    k = reduce_axis((0, depth), "k")

    def value(i: Expr, j: Expr) -> Any:
        a = tensor_a[k.var, i] if transpose_a else tensor_a[i, k.var]
        b = tensor_b[j, k.var] if transpose_b else tensor_b[k.var, j]
        return te_sum(a.astype(kind) * b.astype(kind), axis=k)

    product = tensor((rows, columns), value, "T_matmul")
    if bias is None:
        return product
    return tensor((rows, columns), lambda i, j: product[i, j] + bias[j].astype(kind), "T_add")


def dense(
    data: Tensor, weight: Tensor, bias: Tensor | None = None, out_dtype: str | None = None
) -> Tensor:
    """`data` times `weight` transposed."""
    return matmul(data, weight, bias, out_dtype, transpose_b=True)


def batch_matmul(
    tensor_a: Tensor,
    tensor_b: Tensor,
    out_dtype: str | None = None,
    transpose_a: bool = False,
    transpose_b: bool = True,
) -> Tensor:
    """Products of matrices, one for each number of a batch; a batch of one serves for all."""
    batch_a, batch_b = tensor_a.shape[0], tensor_b.shape[0]
    one_a, one_b = (getattr(n, "value", None) == 1 for n in (batch_a, batch_b))
    depth, rows = tensor_a.shape[1:] if transpose_a else tensor_a.shape[:0:-1]
    columns = tensor_b.shape[1] if transpose_b else tensor_b.shape[2]
    kind = out_dtype or tensor_a.dtype
    k = reduce_axis((0, depth), "k")

    def value(n: Expr, i: Expr, j: Expr) -> Any:
        at, bt = (const(0) if one_a else n), (const(0) if one_b else n)
        a = tensor_a[at, k.var, i] if transpose_a else tensor_a[at, i, k.var]
        b = tensor_b[bt, j, k.var] if transpose_b else tensor_b[bt, k.var, j]
        return te_sum(a.astype(kind) * b.astype(kind), axis=k)

    batch = batch_b if one_a else batch_a
    return tensor((batch, rows, columns), value, "T_batch_matmul_NT")


def softmax(x: Tensor, axis: int = -1) -> Tensor:
    """Exponentials along an axis, divided by their sum."""
    place = axis % len(x.shape)
    rest = [n for d, n in enumerate(x.shape) if d != place]
    k1, k2 = (reduce_axis((0, x.shape[place]), "k") for _ in range(2))
    largest = comm_reducer(intrin.max, min_value, "max")

    def at(i: tuple[Expr, ...], k: Expr) -> tuple[Expr, ...]:
        return (*i[:place], k, *i[place:])

    def without(i: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return (*i[:place], *i[place + 1 :])

    top = tensor(rest, lambda *i: largest(x[at(i, k1.var)], axis=k1), "T_softmax_maxelem")
    powers = tensor(x.shape, lambda *i: intrin.exp(x[i] - top[without(i)]), "T_softmax_exp")
    total = tensor(rest, lambda *i: te_sum(powers[at(i, k2.var)], axis=k2), "T_softmax_expsum")
    marks = {"axis": place}
    return tensor(x.shape, lambda *i: powers[i] / total[without(i)], "T_softmax_norm", marks)


__all__ = ["batch_matmul", "dense", "matmul", "pad", "relu", "softmax"]
__getattr__ = missing(__name__)
