"""Load and call kernels; arrays, result memory, threads, the cache of compiled code."""

from .arrays import ArrayView, as_numpy, as_view, from_dlpack
from .cache import ObjectCache, cache_key, object_cache, package_stamp
from .elf import LoadedObject, load_object
from .kernel import Kernel, KernelAssertionError
from .parallel import get_num_threads, num_threads, set_num_threads
from .params import ParamSpec
from .pool import empty

__all__ = [
    "ArrayView",
    "Kernel",
    "KernelAssertionError",
    "LoadedObject",
    "ObjectCache",
    "ParamSpec",
    "as_numpy",
    "as_view",
    "cache_key",
    "empty",
    "from_dlpack",
    "get_num_threads",
    "load_object",
    "num_threads",
    "object_cache",
    "package_stamp",
    "set_num_threads",
]
