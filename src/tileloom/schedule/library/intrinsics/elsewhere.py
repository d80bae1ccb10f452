"""Names of tensor intrinsics that other compilers have, and why there is none here."""

from __future__ import annotations

import re

_OWN = "write the loops as a block and tensorize with an intrinsic of your own (register)"
_REASONS = (
    (r"rocm_mfma_.*", "is for the matrix units of AMD's GPUs, for which there is no code", _OWN),
    (r"simdgroup_.*", "is for the matrix units of Apple's GPUs, for which there is no code", _OWN),
    (r"sme_.*", "is for the matrix unit of Arm's SME, for which there is no code", _OWN),
    (
        r"dma_read_.*|.*_vtcm_vrmpy",
        "moves data through the memories of Hexagon, for which there is no code",
        "dot_32x4_u8u8i32_vrmpy and dot_32x4_u8i8i32_vrmpy work on plain memory",
    ),
    (
        r"wmma_\w+_8x8x32_.*",
        "works on 4-bit integers, which fragments of matrices cannot hold here",
        "use the fragments of 8-bit integers, wmma_..._16x16x16_s8_...",
    ),
    (
        r"mma_store_.*_simple_",
        "copies element by element, for which there is no intrinsic here",
        "leave the copy as it is, or use the one without _simple",
    ),
)


def why_missing(name: str) -> tuple[str, str] | None:
    """Why a well-known intrinsic is not provided, and what to do; None for other names.

    >>> why_missing("rocm_mfma_f16f16f32")[0]
    "is for the matrix units of AMD's GPUs, for which there is no code"
    """
    for pattern, reason, hint in _REASONS:
        if re.fullmatch(pattern, name, re.IGNORECASE):
            return reason, hint
    return None
