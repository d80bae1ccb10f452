"""`tvm.tir.tensor_intrin.rocm`."""

from __future__ import annotations

from ..._names import missing

AMDGPU_SDOT4_INTRIN = "sdot4"

__all__ = ["AMDGPU_SDOT4_INTRIN"]
__getattr__ = missing(__name__)
