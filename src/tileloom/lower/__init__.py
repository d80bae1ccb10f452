"""Lowering: blocks -> loops -> flat, one pass a file, the pipelines in `pipeline`."""

from .pipeline import (
    BLOCKS_TO_LOOPS,
    GPU_PIPELINE,
    LOOPS_TO_FLAT,
    PIPELINE,
    lower,
    run_passes,
)
from .split_host_device import split_host_device
from .verify_gpu_code import GPULimits, verify_gpu_code

__all__ = [
    "BLOCKS_TO_LOOPS",
    "GPU_PIPELINE",
    "LOOPS_TO_FLAT",
    "PIPELINE",
    "GPULimits",
    "lower",
    "run_passes",
    "split_host_device",
    "verify_gpu_code",
]
