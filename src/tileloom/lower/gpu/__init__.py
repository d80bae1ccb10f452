"""Passes over threads: bindings, warps, barriers, shared memory, kernels apart from the host."""

from .check_instructions import check_instructions
from .compact_strides import compact_strides
from .eliminate_common_loads import eliminate_common_loads
from .hoist_barriers import hoist_barriers
from .horizontal_fusion import horizontal_fusion
from .inject_ptx_async_copy import inject_ptx_async_copy
from .inject_virtual_thread import inject_virtual_thread
from .launch_plan import HostPlan
from .lower_auto_copy import lower_auto_copy
from .lower_cross_thread_reduction import lower_cross_thread_reduction
from .lower_numbered_barriers import lower_numbered_barriers
from .lower_thread_allreduce import lower_thread_allreduce
from .lower_thread_binding import lower_thread_binding
from .lower_warp_memory import lower_warp_memory
from .manifest_shared_memory_local_stage import manifest_shared_memory_local_stage
from .merge_grid_reductions import merge_grid_reductions
from .merge_shared_memory import allocated_bytes, element_bytes, merge_shared_memory_allocations
from .split_host_device import split_host_device
from .thread_storage_sync import require_barriers, thread_storage_sync
from .unify_thread_binding import unify_thread_binding
from .unroll_register_loops import unroll_register_loops
from .verify_gpu_code import check_launches, verify_gpu_code

__all__ = [
    "HostPlan",
    "allocated_bytes",
    "check_instructions",
    "check_launches",
    "compact_strides",
    "element_bytes",
    "eliminate_common_loads",
    "hoist_barriers",
    "horizontal_fusion",
    "inject_ptx_async_copy",
    "inject_virtual_thread",
    "lower_auto_copy",
    "lower_cross_thread_reduction",
    "lower_numbered_barriers",
    "lower_thread_allreduce",
    "lower_thread_binding",
    "lower_warp_memory",
    "manifest_shared_memory_local_stage",
    "merge_grid_reductions",
    "merge_shared_memory_allocations",
    "require_barriers",
    "split_host_device",
    "thread_storage_sync",
    "unify_thread_binding",
    "unroll_register_loops",
    "verify_gpu_code",
]
