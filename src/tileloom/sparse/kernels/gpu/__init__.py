"""Kernels for GPUs, written as tensor IR for the sizes and types of a case."""
