"""Tensor expressions (`te`): placeholder, compute, reductions, `create_prim_func`."""

from .tensor import ComputeOp, PlaceholderOp, Tensor, compute, placeholder, reduce_axis

__all__ = ["ComputeOp", "PlaceholderOp", "Tensor", "compute", "placeholder", "reduce_axis"]
