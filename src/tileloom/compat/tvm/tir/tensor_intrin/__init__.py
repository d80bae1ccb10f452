"""`tvm.tir.tensor_intrin`: the names of the tensor intrinsics that come along."""

from __future__ import annotations

from ..._names import missing
from . import arm_cpu, cuda, dot_product_common, hexagon, metal, riscv_cpu, rocm, x86

__all__ = ["arm_cpu", "cuda", "dot_product_common", "hexagon", "metal", "riscv_cpu", "rocm", "x86"]
__getattr__ = missing(__name__)
