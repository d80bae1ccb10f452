"""Whole kernels for GPUs that no schedule of blocks makes: scans, histograms, scatters.

Each is a function that gives tensor IR whose threads are bound, for sizes that are known.
"""

from .histogram import histogram_kernel
from .scan import scan_kernel
from .scatter import scatter_kernel

__all__ = ["histogram_kernel", "scan_kernel", "scatter_kernel"]
