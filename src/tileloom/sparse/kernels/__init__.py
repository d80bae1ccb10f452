"""Kernels for CPUs, written as tensor IR for the sizes and types of a case."""
