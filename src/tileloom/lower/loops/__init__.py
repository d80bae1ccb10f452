"""Passes over loops and indices: flat buffers, widths of indices, guards, memory, long sums."""

from .compensate_sums import compensate_sums
from .dispatch_extents import dispatch_extents
from .eliminate_invariant_loops import eliminate_invariant_loops
from .flatten_buffers import INT32_INDICES, flatten_buffers
from .fuse_ifs import fuse_ifs
from .hoist_if import hoist_if
from .hoist_tile_setup import hoist_tile_setup
from .inject_double_buffer import inject_double_buffer
from .legalize_parallel import legalize_parallel
from .loop_partition import loop_partition
from .map_calls import map_calls
from .narrow_index_dtype import narrow_index_dtype
from .offset_sums import offset_sums
from .remove_no_op import remove_no_op
from .simplify import simplify
from .storage_rewrite import accessed_pointers, storage_rewrite
from .unroll_loops import step_count, unroll_loops
from .widen_index_dtype import widen_index_dtype

__all__ = [
    "INT32_INDICES",
    "accessed_pointers",
    "compensate_sums",
    "dispatch_extents",
    "eliminate_invariant_loops",
    "flatten_buffers",
    "fuse_ifs",
    "hoist_if",
    "hoist_tile_setup",
    "inject_double_buffer",
    "legalize_parallel",
    "loop_partition",
    "map_calls",
    "narrow_index_dtype",
    "offset_sums",
    "remove_no_op",
    "simplify",
    "step_count",
    "storage_rewrite",
    "unroll_loops",
    "widen_index_dtype",
]
