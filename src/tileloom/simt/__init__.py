"""GPU kernels run on the CPU, every thread of every block, and what is wrong with them found."""

from .cost import KernelCost, MemoryTraffic, kernel_costs
from .defects import KernelDefect
from .launch import EmulatedKernel, run_kernels, sizes_of

__all__ = [
    "EmulatedKernel",
    "KernelCost",
    "KernelDefect",
    "MemoryTraffic",
    "kernel_costs",
    "run_kernels",
    "sizes_of",
]
