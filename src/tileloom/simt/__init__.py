"""GPU kernels run on the CPU, every thread of every block, and what is wrong with them found."""

from .defects import KernelDefect
from .launch import EmulatedKernel, run_kernels

__all__ = ["EmulatedKernel", "KernelDefect", "run_kernels"]
