"""`tvm.tir.tensor_intrin.hexagon`."""

from __future__ import annotations

from ..._names import missing

VRMPY_u8u8i32_INTRIN = "dot_32x4_u8u8i32_vrmpy"
VRMPY_u8i8i32_INTRIN = "dot_32x4_u8i8i32_vrmpy"
VDMPY_i16i16i32_INTRIN = "dot_product_32x2_i16i16i32_vdmpy"
# The names alone: there is no code for these.
VRMPY_u8u8i32_VTCM_INTRIN = "dot_32x4_u8u8i32_vtcm_vrmpy"
VRMPY_u8i8i32_VTCM_INTRIN = "dot_32x4_u8i8i32_vtcm_vrmpy"
DMA_READ_128_u8 = "dma_read_128_u8"
DMA_READ_128_i8 = "dma_read_128_i8"

__all__ = [
    "DMA_READ_128_i8", "DMA_READ_128_u8", "VDMPY_i16i16i32_INTRIN", "VRMPY_u8i8i32_INTRIN",
    "VRMPY_u8i8i32_VTCM_INTRIN", "VRMPY_u8u8i32_INTRIN", "VRMPY_u8u8i32_VTCM_INTRIN",
]  # fmt: skip
__getattr__ = missing(__name__)
