"""Layers that PyTorch has as one operator, taken apart.

In evaluation `nn.TransformerEncoderLayer` and `nn.MultiheadAttention` become operators without
gradients, which have rules here. PyTorch's own rule for `nn.LSTM` gives cells over time, but for
those that oneDNN could compute.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch._decomp import decompositions
from torch.nn import functional

_aten = torch.ops.aten
#: What masks are for: [L, L], the same for all; [B, L], of keys; else they have all dimensions.
_OF_QUERIES, _OF_KEYS = 0, 1


@contextmanager
def cells_over_time() -> Iterator[None]:
    """Have LSTMs traced as cells, one a step, as GRUs are, with gradients."""
    name = "select_one_layer_lstm_function"
    chosen = getattr(decompositions, name, None)
    if chosen is None:  # not in this version of PyTorch
        yield
        return
    setattr(decompositions, name, lambda *args: decompositions.one_layer_lstm)
    try:
        yield
    finally:
        setattr(decompositions, name, chosen)


def layers() -> dict[Any, Callable[..., Any]]:
    """Decompositions by overload."""
    return {
        _aten._native_multi_head_attention.default: _attention,
        _aten._transformer_encoder_layer_fwd.default: _encoder_layer,
    }


def _attention(
    query: Any,
    key: Any,
    value: Any,
    width: int,
    heads: int,
    qkv_weight: Any,
    qkv_bias: Any,
    weight: Any,
    bias: Any,
    mask: Any = None,
    need_weights: bool = True,
    average: bool = True,
    mask_type: int | None = None,
) -> Any:
    if any(x.is_nested for x in (query, key, value)):
        return NotImplemented
    parts = zip((query, key, value), qkv_weight.chunk(3), qkv_bias.chunk(3), strict=True)
    depth = width // heads
    q, k, v = (
        functional.linear(x, w, b).unflatten(-1, (heads, depth)).transpose(1, 2)
        for x, w, b in parts
    )
    scores = (q / math.sqrt(depth)) @ k.transpose(-1, -2)
    if mask is not None:
        scores = scores.masked_fill(_spread(mask, mask_type), -math.inf)
    found = scores.softmax(-1)
    result = functional.linear((found @ v).transpose(1, 2).flatten(2), weight, bias)
    if not need_weights:
        return result, query.new_empty(0)
    return result, found.mean(1) if average else found


def _spread(mask: Any, mask_type: int | None) -> Any:
    """What is not zero is masked, in all [B, heads, L, S]."""
    hidden = mask.to(torch.bool)
    if mask_type == _OF_QUERIES:
        return hidden[None, None]
    return hidden[:, None, None, :] if mask_type == _OF_KEYS else hidden


def _encoder_layer(
    source: Any,
    width: int,
    heads: int,
    qkv_weight: Any,
    qkv_bias: Any,
    weight: Any,
    bias: Any,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: Any,
    norm_bias_1: Any,
    norm_weight_2: Any,
    norm_bias_2: Any,
    weight_1: Any,
    bias_1: Any,
    weight_2: Any,
    bias_2: Any,
    mask: Any = None,
    mask_type: int | None = None,
) -> Any:
    if source.is_nested:
        return NotImplemented

    def attention(x: Any) -> Any:
        projections = (qkv_weight, qkv_bias, weight, bias)
        return _attention(x, x, x, width, heads, *projections, mask, False, True, mask_type)[0]

    def dense(x: Any) -> Any:
        inner = functional.linear(x, weight_1, bias_1)
        inner = functional.gelu(inner) if use_gelu else functional.relu(inner)
        return functional.linear(inner, weight_2, bias_2)

    def norm(x: Any, weight: Any, bias: Any) -> Any:
        return functional.layer_norm(x, (width,), weight, bias, eps)

    first, second = (norm_weight_1, norm_bias_1), (norm_weight_2, norm_bias_2)
    if norm_first:
        x = source + attention(norm(source, *first))
        return x + dense(norm(x, *second))
    x = norm(source + attention(source), *first)
    return norm(x + dense(x), *second)
