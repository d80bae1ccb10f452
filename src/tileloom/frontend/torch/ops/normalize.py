"""Softmax and its logarithm; the other normalisations arrive taken apart."""

from __future__ import annotations

from collections.abc import Callable

from ....graph import ops
from ....graph.nodes import Tensor
from ..call import Call, as_tensor, wide
from ..registry import aten


def _softmax(rule: Callable[[Tensor, int], Tensor]) -> Callable[..., Tensor]:
    def along(call: Call, x: Tensor, dim: int, half_to_float: bool = False) -> Tensor:
        exact = as_tensor(x, wide(x.dtype))
        if x.ndim == 0:
            return call.cast(ops.reshape(rule(ops.reshape(exact, [1]), 0), []))
        return call.cast(rule(exact, dim))

    return along


aten("_softmax.default")(_softmax(ops.softmax))
aten("_log_softmax.default")(_softmax(ops.log_softmax))
