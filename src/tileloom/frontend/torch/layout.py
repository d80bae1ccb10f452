"""Results laid out as PyTorch traced them.

Compiled kernels write compact row-major tensors. A result that PyTorch holds in another order of
dimensions is computed in that order; one that repeats elements by strides of 0 is computed once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...graph import ops
from ...graph.nodes import Tensor


@dataclass(frozen=True)
class Export:
    """A result: what the kernel computes, and how it is seen.

    Attributes:
        strides: in elements, with `shape`; None where the tensor is what is wanted.
    """

    tensor: Tensor
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None = None


def export(tensor: Tensor, traced: Any) -> Export:
    """How to compute a tensor so that it gets the strides of the traced one."""
    shape, strides = tensor.shape, tuple(traced.stride())
    live = [k for k, extent in enumerate(shape) if extent != 1 and strides[k] != 0]
    order = sorted(live, key=lambda k: -strides[k])
    if 0 in shape or order == sorted(order) == [k for k, n in enumerate(shape) if n != 1]:
        return Export(tensor, shape)
    step = 1
    for k in reversed(order):
        if strides[k] != step:  # gaps: a compact tensor serves as well
            return Export(tensor, shape)
        step *= shape[k]
    repeated = [k for k, extent in enumerate(shape) if extent != 1 and strides[k] == 0]
    once = ops.strided_slice(tensor, [0] * len(repeated), [1] * len(repeated), repeated)
    rest = [k for k in range(len(shape)) if k not in order]
    return Export(ops.transpose(once, [*order, *rest]), shape, strides)
