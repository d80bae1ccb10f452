"""`tvm.tir.tensor_intrin.arm_cpu`."""

from __future__ import annotations

from ..._names import missing
from .dot_product_common import (
    DP4A_S8S8S32_INTRIN,
    DP4A_S8U8S32_INTRIN,
    DP4A_U8S8S32_INTRIN,
    DP4A_U8U8U32_INTRIN,
)

ARM_DOT_4x4_i8_NEON_INTRIN = "dot_4x4_i8i8s32_neon"
ARM_DOT_4x4_i8_SDOT_INTRIN = "dot_4x4_i8i8s32_sdot"
ARM_DOT_4x4_u8_UDOT_INTRIN = "dot_4x4_u8u8u32_udot"
ARM_DOT_4x4_u8_HDOT_INTRIN = "dot_4x4_u8u8i32_hdot"

__all__ = [
    "ARM_DOT_4x4_i8_NEON_INTRIN", "ARM_DOT_4x4_i8_SDOT_INTRIN", "ARM_DOT_4x4_u8_HDOT_INTRIN",
    "ARM_DOT_4x4_u8_UDOT_INTRIN", "DP4A_S8S8S32_INTRIN", "DP4A_S8U8S32_INTRIN",
    "DP4A_U8S8S32_INTRIN", "DP4A_U8U8U32_INTRIN",
]  # fmt: skip
__getattr__ = missing(__name__)
