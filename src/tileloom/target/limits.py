"""What one kernel may use of a GPU, and a launch ask for."""

from __future__ import annotations

from dataclasses import dataclass, replace

from .description import Target


@dataclass(frozen=True, slots=True)
class GPULimits:
    """What one kernel may use. Sizes are in bytes; local memory is counted for each thread."""

    max_threads_per_block: int = 1024
    max_thread_x: int = 1024
    max_thread_y: int = 1024
    max_thread_z: int = 64
    max_shared_memory_per_block: int = 48 << 10
    max_local_memory_per_thread: int = 255 * 4 * 2  # registers, and as much again on the stack
    max_vector_bytes: int = 16
    max_vthread: int = 8
    max_kernels: int | None = None
    max_grid_x: int = (1 << 31) - 1
    max_grid_y: int = 65535
    max_grid_z: int = 65535
    constant_threads: bool = True  # whether a block must have a constant number of threads

    @staticmethod
    def of(target: Target) -> GPULimits:
        """The limits of a target, as far as it says."""
        default = GPULimits()
        return GPULimits(
            max_threads_per_block=target.max_threads or default.max_threads_per_block,
            max_shared_memory_per_block=target.shared_memory or default.max_shared_memory_per_block,
        )

    @staticmethod
    def of_hardware(target: Target) -> GPULimits:
        """What a launch on the target cannot exceed; the others are a matter of taste."""
        without = 1 << 62
        return replace(
            GPULimits.of(target),
            max_local_memory_per_thread=512 << 10,
            max_vector_bytes=without,  # code takes them in parts
            max_vthread=without,
            constant_threads=False,
        )
