"""Operators on sparse arrays of SciPy, PyTorch and pydata/sparse."""

from .spmm import spmm

__all__ = ["spmm"]
