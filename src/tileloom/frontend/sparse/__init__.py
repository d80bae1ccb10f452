"""Operators on sparse arrays of SciPy, PyTorch and pydata/sparse."""

from .convolution import ConvolutionMap, convolution_map, sparse_conv
from .rgms import Relations, relations, rgms
from .spmm import spmm
from .spmm_plan import explain_spmm

__all__ = [
    "ConvolutionMap",
    "Relations",
    "convolution_map",
    "explain_spmm",
    "relations",
    "rgms",
    "sparse_conv",
    "spmm",
]
