"""`tvm.tir.tensor_intrin.x86`."""

from __future__ import annotations

from ..._names import missing

VNNI_DOT_16x4_INTRIN = "dot_16x4_vnni"
AVX512_DOT_16x4_INTRIN = "dot_16x4_avx512"

__getattr__ = missing(__name__)
