"""Reductions: axes in one form, nested ones merged, what is the same for all terms moved out.

Contract: afterwards the axes of each reduction are sorted and not negative, and at least one of
them is longer than 1. No other reduction than sums and products reads one of its kind, a transpose
or a broadcast, unless others read that too; where rounding may change, no sum does either.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...base import DType
from ..nodes import Node, Tensor
from ..ops.common import normalize_axes, product
from ..symbols import at_least, bounds_of, is_symbolic
from .coded import coded
from .options import Safety
from .reshapes import source_of, to_order, to_shape
from .rewriter import Rewriter
from .rule import Kind, Rule

_FAMILY = "reductions"
_ROUNDED = ("reduce_sum", "reduce_prod")
_CHOOSING = ("reduce_max", "reduce_min", "reduce_any", "reduce_all")
_EVERY = (*_ROUNDED, *_CHOOSING)
_NUMBERS: Mapping[Kind, Safety] = {"float": "reassociating", "int": "exact"}


def axes_of(node: Node) -> tuple[int, ...]:
    """The axes of a reduction, sorted and not negative."""
    return normalize_axes(node.attrs["axis"], node.inputs[0].ndim)


@coded("sort-axes", _FAMILY, "reduce(A, axes in any form) = reduce(A, sorted axes)", *_EVERY)
def sort_axes(node: Node, rewriter: Rewriter) -> Tensor | None:
    x, axis = node.inputs[0], node.attrs["axis"]
    axes = axes_of(node)
    if type(axis) is tuple and axis == axes:
        return None
    return rewriter.make(node.op.name, (x,), axis=axes, keepdims=bool(node.attrs["keepdims"]))


@coded("reduce-unit-axes", _FAMILY, "reduce(A, axes of extent 1) = reshape(A)", *_EVERY,
       note="no axes at all are such too; the sum of -0.0 is taken to be -0.0")  # fmt: skip
def reduce_unit_axes(node: Node, rewriter: Rewriter) -> Tensor | None:
    x = node.inputs[0]
    if any(x.shape[axis] != 1 for axis in axes_of(node)):
        return None
    return to_shape(x, node.outputs[0].shape, rewriter)


def _merged(node: Node, rewriter: Rewriter) -> Tensor | None:
    below = node.inputs[0].node
    if below is None or below.attrs["keepdims"] != node.attrs["keepdims"]:
        return None
    if not rewriter.may_replace(node.inputs[0]):
        return None
    x, inner, outer = below.inputs[0], axes_of(below), axes_of(node)
    if not node.attrs["keepdims"]:
        rest = [axis for axis in range(x.ndim) if axis not in inner]
        outer = tuple(rest[axis] for axis in outer)
    axes = tuple(sorted({*inner, *outer}))
    return rewriter.make(node.op.name, (x,), axis=axes, keepdims=node.attrs["keepdims"])


def _nested(id: str, op: str, safety: Safety | Mapping[Kind, Safety], source: int | None) -> Rule:
    short = op.removeprefix("reduce_")
    return coded(
        id, _FAMILY, f"{short}({short}(A)) = {short}(A)", (op, op), safety=safety, source=source,
        note="where both keep dimensions or both do not, and nobody else reads the inner one",
    )(_merged)  # fmt: skip


def _transposed(node: Node, rewriter: Rewriter) -> Tensor | None:
    transpose = node.inputs[0].node
    if transpose is None:
        return None
    perm, x = transpose.attrs["perm"], transpose.inputs[0]
    axes = axes_of(node)
    reduced = tuple(sorted(perm[axis] for axis in axes))
    kept = [perm[k] for k in range(x.ndim) if k not in axes]
    result = rewriter.make(node.op.name, (x,), axis=reduced, keepdims=False)
    order = sorted(kept)
    result = to_order(result, tuple(order.index(axis) for axis in kept), rewriter)
    return to_shape(result, node.outputs[0].shape, rewriter)


_OF_TRANSPOSE = "reduce(transpose(A)) = transpose(reduce(A))"
sum_of_transpose = coded(
    "sum-of-transpose", _FAMILY, _OF_TRANSPOSE, *((op, "transpose") for op in _ROUNDED),
    safety=_NUMBERS, note="sum, prod: terms in another order",
)(_transposed)  # fmt: skip
extreme_of_transpose = coded(
    "extreme-of-transpose", _FAMILY, _OF_TRANSPOSE, *((op, "transpose") for op in _CHOOSING),
    note="max, min, any, all",
)(_transposed)  # fmt: skip


def _narrowed(node: Node, rewriter: Rewriter) -> Tensor | None:
    x, wide = source_of(node), node.inputs[0].shape
    axes = axes_of(node)
    aligned = (1,) * (len(wide) - x.ndim) + x.shape
    repeated = [wide[axis] for axis in axes if aligned[axis] == 1]
    count = product(repeated)
    if 0 in wide or not all(at_least(extent, 1) for extent in repeated):
        return None
    if node.op.name == "reduce_sum" and not _is_exact(count, x.dtype):
        return None
    x = to_shape(x, aligned, rewriter)
    result = rewriter.make(node.op.name, (x,), axis=axes, keepdims=True)
    if node.op.name == "reduce_sum" and count != 1:
        result = rewriter.make("mul", (result, _number(count, x.dtype, rewriter)))
    if not node.attrs["keepdims"]:
        kept = [extent for axis, extent in enumerate(result.shape) if axis not in axes]
        result = to_shape(result, tuple(kept), rewriter)
    shape = node.outputs[0].shape
    if result.shape == shape:
        return result
    return rewriter.make("broadcast_to", (result,), shape=shape)


def _number(count: int, kind: DType, rewriter: Rewriter) -> Tensor:
    """A count as a tensor without dimensions."""
    if is_symbolic(count):
        return rewriter.make("extent", (), value=count, dtype=kind)
    return rewriter.scalar(count, kind)


def _is_exact(count: int, kind: DType) -> bool:
    """Whether a count is a number of the type; integers wrap around, as their sums do.

    One that is not known yet is rounded less than the sum would be, where it fits an index.
    """
    if is_symbolic(count):
        most = bounds_of(count)[1]
        return most < 1 << 31 and (not kind.is_float or kind.bits >= 32)
    if not kind.is_float:
        return True
    with np.errstate(over="ignore"):
        return float(np.float64(count).astype(kind.numpy)) == count


sum_of_broadcast = coded(
    "sum-of-broadcast", _FAMILY, "sum(broadcast_to(A)) = broadcast_to(sum(A) * count)",
    ("reduce_sum", "broadcast_to"), safety=_NUMBERS, note="count: of equal terms",
)(_narrowed)  # fmt: skip
extreme_of_broadcast = coded(
    "extreme-of-broadcast", _FAMILY, "reduce(broadcast_to(A)) = broadcast_to(reduce(A))",
    *((op, "broadcast_to") for op in _CHOOSING), note="max, min, any, all",
)(_narrowed)  # fmt: skip


@coded("sum-of-neg", _FAMILY, "sum(-A) = -sum(A)", ("reduce_sum", "neg"),
       safety={"float": "finite-only", "int": "exact"}, source=58,
       note="a sum that cancels is 0.0 on both sides")  # fmt: skip
def sum_of_neg(node: Node, rewriter: Rewriter) -> Tensor | None:
    total = rewriter.make("reduce_sum", (source_of(node),), **node.attrs)
    return rewriter.make("neg", (total,))


def _factor_out(node: Node, rewriter: Rewriter, at: int) -> Tensor | None:
    """`op(sum(A), c)` for `sum(op(A, c))` where c is one constant number at this place."""
    inside = node.inputs[0].node
    if inside is None:
        return None
    factor, x = inside.inputs[at], inside.inputs[1 - at]
    fits = factor.value is not None and factor.type.size == 1 and factor.ndim <= x.ndim
    if not fits or x.shape != node.inputs[0].shape:
        return None
    if node.outputs[0].type.size > 1 and not rewriter.may_replace(node.inputs[0]):
        return None
    total = rewriter.make("reduce_sum", (x,), **node.attrs)
    result = rewriter.make(inside.op.name, (total, to_shape(factor, (), rewriter)))
    return to_shape(result, node.outputs[0].shape, rewriter)


@coded("sum-of-quotient", _FAMILY, "sum(A / c) = sum(A) / c", ("reduce_sum", "div"),
       safety={"float": "reassociating"}, source=59, note="where c is one number")  # fmt: skip
def sum_of_quotient(node: Node, rewriter: Rewriter) -> Tensor | None:
    return _factor_out(node, rewriter, 1)


@coded("sum-of-product", _FAMILY, "sum(A * c) = sum(A) * c", ("reduce_sum", "mul"),
       safety=_NUMBERS, source=60, note="where c is one number")  # fmt: skip
def sum_of_product(node: Node, rewriter: Rewriter) -> Tensor | None:
    found = _factor_out(node, rewriter, 1)
    return _factor_out(node, rewriter, 0) if found is None else found


REDUCTIONS: tuple[Rule, ...] = (
    sort_axes, reduce_unit_axes,
    _nested("sum-of-sum", "reduce_sum", _NUMBERS, 55),
    _nested("prod-of-prod", "reduce_prod", _NUMBERS, None),
    _nested("min-of-min", "reduce_min", "exact", 56),
    _nested("max-of-max", "reduce_max", "exact", 57),
    _nested("any-of-any", "reduce_any", "exact", None),
    _nested("all-of-all", "reduce_all", "exact", None),
    sum_of_transpose, extreme_of_transpose, sum_of_broadcast, extreme_of_broadcast, sum_of_neg,
    sum_of_quotient, sum_of_product,
)  # fmt: skip
