"""Results laid out as PyTorch traced them.

Compiled kernels write compact row-major tensors. A result that PyTorch holds in another order of
dimensions is computed in that order; one that repeats elements by strides of 0 is computed once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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


def order_of(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, ...] | None:
    """The dimensions from the outermost to the innermost, of a tensor without gaps.

    None where elements are repeated or left out. Unit dimensions come last unless all is compact.

    >>> order_of((2, 3, 4), (1, 8, 2)), order_of((2, 3), (3, 1)), order_of((2, 3), (6, 2))
    ((1, 2, 0), (0, 1), None)
    """
    live = [k for k, extent in enumerate(shape) if extent != 1]
    order = sorted(live, key=lambda k: -strides[k])
    if 0 in shape or order == sorted(order):
        wanted = tuple(range(len(shape)))
    else:
        wanted = (*order, *(k for k in range(len(shape)) if k not in order))
    step = 1
    for k in reversed(order):
        if strides[k] != step and 0 not in shape:
            return None
        step *= shape[k]
    return wanted


def export(tensor: Tensor, strides: Sequence[int] | None) -> Export:
    """How to compute a tensor so that it gets the strides of the traced one, if they are known."""
    shape = tensor.shape
    if strides is None:
        return Export(tensor, shape)
    strides = tuple(strides)
    repeated = [k for k, n in enumerate(shape) if n not in (0, 1) and strides[k] == 0]
    once = ops.strided_slice(tensor, [0] * len(repeated), [1] * len(repeated), repeated)
    order = order_of(once.shape, strides)
    if order is None or (not repeated and order == tuple(range(len(shape)))):
        return Export(tensor, shape)  # a compact tensor serves instead of one with gaps
    return Export(ops.transpose(once, order), shape, strides)
