"""A kernel of two warps with a barrier in memory, some shared memory, and lines of a test."""

from __future__ import annotations

from typing import Any

import numpy as np

from tileloom.base.tensor_map import TensorMap
from tileloom.script import parse
from tileloom.simt import run_kernels

KERNEL = """
@T.prim_func
def kernel(A: T.Buffer((128,), "float32"), B: T.Buffer((128,), "float32"),
           M: T.handle("uint8", "grid_constant"), n: T.int32):
    t = T.launch_thread("threadIdx.x", 64)
    S_data = T.allocate([128], "float32", "shared")
    S = T.decl_buffer((128,), "float32", data=S_data, scope="shared")
    H_data = T.allocate([256], "float16", "shared")
    H = T.decl_buffer((256,), "float16", data=H_data, scope="shared")
    R_data = T.allocate([8], "float32", "local")
    R = T.decl_buffer((8,), "float32", data=R_data, scope="local")
    bar_data = T.allocate([2], "uint64", "shared")
    bar = T.decl_buffer((2,), "uint64", data=bar_data, scope="shared")
    if t == 0:
        T.ptx_mbarrier_init(T.address_of(bar[0]), ARRIVALS)
    T.tvm_storage_sync("shared")
    LINES
"""
BAR = "T.address_of(bar[0])"
FILL = (
    "S[t] = A[t]\nS[t + 64] = A[t + 64]\nT.ptx_fence_proxy_async()\nT.tvm_storage_sync('shared')\n"
)
ARRIVE, WAIT = f"T.ptx_mbarrier_arrive({BAR})", f"T.ptx_mbarrier_wait({BAR}, 0)"
LEAVE = "    T.ptx_cp_async_bulk_commit_group()\n    T.ptx_cp_async_bulk_wait_group(0)"


def run(lines: str, arrivals: int = 1, map_: Any = None, n: int = 0) -> Any:
    """B after some lines; A is 1 to 128."""
    a, b = np.arange(1, 129, dtype="float32"), np.zeros(128, "float32")
    map_ = TensorMap(a.reshape(8, 16), (2, 16)) if map_ is None else map_
    text = KERNEL.replace("LINES", lines.replace("\n", "\n    ")).replace("ARRIVALS", str(arrivals))
    run_kernels(parse(text), a, b, map_, n)
    return b


def bring(copy: str, bytes_: int) -> str:
    """Thread 0 has something copied, and all wait."""
    return (
        f"if t == 0:\n    T.ptx_mbarrier_arrive_expect_tx({BAR}, {bytes_})\n    {copy}\n"
        f"T.ptx_mbarrier_wait({BAR}, 0)\nB[t] = S[t]"
    )
