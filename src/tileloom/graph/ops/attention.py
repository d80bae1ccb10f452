"""Scaled dot-product attention (Vaswani et al. 2017) as a composition."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...base.errors import ShapeError
from ..nodes import Tensor
from ..op import Array
from .binary import add, less_equal, mul
from .choose import where
from .common import builder, like
from .composite import build, define_composite
from .constants import iota
from .matmul import matmul
from .normalize import softmax


def _causal(rows: int, columns: int) -> Tensor:
    """Row i may see columns up to i."""
    return less_equal(iota((1, columns), 1, "int32"), iota((rows, 1), 0, "int32"))


def _attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, *, scale: float, causal: bool
) -> Tensor:
    if min(q.ndim, k.ndim, v.ndim) < 2:
        raise ShapeError("queries, keys and values need two dimensions each")
    scores = mul(matmul(q, k, transpose_b=True), scale)
    lowest = like(-math.inf, scores)
    if causal:
        scores = where(_causal(q.shape[-2], k.shape[-2]), scores, lowest)
    if mask is not None:
        scores = where(mask, scores, lowest) if mask.dtype.is_bool else add(scores, mask)
    return matmul(softmax(scores, -1), v)


def _reference(
    q: Array, k: Array, v: Array, mask: Any = None, *, scale: float, causal: bool
) -> Any:
    scores = q @ k.swapaxes(-1, -2) * scale
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:]) > 0, scores, -np.inf)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    if scores.size == 0:
        return np.zeros((*scores.shape[:-1], v.shape[-1]))
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True) @ v


define_composite("attention", _attention, _reference)


@builder
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    scale: float | None = None,
    causal: bool = False,
) -> Tensor:
    """softmax(q k^T * scale + mask) v over the last two dimensions.

    A bool mask says which scores count; any other is added. The scale defaults to 1 / sqrt(D).
    """
    if q.ndim == 0:
        raise ShapeError("queries, keys and values need two dimensions each")
    factor = 1.0 / math.sqrt(max(q.shape[-1], 1)) if scale is None else float(scale)
    return build("attention", q, k, v, mask, scale=factor, causal=bool(causal))
