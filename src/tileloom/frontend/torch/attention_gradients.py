"""Gradients of `tileloom.sparse.graph_attention`.

With p the softmax of the scores s, which the backward pass computes anew, and g the gradient of the
result, all of them along the elements of the mask:

    dp = g @ v.T        ds = p * (dp - sum of p * dp in each row)        dv = p.T @ g

and with s = scale * q @ k.T, to which values may be added or with which they are multiplied, dq, dk
and the gradient of these values follow by the product rule.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ...base.errors import UnsupportedError
from ...sparse.arrays import DenseOperand, Sparse, dense, requires_grad, view, with_values
from ..sparse.attention import graph_attention
from ..sparse.kinds import computed_as
from ..sparse.rows import in_row_order, row_order
from ..sparse.sddmm import in_own_order, sampled_products
from ..sparse.segments import segment_reduce, segment_softmax
from ..sparse.spmm import product
from ..sparse.structure import Structure
from .once import differentiated_once
from .sparse_gradients import save, saved

Array = np.ndarray[Any, Any]


def attention(mask: Any, q: Any, k: Any, v: Any, scale: Any, values: str) -> Any:
    """Attention whose gradients are recorded; see `tileloom.sparse.graph_attention`.

    Raises:
        UnsupportedError: a gradient of `scale` is wanted, or of values some of which are at one
            place.
    """
    if requires_grad(scale):
        raise UnsupportedError(
            "scale requires a gradient, which graph_attention does not record",
            hint="multiply q with it",
        )
    is_learned = values != "ignore" and requires_grad(mask)
    if is_learned and mask.layout is torch.sparse_coo and not mask.is_coalesced():
        raise UnsupportedError(
            "mask requires a gradient and is not coalesced", hint="mask.coalesce()"
        )
    tensors = map(torch.as_tensor, (q, k, v))
    return _Attention.apply(mask, *tensors, scale, values)


class _Attention(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(
        ctx: Any, mask: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor,
        scale: float | None, values: str,
    ) -> Any:  # fmt: skip
        """The attention."""
        save(ctx, mask, q, k, v)
        ctx.scale = max(1, q.shape[-1]) ** -0.5 if scale is None else float(scale)
        ctx.values = values
        return graph_attention(mask, q, k, v, scale, values=values)

    @staticmethod
    @differentiated_once
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        """The gradients of the mask's values, queries, keys and values."""
        mask, *tensors = saved(ctx)
        parts = view(mask)
        structure, source = row_order(mask, parts, "mask")
        arrays = [dense(x).array for x in (*tensors, gradient)]
        weights = None
        if ctx.values != "ignore":
            weights = in_row_order(parts.data, structure, source)
        kinds = [x.dtype for x in arrays] + ([] if weights is None else [weights.dtype])
        own = computed_as(np.result_type(*kinds), "graph_attention")
        if weights is not None:
            weights = weights.astype(own, copy=False)
        heads = [np.ascontiguousarray(x, own).reshape(-1, *x.shape[-2:]) for x in arrays]
        found = [
            _of_head(structure, weights, each, ctx.scale, ctx.values)
            for each in zip(*heads, strict=True)
        ]
        of_mask = None
        if ctx.needs_input_grad[0] and weights is not None:
            total = sum((each[0] for each in found), np.zeros(structure.nnz, own))
            of_mask = _like_mask(total, source, parts, mask)
        of_tensors = (
            _stacked([each[n + 1] for each in found], x, own) for n, x in enumerate(tensors)
        )
        return of_mask, *of_tensors, None, None


def _of_head(
    structure: Structure, weights: Array | None, arrays: tuple[Array, ...], scale: float,
    values: str,
) -> tuple[Array, ...]:  # fmt: skip
    """The gradients of the mask's values by rows, and of one head's queries, keys and values."""
    q, k, v, gradient = arrays
    scores = _dots(structure, q, k) * q.dtype.type(scale)
    dots = scores
    if weights is not None:
        scores = dots + weights if values == "add" else dots * weights
    shares = segment_softmax(scores, structure.indptr)
    of_shares = _dots(structure, gradient, v)
    sums = segment_reduce(shares * of_shares, structure.indptr)
    of_scores = shares * (of_shares - np.repeat(sums, structure.lengths))
    of_weights = of_scores
    if weights is not None and values == "multiply":
        of_weights, of_scores = of_scores * dots, of_scores * weights
    scaled = of_scores * q.dtype.type(scale)
    by_columns, order = structure.transposed
    return (
        of_weights,
        product(structure, scaled, _operand(k)),
        product(by_columns, scaled[order], _operand(q)),
        product(by_columns, shares[order], _operand(gradient)),
    )


def _dots(structure: Structure, x: Array, y: Array) -> Array:
    """Products of rows along the elements."""
    found = np.empty(structure.nnz, x.dtype)
    sampled_products(structure, [x, y], found, "ignore")
    return found


def _operand(x: Array) -> DenseOperand:
    return DenseOperand(x, True, False)


def _like_mask(values: Array, source: Array | None, parts: Sparse, mask: torch.Tensor) -> Any:
    """Values by rows, in the order and the type of the mask's own."""
    own = in_own_order(values, source, np.zeros(parts.data.shape, values.dtype))
    return with_values(own, mask).to(mask.dtype)


def _stacked(heads: list[Array], like: torch.Tensor, kind: np.dtype[Any]) -> torch.Tensor:
    """The heads in the shape and the type of an operand."""
    found = np.stack(heads) if heads else np.empty(0, kind)
    return torch.from_numpy(found).reshape(like.shape).to(like.dtype)
