"""`tvm.tir.tensor_intrin.rocm`."""

from __future__ import annotations

import re

from ..._names import missing

AMDGPU_SDOT4_INTRIN = "sdot4"
# The names alone: there is no code for the matrix units.
ROCM_MFMA_fill_16x16_f32_INTRIN = "ROCM_mfma_fill_16x16_f32"
ROCM_MFMA_fill_16x16_i32_INTRIN = "ROCM_mfma_fill_16x16_i32"
_LOAD = re.compile(r"ROCM_MFMA_LOAD_(16x16|16x4)_([AB])_SHARED_(f16|f32|s8)_INTRIN")
_OTHER = re.compile(r"(ROCM_MFMA_(?:STORE_16x16_[fs]32|f16f16f32|f32f32f32|s8s8s32))_INTRIN")
_missing = missing(__name__)


def __getattr__(name: str) -> str:
    load = _LOAD.fullmatch(name)
    if load is not None:
        what = f"{load[1]}_a" if load[2] == "A" else f"b_{load[1]}"
        return f"rocm_mfma_load_{what}_shared_{load[3]}"
    other = _OTHER.fullmatch(name)
    return str(_missing(name)) if other is None else other[1].lower()


__all__ = [
    "AMDGPU_SDOT4_INTRIN", "ROCM_MFMA_fill_16x16_f32_INTRIN", "ROCM_MFMA_fill_16x16_i32_INTRIN",
]  # fmt: skip
