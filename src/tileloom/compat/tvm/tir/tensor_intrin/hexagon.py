"""`tvm.tir.tensor_intrin.hexagon`."""

from __future__ import annotations

from ..._names import missing

VRMPY_u8u8i32_INTRIN = "dot_32x4_u8u8i32_vrmpy"
VRMPY_u8i8i32_INTRIN = "dot_32x4_u8i8i32_vrmpy"
VDMPY_i16i16i32_INTRIN = "dot_product_32x2_i16i16i32_vdmpy"

__all__ = ["VDMPY_i16i16i32_INTRIN", "VRMPY_u8i8i32_INTRIN", "VRMPY_u8u8i32_INTRIN"]
__getattr__ = missing(__name__)
