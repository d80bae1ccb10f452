"""Tensors from nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....base.errors import UnsupportedError
from ....graph import ops
from ....graph.nodes import Tensor, as_extent
from ....graph.symbols import is_symbolic
from ..call import Call, as_tensor
from ..registry import aten


@aten("full.default")
def full(call: Call, shape: Sequence[int], value: Any, **options: Any) -> Tensor:
    """One value."""
    return ops.broadcast_to(as_tensor(value, call.dtype), call.shape)


@aten("full_like.default")
def full_like(call: Call, x: Tensor, value: Any, **options: Any) -> Tensor:
    """One value in the shape of a tensor."""
    return ops.broadcast_to(as_tensor(value, call.dtype), call.shape)


@aten("scalar_tensor.default", namespace="prims")
@aten("scalar_tensor.default")
def scalar_tensor(call: Call, value: Any, **options: Any) -> Tensor:
    """A number."""
    return as_tensor(value, call.dtype)


@aten("empty.memory_format", "empty_strided.default", "new_empty_strided.default",
      "empty_permuted.default", "new_empty.default", "empty_like.default")  # fmt: skip
def empty(call: Call, *about: Any, **options: Any) -> Tensor:
    """Any elements: zeros."""
    return ops.zeros(call.shape, call.dtype)


@aten("arange.start_step", "arange.start", "arange.default")
def arange(call: Call, *about: Any, **options: Any) -> Tensor:
    """start, start + step, ..."""
    start, step = 0, 1
    if len(about) > 1:
        start = about[0]
    if len(about) > 2:
        step = about[2]
    return _line(call, start, step)


@aten("iota.default", namespace="prims")
def iota(call: Call, length: int, *, start: Any, step: Any, **options: Any) -> Tensor:
    """start, start + step, ..."""
    return _line(call, start, step)


def _line(call: Call, start: Any, step: Any) -> Tensor:
    kind = call.dtype
    if kind.is_float:
        # As PyTorch: computed in float64, then rounded.
        if any(map(is_symbolic, (*call.shape, start, step))) or call.shape[0] > 4096:
            line = ops.cast(ops.iota(call.shape, 0), "float64")
            scaled = ops.mul(line, as_tensor(step, "float64"))
            return ops.cast(ops.add(scaled, as_tensor(start, "float64")), kind)
        return ops.constant(start + np.arange(call.shape[0]) * step, kind)
    if kind.is_bool:
        raise UnsupportedError("counters of bools")
    line = ops.iota(call.shape, 0, kind)
    if is_symbolic(step) or step != 1:
        line = ops.mul(line, as_tensor(as_extent(step), kind))
    return ops.add(line, as_tensor(as_extent(start), kind)) if start else line
