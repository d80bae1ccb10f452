"""Kernels for NVIDIA GPUs: flat tensor IR to LLVM IR, and from there to PTX."""

from .kernels import emit_kernels

__all__ = ["emit_kernels"]
