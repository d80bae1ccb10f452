"""Calls by their names in the `T` namespace: which there are, and the type of their result.

What `expr.ops` registers is known by itself; the table adds the built-ins of TVM that only lowering
and code generation give a meaning to.
"""

from __future__ import annotations

from .. import expr
from ..base import DType, dtype
from ..base.late import TYPE_CHECKING
from ..expr import Expr

if TYPE_CHECKING:
    from collections.abc import Sequence

# Written `T.name("dtype", args...)`.
DTYPE_FIRST = frozenset({
    "call_extern", "call_pure_extern", "call_llvm_intrin", "call_llvm_pure_intrin",
    "type_annotation", "reinterpret", "ptx_mma", "ptx_mma_sp", "ptx_ldmatrix", "mma_store",
    "mma_fill", "tvm_struct_get", "vscale_like",
})  # fmt: skip

# May be written so: TVM gives these the type of the elements.
DTYPE_MAY_LEAD = frozenset({"ptx_cp_async", "ptx_cp_async_bulk"})

# Result types that do not follow from the first argument.
_HANDLE = [
    "tvm_access_ptr", "address_of", "tvm_stack_alloca", "tvm_stack_make_shape",
    "tvm_stack_make_array", "lookup_param", "tvm_tuple", "tvm_load_matrix_sync",
    "tvm_store_matrix_sync", "tvm_fill_fragment", "tvm_mma_sync", "tvm_bmma_sync",
    "make_filled_simdgroup_matrix", "simdgroup_load", "simdgroup_store",
    "simdgroup_multiply_accumulate", "tvm_thread_allreduce", "tvm_warp_activemask",
    "ptx_cp_async", "ptx_commit_group", "ptx_wait_group",
    "ptx_init_barrier_thread_count", "ptx_arrive_barrier", "ptx_arrive_barrier_expect_tx",
    "ptx_wait_barrier", "ptx_mbarrier_init", "ptx_mbarrier_arrive", "ptx_mbarrier_arrive_expect_tx",
    "ptx_mbarrier_expect_tx", "ptx_mbarrier_wait", "ptx_fence_mbarrier_init",
    "ptx_fence_proxy_async", "ptx_cp_async_bulk", "ptx_cp_async_bulk_store",
    "ptx_cp_async_bulk_tensor", "ptx_cp_async_bulk_tensor_store", "ptx_prefetch_tensormap",
    "ptx_cp_async_bulk_commit_group", "ptx_cp_async_bulk_wait_group",
    "ptx_cp_async_bulk_wait_group_read", "ptx_wgmma", "ptx_wgmma_fence",
    "ptx_wgmma_commit_group", "ptx_wgmma_wait_group", "ptx_setmaxnreg",
    "create_barriers", "tvm_context_id", "tvm_call_packed_lowered",
    "tvm_call_cpacked",
]  # fmt: skip
_INT32 = [
    "tvm_storage_sync", "tvm_call_packed", "call_packed", "tvm_static_handle", "tvm_struct_set",
    "assume", "tvm_throw_last_error", "undef", "start_profile_intrinsic",
    "end_profile_intrinsic", "ret", "call_cpacked", "continue_loop", "break_loop", "vscale",
    "prefetch", "tvm_check_return", "memory_fence", "atomic_store", "amx_configure", "amx_zero",
    "amx_load", "amx_load_once", "amx_store", "amx_release", "amx_dot_bf16", "amx_dot_s8s8",
    "amx_dot_s8u8", "amx_dot_u8s8", "amx_dot_u8u8",
]  # fmt: skip
_BOOL = ["isnullptr", "any_true", "all_true", "any", "all"]
_AS_ARGUMENT = [
    "likely", "q_multiply_shift", "q_multiply_shift_per_axis", "large_uint_imm", "vectorlow",
    "vectorhigh", "vectorcombine", "dp4a", "ignore_loop_partition",
]  # fmt: skip

# Of the second argument; the first names the lanes that take part.
_AS_SECOND = [
    "tvm_warp_shuffle", "tvm_warp_shuffle_up", "tvm_warp_shuffle_down", "tvm_warp_shuffle_xor",
]  # fmt: skip

_RESULT: dict[str, str] = {
    "ptx_wgmma_descriptor": "uint64",
    **dict.fromkeys(_HANDLE, "handle"),
    **dict.fromkeys(_INT32, "int32"),
    **dict.fromkeys(_BOOL, "bool"),
    "round_bf16": "bfloat16",
    "word": "int32",
}
_BY_LANES = ("round_bf16", "word")  # of vectors, vectors
_KNOWN = frozenset({*_RESULT, *_AS_ARGUMENT, *_AS_SECOND, *DTYPE_FIRST})


def is_intrinsic(name: str) -> bool:
    """Whether `T.name(...)` is a call of the operation `tir.name`."""
    return name in _KNOWN or expr.find_op(f"tir.{name}") is not None


def intrinsic_names() -> list[str]:
    """All of them, sorted."""
    registered = (name.removeprefix("tir.") for name in expr.op_names() if name.startswith("tir."))
    return sorted({*_KNOWN, *registered})


def result_type(name: str, args: Sequence[Expr]) -> DType:
    """The type of `T.name(*args)` where none is given."""
    fixed = _RESULT.get(name)
    if name in _BY_LANES:
        return dtype(_RESULT[name]).with_lanes(args[0].dtype.lanes)
    if fixed is not None:
        return dtype(fixed)
    if not args:
        return dtype("void")
    if len(args) > 1 and (name in _AS_SECOND or (name == "if_then_else" and len(args) == 3)):
        return args[1].dtype
    op = expr.find_op(f"tir.{name}")
    if op is not None and op.predicate:
        return dtype("bool").with_lanes(args[0].dtype.lanes)
    return args[0].dtype
