"""Passes over blocks, and the checks made while programs still say their shapes."""

from .check_accesses import check_accesses
from .compact_buffer_region import compact_buffer_region
from .convert_blocks_to_opaque import convert_blocks_to_opaque
from .inject_software_pipeline import ASYNC_SCOPE, COMMIT, IN_FLIGHT, WAIT, inject_software_pipeline
from .limit_workers import limit_workers
from .lower_atomic import lower_atomic
from .lower_init_block import lower_init_block
from .lower_match_buffer import lower_match_buffer
from .lower_opaque_block import DOUBLE_BUFFER, allocate, lower_opaque_block
from .plan_allocations import plan_and_update_buffer_allocation_location
from .refuse_out_of_bounds import refuse_out_of_bounds
from .scope_mistakes import scope_mistake

__all__ = [
    "ASYNC_SCOPE",
    "COMMIT",
    "DOUBLE_BUFFER",
    "IN_FLIGHT",
    "WAIT",
    "allocate",
    "check_accesses",
    "compact_buffer_region",
    "convert_blocks_to_opaque",
    "inject_software_pipeline",
    "limit_workers",
    "lower_atomic",
    "lower_init_block",
    "lower_match_buffer",
    "lower_opaque_block",
    "plan_and_update_buffer_allocation_location",
    "refuse_out_of_bounds",
    "scope_mistake",
]
