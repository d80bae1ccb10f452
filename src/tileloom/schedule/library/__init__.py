"""What schedules are made of beyond single primitives: intrinsics and common sequences of steps.

The functions here are *tactics*: each takes a schedule and calls its primitives. So they can do
nothing that primitives would refuse, and traces hold the steps that they take.
"""

from .copies import cache_to_shared, vectorized_load
from .cpu_loops import parallel_vectorize_unroll
from .inlining import auto_inline
from .tensor_core import tensor_core_matmul
from .tiling import register_tile, tile

__all__ = [
    "auto_inline", "cache_to_shared", "parallel_vectorize_unroll", "register_tile",
    "tensor_core_matmul", "tile", "vectorized_load",
]  # fmt: skip
