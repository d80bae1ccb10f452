"""Barriers of thread blocks between accesses of shared memory."""

from __future__ import annotations

from ..analysis.membar import insert_barriers
from ..ir.core import Operation
from .registry import tile_pass


@tile_pass("test-tritongpu-membar", "test-print-membar")
def insert_shared_memory_barriers(module: Operation) -> None:
    """Puts a `gpu.barrier` before each operation whose accesses of shared memory would race with
    earlier ones of other threads. Buffers are at their `allocation.offset`, or, if they have none,
    where `allocate-shared-memory` would put them."""
    insert_barriers(module)
