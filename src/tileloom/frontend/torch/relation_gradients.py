"""Gradients of `tileloom.sparse.rgms`.

The rows of all relations together are one sparse matrix a. With g the gradient of the result in
those rows, that of x is the transposed a times g @ w[r].T, and that of w[r] is the transposed a @ x
times g, both in the rows of relation r.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ...sparse.arrays import Csr, DenseOperand, dense
from ..sparse.kinds import computed_as
from ..sparse.rgms import Relations
from ..sparse.rgms import rgms as _rgms
from ..sparse.spmm import product
from ..sparse.structure import structure_of
from .once import differentiated_once

Array = np.ndarray[Any, Any]


def rgms(known: Relations, x: Any, w: Any) -> Any:
    """Sums over relations whose gradients are recorded; see `tileloom.sparse.rgms`."""
    return _Rgms.apply(known, torch.as_tensor(x), torch.as_tensor(w))


class _Rgms(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, known: Relations, x: torch.Tensor, w: torch.Tensor) -> Any:
        """The sums."""
        ctx.known = known
        ctx.save_for_backward(x, w)
        return _rgms(known, x, w)

    @staticmethod
    @differentiated_once
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        """The gradients of features and weights."""
        known, tensors = ctx.known, ctx.saved_tensors
        arrays = [dense(x).array for x in (*tensors, gradient)]
        kind = computed_as(np.result_type(known.values, *arrays), "rgms")
        x, w, g = (np.ascontiguousarray(a, kind) for a in arrays)
        values, g = known.values.astype(kind, copy=False), g[known.rows]
        rows = Csr(known.indptr, known.columns, values, (len(known.rows), len(x)))
        structure = structure_of(known, rows)
        spans = [slice(*known.starts[r : r + 2]) for r in range(len(w))]
        of_x = of_w = None
        if ctx.needs_input_grad[1]:
            each = np.empty((len(g), x.shape[1]), kind)
            for own, weights in zip(spans, w, strict=True):
                each[own] = g[own] @ weights.T
            by_columns, order = structure.transposed
            of_x = _tensor(product(by_columns, values[order], _operand(each)), tensors[0])
        if ctx.needs_input_grad[2]:
            sums = product(structure, values, _operand(x))
            of_w = _tensor(np.stack([sums[own].T @ g[own] for own in spans]), tensors[1])
        return None, of_x, of_w


def _operand(x: Array) -> DenseOperand:
    return DenseOperand(x, True, False)


def _tensor(found: Array, like: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(found).to(like.dtype)
