"""`tvm.tir.tensor_intrin.cuda`: matrix units through `wmma`."""

from __future__ import annotations

import re

from ..._names import missing

_SHAPE = "16x16x16"
_TYPES = {"float16": "f16", "float32": "f32", "int8": "s8", "int32": "s32"}
# WMMA_LOAD_16x16x16_F16_A_TRANS_DYN_INTRIN and the like; without DYN the scope is "shared".
_LOAD = re.compile(r"WMMA_LOAD_16x16x16_(F16|S8)_([AB](?:_TRANS)?)(_DYN)?_INTRIN")
_OTHER = re.compile(r"(WMMA_(?:SYNC|FILL|STORE)_16x16x16_\w+)_INTRIN")
_missing = missing(__name__)


def get_wmma_intrin_group(
    load_scope: str, store_scope: str, in_dtype: str, out_dtype: str, trans_b: bool
) -> dict[str, str]:
    """The intrinsics of a matrix product on `wmma` fragments.

    >>> get_wmma_intrin_group("shared.dyn", "global", "float16", "float32", True)["load_b"]
    'wmma_load_16x16x16_f16_b_trans_shared_dyn'
    """
    into, out = _TYPES[in_dtype], _TYPES[out_dtype]
    turned = "_trans" if trans_b else ""
    load, store = load_scope.replace(".", "_"), store_scope.replace(".", "_")
    return {
        "init": f"wmma_fill_{_SHAPE}_{out}",
        "load_a": f"wmma_load_{_SHAPE}_{into}_a_{load}",
        "load_b": f"wmma_load_{_SHAPE}_{into}_b{turned}_{load}",
        "compute": f"wmma_sync_{_SHAPE}_{into}{into}{out}{turned}",
        "store": f"wmma_store_{_SHAPE}_{out}_{store}",
    }


def __getattr__(name: str) -> str:
    load = _LOAD.fullmatch(name)
    if load is not None:
        scope = "shared_dyn" if load[3] else "shared"
        return f"wmma_load_{_SHAPE}_{load[1]}_{load[2]}_{scope}".lower()
    other = _OTHER.fullmatch(name)
    if other is not None:
        return other[1].lower()
    return str(_missing(name))
