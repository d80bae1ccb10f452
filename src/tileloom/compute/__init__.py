"""Tensor expressions (`te`): placeholder, compute, reductions, `create_prim_func`."""

from .combiner import Reducer, comm_reducer
from .math import accumulator, call, if_then_else, isnan, logical_not, select
from .prim_func import create_prim_func
from .reducers import (
    all,
    any,
    argmax,
    argmin,
    highest,
    lowest,
    max,
    min,
    prod,
    sum,
)
from .tensor import (
    ComputeOp,
    PlaceholderOp,
    Tensor,
    TensorSlice,
    compute,
    placeholder,
    reduce_axis,
    static_extent,
)

__all__ = [
    "ComputeOp", "PlaceholderOp", "Reducer", "Tensor", "TensorSlice", "accumulator", "all",
    "any", "argmax", "argmin", "call", "comm_reducer", "compute", "create_prim_func", "highest",
    "if_then_else", "isnan", "logical_not", "lowest", "max", "min", "placeholder", "prod",
    "reduce_axis", "select", "static_extent", "sum",
]  # fmt: skip
