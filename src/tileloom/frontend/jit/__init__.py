"""`@jit`: NumPy-style functions under array-API names."""

from . import creation, networks, operators, reductions, shapes, statistics
from .array import Array, TraceError
from .decorator import jit
from .dims import Dim
from .dynamic import DynamicCompiled
from .functions import PUBLIC
from .trace import Compiled

__all__ = [
    "PUBLIC", "Array", "Compiled", "Dim", "DynamicCompiled", "TraceError", "creation", "jit",
    "networks", "operators", "reductions", "shapes", "statistics",
]  # fmt: skip
