"""Operators on sparse arrays of SciPy, PyTorch and pydata/sparse."""

from .attention import graph_attention
from .convolution import ConvolutionMap, convolution_map, sparse_conv
from .elementwise import add, multiply, subtract
from .programs import auto_schedule, compile
from .rgms import Relations, relations, rgms
from .sddmm import sddmm
from .sddmm_plan import explain_sddmm
from .segments import segment_reduce, segment_softmax
from .spgemm import spgemm
from .spmm import spmm
from .spmm_plan import explain_spmm
from .spmv import spmv

__all__ = [
    "ConvolutionMap",
    "Relations",
    "add",
    "auto_schedule",
    "compile",
    "convolution_map",
    "explain_sddmm",
    "explain_spmm",
    "graph_attention",
    "multiply",
    "relations",
    "rgms",
    "sddmm",
    "segment_reduce",
    "segment_softmax",
    "sparse_conv",
    "spgemm",
    "spmm",
    "spmv",
    "subtract",
]
