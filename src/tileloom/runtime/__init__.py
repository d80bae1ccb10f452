"""Load and call kernels; arrays, result memory, threads, the cache of compiled code."""

from .arrays import ArrayView, as_numpy, as_view, from_dlpack
from .kernel import Kernel, KernelAssertionError
from .parallel import get_num_threads, num_threads, set_num_threads
from .params import ParamSpec
from .pool import empty

__all__ = [
    "ArrayView",
    "Kernel",
    "KernelAssertionError",
    "ParamSpec",
    "as_numpy",
    "as_view",
    "empty",
    "from_dlpack",
    "get_num_threads",
    "num_threads",
    "set_num_threads",
]
