"""Which operators are taken apart before a graph comes here."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch._decomp import core_aten_decompositions, get_decompositions

from .layers import layers

_aten = torch.ops.aten

#: Beyond the core set: these are made of simple operators too.
_FURTHER = (
    "_native_batch_norm_legit", "_native_batch_norm_legit_functional",
    "_native_batch_norm_legit_no_training", "native_batch_norm", "_batch_norm_with_update",
    "_batch_norm_with_update_functional", "_batch_norm_no_update", "batch_norm_backward",
    "native_layer_norm", "native_group_norm", "_addmm_activation", "addmv",
    "narrow_copy", "slice_scatter", "unbind_copy", "view_copy", "permute_copy",
    "native_dropout", "ldexp", "dist",
    "tril_indices", "triu_indices", "upsample_bilinear2d", "lift", "gcd", "lcm",
    "linalg_vector_norm", "unfold", "grid_sampler_2d", "heaviside",
)  # fmt: skip

#: Of the core set: these have rules of their own.
_KEPT = (
    "silu", "stack", "hardswish", "hardsigmoid", "t", "transpose", "baddbmm", "mv", "dot",
    "tril", "triu", "roll", "square", "_unsafe_view", "split", "split_with_sizes",
    "embedding_dense_backward",
)  # fmt: skip


@cache
def table() -> dict[Any, Callable[..., Any]]:
    """Decompositions by overload."""
    found: dict[Any, Callable[..., Any]] = dict(core_aten_decompositions())
    further = [part for name in _FURTHER for part in _overloads(name)]
    found.update(get_decompositions(further))
    found.update(layers())
    for name in _KEPT:
        for overload in _overloads(name):
            found.pop(overload, None)
    return found


def _overloads(name: str) -> list[Any]:
    packet, _, overload = name.partition(".")
    found = getattr(_aten, packet, None)
    if found is None:  # not in this version of PyTorch
        return []
    return [getattr(found, each) for each in ([overload] if overload else found.overloads())]
