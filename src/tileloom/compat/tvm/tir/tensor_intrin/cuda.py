"""`tvm.tir.tensor_intrin.cuda`: matrix units through `wmma` and through `mma.sync`."""

from __future__ import annotations

import re

from .....schedule.library.intrinsics.mma import (
    shared_16x8_to_mma_32x4_layout,
    shared_16x16_to_mma_32x8_layout,
    shared_16x32_to_mma_32x16_layout,
    shared_32x16_to_mma_32x16_layout,
)
from ..._names import missing

_SHAPE = "16x16x16"
_TYPES = {"float16": "f16", "float32": "f32", "int8": "s8", "int32": "s32"}
_SHORT = {
    **_TYPES, "int8": "i8", "uint8": "u8", "int32": "i32", "bfloat16": "bf16",
    "float8_e4m3fn": "e4m3", "e4m3_float8": "e4m3", "float8_e5m2": "e5m2", "e5m2_float8": "e5m2",
}  # fmt: skip
# WMMA_LOAD_16x16x16_F16_A_TRANS_DYN_INTRIN and the like; without DYN the scope is "shared".
_LOAD = re.compile(r"WMMA_LOAD_(16x16x16|8x8x32)_(F16|S8|S4)_([AB](?:_TRANS)?)(_DYN)?_INTRIN")
_OTHER = re.compile(r"(WMMA_(?:SYNC|FILL|STORE)_(?:16x16x16|8x8x32)_\w+)_INTRIN")
# LDMATRIX_f16_A_TRANS_DYN_INTRIN, MMA_f16f16f32_TRANS_B_INTRIN, MMA_fill_16x16_f32_INTRIN, ...
_MMA = re.compile(r"(LDMATRIX|MMA)_(\w+)_INTRIN(_SIMPLE)?")
_missing = missing(__name__)
# The older names.
shared_16x16_to_ldmatrix_32x8_layout = shared_16x16_to_mma_32x8_layout
shared_16x32_to_ldmatrix_32x16_layout = shared_16x32_to_mma_32x16_layout
shared_32x16_to_ldmatrix_32x16_layout = shared_32x16_to_mma_32x16_layout


def get_wmma_intrin_group(
    load_scope: str, store_scope: str, in_dtype: str, out_dtype: str, trans_b: bool
) -> dict[str, str]:
    """The intrinsics of a matrix product on `wmma` fragments.

    >>> get_wmma_intrin_group("shared.dyn", "global", "float16", "float32", True)["load_b"]
    'wmma_load_16x16x16_f16_b_trans_shared_dyn'
    """
    into, out = _TYPES[in_dtype], _TYPES[out_dtype]
    transposed = "_trans" if trans_b else ""
    load, store = load_scope.replace(".", "_"), store_scope.replace(".", "_")
    return {
        "init": f"wmma_fill_{_SHAPE}_{out}",
        "load_a": f"wmma_load_{_SHAPE}_{into}_a_{load}",
        "load_b": f"wmma_load_{_SHAPE}_{into}_b{transposed}_{load}",
        "compute": f"wmma_sync_{_SHAPE}_{into}{into}{out}{transposed}",
        "store": f"wmma_store_{_SHAPE}_{out}_{store}",
    }


def get_mma_intrin_group(
    load_scope: str,
    store_scope: str,
    in_dtype: str,
    out_dtype: str,
    trans_a: bool,
    trans_b: bool,
    not_use_mma_store_intrinic: bool = True,
    store_to_smem_dtype: str | None = None,
) -> dict[str, str]:
    """The intrinsics of a matrix product on `mma.sync`.

    >>> get_mma_intrin_group("shared.dyn", "global", "float16", "float32", False, True)["load_b"]
    'mma_ldmatrix_f16_b_trans_dyn'
    """
    into, out = _SHORT[in_dtype], _SHORT[out_dtype]
    dyn = "_dyn" if load_scope == "shared.dyn" else ""
    a, b = ("_trans" if transposed else "" for transposed in (trans_a, trans_b))
    tail = ("_trans_a" if trans_a else "") + ("_trans_b" if trans_b else "")
    return {
        "init": f"mma_fill_16x16_{out}",
        "load_a": f"mma_ldmatrix_{into}_a{a}{dyn}",
        "load_b": f"mma_ldmatrix_{into}_b{b}{dyn}",
        "compute": f"mma_{into}{into}{out}{tail}",
        "store": f"mma_store_16x16_{out}_{store_scope.replace('.', '_')}_",
    }


def __getattr__(name: str) -> str:
    load = _LOAD.fullmatch(name)
    if load is not None:
        scope = "shared_dyn" if load[4] else "shared"
        return f"wmma_load_{load[1]}_{load[2]}_{load[3]}_{scope}".lower()
    other = _OTHER.fullmatch(name)
    if other is not None:
        return other[1].lower()
    mma = _MMA.fullmatch(name)
    if mma is not None:
        head = "mma_ldmatrix" if mma[1] == "LDMATRIX" else "mma"
        return f"{head}_{mma[2]}{'_simple_' if mma[3] else ''}".lower()
    return str(_missing(name))


__all__ = [
    "get_mma_intrin_group", "get_wmma_intrin_group", "shared_16x8_to_mma_32x4_layout",
    "shared_16x16_to_ldmatrix_32x8_layout", "shared_16x16_to_mma_32x8_layout",
    "shared_16x32_to_ldmatrix_32x16_layout", "shared_16x32_to_mma_32x16_layout",
    "shared_32x16_to_ldmatrix_32x16_layout", "shared_32x16_to_mma_32x16_layout",
]  # fmt: skip
