"""Gradients of `tileloom.sparse.segment_reduce` and `segment_softmax`."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ...sparse.arrays import dense
from ..sparse.segments import segment_reduce, segment_softmax
from .once import differentiated_once


def reduce(values: Any, indptr: Any, op: str, initial: Any, target: Any, device: str | None) -> Any:
    """Reductions whose gradients are recorded; see `tileloom.sparse.segment_reduce`."""
    where = {"target": target, "device": device}
    return _Reduce.apply(values, indptr, op, initial, where)


def softmax(values: Any, indptr: Any, target: Any, device: str | None) -> Any:
    """A softmax whose gradients are recorded; see `tileloom.sparse.segment_softmax`."""
    return _Softmax.apply(values, indptr, {"target": target, "device": device})


class _Reduce(torch.autograd.Function):  # type: ignore[misc]
    """Each element gets the gradient of its segment: as it is, or by what it contributes."""

    @staticmethod
    def forward(
        ctx: Any, values: torch.Tensor, indptr: Any, op: str, initial: Any, where: dict[str, Any]
    ) -> Any:
        """The reductions."""
        found = segment_reduce(values, indptr, op, initial, **where)
        ctx.save_for_backward(values, found)
        ctx.indptr, ctx.op, ctx.initial, ctx.where = indptr, op, initial, where
        return found

    @staticmethod
    @differentiated_once
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        """The gradient of the elements."""
        values, found = ctx.saved_tensors
        counts = _lengths(ctx.indptr, values)
        each = gradient.repeat_interleave(counts, dim=0)
        match ctx.op:
            case "mean":
                lengths = counts.repeat_interleave(counts)
                each = each / lengths.reshape(-1, *[1] * (values.ndim - 1)).to(each.dtype)
            case "max" | "min":
                is_it = values.isnan() | (values == found.repeat_interleave(counts, dim=0))
                ties = segment_reduce(is_it.int(), ctx.indptr, "sum", **ctx.where).to(each.dtype)
                each = each * is_it / ties.repeat_interleave(counts, dim=0).clamp(min=1)
            case "prod":
                each = each * _others(ctx, values, found, counts)
        return each, None, None, None, None


class _Softmax(torch.autograd.Function):  # type: ignore[misc]
    """With the softmax y and its gradient g, that of the values is y * (g - sum of y * g)."""

    @staticmethod
    def forward(ctx: Any, values: torch.Tensor, indptr: Any, where: dict[str, Any]) -> Any:
        """The softmax."""
        found = segment_softmax(values, indptr, **where)
        ctx.save_for_backward(found)
        ctx.indptr, ctx.where = indptr, where
        return found

    @staticmethod
    @differentiated_once
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        """The gradient of the values."""
        (found,) = ctx.saved_tensors
        sums = segment_reduce(found * gradient, ctx.indptr, **ctx.where)
        each = sums.repeat_interleave(_lengths(ctx.indptr, found), dim=0)
        return found * (gradient - each), None, None


def _lengths(indptr: Any, like: torch.Tensor) -> torch.Tensor:
    """The elements of each segment, where a tensor is."""
    starts = dense(indptr, what="indptr").array
    if isinstance(starts, np.ndarray):
        starts = torch.from_numpy(starts.astype(np.int64))
    return starts.diff().to(like.device, torch.int64)


def _others(
    ctx: Any, values: torch.Tensor, found: torch.Tensor, counts: torch.Tensor
) -> torch.Tensor:
    """For each element the product of all others of its segment."""
    is_zero = values == 0
    zeros = segment_reduce(is_zero.int(), ctx.indptr, "sum", **ctx.where)
    ones = values.where(~is_zero, values.new_ones(()))
    without = segment_reduce(ones, ctx.indptr, "prod", ctx.initial, **ctx.where)
    alone = without.repeat_interleave(counts, dim=0) * (zeros == 1).repeat_interleave(counts, dim=0)
    quotients = found.repeat_interleave(counts, dim=0) / values
    return torch.where(is_zero, alone, quotients)
