"""What schedules are made of beyond single primitives: intrinsics and common sequences of steps.

The functions here are *tactics*: each takes a schedule and calls its primitives. So they can do
nothing that primitives would refuse, and traces hold the steps that they take.
"""

from .copies import cache_to_shared, vectorized_load
from .cpu_loops import parallel_vectorize_unroll
from .gpu_product import find_products, schedule_gpu_product
from .inlining import auto_inline
from .mma_matmul import MmaTile, mma_matmul
from .product import as_matrices, find_factors
from .simt_matmul import SimtTile, simt_matmul
from .tensor_core import tensor_core_matmul
from .tensor_core_conv import tensor_core_conv2d
from .tiling import register_tile, tile
from .wgmma_matmul import WgmmaTile, wgmma_matmul

__all__ = [
    "MmaTile", "SimtTile", "WgmmaTile", "as_matrices", "auto_inline", "cache_to_shared",
    "find_factors", "find_products", "mma_matmul", "parallel_vectorize_unroll", "register_tile",
    "schedule_gpu_product", "simt_matmul", "tensor_core_conv2d", "tensor_core_matmul", "tile",
    "vectorized_load", "wgmma_matmul",
]  # fmt: skip
